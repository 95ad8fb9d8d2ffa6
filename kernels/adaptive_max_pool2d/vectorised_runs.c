// The vector code for windows that are contiguous, or long.
#include "kernels/adaptive_max_pool2d/vectorised.h"

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
static void next_runs(const struct vector_job *job, struct run_block *runs, bool any_nan) {
  int64_t columns = job->forward->plan->output_out.columns;
  int64_t redone = -1;
  for (int64_t i = 0; i < runs->outputs && any_nan; i++) {
    if (!runs->with_nan[i]) {
      continue;
    }
    int64_t unit = (runs->first_output + i) / columns;
    if (unit != redone) {
      forward_redo_rows(job, unit, 1);
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
  struct forward_results results = forward_results_at(job, runs->first_output, room);
  job->path->reduce_windows(&windows, runs->block.candidates, &results);
  next_runs(job, runs, true);
}

void forward_pool_runs(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  int64_t columns = job->forward->plan->self.columns;
  int64_t output_columns = job->forward->plan->output_out.columns;
  int64_t step = columns / output_columns;
  int64_t step_rest = columns % output_columns;
  struct cursor cursor = forward_cursor_at(job, begin);
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
    forward_cursor_advance(&cursor);
  }
  finish_runs(job, &runs, end);
}

// All windows one after the other in the storage, equally long.
void forward_pool_equal_runs(void *context, size_t slot, size_t begin, size_t end) {
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
      struct forward_results results = forward_results_at(job, runs.first_output, left);
      next_runs(job, &runs, job->path->pool_short_runs(&job->elements, &equal, runs.with_nan, &results));
    } else {
      job->path->reduce_runs(&job->elements, &equal, false, runs.with_nan, runs.block.candidates);
      finish_runs(job, &runs, end);
    }
  }
}
