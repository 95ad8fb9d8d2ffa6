// The backward on threads of this machine. A unit of work owns a range of one plane of gradInput, forms its
// sums in float in row-major order of gradOutput, and rounds and stores them.
//
// A plane of one range looks at all of its gradients. The ranges of a large plane look only at those rows of
// gradOutput whose windows reach into them, which is right as long as each index lies in the rows of its
// window. Where one doesn't, the whole run is done again with every range looking at everything.
#include "kernels/adaptive_max_pool2d_backward/dense.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/half.h"
#include "kernels/operator_run.h"

#include <string.h>

// Sums that are rounded together on their way to elements with a stride.
#define ROUND_AT_ONCE 256

// A run of gradients and their indices, `count` of them, each with its stride in elements.
struct gradient_span {
  const void *gradients;
  const void *indices;
  int64_t gradient_stride;
  int64_t index_stride;
  int64_t count;
};

// The sums of positions [first, first + owned) of a plane, and which positions an index may name.
struct sums {
  float *values;
  int64_t first;
  int64_t owned;
  int64_t lower;
  int64_t upper;
};

// Adds the span's gradients to the sums that they belong to; false if an index is not in [lower, upper).
typedef bool add_gradients(const struct sums *sums, struct gradient_span span);

static inline int64_t read_index(const void *indices, int64_t position, enum data_type type) {
  return type == DATA_TYPE_INT64 ? ((const int64_t *)indices)[position]
                                 : ((const int32_t *)indices)[position];
}

static inline float read_gradient(const void *gradients, int64_t position, enum data_type type) {
  switch (type) {
  case DATA_TYPE_FLOAT16:
    return fp16_to_float(((const uint16_t *)gradients)[position]);
  case DATA_TYPE_BF16:
    return bf16_to_float(((const uint16_t *)gradients)[position]);
  default:
    return ((const float *)gradients)[position];
  }
}

static inline __attribute__((always_inline)) bool add_typed(const struct sums *sums,
                                                            struct gradient_span span,
                                                            enum data_type value_type,
                                                            enum data_type index_type) {
  // Differences wrap in unsigned arithmetic, so that one comparison tests both ends.
  uint64_t lower = (uint64_t)sums->lower;
  uint64_t allowed = (uint64_t)sums->upper - lower;
  uint64_t first = (uint64_t)sums->first;
  uint64_t owned = (uint64_t)sums->owned;
  bool all_allowed = true;
  for (int64_t i = 0; i < span.count; i++) {
    uint64_t index = (uint64_t)read_index(span.indices, i * span.index_stride, index_type);
    all_allowed &= index - lower < allowed;
    if (index - first < owned) {
      sums->values[index - first] += read_gradient(span.gradients, i * span.gradient_stride, value_type);
    }
  }
  return all_allowed;
}

// One function for each pair of types, with and without strides.
#define ADD_GRADIENTS(name, value_type, index_type)                                                          \
  static bool add_##name(const struct sums *sums, struct gradient_span span) {                               \
    if (span.gradient_stride == 1 && span.index_stride == 1) {                                               \
      span.gradient_stride = 1;                                                                              \
      span.index_stride = 1;                                                                                 \
      return add_typed(sums, span, value_type, index_type);                                                  \
    }                                                                                                        \
    return add_typed(sums, span, value_type, index_type);                                                    \
  }
ADD_GRADIENTS(fp32_int32, DATA_TYPE_FLOAT, DATA_TYPE_INT32)
ADD_GRADIENTS(fp32_int64, DATA_TYPE_FLOAT, DATA_TYPE_INT64)
ADD_GRADIENTS(fp16_int32, DATA_TYPE_FLOAT16, DATA_TYPE_INT32)
ADD_GRADIENTS(fp16_int64, DATA_TYPE_FLOAT16, DATA_TYPE_INT64)
ADD_GRADIENTS(bf16_int32, DATA_TYPE_BF16, DATA_TYPE_INT32)
ADD_GRADIENTS(bf16_int64, DATA_TYPE_BF16, DATA_TYPE_INT64)
#undef ADD_GRADIENTS

static add_gradients *choose_add(enum data_type value_type, enum data_type index_type) {
  bool wide = index_type == DATA_TYPE_INT64;
  switch (value_type) {
  case DATA_TYPE_FLOAT16:
    return wide ? add_fp16_int64 : add_fp16_int32;
  case DATA_TYPE_BF16:
    return wide ? add_bf16_int64 : add_bf16_int32;
  default:
    return wide ? add_fp32_int64 : add_fp32_int32;
  }
}

struct backward_job {
  const struct operator_run *run;
  const struct backward_plan *plan;
  enum data_type value_type;
  int64_t value_bytes;
  int64_t index_bytes;
  add_gradients *add;
  bool ranges_read_all;
  atomic_bool refused; // an index is not where its unit expects it
};

static unsigned char *storage_at(const struct backward_job *job, size_t parameter, int64_t byte) {
  return (unsigned char *)job->run->storages[parameter] + byte;
}

static bool is_over(const struct backward_job *job) {
  return operator_run_is_cancelled(job->run) || atomic_load_explicit(&job->refused, memory_order_relaxed);
}

// Adds `count` gradients of the row or plane that begins at these element offsets; false if an index is not
// allowed, or once the attempt is over anyway.
static bool add_line(const struct backward_job *job, const struct sums *sums, int64_t gradient_offset,
                     int64_t index_offset, int64_t count) {
  struct gradient_span span = {
      .gradient_stride = job->plan->grad_output.column_stride,
      .index_stride = job->plan->indices.column_stride,
  };
  for (int64_t begin = 0; begin < count; begin += span.count) {
    int64_t gradient = gradient_offset + begin * span.gradient_stride;
    int64_t index = index_offset + begin * span.index_stride;
    span.gradients = storage_at(job, BACKWARD_GRAD_OUTPUT, gradient * job->value_bytes);
    span.indices = storage_at(job, BACKWARD_INDICES, index * job->index_bytes);
    span.count = count - begin < OPERATOR_RUN_CANCEL_ELEMENTS ? count - begin : OPERATOR_RUN_CANCEL_ELEMENTS;
    if (is_over(job) || !job->add(sums, span)) {
      return false;
    }
  }
  return true;
}

// Adds all gradients of a plane.
static bool add_plane(const struct backward_job *job, const struct sums *sums, int64_t plane) {
  const struct plane_view *grad_output = &job->plan->grad_output;
  const struct plane_view *indices = &job->plan->indices;
  int64_t gradient_offset = plane_view_offset(grad_output, plane);
  int64_t index_offset = plane_view_offset(indices, plane);
  if (plane_view_is_dense(grad_output) && plane_view_is_dense(indices)) {
    return add_line(job, sums, gradient_offset, index_offset, grad_output->rows * grad_output->columns);
  }
  bool all_allowed = true;
  for (int64_t row = 0; row < grad_output->rows && all_allowed; row++) {
    all_allowed = add_line(job, sums, gradient_offset + row * grad_output->row_stride,
                           index_offset + row * indices->row_stride, grad_output->columns);
  }
  return all_allowed;
}

// Adds the gradients whose windows reach into the range of the sums, and makes sure that each of them lies in
// the rows of its window.
static bool add_windows(const struct backward_job *job, struct sums *sums, int64_t plane) {
  const struct plane_view *grad_output = &job->plan->grad_output;
  const struct plane_view *indices = &job->plan->indices;
  const struct plane_view *grad_input = &job->plan->grad_input;
  int64_t first_row = sums->first / grad_input->columns;
  int64_t last_row = (sums->first + sums->owned - 1) / grad_input->columns;
  int64_t begin = pooling_first_output(first_row, grad_input->rows, grad_output->rows);
  int64_t end = pooling_end_output(last_row, grad_input->rows, grad_output->rows);
  int64_t gradient_offset = plane_view_offset(grad_output, plane);
  int64_t index_offset = plane_view_offset(indices, plane);
  bool all_allowed = true;
  for (int64_t row = begin; row < end && all_allowed; row++) {
    sums->lower = pooling_window_begin(row, grad_input->rows, grad_output->rows) * grad_input->columns;
    sums->upper = pooling_window_end(row, grad_input->rows, grad_output->rows) * grad_input->columns;
    all_allowed = add_line(job, sums, gradient_offset + row * grad_output->row_stride,
                           index_offset + row * indices->row_stride, grad_output->columns);
  }
  return all_allowed;
}

// Rounds `count` sums into elements that lie `stride` apart, the first of them at element `offset`.
static void store_line(const struct backward_job *job, const float *sums, int64_t offset, int64_t stride,
                       int64_t count) {
  void *to = storage_at(job, BACKWARD_GRAD_INPUT, offset * job->value_bytes);
  if (job->value_type == DATA_TYPE_FLOAT) {
    for (int64_t i = 0; i < count; i++) {
      ((float *)to)[i * stride] = sums[i];
    }
    return;
  }
  void (*round)(uint16_t *, const float *, size_t) =
      job->value_type == DATA_TYPE_BF16 ? bf16_from_floats : fp16_from_floats;
  if (stride == 1) {
    round(to, sums, (size_t)count);
    return;
  }
  uint16_t rounded[ROUND_AT_ONCE];
  for (int64_t begin = 0; begin < count; begin += ROUND_AT_ONCE) {
    int64_t part = count - begin < ROUND_AT_ONCE ? count - begin : ROUND_AT_ONCE;
    round(rounded, sums + begin, (size_t)part);
    for (int64_t i = 0; i < part; i++) {
      ((uint16_t *)to)[(begin + i) * stride] = rounded[i];
    }
  }
}

static void store_sums(const struct backward_job *job, const struct sums *sums, int64_t plane) {
  const struct plane_view *grad_input = &job->plan->grad_input;
  int64_t offset = plane_view_offset(grad_input, plane);
  if (plane_view_is_dense(grad_input)) {
    store_line(job, sums->values, offset + sums->first, 1, sums->owned);
    return;
  }
  int64_t done = 0;
  while (done < sums->owned) {
    int64_t row = (sums->first + done) / grad_input->columns;
    int64_t column = (sums->first + done) % grad_input->columns;
    int64_t left = sums->owned - done;
    int64_t count = grad_input->columns - column < left ? grad_input->columns - column : left;
    store_line(job, sums->values + done,
               offset + row * grad_input->row_stride + column * grad_input->column_stride,
               grad_input->column_stride, count);
    done += count;
  }
}

static void compute_unit(struct backward_job *job, size_t slot, size_t unit) {
  const struct backward_plan *plan = job->plan;
  int64_t plane = (int64_t)unit / plan->ranges_per_plane;
  int64_t plane_elements = plan->grad_input.rows * plan->grad_input.columns;
  struct sums sums = {.first = (int64_t)unit % plan->ranges_per_plane * plan->range_elements,
                      .lower = 0,
                      .upper = plane_elements};
  int64_t left = plane_elements - sums.first;
  sums.owned = left < plan->range_elements ? left : plan->range_elements;
  if (plan->in_place) {
    int64_t offset = plane_view_offset(&plan->grad_input, plane) + sums.first;
    sums.values = (float *)job->run->storages[BACKWARD_GRAD_INPUT] + offset;
  } else {
    sums.values = (float *)job->run->workspace + (int64_t)slot * plan->slot_floats;
  }
  memset(sums.values, 0, (size_t)sums.owned * sizeof(float));
  bool whole = plan->ranges_per_plane == 1 || job->ranges_read_all;
  if (!(whole ? add_plane(job, &sums, plane) : add_windows(job, &sums, plane))) {
    atomic_store_explicit(&job->refused, true, memory_order_relaxed);
  } else if (!plan->in_place) {
    store_sums(job, &sums, plane);
  }
}

static void compute_units(void *context, size_t slot, size_t begin, size_t end) {
  struct backward_job *job = context;
  for (size_t unit = begin; unit < end && !atomic_load_explicit(&job->refused, memory_order_relaxed);
       unit++) {
    compute_unit(job, slot, unit);
  }
}

static bool compute(struct backward_job *job, struct status *status) {
  const struct backward_plan *plan = job->plan;
  size_t units = (size_t)(plan->grad_input.planes * plan->ranges_per_plane);
  int64_t gradients = plan->grad_output.rows * plan->grad_output.columns / plan->ranges_per_plane;
  job->refused = false;
  return operator_run_units(job->run, units, plan->range_elements + gradients, compute_units, job, status);
}

// By ranges: first each of them with its windows alone, then, if an index is outside, with everything.
static bool run_ranges(const struct operator_run *run, bool ranges_read_all, struct status *status) {
  enum data_type value_type = run->plan->arguments.values[BACKWARD_GRAD_INPUT].tensor.data_type;
  enum data_type index_type = run->plan->arguments.values[BACKWARD_INDICES].tensor.data_type;
  struct backward_job job = {
      .run = run,
      .plan = backward_plan_of(run->plan),
      .value_type = value_type,
      .value_bytes = (int64_t)data_type_bytes(value_type),
      .index_bytes = (int64_t)data_type_bytes(index_type),
      .add = choose_add(value_type, index_type),
      .ranges_read_all = ranges_read_all,
  };
  if (!ranges_read_all) {
    if (!compute(&job, status)) {
      return false;
    }
    if (!job.refused) {
      return true;
    }
  }
  if (!backward_check_inputs(run, status)) {
    return false;
  }
  // All indices are legal, but some lie outside the rows of their windows.
  job.ranges_read_all = true;
  if (!compute(&job, status)) {
    return false;
  }
  if (job.refused) {
    return status_fail(status, REASON_INTERNAL, "indices", "indices changed while they were read");
  }
  return true;
}

bool backward_run(const struct operator_run *run, struct status *status) {
  if (run->plan->empty) {
    return operator_run_zero(run, BACKWARD_GRAD_INPUT, status);
  }
  if (!operator_run_zero_holes(run, BACKWARD_GRAD_INPUT, status)) {
    return false;
  }
  if (!backward_plan_of(run->plan)->dense) {
    return run_ranges(run, false, status);
  }
  bool done;
  if (!backward_run_dense(run, &done, status)) {
    return false;
  }
  return done || run_ranges(run, true, status);
}
