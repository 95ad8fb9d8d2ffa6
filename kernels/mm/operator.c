#include "kernels/mm/mm.h"
#include "kernels/mm/npu.h"
#include "kernels/mm/plan.h"
#include "kernels/operator_checks.h"

#define MM_DATA_TYPES (DATA_TYPE_BIT(FLOAT) | DATA_TYPE_BIT(FLOAT16) | DATA_TYPE_BIT(BF16))

// About so many products take as long as looking at one element elsewhere.
#define PRODUCTS_PER_ELEMENT 16

#define MATRIX(name_, direction_)                                                                            \
  {                                                                                                          \
    .name = (name_), .kind = PARAMETER_KIND_TENSOR, .direction = (direction_), .data_types = MM_DATA_TYPES,  \
    .ranks = RANK_BIT(2),                                                                                    \
  }

static const struct operator_parameter parameters[MM_PARAMETERS] = {
    [MM_SELF] = MATRIX("self", DIRECTION_INPUT),
    [MM_MAT2] = MATRIX("mat2", DIRECTION_INPUT),
    [MM_OUT] = MATRIX("out", DIRECTION_OUTPUT),
    [MM_CUBE_MATH_TYPE] =
        {
            .name = "cubeMathType",
            .kind = PARAMETER_KIND_INTEGER,
            .direction = DIRECTION_INPUT,
        },
};

// The type in which the product is meant: that of both, or the wider one. The 16-bit types have only fp32 in
// common.
static enum data_type product_type(const struct operator_arguments *arguments) {
  enum data_type self = arguments->values[MM_SELF].tensor.data_type;
  enum data_type mat2 = arguments->values[MM_MAT2].tensor.data_type;
  return self == mat2 ? self : DATA_TYPE_FLOAT;
}

static bool infer(struct operator_arguments *arguments, struct status *status) {
  struct tensor_desc *out = &arguments->values[MM_OUT].tensor;
  struct named_tensor self = operator_checks_tensor(parameters, arguments, MM_SELF);
  struct named_tensor mat2 = operator_checks_tensor(parameters, arguments, MM_MAT2);
  if (!tensor_desc_is_unspecified(out)) {
    return true;
  }
  if (!operator_checks_rank(self, status) || !operator_checks_rank(mat2, status)) {
    return false;
  }
  *out = tensor_desc_like(self.desc);
  out->data_type = product_type(arguments);
  out->shape[1] = mat2.desc->shape[1];
  return true;
}

// out may always take the sums as they are formed.
static bool check_out_type(const struct operator_arguments *arguments, struct status *status) {
  struct named_tensor out = operator_checks_tensor(parameters, arguments, MM_OUT);
  enum data_type expected = product_type(arguments);
  if (out.desc->data_type == expected || out.desc->data_type == DATA_TYPE_FLOAT) {
    return true;
  }
  return status_fail(
      status, REASON_ACLNN_ERR_PARAM_INVALID, out.parameter->name,
      "data type %s of out must be that of the product of self and mat2, which is %s, or float32",
      data_type_name(out.desc->data_type), data_type_name(expected));
}

static bool check_format(struct named_tensor matrix, struct status *status) {
  return matrix.desc->format == FORMAT_ND ||
         status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, matrix.parameter->name,
                     "format %s of %s is not supported, a matrix has ND", format_name(matrix.desc->format),
                     matrix.parameter->name);
}

static bool check_shapes(const struct operator_arguments *arguments, struct status *status) {
  struct named_tensor self = operator_checks_tensor(parameters, arguments, MM_SELF);
  struct named_tensor mat2 = operator_checks_tensor(parameters, arguments, MM_MAT2);
  struct named_tensor out = operator_checks_tensor(parameters, arguments, MM_OUT);
  if (mat2.desc->shape[0] != self.desc->shape[1]) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "mat2",
                       "mat2 has %lld rows, it must have as many as self has columns: %lld",
                       (long long)mat2.desc->shape[0], (long long)self.desc->shape[1]);
  }
  struct tensor_desc expected = tensor_desc_like(self.desc);
  expected.shape[1] = mat2.desc->shape[1];
  static const struct operator_parameter source = {.name = "the product of self and mat2"};
  if (!operator_checks_same_shape(out, (struct named_tensor){&source, &expected}, status)) {
    return false;
  }
  for (size_t position = MM_SELF; position <= MM_OUT; position++) {
    struct named_tensor matrix = operator_checks_tensor(parameters, arguments, position);
    for (size_t dim = 0; dim < 2; dim++) {
      if (matrix.desc->shape[dim] > MM_DIM_MAX) {
        return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, matrix.parameter->name,
                           "dimension %zu of %s is %lld, it must be at most %lld", dim,
                           matrix.parameter->name, (long long)matrix.desc->shape[dim], (long long)MM_DIM_MAX);
      }
    }
  }
  return true;
}

// As on A2 and A3, which document the most: USE_FP16 isn't for bfloat16, USE_HF32 is for float32 alone.
static bool check_cube_math_type(const struct operator_arguments *arguments, struct status *status) {
  int64_t value = arguments->values[MM_CUBE_MATH_TYPE].integer;
  enum data_type type = product_type(arguments);
  const char *name = parameters[MM_CUBE_MATH_TYPE].name;
  if (value < 0 || value >= MM_CUBE_MATH_TYPES) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name, "%s is %lld, allowed are 0 to %d", name,
                       (long long)value, MM_CUBE_MATH_TYPES - 1);
  }
  if ((value == MM_USE_FP16 && type == DATA_TYPE_BF16) || (value == MM_USE_HF32 && type != DATA_TYPE_FLOAT)) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s %lld is not for a product of type %s", name, (long long)value,
                       data_type_name(type));
  }
  return true;
}

static bool validate(const struct operator_arguments *arguments, struct status *status) {
  for (size_t position = MM_SELF; position <= MM_OUT; position++) {
    struct named_tensor matrix = operator_checks_tensor(parameters, arguments, position);
    if (!operator_checks_data_type(matrix, status) || !check_format(matrix, status) ||
        !operator_checks_rank(matrix, status)) {
      return false;
    }
  }
  return check_out_type(arguments, status) && check_shapes(arguments, status) &&
         check_cube_math_type(arguments, status);
}

// Lines are what lies denser.
static struct mm_matrix describe(const struct tensor_desc *desc, bool may_be_transposed) {
  bool transposed = may_be_transposed && desc->strides[0] < desc->strides[1];
  size_t line = transposed ? 1 : 0;
  struct mm_matrix matrix = {.lines = desc->shape[line],
                             .length = desc->shape[1 - line],
                             .offset = desc->storage_offset,
                             .line_stride = desc->strides[line],
                             .element_stride = desc->strides[1 - line],
                             .transposed = transposed};
  matrix.direct = desc->data_type == DATA_TYPE_FLOAT && matrix.element_stride == 1 &&
                  matrix.line_stride >= matrix.length && matrix.line_stride <= MM_DIM_MAX;
  return matrix;
}

static bool add_copy(struct plan *plan, struct mm_matrix *matrix, struct status *status) {
  uint64_t bytes;
  uint64_t end;
  if (matrix->direct) {
    return true;
  }
  if (__builtin_mul_overflow((uint64_t)matrix->lines * sizeof(float), (uint64_t)matrix->length, &bytes) ||
      __builtin_add_overflow(plan->workspace_bytes, bytes, &end) || end > INT64_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                       "the matrices as float32 need more memory than can be addressed");
  }
  matrix->workspace_byte = plan->workspace_bytes;
  plan->workspace_bytes = (end + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  return true;
}

static uint64_t saturating_product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static bool plan_on_cpu(struct plan *plan, struct status *status) {
  _Static_assert(sizeof(struct mm_plan) <= PLAN_PRIVATE_BYTES, "the plan's private part is too small");
  const struct argument_value *values = plan->arguments.values;
  struct mm_plan *product = (struct mm_plan *)plan->private_data;
  *product = (struct mm_plan){
      .rows = values[MM_SELF].tensor.shape[0],
      .columns = values[MM_MAT2].tensor.shape[1],
      .inner = values[MM_SELF].tensor.shape[1],
      .self = describe(&values[MM_SELF].tensor, true),
      .mat2 = describe(&values[MM_MAT2].tensor, true),
      .out = describe(&values[MM_OUT].tensor, false),
  };
  plan->workspace_bytes = 0;
  uint64_t out = saturating_product((uint64_t)product->rows, (uint64_t)product->columns);
  uint64_t products = saturating_product(out, (uint64_t)product->inner) / PRODUCTS_PER_ELEMENT;
  plan->work_elements = products > UINT64_MAX - out ? UINT64_MAX : products + out;
  if (plan->empty) {
    return true;
  }
  return add_copy(plan, &product->self, status) && add_copy(plan, &product->mat2, status) &&
         add_copy(plan, &product->out, status);
}

// No value of a matrix is wrong.
static bool check_inputs(const struct operator_run *run, struct status *status) {
  (void)run;
  (void)status;
  return true;
}

const struct operator_definition mm = {
    .name = "aclnnMm",
    .parameters = parameters,
    .parameter_count = MM_PARAMETERS,
    .infer = infer,
    .validate = validate,
    .plan = plan_on_cpu,
    .check_inputs = check_inputs,
    .run = mm_run,
    .npu = &mm_npu_binding,
};
