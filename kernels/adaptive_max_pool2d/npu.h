// How the forward is called on devices, and the small jobs by which a device is judged.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_NPU_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_NPU_H

#include "kernels/npu_binding.h"

#define FORWARD_NPU_CASES 11

extern const struct npu_binding forward_npu_binding;
extern const struct npu_case forward_npu_cases[FORWARD_NPU_CASES];

#endif
