#include "kernels/mm/npu.h"
#include "kernels/half.h"
#include "kernels/mm/plan.h"

#include <math.h>

// Integers that every type holds, also the shortened ones in which devices multiply.
#define VALUE_MAX 256.0f
// Sums up to here are exact in fp32.
#define SUM_MAX 16777216.0f

typedef int32_t workspace_function(const struct aclTensor *self, const struct aclTensor *mat2,
                                   struct aclTensor *out, int8_t cube_math_type, uint64_t *workspace_bytes,
                                   struct aclOpExecutor **executor);

static int32_t get_workspace_size(void (*symbol)(void), const union npu_argument *arguments,
                                  uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  workspace_function *function = (workspace_function *)symbol;
  return function(arguments[MM_SELF].tensor, arguments[MM_MAT2].tensor, arguments[MM_OUT].tensor,
                  (int8_t)arguments[MM_CUBE_MATH_TYPE].integer, workspace_bytes, executor);
}

// CANN wants equal types of both matrices' product and out; a float32 out of 16-bit ones is the 950's.
static bool check_plan(const struct plan *plan, enum npu_product product, struct status *status) {
  const struct argument_value *values = plan->arguments.values;
  if (product == NPU_PRODUCT_EMULATED || product == NPU_PRODUCT_950 ||
      values[MM_SELF].tensor.data_type != values[MM_MAT2].tensor.data_type ||
      values[MM_OUT].tensor.data_type == values[MM_SELF].tensor.data_type) {
    return true;
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "out",
                     "out is float32 and the matrices are not, which %s devices don't offer; target CPU does",
                     npu_product_name(product));
}

// The order of additions is each device's own.
static bool is_exact(const struct plan *plan, enum npu_product product) {
  (void)plan;
  (void)product;
  return false;
}

// The largest magnitude in a storage of small integers; infinite if there is anything else.
static float largest_integer(const struct operator_run *run, size_t parameter) {
  const struct tensor_desc *desc = &run->plan->arguments.values[parameter].tensor;
  float largest = 0;
  for (int64_t i = 0; i < desc->storage_elements; i++) {
    float value;
    if (desc->data_type == DATA_TYPE_FLOAT) {
      value = ((const float *)run->storages[parameter])[i];
    } else {
      uint16_t bits = ((const uint16_t *)run->storages[parameter])[i];
      value = desc->data_type == DATA_TYPE_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
    }
    if (!(fabsf(value) <= VALUE_MAX) || value != truncf(value)) {
      return INFINITY;
    }
    largest = fmaxf(largest, fabsf(value));
  }
  return largest;
}

// Only where every order of additions gives the same sums can a difference be told from an error: CANN's
// tolerance is relative to the result, and sums that cancel have no such bound.
static bool is_comparable(const struct operator_run *run, enum npu_product product) {
  (void)product;
  float inner = (float)mm_plan_of(run->plan)->inner;
  return largest_integer(run, MM_SELF) * largest_integer(run, MM_MAT2) * inner <= SUM_MAX;
}

const struct npu_binding mm_npu_binding = {
    .workspace_symbol = "aclnnMmGetWorkspaceSize",
    .run_symbol = "aclnnMm",
    .products = NPU_PRODUCT_BIT(A2) | NPU_PRODUCT_BIT(A3) | NPU_PRODUCT_BIT(950) | NPU_PRODUCT_BIT(EMULATED),
    .get_workspace_size = get_workspace_size,
    .check_plan = check_plan,
    .is_exact = is_exact,
    .is_comparable = is_comparable,
    .cases = mm_npu_cases,
    .case_count = MM_NPU_CASES,
};
