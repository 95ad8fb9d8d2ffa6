// What the plan of the matrix product and its kernel agree on.
#ifndef ACLNN_KERNELS_MM_PLAN_H
#define ACLNN_KERNELS_MM_PLAN_H

#include "kernels/operator.h"

// Positions among the parameters.
enum {
  MM_SELF,
  MM_MAT2,
  MM_OUT,
  MM_CUBE_MATH_TYPE,
  MM_PARAMETERS,
};

// CANN's values of cubeMathType. They allow devices to be less exact; here all of them mean fp32.
enum {
  MM_KEEP_DTYPE,
  MM_ALLOW_FP32_DOWN_PRECISION,
  MM_USE_FP16,
  MM_USE_HF32,
  MM_USE_FP32_ADD,
  MM_CUBE_MATH_TYPES,
};

// OpenBLAS counts dims and strides in 32 bits.
#define MM_DIM_MAX INT64_C(2147483647)

// A matrix as lines of elements, which are its rows or, of a transposed one, its columns. Offsets and strides
// in elements of the storage.
struct mm_matrix {
  int64_t lines, length;
  int64_t offset, line_stride, element_stride;
  bool transposed;
  bool direct;             // OpenBLAS can take it as it lies
  uint64_t workspace_byte; // where its fp32 copy is, if it can't
};

struct mm_plan {
  int64_t rows, columns, inner; // m, n, k
  struct mm_matrix self, mat2, out;
};

static inline const struct mm_plan *mm_plan_of(const struct plan *plan) {
  return (const struct mm_plan *)plan->private_data;
}

bool mm_run(const struct operator_run *run, struct status *status);

#endif
