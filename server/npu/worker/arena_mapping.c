#include "server/npu/worker/arena_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

// The arena's pages are huge ones; a mapping that begins at a multiple of them can use them.
#define PAGE_BYTES ((uint64_t)2 << 20)

static bool check_file(int descriptor, uint64_t bytes, struct status *status) {
  struct stat file;
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) {
    return status_fail(status, REASON_INTERNAL, NULL, "descriptor %d is no arena", descriptor);
  }
  if (bytes == 0 || bytes > INT64_MAX - 2 * PAGE_BYTES || (uint64_t)file.st_size != bytes) {
    return status_fail(status, REASON_INTERNAL, NULL, "the arena has %lld bytes, announced were %llu",
                       (long long)file.st_size, (unsigned long long)bytes);
  }
  int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return status_fail(status, REASON_INTERNAL, NULL, "the arena is not sealed against being made shorter");
  }
  return true;
}

bool arena_mapping_open(int descriptor, uint64_t bytes, struct arena_mapping *mapping,
                        struct status *status) {
  if (!check_file(descriptor, bytes, status)) {
    return false;
  }
  uint8_t *room =
      mmap(NULL, bytes + PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return status_fail(status, REASON_INTERNAL, NULL, "no address space for the arena's %llu bytes: %s",
                       (unsigned long long)bytes, strerror(errno));
  }
  uint64_t before = (PAGE_BYTES - (uintptr_t)room % PAGE_BYTES) % PAGE_BYTES;
  uint8_t *data = mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                       descriptor, 0);
  if (data == MAP_FAILED) {
    status_fail(status, REASON_INTERNAL, NULL, "the arena cannot be mapped: %s", strerror(errno));
    munmap(room, bytes + PAGE_BYTES);
    return false;
  }
  // Processes that a library forks are none that the server waits for before it gives the memory to others.
  (void)madvise(data, bytes, MADV_DONTFORK);
  if (before > 0) {
    munmap(room, before);
  }
  munmap(data + bytes, PAGE_BYTES - before);
  *mapping = (struct arena_mapping){.data = data, .bytes = bytes};
  return true;
}

void arena_mapping_close(struct arena_mapping *mapping) {
  munmap(mapping->data, mapping->bytes);
  *mapping = (struct arena_mapping){0};
}
