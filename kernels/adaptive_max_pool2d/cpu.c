// The forward on threads of this machine: a unit of work is one row of one plane of the outputs. The plain
// code, for all layouts and values; layouts that are usual go to the vector code where the processor has one.
//
// Values are compared as integer keys that order like the numbers do: both zeros have one key, and all NaNs
// share the largest. So nothing depends on the processor's treatment of denormals.
#include "kernels/adaptive_max_pool2d/cpu_job.h"

#define KEY_NAN INT32_MAX

// The best element of a window so far, and where in its plane it lies.
struct maximum {
  int32_t key;
  int64_t row;
  int64_t column;
};

// Order is that of sign and magnitude: negative numbers have negative keys.
static inline int32_t key_of(uint32_t magnitude, bool negative, uint32_t infinity) {
  if (magnitude > infinity) {
    return KEY_NAN;
  }
  return negative ? -(int32_t)magnitude : (int32_t)magnitude;
}

static inline int32_t key_fp32(const void *elements, int64_t position) {
  uint32_t bits = ((const uint32_t *)elements)[position];
  return key_of(bits & 0x7fffffffu, bits >> 31 != 0, 0x7f800000u);
}

static inline int32_t key_fp16(const void *elements, int64_t position) {
  uint32_t bits = ((const uint16_t *)elements)[position];
  return key_of(bits & 0x7fffu, bits >> 15 != 0, 0x7c00u);
}

static inline int32_t key_bf16(const void *elements, int64_t position) {
  uint32_t bits = ((const uint16_t *)elements)[position];
  return key_of(bits & 0x7fffu, bits >> 15 != 0, 0x7f80u);
}

typedef int32_t key_function(const void *elements, int64_t position);

static inline __attribute__((always_inline)) void compete_typed(struct maximum *maximum, const void *elements,
                                                                int64_t stride, int64_t count, int64_t row,
                                                                int64_t column, key_function *key_at) {
  int32_t best = maximum->key;
  int64_t best_at = -1;
  for (int64_t i = 0; i < count; i++) {
    int32_t key = key_at(elements, i * stride);
    if (key > best || key == KEY_NAN) {
      best = key;
      best_at = i;
    }
  }
  if (best_at >= 0) {
    *maximum = (struct maximum){.key = best, .row = row, .column = column + best_at};
  }
}

// One function for each type, with and without strides.
#define COMPETE(type)                                                                                        \
  static void compete_##type(struct maximum *maximum, const void *elements, int64_t stride, int64_t count,   \
                             int64_t row, int64_t column) {                                                  \
    if (stride == 1) {                                                                                       \
      compete_typed(maximum, elements, 1, count, row, column, key_##type);                                   \
    } else {                                                                                                 \
      compete_typed(maximum, elements, stride, count, row, column, key_##type);                              \
    }                                                                                                        \
  }
COMPETE(fp32)
COMPETE(fp16)
COMPETE(bf16)
#undef COMPETE

static forward_compete *choose_compete(enum data_type type) {
  switch (type) {
  case DATA_TYPE_FLOAT16:
    return compete_fp16;
  case DATA_TYPE_BF16:
    return compete_bf16;
  default:
    return compete_fp32;
  }
}

// The window of one output: rows [row_begin, row_end) and columns [column_begin, column_end) of its plane.
struct window {
  int64_t row_begin;
  int64_t row_end;
  int64_t column_begin;
  int64_t column_end;
};

// Finds the maximum of a window of the plane that begins at element `offset`.
static struct maximum find_maximum(const struct forward_job *job, int64_t offset,
                                   const struct window *window) {
  const struct plane_view *self = &job->plan->self;
  const unsigned char *storage = job->run->storages[FORWARD_SELF];
  // Lower than any key, so that the first element wins over it, whatever it is.
  struct maximum maximum = {.key = INT32_MIN};
  for (int64_t row = window->row_begin; row < window->row_end; row++) {
    int64_t count = 0;
    for (int64_t column = window->column_begin; column < window->column_end; column += count) {
      int64_t left = window->column_end - column;
      count = left < OPERATOR_RUN_CANCEL_ELEMENTS ? left : OPERATOR_RUN_CANCEL_ELEMENTS;
      if (operator_run_is_cancelled(job->run)) {
        return maximum; // of no interest any more
      }
      int64_t element = offset + row * self->row_stride + column * self->column_stride;
      job->compete(&maximum, storage + element * job->value_bytes, self->column_stride, count, row, column);
    }
  }
  return maximum;
}

static void store_value(const struct forward_job *job, int64_t to, int64_t from) {
  const void *self = job->run->storages[FORWARD_SELF];
  void *output_out = job->run->storages[FORWARD_OUTPUT_OUT];
  if (job->value_bytes == sizeof(uint16_t)) {
    ((uint16_t *)output_out)[to] = ((const uint16_t *)self)[from];
  } else {
    ((uint32_t *)output_out)[to] = ((const uint32_t *)self)[from];
  }
}

static void store_index(const struct forward_job *job, int64_t to, int64_t index) {
  void *indices_out = job->run->storages[FORWARD_INDICES_OUT];
  if (job->wide_indices) {
    ((int64_t *)indices_out)[to] = index;
  } else {
    ((int32_t *)indices_out)[to] = (int32_t)index;
  }
}

void forward_pool_row(const struct forward_job *job, int64_t plane, int64_t row) {
  const struct plane_view *self = &job->plan->self;
  const struct plane_view *output_out = &job->plan->output_out;
  const struct plane_view *indices_out = &job->plan->indices_out;
  int64_t self_offset = plane_view_offset(self, plane);
  int64_t output_offset = plane_view_offset(output_out, plane) + row * output_out->row_stride;
  int64_t indices_offset = plane_view_offset(indices_out, plane) + row * indices_out->row_stride;
  struct window window = {
      .row_begin = pooling_window_begin(row, self->rows, output_out->rows),
      .row_end = pooling_window_end(row, self->rows, output_out->rows),
  };
  // The begin of the next window, as quotient and remainder: no division within the row.
  int64_t step = self->columns / output_out->columns;
  int64_t step_rest = self->columns % output_out->columns;
  int64_t rest = 0;
  int64_t next = 0;
  for (int64_t column = 0; column < output_out->columns && !operator_run_is_cancelled(job->run); column++) {
    window.column_begin = next;
    next += step;
    rest += step_rest;
    if (rest >= output_out->columns) {
      next++;
      rest -= output_out->columns;
    }
    window.column_end = next + (rest > 0 ? 1 : 0);
    struct maximum maximum = find_maximum(job, self_offset, &window);
    store_value(job, output_offset + column * output_out->column_stride,
                self_offset + maximum.row * self->row_stride + maximum.column * self->column_stride);
    store_index(job, indices_offset + column * indices_out->column_stride,
                maximum.row * self->columns + maximum.column);
  }
}

static void compute_rows(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct forward_job *job = context;
  int64_t rows = job->plan->output_out.rows;
  for (size_t unit = begin; unit < end; unit++) {
    forward_pool_row(job, (int64_t)unit / rows, (int64_t)unit % rows);
  }
}

bool forward_run(const struct operator_run *run, struct status *status) {
  if (!operator_run_zero_holes(run, FORWARD_OUTPUT_OUT, status) ||
      !operator_run_zero_holes(run, FORWARD_INDICES_OUT, status)) {
    return false;
  }
  const struct operator_arguments *arguments = &run->plan->arguments;
  struct forward_job job = {
      .run = run,
      .plan = forward_plan_of(run->plan),
      .compete = choose_compete(arguments->values[FORWARD_SELF].tensor.data_type),
      .value_bytes = (int64_t)data_type_bytes(arguments->values[FORWARD_SELF].tensor.data_type),
      .wide_indices = arguments->values[FORWARD_INDICES_OUT].tensor.data_type == DATA_TYPE_INT64,
  };
  if (forward_is_vectorisable(&job)) {
    return forward_run_vectorised(&job, status);
  }
  size_t rows = (size_t)(job.plan->output_out.planes * job.plan->output_out.rows);
  return operator_run_units(run, rows, job.plan->row_elements, compute_rows, &job, status);
}
