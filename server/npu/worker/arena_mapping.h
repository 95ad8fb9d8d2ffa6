// The server's arena, mapped into the worker. Belongs to the main thread; the bytes are anybody's who was
// told of a place in them.
#ifndef ACLNN_SERVER_NPU_WORKER_ARENA_MAPPING_H
#define ACLNN_SERVER_NPU_WORKER_ARENA_MAPPING_H

#include "kernels/status.h"

struct arena_mapping {
  uint8_t *data;
  uint64_t bytes;
};

// The descriptor must be a file of just that length that nobody can make shorter any more: touching a mapping
// beyond its file's end would kill the process. Borrows the descriptor. Fails with INTERNAL.
MUST_CHECK bool arena_mapping_open(int descriptor, uint64_t bytes, struct arena_mapping *mapping,
                                   struct status *status);
void arena_mapping_close(struct arena_mapping *mapping);

#endif
