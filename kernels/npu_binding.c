#include "kernels/npu_binding.h"

const char *npu_product_name(enum npu_product product) {
  switch (product) {
  case NPU_PRODUCT_A2:
    return "A2";
  case NPU_PRODUCT_A3:
    return "A3";
  case NPU_PRODUCT_950:
    return "950";
  case NPU_PRODUCT_EMULATED:
    return "emulated";
  case NPU_PRODUCT_UNKNOWN:
  case NPU_PRODUCT_COUNT:
    break;
  }
  return "unknown";
}
