// How the backward is called on devices, and the small jobs by which a device is judged.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_NPU_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_NPU_H

#include "kernels/npu_binding.h"

#define BACKWARD_NPU_CASES 14

extern const struct npu_binding backward_npu_binding;
extern const struct npu_case backward_npu_cases[BACKWARD_NPU_CASES];

#endif
