// How the matrix product is called on devices, and the small jobs by which a device is judged.
#ifndef ACLNN_KERNELS_MM_NPU_H
#define ACLNN_KERNELS_MM_NPU_H

#include "kernels/npu_binding.h"

#define MM_NPU_CASES 5

extern const struct npu_binding mm_npu_binding;
extern const struct npu_case mm_npu_cases[MM_NPU_CASES];

#endif
