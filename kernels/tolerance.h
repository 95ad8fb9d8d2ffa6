// Whether two results of an operator are the same, bit by bit or within CANN's yardstick.
//
// The yardstick is that of CANN's precision standard for experimental operators: with the relative error
// |actual - golden| / (|golden| + 1e-7), the mean over all elements must be below T and the worst one below
// 10 T, where T is 2^-10 for float16, 2^-7 for bfloat16 and 2^-13 for float32. Integers and all types that it
// doesn't name must be the same. In both ways of comparing a NaN equals every NaN (payloads are free), an
// infinity only itself; in the exact one -0 and +0 differ. Pure functions, usable from any thread.
#ifndef ACLNN_KERNELS_TOLERANCE_H
#define ACLNN_KERNELS_TOLERANCE_H

#include "kernels/tensor.h"

struct tensor_comparison {
  bool agree;
  int64_t elements;  // of the view
  int64_t differing; // that aren't the same exactly
  int64_t first;     // row-major position in the view of the first of those, -1 if there is none
  int64_t worst;     // likewise of the one with the greatest error
  double worst_error,
      mean_error; // relative; infinite where a NaN or an infinity stands against something else
};

// Compares the elements of a view in two storages; holes between them don't count. *desc is normalised, its
// type has whole bytes; the storages are aligned to it.
void tensor_compare(const struct tensor_desc *desc, const void *actual, const void *golden, bool exactly,
                    struct tensor_comparison *comparison);

// What a comparison, made in whichever way, says in this one.
bool tensor_comparison_agrees(const struct tensor_comparison *comparison, enum data_type data_type,
                              bool exactly);

#endif
