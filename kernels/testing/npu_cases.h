// For tests of an operator's cases for devices: what the CPU gives is what they expect, bit by bit.
#ifndef ACLNN_KERNELS_TESTING_NPU_CASES_H
#define ACLNN_KERNELS_TESTING_NPU_CASES_H

#include "kernels/npu_binding.h"

// Only for cmocka tests: a case that plans to other sizes than it holds, whose inputs are refused or whose
// results differ fails the test.
void npu_cases_assert(const struct operator_definition *definition);

#endif
