// What the forward's plain code and its driver of vector code share: one run, and rows of outputs as its
// unit.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_CPU_JOB_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_CPU_JOB_H

#include "kernels/adaptive_max_pool2d/plan.h"
#include "kernels/operator_run.h"

struct maximum;

// Lets `count` elements compete, `stride` elements apart, that begin at this place of their plane.
typedef void forward_compete(struct maximum *maximum, const void *elements, int64_t stride, int64_t count,
                             int64_t row, int64_t column);

struct forward_job {
  const struct operator_run *run;
  const struct forward_plan *plan;
  forward_compete *compete;
  int64_t value_bytes;
  bool wide_indices;
};

// One row of outputs, for any layout and any values.
void forward_pool_row(const struct forward_job *job, int64_t plane, int64_t row);

// Whether there is vector code for the run's processor and its layouts.
bool forward_is_vectorisable(const struct forward_job *job);

// The whole run in vector code.
MUST_CHECK bool forward_run_vectorised(const struct forward_job *job, struct status *status);

#endif
