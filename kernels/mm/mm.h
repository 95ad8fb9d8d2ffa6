// aclnnMm: the product of two matrices, by OpenBLAS.
//
// Sums are formed in fp32 whatever the types, and rounded once to that of out. In which order they are formed
// is OpenBLAS's affair and differs by processor: results are defined within a tolerance, not bit by bit.
#ifndef ACLNN_KERNELS_MM_H
#define ACLNN_KERNELS_MM_H

#include "kernels/operator.h"

extern const struct operator_definition mm;

#endif
