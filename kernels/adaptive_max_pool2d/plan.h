// What the forward's plan and its kernels agree on.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_PLAN_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_PLAN_H

#include "kernels/adaptive_pooling.h"
#include "kernels/operator.h"

// Positions among the parameters.
enum {
  FORWARD_SELF,
  FORWARD_OUTPUT_SIZE,
  FORWARD_OUTPUT_OUT,
  FORWARD_INDICES_OUT,
  FORWARD_PARAMETERS,
};

struct forward_plan {
  struct plane_view self;
  struct plane_view output_out;
  struct plane_view indices_out;
  // About how many elements of self the windows of one row of the output have together; saturating.
  int64_t row_elements;
};

static inline const struct forward_plan *forward_plan_of(const struct plan *plan) {
  return (const struct forward_plan *)plan->private_data;
}

bool forward_run(const struct operator_run *run, struct status *status);

#endif
