// What the handles of tensors and integer arrays name. All under the emulator's lock.
#ifndef ACLNN_SERVER_NPU_EMULATOR_TENSORS_H
#define ACLNN_SERVER_NPU_EMULATOR_TENSORS_H

#include "kernels/emulated_device.h"

// Where a tensor's data may begin.
#define TENSORS_ALIGNMENT 32

struct tensor_object {
  struct emulated_tensor tensor;
  uint64_t address; // of its data; 0 for a null pointer
};

struct int_array_object {
  size_t count;
  int64_t values[];
};

#endif
