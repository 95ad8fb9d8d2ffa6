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

// Whole cache lines of bytes, and their number of floats.
static int64_t whole_lines(int64_t bytes) {
  return (bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

static int64_t whole_line_floats(int64_t floats) {
  return whole_lines(floats * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
}

static bool is_dense(const struct plan *plan, const struct backward_plan *backward) {
  static const size_t tensors[] = {BACKWARD_GRAD_OUTPUT, BACKWARD_INDICES, BACKWARD_GRAD_INPUT};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
    if (!tensor_desc_is_contiguous(&plan->arguments.values[tensors[i]].tensor)) {
      return false;
    }
  }
  if (backward->ranges_per_plane > 1) {
    return backward->grad_input.columns <= BACKWARD_RANGE_ELEMENTS &&
           backward->grad_output.columns <= OPERATOR_RUN_CANCEL_ELEMENTS;
  }
  return backward->grad_output.rows * backward->grad_output.columns <= OPERATOR_RUN_CANCEL_ELEMENTS;
}

static int64_t wanted_unit_elements(int64_t elements, int64_t value_bytes) {
  int64_t part = elements / BACKWARD_UNITS_WANTED;
  if (part <= BACKWARD_UNIT_ELEMENTS || elements * value_bytes > BACKWARD_UNIT_BYTES_LARGE) {
    return BACKWARD_UNIT_ELEMENTS;
  }
  int64_t most = BACKWARD_UNIT_BYTES_MAX / value_bytes;
  return part < most ? part : most;
}

// How many planes make about that many elements: at least one, and no more than there are.
static int64_t planes_in(int64_t elements, int64_t plane_elements, int64_t planes) {
  int64_t wanted = elements > plane_elements ? elements / plane_elements : 1;
  return wanted < planes ? wanted : planes;
}

// As many rows as a range has or, of 16 bits, as much as a unit of planes.
static int64_t wanted_band_rows(const struct backward_plan *backward, int64_t value_bytes) {
  const struct plane_view *grad_input = &backward->grad_input;
  int64_t rows = (backward->range_elements + grad_input->columns - 1) / grad_input->columns;
  if (value_bytes == sizeof(float)) {
    return rows;
  }
  int64_t longer = BACKWARD_UNIT_BYTES_MAX / value_bytes / grad_input->columns;
  int64_t most = grad_input->planes * grad_input->rows / BACKWARD_UNITS_WANTED;
  longer = longer < most ? longer : most;
  return rows > longer ? rows : longer;
}

// Units and scratch of a dense run; the number of units.
static int64_t plan_dense(struct backward_plan *backward, int64_t value_bytes) {
  int64_t planes = backward->grad_input.planes;
  int64_t plane_elements = backward->grad_input.rows * backward->grad_input.columns;
  int64_t plane_gradients = backward->grad_output.rows * backward->grad_output.columns;
  int64_t units, piece_elements;
  if (backward->ranges_per_plane > 1) {
    backward->band_rows = wanted_band_rows(backward, value_bytes);
    backward->bands_per_plane = (backward->grad_input.rows + backward->band_rows - 1) / backward->band_rows;
    units = planes * backward->ranges_per_plane; // as many as there are when all of them look at everything
    piece_elements = BACKWARD_RANGE_ELEMENTS;
  } else {
    int64_t larger = plane_gradients > plane_elements ? plane_gradients : plane_elements;
    int64_t unit_elements = wanted_unit_elements(planes * plane_elements, value_bytes);
    backward->unit_planes = planes_in(unit_elements, larger, planes);
    backward->stream_planes = planes_in(BACKWARD_UNIT_ELEMENTS, larger, backward->unit_planes);
    units = (planes + backward->unit_planes - 1) / backward->unit_planes;
    piece_elements = backward->stream_planes * plane_elements;
  }
  // What is written past the caches is formed in a scratch, of floats as sums and otherwise in the stage.
  bool may_stream = planes * plane_elements * value_bytes > BACKWARD_STREAM_BYTES_MIN &&
                    (backward->bands_per_plane == 0 || value_bytes == sizeof(float));
  int64_t streamed_bytes = may_stream ? piece_elements * value_bytes + TENSOR_ALIGNMENT : 0;
  int64_t gradients = planes * plane_gradients;
  gradients = gradients < BACKWARD_PULL_GRADIENTS ? gradients : BACKWARD_PULL_GRADIENTS;
  backward->stage_gradients = whole_line_floats(gradients + BACKWARD_PULL_REACH);
  backward->stage_bytes = backward->stage_gradients * (int64_t)(sizeof(int32_t) + sizeof(float));
  if (value_bytes == sizeof(float)) {
    backward->slot_floats = whole_lines(streamed_bytes) / (int64_t)sizeof(float);
  } else {
    if (backward->stage_bytes < streamed_bytes) {
      backward->stage_bytes = whole_lines(streamed_bytes);
    }
    int64_t entries = planes * plane_gradients + 2 * backward->grad_output.columns + BACKWARD_PULL_REACH;
    int64_t combine_floats = whole_line_floats(3 * entries);
    combine_floats = combine_floats < BACKWARD_COMBINE_FLOATS ? combine_floats : BACKWARD_COMBINE_FLOATS;
    bool may_combine = backward->grad_output.rows >= BACKWARD_COMBINE_OUTPUTS_MIN &&
                       backward->grad_output.columns >= BACKWARD_COMBINE_OUTPUTS_MIN;
    if (may_combine && backward->slot_floats < combine_floats) {
      backward->slot_floats = combine_floats;
    }
  }
  return units;
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
    backward->slot_floats = whole_line_floats(backward->range_elements);
  }
  int64_t units = backward->grad_input.planes * backward->ranges_per_plane;
  backward->dense = is_dense(plan, backward);
  if (backward->dense) {
    units = plan_dense(backward, (int64_t)data_type_bytes(grad_input->data_type));
  }
  plan->workspace_bytes = operator_run_slots((size_t)units) * (uint64_t)backward_slot_bytes(backward);
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
