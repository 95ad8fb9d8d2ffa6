// aclnnAdaptiveMaxPool2d: the maximum of each window, and its position in the plane. The first maximum wins,
// a NaN wins over all numbers, and the last NaN over all others.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_H

#include "kernels/operator.h"

extern const struct operator_definition adaptive_max_pool2d;

#endif
