#include "kernels/adaptive_max_pool2d/adaptive_max_pool2d.h"
#include "kernels/adaptive_max_pool2d/npu.h"
#include "kernels/adaptive_max_pool2d/plan.h"

static const struct operator_parameter parameters[FORWARD_PARAMETERS] = {
    [FORWARD_SELF] =
        {
            .name = "self",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_INPUT,
            .data_types = ADAPTIVE_POOLING_DATA_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
    [FORWARD_OUTPUT_SIZE] =
        {
            .name = "outputSize",
            .kind = PARAMETER_KIND_INT_ARRAY,
            .direction = DIRECTION_INPUT,
        },
    [FORWARD_OUTPUT_OUT] =
        {
            .name = "outputOut",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_OUTPUT,
            .data_types = ADAPTIVE_POOLING_DATA_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
    [FORWARD_INDICES_OUT] =
        {
            .name = "indicesOut",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_OUTPUT,
            .data_types = ADAPTIVE_POOLING_INDEX_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
};

static bool check_output_size(const struct int_array *output_size, struct status *status) {
  const char *name = parameters[FORWARD_OUTPUT_SIZE].name;
  if (output_size->count != 2) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s has %zu values, it must have two: H and W", name, output_size->count);
  }
  for (size_t i = 0; i < 2; i++) {
    if (output_size->values[i] <= 0) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name, "%s[%zu] is %lld, it must be above 0",
                         name, i, (long long)output_size->values[i]);
    }
  }
  return true;
}

// What both outputs look like: self's planes in the size asked for. Self may be anything but its rank.
static struct tensor_desc describe_output(const struct operator_arguments *arguments,
                                          enum data_type data_type) {
  const struct int_array *output_size = &arguments->values[FORWARD_OUTPUT_SIZE].int_array;
  struct tensor_desc output = tensor_desc_like(&arguments->values[FORWARD_SELF].tensor);
  output.data_type = data_type;
  output.shape[output.rank - 2] = output_size->values[0];
  output.shape[output.rank - 1] = output_size->values[1];
  return output;
}

static bool infer(struct operator_arguments *arguments, struct status *status) {
  struct tensor_desc *output_out = &arguments->values[FORWARD_OUTPUT_OUT].tensor;
  struct tensor_desc *indices_out = &arguments->values[FORWARD_INDICES_OUT].tensor;
  struct named_tensor self = operator_checks_tensor(parameters, arguments, FORWARD_SELF);
  bool infer_output = tensor_desc_is_unspecified(output_out);
  bool infer_indices = tensor_desc_is_unspecified(indices_out);
  if (!infer_output && !infer_indices) {
    return true;
  }
  if (!operator_checks_rank(self, status) ||
      !check_output_size(&arguments->values[FORWARD_OUTPUT_SIZE].int_array, status)) {
    return false;
  }
  if (infer_output) {
    *output_out = describe_output(arguments, self.desc->data_type);
  }
  if (infer_indices) {
    *indices_out = describe_output(arguments, DATA_TYPE_INT64);
  }
  return true;
}

// Only the first dim may be 0: it is what there may be none of; a plane must have a first maximum.
static bool check_dims(struct named_tensor self, struct status *status) {
  for (size_t dim = 1; dim < self.desc->rank; dim++) {
    if (self.desc->shape[dim] == 0) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, self.parameter->name,
                         "dimension %zu of %s is 0, only dimension 0 may be", dim, self.parameter->name);
    }
  }
  return true;
}

static bool check_shape(struct named_tensor output, const struct operator_arguments *arguments,
                        struct status *status) {
  struct tensor_desc expected = describe_output(arguments, output.desc->data_type);
  static const struct operator_parameter source = {.name = "self with outputSize"};
  return operator_checks_same_shape(output, (struct named_tensor){&source, &expected}, status);
}

// CANN's order: types, formats and ranks, outputSize, shapes; then what CANN doesn't look at.
static bool validate(const struct operator_arguments *arguments, struct status *status) {
  struct named_tensor self = operator_checks_tensor(parameters, arguments, FORWARD_SELF);
  struct named_tensor output_out = operator_checks_tensor(parameters, arguments, FORWARD_OUTPUT_OUT);
  struct named_tensor indices_out = operator_checks_tensor(parameters, arguments, FORWARD_INDICES_OUT);
  return operator_checks_data_type(self, status) &&
         operator_checks_same_data_type(output_out, self, status) &&
         operator_checks_data_type(indices_out, status) &&
         operator_checks_same_format(output_out, self, status) &&
         operator_checks_same_format(indices_out, self, status) && operator_checks_rank(self, status) &&
         check_output_size(&arguments->values[FORWARD_OUTPUT_SIZE].int_array, status) &&
         check_dims(self, status) && check_shape(output_out, arguments, status) &&
         check_shape(indices_out, arguments, status) && pooling_check_plane_size(self, status);
}

static bool plan_on_cpu(struct plan *plan, struct status *status) {
  (void)status;
  _Static_assert(sizeof(struct forward_plan) <= PLAN_PRIVATE_BYTES, "the plan's private part is too small");
  struct forward_plan *forward = (struct forward_plan *)plan->private_data;
  *forward = (struct forward_plan){
      .self = plane_view_of(&plan->arguments.values[FORWARD_SELF].tensor),
      .output_out = plane_view_of(&plan->arguments.values[FORWARD_OUTPUT_OUT].tensor),
      .indices_out = plane_view_of(&plan->arguments.values[FORWARD_INDICES_OUT].tensor),
  };
  // Where the sizes divide, each element is in one window. Otherwise a window is larger than the quotient,
  // and shares an element with the next.
  int64_t output_rows = forward->output_out.rows;
  int64_t output_columns = forward->output_out.columns;
  int64_t input_rows = forward->self.rows;
  int64_t input_columns = forward->self.columns;
  uint64_t window_rows = (uint64_t)(input_rows / output_rows + (input_rows % output_rows != 0));
  uint64_t columns =
      (uint64_t)input_columns + (input_columns % output_columns != 0 ? (uint64_t)output_columns : 0);
  uint64_t row_elements = pooling_saturating_product(window_rows, columns);
  forward->row_elements = row_elements < INT64_MAX ? (int64_t)row_elements : INT64_MAX;
  uint64_t rows = pooling_saturating_product((uint64_t)forward->output_out.planes, (uint64_t)output_rows);
  plan->work_elements = pooling_saturating_product(rows, row_elements);
  plan->workspace_bytes = 0;
  return true;
}

// The values of self can't be wrong.
static bool check_inputs(const struct operator_run *run, struct status *status) {
  (void)run;
  (void)status;
  return true;
}

const struct operator_definition adaptive_max_pool2d = {
    .name = "aclnnAdaptiveMaxPool2d",
    .parameters = parameters,
    .parameter_count = FORWARD_PARAMETERS,
    .infer = infer,
    .validate = validate,
    .plan = plan_on_cpu,
    .check_inputs = check_inputs,
    .run = forward_run,
    .npu = &forward_npu_binding,
};
