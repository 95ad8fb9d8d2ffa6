// aclnnAdaptiveMaxPool2dBackward on the emulated device: the plainest code that has each device's bits.
#include "kernels/emulated_device.h"

#include <string.h>

enum { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT, ARGUMENTS };

#define PARAM_NULLPTR 161001
#define PARAM_INVALID 161002
#define INNER_NULLPTR 561103
// Formats from here on, and those below that aren't listed in is_private, are plain ones.
#define FORMAT_FRACTAL_NZ_C0_FIRST 50

static const char *const names[ARGUMENTS] = {"gradOutput", "self", "indices", "gradInput"};

static bool is_private(int32_t format) {
  static const int32_t formats[] = {3, 4, 12, 29, 32, 33};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    if (format == formats[i]) {
      return true;
    }
  }
  return format >= FORMAT_FRACTAL_NZ_C0_FIRST;
}

static int32_t check_data_types(const struct emulated_call *call) {
  enum data_type type = call->tensors[SELF]->data_type;
  enum data_type index_type = call->tensors[INDICES]->data_type;
  if (type != call->tensors[GRAD_OUTPUT]->data_type) {
    return emulated_refuse(PARAM_INVALID, "self is %s, gradOutput is not", data_type_name(type));
  }
  if (type != call->tensors[GRAD_INPUT]->data_type) {
    return emulated_refuse(PARAM_INVALID, "self is %s, gradInput is not", data_type_name(type));
  }
  if (type != DATA_TYPE_BF16 && type != DATA_TYPE_FLOAT16 && type != DATA_TYPE_FLOAT) {
    return emulated_refuse(PARAM_INVALID, "self is %s, not bfloat16, float16 or float32",
                           data_type_name(type));
  }
  if (index_type != DATA_TYPE_INT32 && index_type != DATA_TYPE_INT64) {
    return emulated_refuse(PARAM_INVALID, "indices are %s, not int32 or int64", data_type_name(index_type));
  }
  return 0;
}

static int32_t check_shapes(const struct emulated_call *call) {
  const struct emulated_tensor *const *tensors = call->tensors;
  for (size_t i = 0; i < ARGUMENTS; i++) {
    if (tensors[i]->rank != tensors[SELF]->rank) {
      return emulated_refuse(PARAM_INVALID, "%s has rank %zu, self has %zu", names[i], tensors[i]->rank,
                             tensors[SELF]->rank);
    }
  }
  if (!emulated_tensor_same_shape(tensors[GRAD_OUTPUT], tensors[INDICES])) {
    return emulated_refuse(PARAM_INVALID, "gradOutput and indices differ in shape");
  }
  if (!emulated_tensor_same_shape(tensors[SELF], tensors[GRAD_INPUT])) {
    return emulated_refuse(PARAM_INVALID, "self and gradInput differ in shape");
  }
  return 0;
}

static int32_t check_formats(const struct emulated_call *call) {
  int32_t format = call->tensors[SELF]->format;
  for (size_t i = 0; i < ARGUMENTS; i++) {
    if (call->tensors[i]->format != format) {
      return emulated_refuse(PARAM_INVALID, "%s has format %d, self has %d", names[i],
                             call->tensors[i]->format, format);
    }
  }
  if (is_private(format)) {
    return emulated_refuse(PARAM_INVALID, "format %d is private", format);
  }
  size_t rank = call->tensors[SELF]->rank;
  if (rank != 3 && rank != 4) {
    return emulated_refuse(PARAM_INVALID, "rank %zu is neither 3 nor 4", rank);
  }
  return 0;
}

// Planes, rows and columns: how CANN reads any of the four whatever its format says.
struct planes {
  int64_t batch, channels, rows, columns;
  int64_t batch_stride, channel_stride, row_stride, column_stride;
  int64_t offset;
};

static struct planes planes_of(const struct emulated_tensor *tensor) {
  const int64_t *shape = tensor->shape + tensor->rank - 3;
  const int64_t *strides = tensor->strides + tensor->rank - 3;
  bool batched = tensor->rank == 4;
  return (struct planes){.batch = batched ? tensor->shape[0] : 1,
                         .channels = shape[0],
                         .rows = shape[1],
                         .columns = shape[2],
                         .batch_stride = batched ? tensor->strides[0] : 0,
                         .channel_stride = strides[0],
                         .row_stride = strides[1],
                         .column_stride = strides[2],
                         .offset = tensor->storage_offset};
}

// CANN takes another path where every window has the same size.
static bool divides(const struct planes *input, const struct planes *output) {
  return output->rows > 0 && output->columns > 0 && input->rows % output->rows == 0 &&
         input->columns % output->columns == 0;
}

static int32_t check(const struct emulated_call *call) {
  for (size_t i = 0; i < ARGUMENTS; i++) {
    if (call->tensors[i] == NULL) {
      return emulated_refuse(PARAM_NULLPTR, "%s is a null pointer", names[i]);
    }
  }
  int32_t status = check_data_types(call);
  if (status == 0) {
    status = check_shapes(call);
  }
  if (status == 0) {
    status = check_formats(call);
  }
  if (status != 0) {
    return status;
  }
  struct planes input = planes_of(call->tensors[SELF]);
  struct planes output = planes_of(call->tensors[GRAD_OUTPUT]);
  int64_t plane_elements;
  bool beyond = __builtin_mul_overflow(input.rows, input.columns, &plane_elements);
  if (call->profile != EMULATED_PROFILE_950 && (beyond || plane_elements > INT32_MAX)) {
    return emulated_refuse(PARAM_INVALID, "a plane of %lld by %lld has more than %d elements",
                           (long long)input.rows, (long long)input.columns, INT32_MAX);
  }
  int64_t elements = emulated_tensor_elements(call->tensors[SELF]);
  int64_t gradients = emulated_tensor_elements(call->tensors[GRAD_OUTPUT]);
  if (elements < 0 || gradients < 0) {
    return emulated_refuse(INNER_NULLPTR, "a dim is negative or the shapes are too large to be tiled");
  }
  if (elements == 0 || gradients == 0) {
    return 0;
  }
  // Only the tiling of the path for shapes that don't divide looks at this; the other one finds out later.
  bool differ = input.batch != output.batch || input.channels != output.channels;
  if (differ && (call->profile == EMULATED_PROFILE_950 || !divides(&input, &output))) {
    return emulated_refuse(INNER_NULLPTR, "self and gradOutput can't be tiled: N or C differ");
  }
  return 0;
}

// One plane of sums.
static uint64_t workspace_bytes(const struct emulated_call *call) {
  struct planes input = planes_of(call->tensors[SELF]);
  return emulated_byte_count(input.rows * input.columns, sizeof(float));
}

static int64_t element_of(const struct planes *planes, int64_t batch, int64_t channel, int64_t row,
                          int64_t column) {
  return planes->offset + batch * planes->batch_stride + channel * planes->channel_stride +
         row * planes->row_stride + column * planes->column_stride;
}

// What is the same for all planes of one run.
struct run {
  struct emulated_kernel *kernel;
  struct planes grad_output, indices, grad_input;
  bool divides;
  float *sums; // the workspace
};

static bool in_window(int64_t position, int64_t input, int64_t output, int64_t window) {
  int64_t begin = (int64_t)((__int128)window * input / output);
  int64_t end = (int64_t)(((__int128)(window + 1) * input + output - 1) / output);
  return position >= begin && position < end;
}

static float round_to_type(enum data_type type, float value) {
  switch (type) {
  case DATA_TYPE_FLOAT16:
    return fp16_to_float(fp16_from_float(value));
  case DATA_TYPE_BF16:
    return bf16_to_float(bf16_from_float(value));
  default:
    return value;
  }
}

// Takes the gradient at (row, column) of a plane to the place that its index names, as the profile does it.
static void scatter(const struct run *run, int64_t batch, int64_t channel, int64_t row, int64_t column) {
  struct emulated_kernel *kernel = run->kernel;
  const struct planes *input = &run->grad_input;
  enum emulated_profile profile = kernel->call->profile;
  int64_t index =
      emulated_read_integer(kernel, INDICES, element_of(&run->indices, batch, channel, row, column));
  float gradient =
      (float)emulated_read(kernel, GRAD_OUTPUT, element_of(&run->grad_output, batch, channel, row, column));
  if (profile != EMULATED_PROFILE_EXACT) {
    index = (int32_t)(uint32_t)(uint64_t)index;
  }
  if (index < 0 || index >= input->rows * input->columns) {
    emulated_fault(kernel, "index %lld lies outside of its plane of %lld by %lld", (long long)index,
                   (long long)input->rows, (long long)input->columns);
    return;
  }
  if (profile == EMULATED_PROFILE_A2) {
    // The kernel for windows that overlap computes positions in floats.
    int64_t position = run->divides ? index : (int64_t)(float)index;
    if (position >= input->rows * input->columns ||
        !in_window(position / input->columns, input->rows, run->grad_output.rows, row) ||
        !in_window(position % input->columns, input->columns, run->grad_output.columns, column)) {
      return;
    }
    run->sums[position] = run->divides ? gradient : run->sums[position] + gradient;
    return;
  }
  float sum = run->sums[index] + gradient;
  bool narrow = profile == EMULATED_PROFILE_950;
  run->sums[index] = narrow ? round_to_type(kernel->call->tensors[GRAD_OUTPUT]->data_type, sum) : sum;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x7fb5d329728ea185u;
  value = (value ^ (value >> 27)) * 0x81dadef4bc2dd44du;
  return value ^ (value >> 33);
}

// Step number `step` of a walk through all of [0, count) that begins anywhere and jumps about: atomic
// additions come in no particular order. The same seed gives the same walk.
struct walk {
  uint64_t first, jump, count;
};

static struct walk walk_make(uint64_t seed, uint64_t count, bool in_order) {
  if (in_order) {
    return (struct walk){0, 1, count};
  }
  uint64_t jump = mix(seed) % count;
  while (greatest_common_divisor(jump, count) != 1) {
    jump++;
  }
  return (struct walk){mix(seed + 1) % count, jump, count};
}

static uint64_t walk_at(const struct walk *walk, uint64_t step) {
  return (uint64_t)((walk->first + (unsigned __int128)step * walk->jump) % walk->count);
}

static void compute_plane(const struct run *run, int64_t batch, int64_t channel) {
  struct emulated_kernel *kernel = run->kernel;
  const struct planes *input = &run->grad_input, *output = &run->grad_output;
  for (int64_t i = 0; i < input->rows * input->columns; i++) {
    run->sums[i] = 0;
  }
  bool in_order = kernel->call->profile != EMULATED_PROFILE_950 || kernel->call->deterministic;
  uint64_t plane = (uint64_t)(batch * input->channels + channel);
  struct walk walk =
      walk_make(kernel->seed + plane * 2, (uint64_t)output->rows * (uint64_t)output->columns, in_order);
  for (uint64_t step = 0; step < walk.count; step++) {
    int64_t flat = (int64_t)walk_at(&walk, step);
    scatter(run, batch, channel, flat / output->columns, flat % output->columns);
  }
  for (int64_t row = 0; row < input->rows; row++) {
    for (int64_t column = 0; column < input->columns; column++) {
      emulated_write(kernel, GRAD_INPUT, element_of(input, batch, channel, row, column),
                     run->sums[row * input->columns + column]);
    }
  }
}

// A strided input is copied into a contiguous one before anything else, and so read even where only its
// shape is wanted.
static void read_strided_self(struct emulated_kernel *kernel) {
  struct planes self = planes_of(kernel->call->tensors[SELF]);
  if (!emulated_tensor_is_contiguous(kernel->call->tensors[SELF])) {
    emulated_read(kernel, SELF,
                  element_of(&self, self.batch - 1, self.channels - 1, self.rows - 1, self.columns - 1));
  }
}

static void compute(struct emulated_kernel *kernel) {
  struct run run = {.kernel = kernel,
                    .grad_output = planes_of(kernel->call->tensors[GRAD_OUTPUT]),
                    .indices = planes_of(kernel->call->tensors[INDICES]),
                    .grad_input = planes_of(kernel->call->tensors[GRAD_INPUT]),
                    .sums = (float *)(void *)kernel->workspace.bytes};
  run.divides = divides(&run.grad_input, &run.grad_output);
  read_strided_self(kernel);
  if (run.grad_output.batch != run.grad_input.batch || run.grad_output.channels != run.grad_input.channels) {
    emulated_fault(kernel, "N or C of self and gradOutput differ");
  }
  for (int64_t batch = 0; batch < run.grad_input.batch; batch++) {
    for (int64_t channel = 0; channel < run.grad_input.channels && kernel->fault[0] == '\0'; channel++) {
      compute_plane(&run, batch, channel);
    }
  }
}

static const struct emulated_operator definition = {
    .name = "aclnnAdaptiveMaxPool2dBackward",
    .arguments = {EMULATED_INPUT, EMULATED_INPUT, EMULATED_INPUT, EMULATED_OUTPUT},
    .argument_names = {"gradOutput", "self", "indices", "gradInput"},
    .argument_count = ARGUMENTS,
    .check = check,
    .workspace_bytes = workspace_bytes,
    .compute = compute,
};

int32_t aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(const struct aclTensor *grad_output,
                                                       const struct aclTensor *self,
                                                       const struct aclTensor *indices,
                                                       struct aclTensor *grad_input, uint64_t *workspace_size,
                                                       struct aclOpExecutor **executor);
int32_t aclnnAdaptiveMaxPool2dBackward(void *workspace, uint64_t workspace_size,
                                       struct aclOpExecutor *executor, void *stream);

int32_t aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(const struct aclTensor *grad_output,
                                                       const struct aclTensor *self,
                                                       const struct aclTensor *indices,
                                                       struct aclTensor *grad_input, uint64_t *workspace_size,
                                                       struct aclOpExecutor **executor) {
  const union emulated_argument arguments[ARGUMENTS] = {
      {.tensor = grad_output}, {.tensor = self}, {.tensor = indices}, {.tensor = grad_input}};
  return emulated_plan(&definition, arguments, workspace_size, executor);
}

int32_t aclnnAdaptiveMaxPool2dBackward(void *workspace, uint64_t workspace_size,
                                       struct aclOpExecutor *executor, void *stream) {
  return emulated_launch(&definition, workspace, workspace_size, executor, stream);
}
