// Threads for large kernels: a pool that runs one loop at a time.
//
// The owner creates and destroys it; the other functions may be called by one thread at a time and
// don't nest.
#ifndef ACLNN_KERNELS_PARALLEL_H
#define ACLNN_KERNELS_PARALLEL_H

#include "kernels/status.h"

#include <stddef.h>

// More threads than any machine has processors; a number beyond it is a slip of the pen, and a pool that
// can't start its threads would wait for them forever.
#define PARALLEL_THREADS_MAX 1024

struct parallel;

// Works on [begin, end) of the range.
typedef void parallel_task(void *context, size_t begin, size_t end);

// Processors that this process may use: those of its affinity mask, which containers narrow. At least 1. Any
// thread.
size_t parallel_processors(void);

// threads == 0: one for each processor that it may use. Fails with INTERNAL.
MUST_CHECK bool parallel_create(size_t threads, struct parallel **parallel, struct status *status);
void parallel_destroy(struct parallel *parallel);

// 1 for NULL.
size_t parallel_threads(const struct parallel *parallel);

// Calls task for slices of at most `tile` (>= 1) that together are [0, range), and returns when all are done.
// With parallel == NULL all of it runs on the calling thread.
void parallel_for(struct parallel *parallel, size_t range, size_t tile, parallel_task *task, void *context);

// Threads sleep between loops. To wake them costs ten microseconds and more, as much as a whole loop over
// small tensors; but on a machine that does other things too, threads that spin take its processors away (a
// server with such a pool did a third fewer jobs). For a caller that has the machine to itself, does one loop
// after the other and says when that ends: from now on threads spin after a loop, some milliseconds at most
// ...
void parallel_stay_awake(struct parallel *parallel);
// ... or until this sends them to sleep. Neither does anything for NULL, nor this where threads sleep anyway.
void parallel_rest(struct parallel *parallel);

#endif
