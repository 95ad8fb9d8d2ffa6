// aclnnAdaptiveMaxPool2d on the emulated device: the plainest code. All profiles give the same bits; they
// differ in what phase 1 lets pass.
#include "kernels/emulated_device.h"

#include <math.h>

enum { SELF, OUTPUT_SIZE, OUTPUT_OUT, INDICES_OUT, ARGUMENTS };

#define PARAM_NULLPTR 161001
#define PARAM_INVALID 161002

static const char *const names[ARGUMENTS] = {"self", "outputSize", "outputOut", "indicesOut"};
static const size_t tensor_arguments[] = {SELF, OUTPUT_OUT, INDICES_OUT};
#define TENSOR_ARGUMENTS (sizeof tensor_arguments / sizeof tensor_arguments[0])

// Which of a tensor's dims is what; batch is meant only in rank 4.
struct axes {
  size_t batch, channels, rows, columns;
};

static struct axes axes_of(const struct emulated_tensor *tensor) {
  size_t first = tensor->rank - 3;
  if (tensor->format == EMULATED_FORMAT_NHWC) {
    return (struct axes){0, first + 2, first, first + 1};
  }
  return (struct axes){0, first, first + 1, first + 2};
}

static int32_t check_data_types(const struct emulated_call *call) {
  enum data_type type = call->tensors[SELF]->data_type;
  enum data_type index_type = call->tensors[INDICES_OUT]->data_type;
  if (type != DATA_TYPE_FLOAT && type != DATA_TYPE_FLOAT16 && type != DATA_TYPE_BF16 &&
      type != DATA_TYPE_DOUBLE) {
    return emulated_refuse(PARAM_INVALID, "self is %s, not float32, float16, bfloat16 or float64",
                           data_type_name(type));
  }
  if (call->tensors[OUTPUT_OUT]->data_type != type) {
    return emulated_refuse(PARAM_INVALID, "self is %s, outputOut is not", data_type_name(type));
  }
  bool narrow = call->profile == EMULATED_PROFILE_EXACT && index_type == DATA_TYPE_INT32;
  if (index_type != DATA_TYPE_INT64 && !narrow) {
    return emulated_refuse(PARAM_INVALID, "indicesOut is %s, not int64", data_type_name(index_type));
  }
  return 0;
}

static int32_t check_formats(const struct emulated_call *call) {
  const struct emulated_tensor *self = call->tensors[SELF];
  for (size_t i = 0; i < TENSOR_ARGUMENTS; i++) {
    if (call->tensors[tensor_arguments[i]]->format != self->format) {
      return emulated_refuse(PARAM_INVALID, "%s has format %d, self has %d", names[tensor_arguments[i]],
                             call->tensors[tensor_arguments[i]]->format, self->format);
    }
  }
  if (self->format != EMULATED_FORMAT_NCHW && self->format != EMULATED_FORMAT_NHWC &&
      self->format != EMULATED_FORMAT_NCL) {
    return emulated_refuse(PARAM_INVALID, "format %d is not NCHW, NHWC or NCL", self->format);
  }
  return 0;
}

static int32_t check_shapes(const struct emulated_call *call) {
  const struct emulated_tensor *self = call->tensors[SELF];
  const struct emulated_int_array *size = call->int_arrays[OUTPUT_SIZE];
  if (self->rank != 3 && self->rank != 4) {
    return emulated_refuse(PARAM_INVALID, "self has rank %zu, neither 3 nor 4", self->rank);
  }
  if (size->count != 2 || size->values[0] <= 0 || size->values[1] <= 0) {
    return emulated_refuse(PARAM_INVALID, "outputSize is not two positive numbers");
  }
  for (size_t i = 0; i < self->rank; i++) {
    if (self->shape[i] < 0 || (self->shape[i] == 0 && i > 0)) {
      return emulated_refuse(PARAM_INVALID, "dim %zu of self is %lld", i, (long long)self->shape[i]);
    }
  }
  struct emulated_tensor expected = *self;
  expected.shape[axes_of(self).rows] = size->values[0];
  expected.shape[axes_of(self).columns] = size->values[1];
  for (size_t i = 1; i < TENSOR_ARGUMENTS; i++) {
    if (!emulated_tensor_same_shape(call->tensors[tensor_arguments[i]], &expected)) {
      return emulated_refuse(PARAM_INVALID, "%s has another shape than self and outputSize give",
                             names[tensor_arguments[i]]);
    }
  }
  if (emulated_tensor_elements(self) < 0 || emulated_tensor_elements(&expected) < 0) {
    return emulated_refuse(PARAM_INVALID, "the shapes are too large");
  }
  return 0;
}

static int32_t check(const struct emulated_call *call) {
  for (size_t i = 0; i < ARGUMENTS; i++) {
    if (i == OUTPUT_SIZE ? call->int_arrays[i] == NULL : call->tensors[i] == NULL) {
      return emulated_refuse(PARAM_NULLPTR, "%s is a null pointer", names[i]);
    }
  }
  int32_t status = check_data_types(call);
  if (status == 0) {
    status = check_formats(call);
  }
  if (status == 0) {
    status = check_shapes(call);
  }
  return status;
}

// The device's narrow indices, before they are widened.
static uint64_t workspace_bytes(const struct emulated_call *call) {
  return emulated_byte_count(emulated_tensor_elements(call->tensors[OUTPUT_OUT]), sizeof(int32_t));
}

// Strides by meaning.
struct layout {
  int64_t offset, batch, channel, row, column;
};

static struct layout layout_of(const struct emulated_tensor *tensor) {
  struct axes axes = axes_of(tensor);
  return (struct layout){.offset = tensor->storage_offset,
                         .batch = tensor->rank == 4 ? tensor->strides[axes.batch] : 0,
                         .channel = tensor->strides[axes.channels],
                         .row = tensor->strides[axes.rows],
                         .column = tensor->strides[axes.columns]};
}

static int64_t element_of(const struct layout *layout, int64_t batch, int64_t channel, int64_t row,
                          int64_t column) {
  return layout->offset + batch * layout->batch + channel * layout->channel + row * layout->row +
         column * layout->column;
}

struct run {
  struct emulated_kernel *kernel;
  int64_t rows, columns, output_rows, output_columns;
  struct layout self, output, indices;
};

static int64_t window_begin(int64_t window, int64_t input, int64_t output) {
  return (int64_t)((__int128)window * input / output);
}

static int64_t window_end(int64_t window, int64_t input, int64_t output) {
  __int128 scaled = (__int128)(window + 1) * input;
  return (int64_t)(scaled / output + (scaled % output != 0));
}

static void compute_window(const struct run *run, int64_t batch, int64_t channel, int64_t row,
                           int64_t column) {
  struct emulated_kernel *kernel = run->kernel;
  int64_t row_end = window_end(row, run->rows, run->output_rows);
  int64_t column_begin = window_begin(column, run->columns, run->output_columns);
  int64_t column_end = window_end(column, run->columns, run->output_columns);
  int64_t best_row = window_begin(row, run->rows, run->output_rows), best_column = column_begin;
  double best = -INFINITY;
  for (int64_t y = best_row; y < row_end; y++) {
    for (int64_t x = column_begin; x < column_end; x++) {
      double value = emulated_read(kernel, SELF, element_of(&run->self, batch, channel, y, x));
      if (value > best || isnan(value)) {
        best = value;
        best_row = y;
        best_column = x;
      }
    }
  }
  emulated_copy(kernel, OUTPUT_OUT, element_of(&run->output, batch, channel, row, column), SELF,
                element_of(&run->self, batch, channel, best_row, best_column));
  emulated_write_integer(kernel, INDICES_OUT, element_of(&run->indices, batch, channel, row, column),
                         best_row * run->columns + best_column);
}

static void compute(struct emulated_kernel *kernel) {
  const struct emulated_tensor *self = kernel->call->tensors[SELF];
  struct axes axes = axes_of(self);
  const int64_t *size = kernel->call->int_arrays[OUTPUT_SIZE]->values;
  struct run run = {.kernel = kernel,
                    .rows = self->shape[axes.rows],
                    .columns = self->shape[axes.columns],
                    .output_rows = size[0],
                    .output_columns = size[1],
                    .self = layout_of(self),
                    .output = layout_of(kernel->call->tensors[OUTPUT_OUT]),
                    .indices = layout_of(kernel->call->tensors[INDICES_OUT])};
  int64_t planes = self->shape[axes.channels] * (self->rank == 4 ? self->shape[axes.batch] : 1);
  for (int64_t plane = 0; plane < planes && kernel->fault[0] == '\0'; plane++) {
    int64_t batch = plane / self->shape[axes.channels], channel = plane % self->shape[axes.channels];
    for (int64_t flat = 0; flat < size[0] * size[1]; flat++) {
      compute_window(&run, batch, channel, flat / size[1], flat % size[1]);
    }
  }
}

static const struct emulated_operator definition = {
    .name = "aclnnAdaptiveMaxPool2d",
    .arguments = {EMULATED_INPUT, EMULATED_INT_ARRAY, EMULATED_OUTPUT, EMULATED_OUTPUT},
    .argument_names = {"self", "outputSize", "outputOut", "indicesOut"},
    .argument_count = ARGUMENTS,
    .check = check,
    .workspace_bytes = workspace_bytes,
    .compute = compute,
};

int32_t aclnnAdaptiveMaxPool2dGetWorkspaceSize(const struct aclTensor *self,
                                               const struct aclIntArray *output_size,
                                               struct aclTensor *output_out, struct aclTensor *indices_out,
                                               uint64_t *workspace_size, struct aclOpExecutor **executor);
int32_t aclnnAdaptiveMaxPool2d(void *workspace, uint64_t workspace_size, struct aclOpExecutor *executor,
                               void *stream);

int32_t aclnnAdaptiveMaxPool2dGetWorkspaceSize(const struct aclTensor *self,
                                               const struct aclIntArray *output_size,
                                               struct aclTensor *output_out, struct aclTensor *indices_out,
                                               uint64_t *workspace_size, struct aclOpExecutor **executor) {
  const union emulated_argument arguments[ARGUMENTS] = {
      {.tensor = self}, {.int_array = output_size}, {.tensor = output_out}, {.tensor = indices_out}};
  return emulated_plan(&definition, arguments, workspace_size, executor);
}

int32_t aclnnAdaptiveMaxPool2d(void *workspace, uint64_t workspace_size, struct aclOpExecutor *executor,
                               void *stream) {
  return emulated_launch(&definition, workspace, workspace_size, executor, stream);
}
