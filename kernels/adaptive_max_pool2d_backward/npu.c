#include "kernels/adaptive_max_pool2d_backward/npu.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"

// Where the shape doesn't divide, the kernel of A2 and A3 holds the flat position in a float, which counts up
// to here without gaps. A documented limit that CANN does not check.
#define POSITIONS_IN_FLOAT_MAX (INT64_C(1) << 24)

typedef int32_t workspace_function(const struct aclTensor *grad_output, const struct aclTensor *self,
                                   const struct aclTensor *indices, struct aclTensor *grad_input,
                                   uint64_t *workspace_bytes, struct aclOpExecutor **executor);

static int32_t get_workspace_size(void (*symbol)(void), const union npu_argument *arguments,
                                  uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  workspace_function *function = (workspace_function *)symbol;
  return function(arguments[BACKWARD_GRAD_OUTPUT].tensor, arguments[BACKWARD_SELF].tensor,
                  arguments[BACKWARD_INDICES].tensor, arguments[BACKWARD_GRAD_INPUT].tensor, workspace_bytes,
                  executor);
}

static bool check_plan(const struct plan *plan, enum npu_product product, struct status *status) {
  if (product != NPU_PRODUCT_A2 && product != NPU_PRODUCT_A3) {
    return true;
  }
  const struct backward_plan *backward = backward_plan_of(plan);
  int64_t rows = backward->grad_input.rows, columns = backward->grad_input.columns;
  if (plan->empty || rows * columns <= POSITIONS_IN_FLOAT_MAX ||
      (rows % backward->grad_output.rows == 0 && columns % backward->grad_output.columns == 0)) {
    return true;
  }
  return status_fail(
      status, REASON_ACLNN_ERR_PARAM_INVALID, "self",
      "planes of self have %lld * %lld elements, which those of gradOutput (%lld * %lld) do not "
      "divide: %s devices take at most %lld then; target CPU has no such limit",
      (long long)rows, (long long)columns, (long long)backward->grad_output.rows,
      (long long)backward->grad_output.columns, npu_product_name(product), (long long)POSITIONS_IN_FLOAT_MAX);
}

static bool is_exact(const struct plan *plan, enum npu_product product) {
  (void)plan;
  return product == NPU_PRODUCT_EMULATED;
}

// The windows of one axis, one after the other: [begin, end) without a division for each.
struct windows {
  int64_t output;
  int64_t step, step_rest; // input / output
  int64_t begin, rest;     // where the window begins is begin + rest / output
  int64_t end;
};

static inline void windows_find_end(struct windows *windows) {
  int64_t rest = windows->rest + windows->step_rest; // below 2 * output
  windows->end = windows->begin + windows->step + (rest > 0) + (rest > windows->output);
}

static struct windows windows_first(int64_t input, int64_t output) {
  struct windows windows = {.output = output, .step = input / output, .step_rest = input % output};
  windows_find_end(&windows);
  return windows;
}

static inline void windows_advance(struct windows *windows) {
  windows->begin += windows->step;
  windows->rest += windows->step_rest;
  if (windows->rest >= windows->output) {
    windows->rest -= windows->output;
    windows->begin++;
  }
  windows_find_end(windows);
}

// Whether each index of the row lies in its window. Indices are known to lie in their plane, so 32 bits hold
// them.
static bool row_is_in_windows(const struct plane_view *view, const void *storage, bool wide, int64_t offset,
                              int64_t first_row, int64_t end_row, int64_t input_columns) {
  struct windows columns = windows_first(input_columns, view->columns);
  uint32_t width = (uint32_t)input_columns;
  for (int64_t i = 0; i < view->columns; i++, offset += view->column_stride) {
    uint32_t index =
        wide ? (uint32_t)((const int64_t *)storage)[offset] : (uint32_t)((const int32_t *)storage)[offset];
    int64_t row = index / width;
    int64_t column = index % width;
    if (row < first_row || row >= end_row || column < columns.begin || column >= columns.end) {
      return false;
    }
    windows_advance(&columns);
  }
  return true;
}

// Devices may drop an index outside its window, or let the last of double ones win where the shape divides.
// Windows are disjoint there, so that of two outputs with the same index one has it outside its own.
static bool is_comparable(const struct operator_run *run, enum npu_product product) {
  if (product == NPU_PRODUCT_EMULATED || run->plan->empty) {
    return true;
  }
  const struct backward_plan *plan = backward_plan_of(run->plan);
  const struct plane_view *view = &plan->indices;
  bool wide = run->plan->arguments.values[BACKWARD_INDICES].tensor.data_type == DATA_TYPE_INT64;
  for (int64_t plane = 0; plane < view->planes; plane++) {
    struct windows rows = windows_first(plan->grad_input.rows, view->rows);
    int64_t offset = plane_view_offset(view, plane);
    for (int64_t row = 0; row < view->rows; row++, offset += view->row_stride) {
      if (!row_is_in_windows(view, run->storages[BACKWARD_INDICES], wide, offset, rows.begin, rows.end,
                             plan->grad_input.columns)) {
        return false;
      }
      windows_advance(&rows);
    }
  }
  return true;
}

const struct npu_binding backward_npu_binding = {
    .workspace_symbol = "aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize",
    .run_symbol = "aclnnAdaptiveMaxPool2dBackward",
    .products = NPU_PRODUCT_BIT(A2) | NPU_PRODUCT_BIT(A3) | NPU_PRODUCT_BIT(950) | NPU_PRODUCT_BIT(EMULATED),
    .named_axes = true,
    .get_workspace_size = get_workspace_size,
    .check_plan = check_plan,
    .is_exact = is_exact,
    .is_comparable = is_comparable,
    .cases = backward_npu_cases,
    .case_count = BACKWARD_NPU_CASES,
};
