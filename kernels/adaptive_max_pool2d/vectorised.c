// The driver of the vector code: cuts the outputs into blocks whose intermediate results stay in the nearest
// cache, and chooses how the windows are searched.
#include "kernels/adaptive_max_pool2d/cpu_job.h"
#include "kernels/adaptive_max_pool2d/vector_path.h"

#include <assert.h>
#include <string.h>

// Sizes of a block: 32 KB of candidates, of rows of at most 2048 columns.
#define CANDIDATES_MAX 4096
#define COLUMNS_MAX 2048
#define OUTPUTS_MAX 512
#define ROWS_MAX 64 // as a mask has bits

enum method {
  METHOD_COPY,       // each window is the output's own place
  METHOD_PAIRS,      // at most two rows and columns
  METHOD_EQUAL_RUNS, // equally long runs one after the other, such as whole planes
  METHOD_RUNS,       // windows that are contiguous, or long: each is searched on its own
  METHOD_ROWS,       // all others: first over the rows of the windows, then over their columns
};

// Outputs next to each other in a row, and their windows' columns, which are the same in all rows.
struct chunk {
  int64_t first_output;
  int64_t outputs;
  int64_t first_column;
  int64_t columns;
  int32_t begins[OUTPUTS_MAX]; // from first_column on
  int32_t widths[OUTPUTS_MAX];
  int32_t first_lanes[OUTPUTS_MAX + FORWARD_LANES_MAX]; // METHOD_PAIRS: see struct forward_pairs
  int32_t second_lanes[OUTPUTS_MAX + FORWARD_LANES_MAX];
  int32_t vector_begins[OUTPUTS_MAX];
};

struct vector_job {
  const struct forward_job *forward;
  const struct forward_vector_path *path;
  struct forward_elements elements;
  enum method method;
  bool two_rows;
  struct chunk chunk; // the first of a row, often the only one
};

struct block {
  _Alignas(64) int64_t candidates[CANDIDATES_MAX + FORWARD_LANES_MAX];
};

// Windows one after the other: their begins as quotient and remainder, so that no division is needed.
struct windows {
  int64_t input;
  int64_t output;
  int64_t begin;
  int64_t rest;
};

static struct windows windows_at(int64_t position, int64_t input, int64_t output) {
  int64_t begin = pooling_window_begin(position, input, output);
  // The difference fits, even where the products wrap.
  int64_t rest = (int64_t)((uint64_t)position * (uint64_t)input - (uint64_t)begin * (uint64_t)output);
  return (struct windows){.input = input, .output = output, .begin = begin, .rest = rest};
}

// Goes on to the next window and gives the end of this one. A step's quotient and remainder are the caller's,
// who needs them for many.
static inline int64_t next_window(struct windows *windows, int64_t step, int64_t step_rest) {
  windows->begin += step;
  windows->rest += step_rest;
  if (windows->rest >= windows->output) {
    windows->rest -= windows->output;
    windows->begin++;
  }
  return windows->begin + (windows->rest > 0 ? 1 : 0);
}

// A row of outputs and where its windows' rows lie.
struct cursor {
  const struct plane_view *self;
  int64_t plane;
  int64_t plane_offset;
  int64_t row;
  int64_t step;
  int64_t step_rest;
  struct windows next;
  int64_t begin; // rows of the windows
  int64_t end;
};

static void cursor_read_window(struct cursor *cursor) {
  cursor->begin = cursor->next.begin;
  cursor->end = next_window(&cursor->next, cursor->step, cursor->step_rest);
}

static struct cursor cursor_at(const struct vector_job *job, size_t unit) {
  const struct forward_plan *plan = job->forward->plan;
  int64_t rows = plan->output_out.rows;
  struct cursor cursor = {
      .self = &plan->self,
      .plane = (int64_t)unit / rows,
      .row = (int64_t)unit % rows,
      .step = plan->self.rows / rows,
      .step_rest = plan->self.rows % rows,
  };
  cursor.plane_offset = plane_view_offset(cursor.self, cursor.plane);
  cursor.next = windows_at(cursor.row, plan->self.rows, rows);
  cursor_read_window(&cursor);
  return cursor;
}

static inline void cursor_advance(struct cursor *cursor) {
  if (++cursor->row == cursor->next.output) {
    cursor->row = 0;
    cursor->plane++;
    cursor->next.begin = 0;
    cursor->next.rest = 0;
    if (cursor->plane < cursor->self->planes) {
      cursor->plane_offset = plane_view_offset(cursor->self, cursor->plane);
    }
  }
  cursor_read_window(cursor);
}

// Fills the tables of METHOD_PAIRS: two vectors of columns hold what a vector of outputs needs.
static void fill_lanes(const struct vector_job *job, struct chunk *chunk) {
  int64_t lanes = job->path->lanes;
  int64_t columns = job->forward->plan->self.columns;
  int64_t last_begin = columns < 2 * lanes ? 0 : columns - 2 * lanes;
  memset(chunk->first_lanes, 0, sizeof chunk->first_lanes);
  memset(chunk->second_lanes, 0, sizeof chunk->second_lanes);
  int64_t begin = 0;
  for (int64_t i = 0; i < chunk->outputs; i++) {
    int64_t column = chunk->first_column + chunk->begins[i];
    if (i % lanes == 0) {
      begin = column < last_begin ? column : last_begin;
      chunk->vector_begins[i / lanes] = (int32_t)begin;
    }
    chunk->first_lanes[i] = (int32_t)(column - begin);
    chunk->second_lanes[i] = (int32_t)(column - begin) + chunk->widths[i] - 1;
    assert(chunk->second_lanes[i] < 2 * lanes);
    if (job->two_rows) {
      chunk->first_lanes[chunk->outputs + i] = (int32_t)lanes + chunk->first_lanes[i];
      chunk->second_lanes[chunk->outputs + i] = (int32_t)lanes + chunk->second_lanes[i];
    }
  }
}

static void fill_chunk(const struct vector_job *job, struct chunk *chunk, int64_t first_output) {
  int64_t columns = job->forward->plan->self.columns;
  int64_t outputs = job->forward->plan->output_out.columns;
  struct windows windows = windows_at(first_output, columns, outputs);
  int64_t step = columns / outputs;
  int64_t step_rest = columns % outputs;
  chunk->first_output = first_output;
  chunk->outputs = 0;
  chunk->first_column = windows.begin;
  while (first_output + chunk->outputs < outputs && chunk->outputs < OUTPUTS_MAX) {
    int64_t begin = windows.begin - chunk->first_column;
    int64_t end = next_window(&windows, step, step_rest) - chunk->first_column;
    if (chunk->outputs > 0 && end > COLUMNS_MAX) {
      break;
    }
    chunk->begins[chunk->outputs] = (int32_t)begin;
    chunk->widths[chunk->outputs] = (int32_t)(end - begin);
    chunk->outputs++;
    chunk->columns = end;
  }
  if (job->method == METHOD_PAIRS) {
    fill_lanes(job, chunk);
  }
}

// The job's chunk or, where a row has several, one that is filled into `own`.
static const struct chunk *chunk_at(const struct vector_job *job, int64_t first_output, struct chunk *own) {
  if (first_output == 0) {
    return &job->chunk;
  }
  fill_chunk(job, own, first_output);
  return own;
}

static struct forward_results results_at(const struct vector_job *job, int64_t flat, int64_t room) {
  const struct forward_job *forward = job->forward;
  char *values = forward->run->storages[FORWARD_OUTPUT_OUT];
  char *indices = forward->run->storages[FORWARD_INDICES_OUT];
  int64_t index_bytes = forward->wide_indices ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t);
  return (struct forward_results){
      .values = values + (forward->plan->output_out.storage_offset + flat) * forward->value_bytes,
      .indices = indices + (forward->plan->indices_out.storage_offset + flat) * index_bytes,
      .wide_indices = forward->wide_indices,
      .room = room,
  };
}

// Leaves rows with a NaN to the plain code.
static void redo_rows(const struct vector_job *job, int64_t unit, uint64_t rows) {
  int64_t plane_rows = job->forward->plan->output_out.rows;
  for (; rows != 0; rows &= rows - 1) {
    int64_t row = unit + __builtin_ctzll(rows);
    forward_pool_row(job->forward, row / plane_rows, row % plane_rows);
  }
}

static void copy_rows(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  const struct plane_view *self = &job->forward->plan->self;
  int64_t plane = self->rows * self->columns;
  int64_t value_bytes = job->forward->value_bytes;
  int64_t last = (int64_t)end * self->columns;
  int64_t count = 0;
  for (int64_t flat = (int64_t)begin * self->columns; flat < last; flat += count) {
    if (operator_run_is_cancelled(job->forward->run)) {
      return;
    }
    count = last - flat < FORWARD_PIECE_ELEMENTS ? last - flat : FORWARD_PIECE_ELEMENTS;
    struct forward_results results = results_at(job, flat, count);
    memcpy(results.values, (const char *)job->elements.storage + (self->storage_offset + flat) * value_bytes,
           (size_t)(count * value_bytes));
    job->path->count_positions(&results, count, (int32_t)(flat % plane), (int32_t)plane);
  }
}

static struct forward_row_pair row_pair_of(const struct cursor *cursor) {
  int64_t columns = cursor->self->columns;
  return (struct forward_row_pair){
      .offsets = {cursor->plane_offset + cursor->begin * cursor->self->row_stride,
                  cursor->plane_offset + (cursor->end - 1) * cursor->self->row_stride},
      .positions = {(int32_t)(cursor->begin * columns), (int32_t)((cursor->end - 1) * columns)},
  };
}

static void pool_pairs_of_chunk(const struct vector_job *job, const struct chunk *chunk, int64_t begin,
                                int64_t end) {
  int64_t columns = job->forward->plan->output_out.columns;
  bool is_row = chunk->outputs == columns;
  struct forward_pairs pairs = {
      .first = chunk->first_lanes,
      .second = chunk->second_lanes,
      .begins = chunk->vector_begins,
      .outputs = chunk->outputs,
      .row_outputs = columns,
      .row_room = is_row ? columns : 0,
      .two_rows = job->two_rows,
  };
  struct cursor cursor = cursor_at(job, (size_t)begin);
  for (int64_t unit = begin; unit < end; unit += ROWS_MAX) {
    struct forward_row_pair rows[ROWS_MAX];
    int64_t count = end - unit < ROWS_MAX ? end - unit : ROWS_MAX;
    for (int64_t i = 0; i < count; i++) {
      rows[i] = row_pair_of(&cursor);
      cursor_advance(&cursor);
    }
    // What is written beyond the results is written again: with the next row, or the row's next chunk.
    int64_t room = is_row ? (end - unit) * columns : columns - chunk->first_output;
    struct forward_results results = results_at(job, unit * columns + chunk->first_output, room);
    redo_rows(job, unit, job->path->pool_pairs(&job->elements, &pairs, rows, count, &results));
  }
}

static void pool_pairs(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  struct chunk own;
  for (int64_t first = 0; first < job->forward->plan->output_out.columns;) {
    if (operator_run_is_cancelled(job->forward->run)) {
      return;
    }
    const struct chunk *chunk = chunk_at(job, first, &own);
    pool_pairs_of_chunk(job, chunk, (int64_t)begin, (int64_t)end);
    first += chunk->outputs;
  }
}

// Candidates of the columns of one row of outputs. True if there is a NaN.
static bool reduce_row(const struct vector_job *job, const struct cursor *cursor, const struct chunk *chunk,
                       int64_t *candidates) {
  const struct plane_view *self = cursor->self;
  int64_t rows_at_once = FORWARD_PIECE_ELEMENTS / self->columns;
  rows_at_once = rows_at_once > 0 ? rows_at_once : 1;
  bool with_nan = false;
  for (int64_t row = cursor->begin; row < cursor->end; row += rows_at_once) {
    if (operator_run_is_cancelled(job->forward->run)) {
      break;
    }
    int64_t left = cursor->end - row;
    struct forward_piece piece = {
        .offset = cursor->plane_offset + row * self->row_stride + chunk->first_column,
        .rows = left < rows_at_once ? left : rows_at_once,
        .columns = chunk->columns,
        .row_stride = self->row_stride,
        .position = (int32_t)(row * self->columns + chunk->first_column),
        .row_positions = (int32_t)self->columns,
    };
    with_nan |= job->path->reduce_rows(&job->elements, &piece, row > cursor->begin, candidates);
  }
  return with_nan;
}

// Rows from `unit` on, of a task that goes on to `task_end`.
static void pool_block_of_rows(const struct vector_job *job, const struct chunk *chunk, struct block *block,
                               int64_t unit, int64_t rows, int64_t task_end) {
  int64_t lanes = job->path->lanes;
  int64_t pitch = (chunk->columns + lanes - 1) / lanes * lanes;
  int64_t columns = job->forward->plan->output_out.columns;
  bool is_row = chunk->outputs == columns;
  uint64_t with_nan = 0;
  struct cursor cursor = cursor_at(job, (size_t)unit);
  for (int64_t i = 0; i < rows; i++) {
    with_nan |= (uint64_t)reduce_row(job, &cursor, chunk, block->candidates + i * pitch) << i;
    cursor_advance(&cursor);
  }
  if (operator_run_is_cancelled(job->forward->run)) {
    return; // not all candidates are there
  }
  // Only whole rows have their outputs one after the other.
  int64_t together = is_row ? rows : 1;
  for (int64_t i = 0; i < rows; i += together) {
    struct forward_windows windows = {chunk->begins, chunk->widths, chunk->outputs, together, pitch};
    int64_t room = is_row ? (task_end - unit) * columns : columns - chunk->first_output;
    struct forward_results results = results_at(job, (unit + i) * columns + chunk->first_output, room);
    job->path->reduce_windows(&windows, block->candidates + i * pitch, job->elements.half, &results);
  }
  redo_rows(job, unit, with_nan);
}

static void pool_rows(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  struct chunk own;
  struct block block;
  for (int64_t first = 0; first < job->forward->plan->output_out.columns;) {
    const struct chunk *chunk = chunk_at(job, first, &own);
    int64_t fit = CANDIDATES_MAX / (chunk->columns + FORWARD_LANES_MAX);
    fit = fit < OUTPUTS_MAX / chunk->outputs ? fit : OUTPUTS_MAX / chunk->outputs;
    fit = fit < ROWS_MAX ? fit : ROWS_MAX;
    for (int64_t unit = (int64_t)begin; unit < (int64_t)end; unit += fit) {
      int64_t left = (int64_t)end - unit;
      pool_block_of_rows(job, chunk, &block, unit, left < fit ? left : fit, (int64_t)end);
    }
    first += chunk->outputs;
  }
}

// Outputs one after the other, whose windows become a vector of candidates each.
struct run_block {
  struct block block;
  int64_t first_output; // of all
  int64_t outputs;
  bool with_nan[OUTPUTS_MAX];
};

// Candidates of one window.
static void reduce_long_window(const struct vector_job *job, const struct cursor *cursor, int64_t column,
                               int64_t columns, struct run_block *runs) {
  const struct plane_view *self = cursor->self;
  bool contiguous = columns == self->row_stride && columns == self->columns;
  int64_t rows = contiguous ? 1 : cursor->end - cursor->begin;
  int64_t length = contiguous ? (cursor->end - cursor->begin) * columns : columns;
  bool merge = false;
  for (int64_t row = cursor->begin; row < cursor->begin + rows; row++) {
    for (int64_t done = 0; done < length; done += FORWARD_PIECE_ELEMENTS) {
      if (operator_run_is_cancelled(job->forward->run)) {
        return;
      }
      struct forward_runs run = {
          .offset = cursor->plane_offset + row * self->row_stride + column + done,
          .length = length - done < FORWARD_PIECE_ELEMENTS ? length - done : FORWARD_PIECE_ELEMENTS,
          .runs = 1,
          .position = (int32_t)(row * self->columns + column + done),
      };
      job->path->reduce_runs(&job->elements, &run, merge, runs->with_nan + runs->outputs,
                             runs->block.candidates + runs->outputs * job->path->wide_lanes);
      merge = true;
    }
  }
}

// Leaves rows with a NaN to the plain code, and goes on to the next block.
static void next_runs(const struct vector_job *job, struct run_block *runs) {
  int64_t columns = job->forward->plan->output_out.columns;
  int64_t redone = -1;
  for (int64_t i = 0; i < runs->outputs; i++) {
    if (!runs->with_nan[i]) {
      continue;
    }
    int64_t unit = (runs->first_output + i) / columns;
    if (unit != redone) {
      redo_rows(job, unit, 1);
      redone = unit;
    }
  }
  runs->first_output += runs->outputs;
  runs->outputs = 0;
}

static void finish_runs(const struct vector_job *job, struct run_block *runs, size_t end) {
  const int32_t begin = 0;
  const int32_t width = (int32_t)job->path->wide_lanes;
  struct forward_windows windows = {&begin, &width, 1, runs->outputs, width};
  if (runs->outputs == 0 || operator_run_is_cancelled(job->forward->run)) {
    return;
  }
  int64_t room = (int64_t)end * job->forward->plan->output_out.columns - runs->first_output;
  struct forward_results results = results_at(job, runs->first_output, room);
  job->path->reduce_windows(&windows, runs->block.candidates, job->elements.half, &results);
  next_runs(job, runs);
}

static void pool_runs(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  int64_t columns = job->forward->plan->self.columns;
  int64_t output_columns = job->forward->plan->output_out.columns;
  int64_t step = columns / output_columns;
  int64_t step_rest = columns % output_columns;
  struct cursor cursor = cursor_at(job, begin);
  struct run_block runs;
  runs.first_output = (int64_t)begin * output_columns;
  runs.outputs = 0;
  for (size_t unit = begin; unit < end; unit++) {
    struct windows windows = {.input = columns, .output = output_columns};
    for (int64_t i = 0; i < output_columns && !operator_run_is_cancelled(job->forward->run); i++) {
      int64_t first = windows.begin;
      reduce_long_window(job, &cursor, first, next_window(&windows, step, step_rest) - first, &runs);
      if (++runs.outputs == OUTPUTS_MAX) {
        finish_runs(job, &runs, end);
      }
    }
    cursor_advance(&cursor);
  }
  finish_runs(job, &runs, end);
}

// All windows one after the other in the storage, equally long.
static void pool_equal_runs(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  const struct plane_view *self = &job->forward->plan->self;
  int64_t plane_runs = job->forward->plan->output_out.rows;
  int64_t length = self->rows / plane_runs * self->columns;
  int64_t at_once =
      FORWARD_PIECE_ELEMENTS / length < OUTPUTS_MAX ? FORWARD_PIECE_ELEMENTS / length : OUTPUTS_MAX;
  struct run_block runs;
  runs.first_output = (int64_t)begin;
  while (runs.first_output < (int64_t)end && !operator_run_is_cancelled(job->forward->run)) {
    int64_t left = (int64_t)end - runs.first_output;
    struct forward_runs equal = {
        .offset = self->storage_offset + runs.first_output * length,
        .length = length,
        .runs = left < at_once ? left : at_once,
        .position = (int32_t)(runs.first_output % plane_runs * length),
        .last_position = (int32_t)((plane_runs - 1) * length),
    };
    runs.outputs = equal.runs;
    if (length <= FORWARD_SHORT_RUN) {
      struct forward_results results = results_at(job, runs.first_output, left);
      job->path->pool_short_runs(&job->elements, &equal, runs.with_nan, &results);
      next_runs(job, &runs);
    } else {
      job->path->reduce_runs(&job->elements, &equal, false, runs.with_nan, runs.block.candidates);
      finish_runs(job, &runs, end);
    }
  }
}

static const struct forward_vector_path *path_of(const struct operator_run *run) {
#if defined(__x86_64__)
  switch (run->cpu == NULL ? CPU_PATH_SCALAR : run->cpu->path) {
  case CPU_PATH_AVX2:
    return &forward_vector_avx2;
  case CPU_PATH_AVX512:
    return &forward_vector_avx512;
  default:
    return NULL;
  }
#else
  (void)run;
  return NULL;
#endif
}

// The planes lie one after the other.
static bool is_contiguous(const struct plane_view *view) {
  int64_t plane = view->rows * view->columns;
  return plane_view_is_dense(view) && (view->channels == 1 || view->channel_stride == plane) &&
         (view->planes == view->channels || view->batch_stride == view->channels * plane);
}

bool forward_is_vectorisable(const struct forward_job *job) {
  return path_of(job->run) != NULL && (job->plan->self.column_stride == 1 || job->plan->self.columns == 1) &&
         is_contiguous(&job->plan->output_out) && is_contiguous(&job->plan->indices_out);
}

// A window has at most two elements of an axis.
static bool is_of_pairs(int64_t input, int64_t output) {
  int64_t a = input;
  int64_t b = output;
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  // With p / q as the reduced quotient a window may begin (q - 1) / q into an element.
  return input / a <= output / a + 1;
}

static enum method choose_method(const struct forward_plan *plan) {
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
  if (width > COLUMNS_MAX || (output_out->columns == 1 && self->row_stride == self->columns)) {
    return METHOD_RUNS;
  }
  return is_of_pairs(self->rows, output_out->rows) && is_of_pairs(self->columns, output_out->columns)
             ? METHOD_PAIRS
             : METHOD_ROWS;
}

static int32_t infinity_of(enum data_type type) {
  switch (type) {
  case DATA_TYPE_FLOAT16:
    return 0x7c000000; // widened
  default:
    return 0x7f800000;
  }
}

bool forward_run_vectorised(const struct forward_job *forward, struct status *status) {
  static operator_run_task *const tasks[] = {
      [METHOD_COPY] = copy_rows, [METHOD_PAIRS] = pool_pairs, [METHOD_EQUAL_RUNS] = pool_equal_runs,
      [METHOD_RUNS] = pool_runs, [METHOD_ROWS] = pool_rows,
  };
  const struct forward_plan *plan = forward->plan;
  const struct tensor_desc *self = &forward->run->plan->arguments.values[FORWARD_SELF].tensor;
  struct vector_job job = {
      .forward = forward,
      .path = path_of(forward->run),
      .elements = {.storage = forward->run->storages[FORWARD_SELF],
                   .count = self->storage_elements,
                   .half = forward->value_bytes == (int64_t)sizeof(uint16_t),
                   .infinity = infinity_of(self->data_type)},
      .method = choose_method(plan),
  };
  if (job.method == METHOD_PAIRS || job.method == METHOD_ROWS) {
    job.two_rows = job.method == METHOD_PAIRS && plan->self.columns <= job.path->lanes &&
                   2 * plan->output_out.columns <= job.path->lanes;
    fill_chunk(&job, &job.chunk, 0);
  }
  size_t rows = (size_t)(plan->output_out.planes * plan->output_out.rows);
  return operator_run_units(forward->run, rows, plan->row_elements, tasks[job.method], &job, status);
}
