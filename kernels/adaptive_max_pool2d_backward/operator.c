#include "kernels/adaptive_max_pool2d_backward/adaptive_max_pool2d_backward.h"
#include "kernels/adaptive_max_pool2d_backward/npu.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/operator_run.h"

static const struct operator_parameter parameters[BACKWARD_PARAMETERS] = {
    [BACKWARD_GRAD_OUTPUT] =
        {
            .name = "gradOutput",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_INPUT,
            .data_types = ADAPTIVE_POOLING_DATA_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
    [BACKWARD_SELF] =
        {
            .name = "self",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_INPUT,
            .shape_only = true,
            .data_types = ADAPTIVE_POOLING_DATA_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
    [BACKWARD_INDICES] =
        {
            .name = "indices",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_INPUT,
            .data_types = ADAPTIVE_POOLING_INDEX_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
    [BACKWARD_GRAD_INPUT] =
        {
            .name = "gradInput",
            .kind = PARAMETER_KIND_TENSOR,
            .direction = DIRECTION_OUTPUT,
            .data_types = ADAPTIVE_POOLING_DATA_TYPES,
            .ranks = ADAPTIVE_POOLING_RANKS,
        },
};

static bool infer(struct operator_arguments *arguments, struct status *status) {
  (void)status;
  struct tensor_desc *grad_input = &arguments->values[BACKWARD_GRAD_INPUT].tensor;
  if (tensor_desc_is_unspecified(grad_input)) {
    *grad_input = tensor_desc_like(&arguments->values[BACKWARD_SELF].tensor);
  }
  return true;
}

// N and C of gradOutput are those of self; CANN leaves this to its device code.
static bool check_same_planes(struct named_tensor grad_output, struct named_tensor self,
                              struct status *status) {
  size_t plane_dims = self.desc->rank - 2;
  for (size_t dim = 0; dim < plane_dims; dim++) {
    if (grad_output.desc->shape[dim] != self.desc->shape[dim]) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, grad_output.parameter->name,
                         "dimension %zu (%s) of gradOutput is %lld, it must be that of self, which is %lld",
                         dim, dim + 1 == plane_dims ? "C" : "N", (long long)grad_output.desc->shape[dim],
                         (long long)self.desc->shape[dim]);
    }
  }
  return true;
}

// A gradient needs a place to go: no index into an empty plane could be legal.
static bool check_somewhere_to_go(struct named_tensor grad_output, struct named_tensor self,
                                  struct status *status) {
  if (tensor_desc_elements(self.desc) == 0 && tensor_desc_elements(grad_output.desc) > 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, self.parameter->name,
                       "self has empty planes (%lld * %lld) though gradOutput is not empty",
                       (long long)self.desc->shape[self.desc->rank - 2],
                       (long long)self.desc->shape[self.desc->rank - 1]);
  }
  return true;
}

// CANN's order: types, shapes, formats and ranks, the size of a plane; then what CANN doesn't look at.
static bool validate(const struct operator_arguments *arguments, struct status *status) {
  struct named_tensor grad_output = operator_checks_tensor(parameters, arguments, BACKWARD_GRAD_OUTPUT);
  struct named_tensor self = operator_checks_tensor(parameters, arguments, BACKWARD_SELF);
  struct named_tensor indices = operator_checks_tensor(parameters, arguments, BACKWARD_INDICES);
  struct named_tensor grad_input = operator_checks_tensor(parameters, arguments, BACKWARD_GRAD_INPUT);
  return operator_checks_same_data_type(grad_output, self, status) &&
         operator_checks_same_data_type(grad_input, self, status) &&
         operator_checks_data_type(self, status) && operator_checks_data_type(indices, status) &&
         // All ranks before any dim.
         operator_checks_same_rank(grad_output, self, status) &&
         operator_checks_same_rank(indices, self, status) &&
         operator_checks_same_rank(grad_input, self, status) &&
         operator_checks_same_shape(indices, grad_output, status) &&
         operator_checks_same_shape(grad_input, self, status) &&
         operator_checks_same_format(grad_output, self, status) &&
         operator_checks_same_format(indices, self, status) &&
         operator_checks_same_format(grad_input, self, status) && operator_checks_rank(self, status) &&
         pooling_check_plane_size(self, status) && check_same_planes(grad_output, self, status) &&
         check_somewhere_to_go(grad_output, self, status);
}

static bool plan_on_cpu(struct plan *plan, struct status *status) {
  (void)status;
  const struct tensor_desc *grad_output = &plan->arguments.values[BACKWARD_GRAD_OUTPUT].tensor;
  const struct tensor_desc *grad_input = &plan->arguments.values[BACKWARD_GRAD_INPUT].tensor;
  _Static_assert(sizeof(struct backward_plan) <= PLAN_PRIVATE_BYTES, "the plan's private part is too small");
  struct backward_plan *backward = (struct backward_plan *)plan->private_data;
  *backward = (struct backward_plan){
      .grad_output = plane_view_of(grad_output),
      .indices = plane_view_of(&plan->arguments.values[BACKWARD_INDICES].tensor),
      .grad_input = plane_view_of(grad_input),
  };
  plan->work_elements =
      (uint64_t)tensor_desc_elements(grad_output) + (uint64_t)tensor_desc_elements(grad_input);
  plan->workspace_bytes = 0;
  if (plan->empty) {
    return true;
  }
  int64_t plane_elements = backward->grad_input.rows * backward->grad_input.columns;
  int64_t largest = (plane_elements + BACKWARD_RANGES_MAX - 1) / BACKWARD_RANGES_MAX;
  int64_t wanted = largest > BACKWARD_RANGE_ELEMENTS ? largest : BACKWARD_RANGE_ELEMENTS;
  backward->range_elements = plane_elements < wanted ? plane_elements : wanted;
  backward->ranges_per_plane = (plane_elements + backward->range_elements - 1) / backward->range_elements;
  backward->in_place = grad_input->data_type == DATA_TYPE_FLOAT && plane_view_is_dense(&backward->grad_input);
  if (!backward->in_place) {
    int64_t line_floats = TENSOR_ALIGNMENT / (int64_t)sizeof(float);
    backward->slot_floats = (backward->range_elements + line_floats - 1) / line_floats * line_floats;
    size_t slots = operator_run_slots((size_t)(backward->grad_input.planes * backward->ranges_per_plane));
    plan->workspace_bytes = slots * (uint64_t)backward->slot_floats * sizeof(float);
  }
  return true;
}

const struct operator_definition adaptive_max_pool2d_backward = {
    .name = "aclnnAdaptiveMaxPool2dBackward",
    .parameters = parameters,
    .parameter_count = BACKWARD_PARAMETERS,
    .infer = infer,
    .validate = validate,
    .plan = plan_on_cpu,
    .check_inputs = backward_check_inputs,
    .run = backward_run,
    .npu = &backward_npu_binding,
};
