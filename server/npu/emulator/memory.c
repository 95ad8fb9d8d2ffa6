#include "server/npu/emulator/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// How much more address space than memory there is, so that fragments don't matter.
#define WINDOW_FACTOR 4
// At least this much between two allocations belongs to none.
#define GAP_BYTES 4096
// Ordinary pages are so slow to touch for the first time that poisoning would be most of a small job's time.
#define LARGE_PAGE_BYTES ((size_t)2 << 20)

struct allocation {
  uint64_t address, bytes;
  int32_t device;
  bool freed;
  size_t pins;
  unsigned char *backing;
};

struct memory {
  uint64_t window_address, window_bytes;
  uint64_t bytes_per_device;
  int32_t devices;
  pthread_mutex_t mutex;    // guards what follows
  uint64_t next;            // where the search for room begins
  struct allocation **live; // by address
  size_t live_count, live_capacity;
  uint64_t *in_use; // by device
};

struct memory *memory_create(int32_t devices, uint64_t bytes_per_device, uint64_t window_bytes) {
  struct memory *memory = calloc(1, sizeof *memory);
  uint64_t *in_use = calloc((size_t)devices, sizeof *in_use);
  if (memory == NULL || in_use == NULL) {
    goto fail;
  }
  uint64_t wanted;
  if (__builtin_mul_overflow(bytes_per_device, (uint64_t)devices * WINDOW_FACTOR, &wanted)) {
    goto fail;
  }
  memory->window_bytes = wanted > window_bytes ? wanted : window_bytes;
  void *window =
      mmap(NULL, memory->window_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED) {
    goto fail;
  }
  memory->window_address = (uint64_t)(uintptr_t)window;
  memory->bytes_per_device = bytes_per_device;
  memory->devices = devices;
  memory->next = memory->window_address;
  memory->in_use = in_use;
  pthread_mutex_init(&memory->mutex, NULL);
  return memory;
fail:
  free(in_use);
  free(memory);
  return NULL;
}

static void allocation_destroy(struct allocation *allocation) {
  free(allocation->backing);
  free(allocation);
}

void memory_destroy(struct memory *memory) {
  for (size_t i = 0; i < memory->live_count; i++) {
    assert(memory->live[i]->pins == 0);
    allocation_destroy(memory->live[i]);
  }
  munmap((void *)(uintptr_t)memory->window_address, memory->window_bytes);
  pthread_mutex_destroy(&memory->mutex);
  free(memory->live);
  free(memory->in_use);
  free(memory);
}

// How many live allocations begin at or below the address: the position where one at a higher address goes.
static size_t count_up_to(const struct memory *memory, uint64_t address) {
  size_t low = 0, high = memory->live_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (memory->live[middle]->address <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static uint64_t end_of(const struct allocation *allocation) {
  return allocation->address + allocation->bytes;
}

// The first address from `from` on that is odd in units of the alignment and leaves the gap before it.
static uint64_t place_after(uint64_t from) {
  return (from + GAP_BYTES) / (2 * MEMORY_ALIGNMENT) * (2 * MEMORY_ALIGNMENT) + 3 * MEMORY_ALIGNMENT;
}

// A place for `bytes` at or above `from`; 0 if there is none up to the window's end.
static uint64_t find_room(const struct memory *memory, uint64_t from, uint64_t bytes) {
  uint64_t window_end = memory->window_address + memory->window_bytes;
  size_t position = count_up_to(memory, from);
  uint64_t address = place_after(from);
  if (position > 0 && end_of(memory->live[position - 1]) > from) {
    address = place_after(end_of(memory->live[position - 1]));
  }
  for (; position < memory->live_count; position++) {
    if (memory->live[position]->address >= address + bytes + GAP_BYTES) {
      break;
    }
    address = place_after(end_of(memory->live[position]));
  }
  return address < window_end && window_end - address >= bytes + GAP_BYTES ? address : 0;
}

static bool grow(struct memory *memory) {
  if (memory->live_count < memory->live_capacity) {
    return true;
  }
  size_t capacity = memory->live_capacity == 0 ? 64 : memory->live_capacity * 2;
  struct allocation **live = realloc(memory->live, capacity * sizeof *live);
  if (live == NULL) {
    return false;
  }
  memory->live = live;
  memory->live_capacity = capacity;
  return true;
}

// Enters the allocation at a place of its own; false if there is none.
static bool enter(struct memory *memory, struct allocation *allocation) {
  uint64_t *in_use = &memory->in_use[allocation->device];
  if (allocation->bytes > memory->bytes_per_device - *in_use || !grow(memory)) {
    return false;
  }
  uint64_t address = find_room(memory, memory->next, allocation->bytes);
  if (address == 0) {
    address = find_room(memory, memory->window_address, allocation->bytes);
  }
  if (address == 0) {
    return false;
  }
  size_t position = count_up_to(memory, address);
  memmove(memory->live + position + 1, memory->live + position,
          (memory->live_count - position) * sizeof *memory->live);
  memory->live[position] = allocation;
  memory->live_count++;
  allocation->address = address;
  memory->next = end_of(allocation);
  *in_use += allocation->bytes;
  return true;
}

// The bytes of an allocation; NULL if there are none.
static unsigned char *make_backing(uint64_t bytes) {
  void *backing;
  bool large = bytes >= LARGE_PAGE_BYTES;
  if (posix_memalign(&backing, large ? LARGE_PAGE_BYTES : MEMORY_ALIGNMENT, bytes) != 0) {
    return NULL;
  }
  if (large) {
    (void)madvise(backing, bytes, MADV_HUGEPAGE); // without large pages it works as well
  }
  return backing;
}

uint64_t memory_allocate(struct memory *memory, int32_t device, uint64_t bytes) {
  if (bytes > memory->bytes_per_device) {
    return 0;
  }
  struct allocation *allocation = calloc(1, sizeof *allocation);
  unsigned char *backing = make_backing(bytes);
  if (allocation == NULL || backing == NULL) {
    free(allocation);
    free(backing);
    return 0;
  }
  *allocation = (struct allocation){.bytes = bytes, .device = device, .backing = backing};
  pthread_mutex_lock(&memory->mutex);
  bool entered = enter(memory, allocation);
  uint64_t address = allocation->address;
  // Nobody knows the address yet, but the lock keeps whoever guesses it from seeing memory half poisoned.
  if (entered) {
    memset(backing, MEMORY_POISON, bytes);
  }
  pthread_mutex_unlock(&memory->mutex);
  if (!entered) {
    allocation_destroy(allocation);
    return 0;
  }
  return address;
}

// The live allocation of the device that holds the address, or NULL.
static struct allocation *find(const struct memory *memory, int32_t device, uint64_t address) {
  size_t position = count_up_to(memory, address);
  if (position == 0) {
    return NULL;
  }
  struct allocation *allocation = memory->live[position - 1];
  return address < end_of(allocation) && allocation->device == device ? allocation : NULL;
}

bool memory_free(struct memory *memory, int32_t device, uint64_t address) {
  pthread_mutex_lock(&memory->mutex);
  struct allocation *allocation = find(memory, device, address);
  bool found = allocation != NULL && allocation->address == address;
  bool unused = false;
  if (found) {
    size_t position = count_up_to(memory, address) - 1;
    memory->live_count--;
    memmove(memory->live + position, memory->live + position + 1,
            (memory->live_count - position) * sizeof *memory->live);
    memory->in_use[device] -= allocation->bytes;
    allocation->freed = true;
    unused = allocation->pins == 0;
  }
  pthread_mutex_unlock(&memory->mutex);
  if (unused) {
    allocation_destroy(allocation);
  }
  return found;
}

bool memory_is_device_address(const struct memory *memory, uint64_t address) {
  return address >= memory->window_address && address - memory->window_address < memory->window_bytes;
}

bool memory_is_live(struct memory *memory, int32_t device, uint64_t address, uint64_t bytes) {
  pthread_mutex_lock(&memory->mutex);
  struct allocation *allocation = find(memory, device, address);
  bool live = allocation != NULL && end_of(allocation) - address >= bytes;
  pthread_mutex_unlock(&memory->mutex);
  return live;
}

bool memory_pin(struct memory *memory, int32_t device, uint64_t address, struct memory_pin *pin) {
  *pin = (struct memory_pin){0};
  pthread_mutex_lock(&memory->mutex);
  struct allocation *allocation = find(memory, device, address);
  if (allocation != NULL) {
    allocation->pins++;
    *pin = (struct memory_pin){.allocation = allocation,
                               .bytes = allocation->backing + (address - allocation->address),
                               .byte_count = end_of(allocation) - address};
  }
  pthread_mutex_unlock(&memory->mutex);
  return allocation != NULL;
}

bool memory_unpin(struct memory *memory, struct memory_pin *pin) {
  struct allocation *allocation = pin->allocation;
  if (allocation == NULL) {
    return true;
  }
  pthread_mutex_lock(&memory->mutex);
  assert(allocation->pins > 0);
  allocation->pins--;
  bool freed = allocation->freed, last = allocation->pins == 0;
  pthread_mutex_unlock(&memory->mutex);
  if (freed && last) {
    allocation_destroy(allocation);
  }
  *pin = (struct memory_pin){0};
  return !freed;
}

uint64_t memory_bytes_in_use(struct memory *memory, int32_t device) {
  pthread_mutex_lock(&memory->mutex);
  uint64_t bytes = memory->in_use[device];
  pthread_mutex_unlock(&memory->mutex);
  return bytes;
}

uint64_t memory_bytes_total(const struct memory *memory) {
  return memory->bytes_per_device;
}

size_t memory_allocation_count(struct memory *memory) {
  pthread_mutex_lock(&memory->mutex);
  size_t count = memory->live_count;
  pthread_mutex_unlock(&memory->mutex);
  return count;
}
