// What the backward's plan and its kernels agree on.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_PLAN_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_PLAN_H

#include "kernels/adaptive_pooling.h"
#include "kernels/operator.h"

// Positions among the parameters.
enum {
  BACKWARD_GRAD_OUTPUT,
  BACKWARD_SELF,
  BACKWARD_INDICES,
  BACKWARD_GRAD_INPUT,
  BACKWARD_PARAMETERS,
};

// A unit of work owns a range of one plane of gradInput: all sums of the range are formed by one thread, so
// the number of threads doesn't show in the bits. Up to this many elements a plane is one range (as floats
// they fit a core's cache) ...
#define BACKWARD_RANGE_ELEMENTS INT64_C(65536)
// ... and a larger one is split in at most this many, since each of them may have to look at all indices.
#define BACKWARD_RANGES_MAX 64

struct backward_plan {
  struct plane_view grad_output;
  struct plane_view indices;
  struct plane_view grad_input;
  int64_t range_elements;
  int64_t ranges_per_plane;
  // Sums are formed where they belong; otherwise in a scratch of slot_floats in the workspace for each slot.
  bool in_place;
  int64_t slot_floats;
};

static inline const struct backward_plan *backward_plan_of(const struct plan *plan) {
  return (const struct backward_plan *)plan->private_data;
}

bool backward_check_inputs(const struct operator_run *run, struct status *status);
bool backward_run(const struct operator_run *run, struct status *status);

#endif
