// The vector code for windows of at most two rows and columns.
#include "kernels/adaptive_max_pool2d/vectorised.h"

// Outputs that are looked at for NaN together: few are done again where there is one.
#define SQUARES_AT_ONCE 4096

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
  struct cursor cursor = forward_cursor_at(job, (size_t)begin);
  for (int64_t unit = begin; unit < end; unit += ROWS_MAX) {
    struct forward_row_pair rows[ROWS_MAX];
    int64_t count = end - unit < ROWS_MAX ? end - unit : ROWS_MAX;
    for (int64_t i = 0; i < count; i++) {
      rows[i] = row_pair_of(&cursor);
      forward_cursor_advance(&cursor);
    }
    // What is written beyond the results is written again: with the next row, or the row's next chunk.
    int64_t room = is_row ? (end - unit) * columns : columns - chunk->first_output;
    struct forward_results results = forward_results_at(job, unit * columns + chunk->first_output, room);
    forward_redo_rows(job, unit, job->path->pool_pairs(&job->elements, &pairs, rows, count, &results));
  }
}

void forward_pool_pairs(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  struct chunk own;
  for (int64_t first = 0; first < job->forward->plan->output_out.columns;) {
    if (operator_run_is_cancelled(job->forward->run)) {
      return;
    }
    const struct chunk *chunk = forward_chunk_at(job, first, &own);
    pool_pairs_of_chunk(job, chunk, (int64_t)begin, (int64_t)end);
    first += chunk->outputs;
  }
}

// Leaves to forward_pool_pairs what has a NaN, and the few rows that the fast way can't do.
void forward_pool_squares(void *context, size_t slot, size_t begin, size_t end) {
  const struct vector_job *job = context;
  const struct plane_view *self = &job->forward->plan->self;
  int64_t columns = job->forward->plan->output_out.columns;
  int64_t plane_rows = job->forward->plan->output_out.rows;
  size_t at_once = SQUARES_AT_ONCE / (size_t)columns + 1;
  while (begin < end && !operator_run_is_cancelled(job->forward->run)) {
    struct forward_squares squares = {
        .offset = self->storage_offset + (int64_t)begin * 2 * self->columns,
        .columns = self->columns,
        .row_pairs = (int64_t)(end - begin < at_once ? end - begin : at_once),
        .position = (int32_t)((int64_t)begin % plane_rows * 2 * self->columns),
        .plane = (int32_t)(self->rows * self->columns),
    };
    struct forward_results results =
        forward_results_at(job, (int64_t)begin * columns, (int64_t)(end - begin) * columns);
    bool with_nan = false;
    size_t done = (size_t)job->path->pool_squares(&job->elements, &squares, &results, &with_nan);
    size_t redone = with_nan ? begin : begin + done;
    begin += done > 0 ? done : (size_t)squares.row_pairs;
    if (redone < begin) {
      forward_pool_pairs(context, slot, redone, begin);
    }
  }
}
