// The device's memory, kept for reuse: allocating it anew for each job would be slow.
//
// Blocks have sizes of a few classes, so that the next job of about the same shape finds what the last one
// left. What is cached goes back to the device when the device says that it has no more. Belongs to the
// device's thread; a block is freed only when nothing on the stream uses it any more.
#ifndef ACLNN_SERVER_NPU_WORKER_DEVICE_MEMORY_H
#define ACLNN_SERVER_NPU_WORKER_DEVICE_MEMORY_H

#include "server/npu/acl/acl_library.h"

// Sixteen classes for each power of two from DEVICE_MEMORY_BYTES_MIN on: at most a sixteenth of a block is
// unused.
#define DEVICE_MEMORY_BYTES_MIN 512
#define DEVICE_MEMORY_CLASSES 640

struct device_block {
  void *address; // on the device; NULL: none
  size_t _class;
};

struct device_memory_cached;

struct device_memory {
  const struct acl_functions *functions;
  struct device_memory_cached *cached[DEVICE_MEMORY_CLASSES];
  uint64_t cached_bytes;
};

void device_memory_init(struct device_memory *memory, const struct acl_functions *functions);
// Gives everything that is cached back; blocks in use are the caller's fault.
void device_memory_close(struct device_memory *memory);
// In place of closing it where the device is lost: only what the host keeps about it is freed.
void device_memory_abandon(struct device_memory *memory);

// bytes may be 0 (then it is a block of the smallest class). Fails with DEVICE_MEMORY once even a device
// without our cached blocks has not enough, or as the failed call says.
MUST_CHECK bool device_memory_allocate(struct device_memory *memory, uint64_t bytes,
                                       struct device_block *block, struct status *status);
// A block without address is fine.
void device_memory_free(struct device_memory *memory, struct device_block *block);

// Gives all cached blocks back to the device.
void device_memory_trim(struct device_memory *memory);

#endif
