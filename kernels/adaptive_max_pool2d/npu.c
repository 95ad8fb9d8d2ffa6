#include "kernels/adaptive_max_pool2d/npu.h"
#include "kernels/adaptive_max_pool2d/plan.h"

typedef int32_t workspace_function(const struct aclTensor *self, const struct aclIntArray *output_size,
                                   struct aclTensor *output_out, struct aclTensor *indices_out,
                                   uint64_t *workspace_bytes, struct aclOpExecutor **executor);

static int32_t get_workspace_size(void (*symbol)(void), const union npu_argument *arguments,
                                  uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  workspace_function *function = (workspace_function *)symbol;
  return function(arguments[FORWARD_SELF].tensor, arguments[FORWARD_OUTPUT_SIZE].int_array,
                  arguments[FORWARD_OUTPUT_OUT].tensor, arguments[FORWARD_INDICES_OUT].tensor,
                  workspace_bytes, executor);
}

// CANN knows int64 indices alone; int32 is an extension of ours.
static bool check_plan(const struct plan *plan, enum npu_product product, struct status *status) {
  if (product == NPU_PRODUCT_EMULATED ||
      plan->arguments.values[FORWARD_INDICES_OUT].tensor.data_type == DATA_TYPE_INT64) {
    return true;
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "indicesOut",
                     "indicesOut is int32, %s devices give int64 only; target CPU gives both",
                     npu_product_name(product));
}

static bool is_exact(const struct plan *plan, enum npu_product product) {
  (void)plan;
  return product == NPU_PRODUCT_EMULATED;
}

const struct npu_binding forward_npu_binding = {
    .workspace_symbol = "aclnnAdaptiveMaxPool2dGetWorkspaceSize",
    .run_symbol = "aclnnAdaptiveMaxPool2d",
    .products = NPU_PRODUCT_BIT(A2) | NPU_PRODUCT_BIT(A3) | NPU_PRODUCT_BIT(950) | NPU_PRODUCT_BIT(EMULATED),
    .named_axes = true,
    .get_workspace_size = get_workspace_size,
    .check_plan = check_plan,
    .is_exact = is_exact,
    .cases = forward_npu_cases,
    .case_count = FORWARD_NPU_CASES,
};
