// aclnnAdaptiveMaxPool2dBackward: adds each gradient to the position of its plane that the forward's indices
// name; the sums are formed in float, in row-major order of gradOutput, and rounded once.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_H

#include "kernels/operator.h"

extern const struct operator_definition adaptive_max_pool2d_backward;

#endif
