// What the run functions of operators share: work in units over the run's threads, cancellation, scratch
// slots and the holes of outputs.
//
// For the thread that runs the operator; tasks are called on the threads of run->parallel.
#ifndef ACLNN_KERNELS_OPERATOR_RUN_H
#define ACLNN_KERNELS_OPERATOR_RUN_H

#include "kernels/operator.h"

// At most this many tasks are under way at once, so that a plan can count their scratch without knowing the
// number of threads. As many as a mask of free slots has bits, and more than memory bandwidth feeds.
#define OPERATOR_RUN_SLOTS_MAX 64

// Elements that are worked on before cancellation is looked at again: some tens of microseconds.
#define OPERATOR_RUN_CANCEL_ELEMENTS 65536

// Works on units [begin, end). No two tasks that are under way at the same time have the same slot; the slots
// in use are the lowest, so that a scratch stays in the cache of few threads.
typedef void operator_run_task(void *context, size_t slot, size_t begin, size_t end);

// Slots that a loop over that many units uses at most.
size_t operator_run_slots(size_t units);

// True once the run is to end. Tasks with long units look at it and return early.
static inline bool operator_run_is_cancelled(const struct operator_run *run) {
  return run->cancelled != NULL && atomic_load_explicit(run->cancelled, memory_order_relaxed);
}

// Calls task for slices that together are [0, units); unit_elements (at least 1) says about how many elements
// one unit touches. Looks at cancellation between slices and fails with CANCELLED.
MUST_CHECK bool operator_run_units(const struct operator_run *run, size_t units, int64_t unit_elements,
                                   operator_run_task *task, void *context, struct status *status);

// Writes zeros over the whole storage of an output.
MUST_CHECK bool operator_run_zero(const struct operator_run *run, size_t parameter, struct status *status);

// The same if the output's view leaves parts of its storage out.
MUST_CHECK bool operator_run_zero_holes(const struct operator_run *run, size_t parameter,
                                        struct status *status);

#endif
