// Threads for large kernels: a pool that runs one loop at a time.
//
// The owner creates and destroys it; parallel_for may be called by one thread at a time and doesn't nest.
#ifndef ACLNN_KERNELS_PARALLEL_H
#define ACLNN_KERNELS_PARALLEL_H

#include "kernels/status.h"

#include <stddef.h>

struct parallel;

// Works on [begin, end) of the range.
typedef void parallel_task(void *context, size_t begin, size_t end);

// threads == 0: as many as the machine has. Fails with INTERNAL.
MUST_CHECK bool parallel_create(size_t threads, struct parallel **parallel, struct status *status);
void parallel_destroy(struct parallel *parallel);

// 1 for NULL.
size_t parallel_threads(const struct parallel *parallel);

// Calls task for slices of at most `tile` (>= 1) that together are [0, range), and returns when all are done.
// With parallel == NULL all of it runs on the calling thread.
void parallel_for(struct parallel *parallel, size_t range, size_t tile, parallel_task *task, void *context);

#endif
