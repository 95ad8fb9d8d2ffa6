// The backward of tensors whose planes lie one after the other (plan->dense).
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_DENSE_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_DENSE_H

#include "kernels/adaptive_max_pool2d_backward/plan.h"

// Sets *done to false if an index is illegal or, where planes are large, outside its window: the whole run is
// then to be done by other means. Fails with CANCELLED.
MUST_CHECK bool backward_run_dense(const struct operator_run *run, bool *done, struct status *status);

#endif
