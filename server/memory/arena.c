#include "server/memory/arena.h"

#include "server/memory/address_space.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

// The unit in which memory is taken from the system and given back: a huge page.
#define PAGE_BYTES ((uint64_t)2 << 20)
// Pages given back under one hold of the lock; a page takes some ten microseconds.
#define PUNCH_PAGES_MAX 16
// More than what was in use at the busiest moment, by this part of it, is kept only until memory is taken
// anew.
#define IDLE_PARTS 4
// idle_since of a page that became idle after the last arena_trim.
#define IDLE_UNSEEN INT64_MAX

// Linux 6.1; older C libraries don't name it.
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

_Static_assert(ADDRESS_SPACE_GRANULE_BYTES == ARENA_ALIGNMENT, "blocks begin where ranges begin");

struct page {
  uint32_t blocks; // that lie on it, wholly or in part
  bool resident;   // taken from the system
  int64_t idle_since_ns;
};

struct arena {
  uint64_t bytes;
  size_t page_count;
  int descriptor;
  uint8_t *data;
  pthread_mutex_t mutex; // guards what follows
  struct address_space *space;
  struct page *pages;
  size_t pages_top; // no page from here on was ever resident
  size_t resident_pages;
  uint64_t used_bytes, used_bytes_peak;
};

static uint64_t round_to_page(uint64_t bytes) {
  return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

// A memfd of that size that nobody can resize any more. It is sparse: its size alone costs nothing.
static int create_sealed_memfd(uint64_t bytes, struct status *status) {
  int descriptor = memfd_create("aclnn-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    status_fail(status, REASON_INTERNAL, NULL, "memfd_create: %s", strerror(errno));
    return -1;
  }
  if (ftruncate(descriptor, (off_t)bytes) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    status_fail(status, REASON_INTERNAL, NULL, "an arena of %llu bytes cannot be made: %s",
                (unsigned long long)bytes, strerror(errno));
    close(descriptor);
    return -1;
  }
  return descriptor;
}

// Maps the descriptor at a multiple of the page size, without which no huge page fits. NULL with errno.
static uint8_t *map_aligned(int descriptor, uint64_t bytes) {
  uint8_t *room =
      mmap(NULL, bytes + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return NULL;
  }
  uint64_t before = round_to_page((uintptr_t)room) - (uintptr_t)room;
  uint8_t *data = mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                       descriptor, 0);
  int error = errno;
  if (before > 0) {
    munmap(room, before);
  }
  munmap(room + before + bytes, PAGE_BYTES - before);
  if (data == MAP_FAILED) {
    munmap(room + before, bytes);
    errno = error;
    return NULL;
  }
  return data;
}

bool arena_create(uint64_t address_bytes, struct arena **arena, struct status *status) {
  if (address_bytes == 0 || address_bytes > INT64_MAX - 2 * PAGE_BYTES) {
    return status_fail(status, REASON_INTERNAL, NULL, "an arena of %llu bytes cannot be made",
                       (unsigned long long)address_bytes);
  }
  struct arena *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the arena");
  }
  pthread_mutex_init(&created->mutex, NULL);
  created->bytes = round_to_page(address_bytes);
  created->page_count = created->bytes / PAGE_BYTES;
  created->descriptor = create_sealed_memfd(created->bytes, status);
  if (created->descriptor < 0) {
    goto out;
  }
  created->data = map_aligned(created->descriptor, created->bytes);
  if (created->data == NULL) {
    status_fail(status, REASON_INTERNAL, NULL, "an arena of %llu bytes cannot be mapped: %s",
                (unsigned long long)created->bytes, strerror(errno));
    goto out;
  }
  created->space = address_space_create(created->bytes);
  created->pages = calloc(created->page_count, sizeof *created->pages);
  if (created->space == NULL || created->pages == NULL) {
    status_fail(status, REASON_INTERNAL, NULL, "no memory for the arena");
    goto out;
  }
  *arena = created;
  return true;
out:
  arena_destroy(created);
  return false;
}

void arena_destroy(struct arena *arena) {
  if (arena == NULL) {
    return;
  }
  assert(arena->used_bytes == 0);
  address_space_destroy(arena->space);
  if (arena->data != NULL) {
    ASAN_UNPOISON_MEMORY_REGION(arena->data, arena->pages_top * PAGE_BYTES);
    munmap(arena->data, arena->bytes);
  }
  if (arena->descriptor >= 0) {
    close(arena->descriptor);
  }
  pthread_mutex_destroy(&arena->mutex);
  free(arena->pages);
  free(arena);
}

static size_t first_page(const struct address_range *range) {
  return range->offset / PAGE_BYTES;
}

static size_t end_page(const struct address_range *range) {
  return (range->offset + range->bytes - 1) / PAGE_BYTES + 1;
}

// Gives pages back that are idle since idle_before_ns or longer, from page *top - 1 downwards: low addresses
// are used first. At most PUNCH_PAGES_MAX; *top is then where to go on. Returns how many. Under the lock.
static size_t punch_idle(struct arena *arena, size_t *top, int64_t idle_before_ns, size_t pages_max) {
  size_t punched = 0;
  pages_max = pages_max < PUNCH_PAGES_MAX ? pages_max : PUNCH_PAGES_MAX;
  for (; *top > 0 && punched < pages_max; --*top) {
    struct page *page = &arena->pages[*top - 1];
    if (!page->resident || page->blocks > 0 || page->idle_since_ns > idle_before_ns) {
      continue;
    }
    if (fallocate(arena->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)((*top - 1) * PAGE_BYTES), (off_t)PAGE_BYTES) != 0) {
      break; // it stays warm, and a later call tries again
    }
    page->resident = false;
    arena->resident_pages--;
    punched++;
  }
  return punched;
}

// Gives idle pages back until, with new_pages more, no more than kept_pages are resident. The lock is let go
// now and then, so that nobody waits long for it.
static void shrink(struct arena *arena, size_t new_pages, size_t kept_pages) {
  size_t top = arena->page_count;
  bool more = true;
  while (more) {
    pthread_mutex_lock(&arena->mutex);
    top = top < arena->pages_top ? top : arena->pages_top;
    size_t wanted = arena->resident_pages + new_pages;
    more = wanted > kept_pages && punch_idle(arena, &top, IDLE_UNSEEN, wanted - kept_pages) > 0;
    pthread_mutex_unlock(&arena->mutex);
  }
}

void arena_trim(struct arena *arena, int64_t now_ns, int64_t idle_ns) {
  pthread_mutex_lock(&arena->mutex);
  size_t top = arena->pages_top;
  for (size_t i = 0; i < top; i++) {
    if (arena->pages[i].idle_since_ns == IDLE_UNSEEN) {
      arena->pages[i].idle_since_ns = now_ns;
    }
  }
  pthread_mutex_unlock(&arena->mutex);
  bool more = true;
  while (more) {
    pthread_mutex_lock(&arena->mutex);
    more = punch_idle(arena, &top, now_ns - idle_ns, PUNCH_PAGES_MAX) > 0;
    pthread_mutex_unlock(&arena->mutex);
  }
}

// Takes memory for `count` pages from the system. Not under the lock: a gigabyte takes 0.3 s.
static bool populate(struct arena *arena, size_t page, size_t count) {
  off_t offset = (off_t)(page * PAGE_BYTES);
  uint64_t bytes = count * PAGE_BYTES;
  int result;
  do {
    result = fallocate(arena->descriptor, FALLOC_FL_KEEP_SIZE, offset, (off_t)bytes);
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    return false;
  }
  // Without huge pages it works as well, only slower.
  (void)madvise(arena->data + offset, bytes, MADV_COLLAPSE);
  return true;
}

// The next run of pages in [*page, end) that must be taken from the system: sets *page, returns its length.
static size_t find_absent(struct arena *arena, size_t *page, size_t end) {
  pthread_mutex_lock(&arena->mutex);
  size_t begin = *page;
  while (begin < end && arena->pages[begin].resident) {
    begin++;
  }
  size_t count = 0;
  while (begin + count < end && !arena->pages[begin + count].resident) {
    count++;
  }
  pthread_mutex_unlock(&arena->mutex);
  *page = begin;
  return count;
}

static void mark_resident(struct arena *arena, size_t page, size_t count) {
  pthread_mutex_lock(&arena->mutex);
  for (size_t i = page; i < page + count; i++) {
    // Two blocks that meet on a page may both have taken it; then the first may be in use already.
    if (!arena->pages[i].resident) {
      arena->pages[i].resident = true;
      arena->resident_pages++;
      ASAN_POISON_MEMORY_REGION(arena->data + i * PAGE_BYTES, PAGE_BYTES);
    }
  }
  pthread_mutex_unlock(&arena->mutex);
}

// How much memory may stay idle beside the used when new is taken.
static size_t kept_pages_max(struct arena *arena) {
  pthread_mutex_lock(&arena->mutex);
  uint64_t kept_bytes = arena->used_bytes_peak + arena->used_bytes_peak / IDLE_PARTS;
  pthread_mutex_unlock(&arena->mutex);
  return round_to_page(kept_bytes) / PAGE_BYTES;
}

// Makes all pages of a taken range resident. Nobody punches them meanwhile: a block lies on them.
static bool make_resident(struct arena *arena, const struct address_range *range, struct status *status) {
  size_t page = first_page(range), end = end_page(range), count;
  while ((count = find_absent(arena, &page, end)) > 0) {
    // Idle memory goes before new comes, once more is kept than the busiest moment needed and a part: where
    // blocks of many sizes cut it into pieces that nothing fits into, it would grow without end.
    shrink(arena, count, kept_pages_max(arena));
    if (!populate(arena, page, count)) {
      shrink(arena, count, 0);
      if (!populate(arena, page, count)) {
        return status_fail(status, REASON_INTERNAL, NULL, "the system gives no %llu bytes of memory: %s",
                           (unsigned long long)(count * PAGE_BYTES), strerror(errno));
      }
    }
    mark_resident(arena, page, count);
  }
  return true;
}

// Under the lock.
static size_t count_absent(const struct arena *arena, const struct address_range *range) {
  size_t end = end_page(range), count = 0;
  for (size_t i = first_page(range); i < end; i++) {
    count += !arena->pages[i].resident;
  }
  return count;
}

// Takes a range and counts it on its pages. NULL if nothing fits, or if more pages than that would have to be
// taken from the system: *slow says which.
static struct address_range *take_range(struct arena *arena, size_t size, size_t absent_pages_max,
                                        bool *slow) {
  pthread_mutex_lock(&arena->mutex);
  struct address_range *range = address_space_take(arena->space, size);
  *slow = range != NULL && absent_pages_max < SIZE_MAX && count_absent(arena, range) > absent_pages_max;
  if (*slow) {
    address_space_give(arena->space, range);
    range = NULL;
  }
  if (range != NULL) {
    size_t end = end_page(range);
    for (size_t i = first_page(range); i < end; i++) {
      arena->pages[i].blocks++;
    }
    arena->pages_top = end > arena->pages_top ? end : arena->pages_top;
    arena->used_bytes += range->bytes;
    if (arena->used_bytes > arena->used_bytes_peak) {
      arena->used_bytes_peak = arena->used_bytes;
    }
  }
  pthread_mutex_unlock(&arena->mutex);
  return range;
}

static void give_range(struct arena *arena, struct address_range *range) {
  pthread_mutex_lock(&arena->mutex);
  size_t end = end_page(range);
  for (size_t i = first_page(range); i < end; i++) {
    if (--arena->pages[i].blocks == 0) {
      arena->pages[i].idle_since_ns = IDLE_UNSEEN;
    }
  }
  arena->used_bytes -= range->bytes;
  address_space_give(arena->space, range);
  pthread_mutex_unlock(&arena->mutex);
}

static enum arena_outcome allocate(struct arena *arena, size_t size, size_t absent_pages_max,
                                   struct arena_block *block, struct status *status) {
  assert(size > 0);
  bool slow;
  struct address_range *range = take_range(arena, size, absent_pages_max, &slow);
  if (slow) {
    return ARENA_SLOW;
  }
  if (range == NULL) {
    status_fail(status, REASON_INTERNAL, NULL, "no %zu bytes in one piece are left in the arena", size);
    return ARENA_FAILED;
  }
  if (!make_resident(arena, range, status)) {
    give_range(arena, range);
    return ARENA_FAILED;
  }
  block->data = arena->data + range->offset;
  block->size = size;
  block->offset = range->offset;
  block->_reserved = (uintptr_t)range;
  ASAN_UNPOISON_MEMORY_REGION(block->data, size);
  return ARENA_ALLOCATED;
}

bool arena_allocate(struct arena *arena, size_t size, struct arena_block *block, struct status *status) {
  return allocate(arena, size, SIZE_MAX, block, status) == ARENA_ALLOCATED;
}

enum arena_outcome arena_allocate_quickly(struct arena *arena, size_t size, struct arena_block *block,
                                          struct status *status) {
  return allocate(arena, size, ARENA_QUICK_PAGES_MAX, block, status);
}

void arena_free(struct arena *arena, struct arena_block *block) {
  if (block->data == NULL) {
    return;
  }
  struct address_range *range = (struct address_range *)(uintptr_t)block->_reserved;
  assert(range->offset == block->offset);
  ASAN_POISON_MEMORY_REGION(block->data, range->bytes);
  give_range(arena, range);
  *block = (struct arena_block){0};
}

int arena_descriptor(const struct arena *arena) {
  return arena->descriptor;
}

uint64_t arena_address_bytes(const struct arena *arena) {
  return arena->bytes;
}

bool arena_contains(const struct arena *arena, const void *address) {
  return (uintptr_t)address - (uintptr_t)arena->data < arena->bytes;
}

void arena_get_state(struct arena *arena, struct arena_state *state) {
  pthread_mutex_lock(&arena->mutex);
  state->address_bytes = arena->bytes;
  state->resident_bytes = arena->resident_pages * PAGE_BYTES;
  state->used_bytes = arena->used_bytes;
  pthread_mutex_unlock(&arena->mutex);
}
