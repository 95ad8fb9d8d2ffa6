// The driver of the vector code: chooses how the windows are searched. Each way cuts the outputs into blocks
// whose intermediate results stay in the nearest cache.
#include "kernels/adaptive_max_pool2d/vectorised.h"

// Rows of windows that take less time as columns than as runs: in rows shorter than a vector, and elements in
// others.
#define SHORT_WINDOW_ROWS 8
#define SHORT_WINDOW_ELEMENTS 1024

#define TURNED_PLANES_MIN 16
#define TURNED_WINDOW_MAX 64

void forward_copy_rows(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  const struct plane_view *self = &job->forward->plan->self;
  int64_t plane = self->rows * self->columns;
  int64_t last = (int64_t)end * self->columns;
  int64_t count = 0;
  for (int64_t flat = (int64_t)begin * self->columns; flat < last; flat += count) {
    if (operator_run_is_cancelled(job->forward->run)) {
      return;
    }
    count = last - flat < FORWARD_PIECE_ELEMENTS ? last - flat : FORWARD_PIECE_ELEMENTS;
    struct forward_results results = forward_results_at(job, flat, count);
    job->path->copy_with_positions(&job->elements, self->storage_offset + flat, count,
                                   (int32_t)(flat % plane), (int32_t)plane, &results);
  }
}

static const struct forward_vector_path *path_of(const struct forward_job *forward) {
  bool half = forward->value_bytes == (int64_t)sizeof(uint16_t);
  switch (forward->run->cpu == NULL ? CPU_PATH_SCALAR : forward->run->cpu->path) {
#if defined(__x86_64__)
  case CPU_PATH_AVX2:
    return half ? &forward_vector_avx2_16 : &forward_vector_avx2_32;
  case CPU_PATH_AVX512:
    return half ? &forward_vector_avx512_16 : &forward_vector_avx512_32;
#elif defined(__aarch64__)
  case CPU_PATH_NEON:
    return half ? &forward_vector_neon_16 : &forward_vector_neon_32;
#endif
  default:
    return NULL;
  }
}

// The planes lie one after the other.
static bool is_contiguous(const struct plane_view *view) {
  int64_t plane = view->rows * view->columns;
  return plane_view_is_dense(view) && (view->channels == 1 || view->channel_stride == plane) &&
         (view->planes == view->channels || view->batch_stride == view->channels * plane);
}

bool forward_is_vectorisable(const struct forward_job *job) {
  return path_of(job) != NULL && (job->plan->self.column_stride == 1 || job->plan->self.columns == 1) &&
         is_contiguous(&job->plan->output_out) && is_contiguous(&job->plan->indices_out);
}

// Windows of whole rows that lie one after the other are runs. Short ones are looked for like others, as each
// run takes a search of its own: those that a few vectors hold, or in rows that fill vectors.
static bool are_runs(const struct forward_plan *plan, int64_t lanes) {
  const struct plane_view *self = &plan->self;
  if (plan->output_out.columns > 1 || self->row_stride != self->columns) {
    return false;
  }
  int64_t rows = pooling_largest_window(self->rows, plan->output_out.rows);
  return self->columns < lanes ? rows > SHORT_WINDOW_ROWS : rows > SHORT_WINDOW_ELEMENTS / self->columns;
}

static enum method choose_method(const struct forward_plan *plan, int64_t lanes) {
  const struct plane_view *self = &plan->self;
  const struct plane_view *output_out = &plan->output_out;
  int64_t width = self->columns / output_out->columns + (self->columns % output_out->columns != 0 ? 2 : 0);
  if (self->rows == output_out->rows && self->columns == output_out->columns && is_contiguous(self)) {
    return METHOD_COPY;
  }
  if (output_out->columns == 1 && self->rows % output_out->rows == 0 && is_contiguous(self) &&
      self->rows / output_out->rows * self->columns <= FORWARD_PIECE_ELEMENTS) {
    return METHOD_EQUAL_RUNS;
  }
  if (self->rows == 2 * output_out->rows && self->columns == 2 * output_out->columns && is_contiguous(self) &&
      self->columns <= FORWARD_SQUARES_COLUMNS_MAX) {
    return METHOD_SQUARES;
  }
  if (width > COLUMNS_MAX || are_runs(plan, lanes)) {
    return METHOD_RUNS;
  }
  int64_t rows = pooling_largest_window(self->rows, output_out->rows);
  if (rows <= 2 && pooling_largest_window(self->columns, output_out->columns) <= 2) {
    return METHOD_PAIRS;
  }
  return rows <= FORWARD_PIECE_ELEMENTS / self->columns ? METHOD_STRIPS : METHOD_ROWS;
}

static int32_t infinity_of(enum data_type type) {
  switch (type) {
  case DATA_TYPE_FLOAT16:
    return 0x7c000000; // widened
  default:
    return 0x7f800000;
  }
}

// Planes of one column are rows of as many columns, which fill vectors, if there are enough of them for all
// threads and their windows are short enough to be looked for in rows.
static bool is_turned(const struct forward_plan *plan) {
  const struct plane_view *self = &plan->self;
  return self->columns == 1 && plan->output_out.columns == 1 && self->row_stride == 1 &&
         self->rows % plan->output_out.rows != 0 && self->planes >= TURNED_PLANES_MIN &&
         pooling_largest_window(self->rows, plan->output_out.rows) <= TURNED_WINDOW_MAX;
}

static void turn(struct plane_view *view) {
  view->columns = view->rows;
  view->column_stride = view->row_stride;
  view->rows = 1;
  view->row_stride = view->columns;
}

static struct forward_plan turned_plan(const struct forward_plan *plan) {
  struct forward_plan turned = *plan;
  uint64_t elements =
      pooling_saturating_product((uint64_t)plan->row_elements, (uint64_t)plan->output_out.rows);
  turned.row_elements = elements < INT64_MAX ? (int64_t)elements : INT64_MAX;
  turn(&turned.self);
  turn(&turned.output_out);
  turn(&turned.indices_out);
  return turned;
}

static bool run_vectorised(const struct forward_job *forward, struct status *status) {
  static operator_run_task *const tasks[] = {
      [METHOD_COPY] = forward_copy_rows,   [METHOD_SQUARES] = forward_pool_squares,
      [METHOD_PAIRS] = forward_pool_pairs, [METHOD_EQUAL_RUNS] = forward_pool_equal_runs,
      [METHOD_RUNS] = forward_pool_runs,   [METHOD_STRIPS] = forward_pool_strips,
      [METHOD_ROWS] = forward_pool_rows,
  };
  const struct forward_plan *plan = forward->plan;
  const struct tensor_desc *self = &forward->run->plan->arguments.values[FORWARD_SELF].tensor;
  struct vector_job job = {
      .forward = forward,
      .path = path_of(forward),
      .elements = {.storage = forward->run->storages[FORWARD_SELF],
                   .count = self->storage_elements,
                   .infinity = infinity_of(self->data_type)},
  };
  job.method = choose_method(plan, job.path->lanes);
  bool of_two = job.method == METHOD_SQUARES || job.method == METHOD_PAIRS;
  if (of_two || job.method == METHOD_STRIPS || job.method == METHOD_ROWS) {
    job.two_rows =
        of_two && plan->self.columns <= job.path->words && 2 * plan->output_out.columns <= job.path->words;
    forward_fill_chunk(&job, &job.chunk, 0);
  }
  size_t rows = (size_t)(plan->output_out.planes * plan->output_out.rows);
  return operator_run_units(forward->run, rows, plan->row_elements, tasks[job.method], &job, status);
}

bool forward_run_vectorised(const struct forward_job *forward, struct status *status) {
  if (!is_turned(forward->plan)) {
    return run_vectorised(forward, status);
  }
  struct forward_job job = *forward;
  struct forward_plan turned = turned_plan(forward->plan);
  job.plan = &turned;
  return run_vectorised(&job, status);
}
