// aclnnMm on the emulated device: the plainest code, one sum after the other.
#include "kernels/emulated_device.h"

enum { SELF, MAT2, OUT, CUBE_MATH_TYPE, ARGUMENTS };

#define PARAM_NULLPTR 161001
#define PARAM_INVALID 161002
#define FORMAT_NUMBER_ND 2
#define CUBE_MATH_TYPE_MAX 4

static const char *const names[] = {"self", "mat2", "out"};

static int32_t check_matrix(const struct emulated_call *call, size_t argument) {
  const struct emulated_tensor *tensor = call->tensors[argument];
  if (tensor == NULL) {
    return emulated_refuse(PARAM_NULLPTR, "%s is a null pointer", names[argument]);
  }
  if (tensor->data_type != DATA_TYPE_FLOAT && tensor->data_type != DATA_TYPE_FLOAT16 &&
      tensor->data_type != DATA_TYPE_BF16) {
    return emulated_refuse(PARAM_INVALID, "%s is %s, not float32, float16 or bfloat16", names[argument],
                           data_type_name(tensor->data_type));
  }
  if (tensor->format != FORMAT_NUMBER_ND) {
    return emulated_refuse(PARAM_INVALID, "%s has format %d, not ND", names[argument], tensor->format);
  }
  if (tensor->rank != 2) {
    return emulated_refuse(PARAM_INVALID, "%s has rank %zu, not 2", names[argument], tensor->rank);
  }
  if (emulated_tensor_elements(tensor) < 0) {
    return emulated_refuse(PARAM_INVALID, "the shape of %s is impossible", names[argument]);
  }
  return 0;
}

static int32_t check_product(const struct emulated_call *call) {
  const struct emulated_tensor *self = call->tensors[SELF];
  const struct emulated_tensor *mat2 = call->tensors[MAT2];
  const struct emulated_tensor *out = call->tensors[OUT];
  enum data_type type = self->data_type == mat2->data_type ? self->data_type : DATA_TYPE_FLOAT;
  bool widened = call->profile != EMULATED_PROFILE_A2 && out->data_type == DATA_TYPE_FLOAT;
  if (out->data_type != type && !widened) {
    return emulated_refuse(PARAM_INVALID, "out is %s, the product %s", data_type_name(out->data_type),
                           data_type_name(type));
  }
  if (self->shape[1] != mat2->shape[0] || out->shape[0] != self->shape[0] ||
      out->shape[1] != mat2->shape[1]) {
    return emulated_refuse(PARAM_INVALID, "the shapes are not those of a product");
  }
  if (call->integers[CUBE_MATH_TYPE] < 0 || call->integers[CUBE_MATH_TYPE] > CUBE_MATH_TYPE_MAX) {
    return emulated_refuse(PARAM_INVALID, "cubeMathType is %lld", (long long)call->integers[CUBE_MATH_TYPE]);
  }
  return 0;
}

static int32_t check(const struct emulated_call *call) {
  for (size_t argument = SELF; argument <= OUT; argument++) {
    int32_t status = check_matrix(call, argument);
    if (status != 0) {
      return status;
    }
  }
  return check_product(call);
}

static uint64_t workspace_bytes(const struct emulated_call *call) {
  (void)call;
  return 0;
}

static int64_t element_of(const struct emulated_tensor *tensor, int64_t row, int64_t column) {
  return tensor->storage_offset + row * tensor->strides[0] + column * tensor->strides[1];
}

static void compute(struct emulated_kernel *kernel) {
  const struct emulated_tensor *self = kernel->call->tensors[SELF];
  const struct emulated_tensor *mat2 = kernel->call->tensors[MAT2];
  const struct emulated_tensor *out = kernel->call->tensors[OUT];
  for (int64_t row = 0; row < out->shape[0] && kernel->fault[0] == '\0'; row++) {
    for (int64_t column = 0; column < out->shape[1]; column++) {
      float sum = 0;
      for (int64_t i = 0; i < self->shape[1]; i++) {
        sum += (float)emulated_read(kernel, SELF, element_of(self, row, i)) *
               (float)emulated_read(kernel, MAT2, element_of(mat2, i, column));
      }
      emulated_write(kernel, OUT, element_of(out, row, column), sum);
    }
  }
}

static const struct emulated_operator definition = {
    .name = "aclnnMm",
    .arguments = {EMULATED_INPUT, EMULATED_INPUT, EMULATED_OUTPUT, EMULATED_INTEGER},
    .argument_names = {"self", "mat2", "out", "cubeMathType"},
    .argument_count = ARGUMENTS,
    .check = check,
    .workspace_bytes = workspace_bytes,
    .compute = compute,
};

int32_t aclnnMmGetWorkspaceSize(const struct aclTensor *self, const struct aclTensor *mat2,
                                struct aclTensor *out, int8_t cube_math_type, uint64_t *workspace_size,
                                struct aclOpExecutor **executor);
int32_t aclnnMm(void *workspace, uint64_t workspace_size, struct aclOpExecutor *executor, void *stream);

int32_t aclnnMmGetWorkspaceSize(const struct aclTensor *self, const struct aclTensor *mat2,
                                struct aclTensor *out, int8_t cube_math_type, uint64_t *workspace_size,
                                struct aclOpExecutor **executor) {
  const union emulated_argument arguments[ARGUMENTS] = {
      {.tensor = self}, {.tensor = mat2}, {.tensor = out}, {.integer = cube_math_type}};
  return emulated_plan(&definition, arguments, workspace_size, executor);
}

int32_t aclnnMm(void *workspace, uint64_t workspace_size, struct aclOpExecutor *executor, void *stream) {
  return emulated_launch(&definition, workspace, workspace_size, executor, stream);
}
