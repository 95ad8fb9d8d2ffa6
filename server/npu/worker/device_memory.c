#include "server/npu/worker/device_memory.h"

#include "server/npu/worker/acl_failure.h"

#include <stdlib.h>

struct device_memory_cached {
  struct device_memory_cached *next;
  void *address;
};

#define STEPS_PER_POWER 16

static uint64_t class_bytes(size_t size_class) {
  uint64_t power = (uint64_t)DEVICE_MEMORY_BYTES_MIN << (size_class / STEPS_PER_POWER);
  return power + power / STEPS_PER_POWER * (size_class % STEPS_PER_POWER);
}

// The smallest class that holds as many; DEVICE_MEMORY_CLASSES if none does.
static size_t class_of(uint64_t bytes) {
  size_t size_class = 0;
  while (size_class < DEVICE_MEMORY_CLASSES && class_bytes(size_class + STEPS_PER_POWER - 1) < bytes) {
    size_class += STEPS_PER_POWER;
  }
  while (size_class < DEVICE_MEMORY_CLASSES && class_bytes(size_class) < bytes) {
    size_class++;
  }
  return size_class;
}

void device_memory_init(struct device_memory *memory, const struct acl_functions *functions) {
  *memory = (struct device_memory){.functions = functions};
}

void device_memory_close(struct device_memory *memory) {
  device_memory_trim(memory);
}

static void empty_cache(struct device_memory *memory, bool give_back) {
  for (size_t i = 0; i < DEVICE_MEMORY_CLASSES; i++) {
    while (memory->cached[i] != NULL) {
      struct device_memory_cached *cached = memory->cached[i];
      memory->cached[i] = cached->next;
      if (give_back) {
        // Nothing can be done about a failure: the device then has less, and says so when it matters.
        memory->functions->aclrtFree(cached->address);
      }
      free(cached);
    }
  }
  memory->cached_bytes = 0;
}

void device_memory_trim(struct device_memory *memory) {
  empty_cache(memory, true);
}

void device_memory_abandon(struct device_memory *memory) {
  empty_cache(memory, false);
}

bool device_memory_allocate(struct device_memory *memory, uint64_t bytes, struct device_block *block,
                            struct status *status) {
  size_t size_class = class_of(bytes);
  if (size_class == DEVICE_MEMORY_CLASSES) {
    return status_fail(status, REASON_DEVICE_MEMORY, NULL, "no device has %llu bytes of memory",
                       (unsigned long long)bytes);
  }
  struct device_memory_cached *cached = memory->cached[size_class];
  if (cached != NULL) {
    memory->cached[size_class] = cached->next;
    memory->cached_bytes -= class_bytes(size_class);
    *block = (struct device_block){.address = cached->address, ._class = size_class};
    free(cached);
    return true;
  }
  void *address = NULL;
  int32_t number =
      memory->functions->aclrtMalloc(&address, class_bytes(size_class), ACL_MEM_MALLOC_HUGE_FIRST);
  if (acl_failure_is_memory(number) && memory->cached_bytes > 0) {
    device_memory_trim(memory);
    number = memory->functions->aclrtMalloc(&address, class_bytes(size_class), ACL_MEM_MALLOC_HUGE_FIRST);
  }
  if (number != ACL_STATUS_SUCCESS) {
    return acl_failure(memory->functions, "aclrtMalloc", number, status);
  }
  *block = (struct device_block){.address = address, ._class = size_class};
  return true;
}

void device_memory_free(struct device_memory *memory, struct device_block *block) {
  if (block->address == NULL) {
    return;
  }
  struct device_memory_cached *cached = malloc(sizeof *cached);
  if (cached == NULL) {
    memory->functions->aclrtFree(block->address);
  } else {
    *cached = (struct device_memory_cached){.next = memory->cached[block->_class], .address = block->address};
    memory->cached[block->_class] = cached;
    memory->cached_bytes += class_bytes(block->_class);
  }
  *block = (struct device_block){0};
}
