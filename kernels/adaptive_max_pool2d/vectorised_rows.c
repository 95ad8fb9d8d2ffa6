// The vector code for windows of any size in rows.
#include "kernels/adaptive_max_pool2d/vectorised.h"

// Candidates of the columns of one row of outputs. True if there is a NaN.
static bool reduce_row(const struct vector_job *job, const struct cursor *cursor, const struct chunk *chunk,
                       int64_t rows_at_once, int64_t *candidates) {
  const struct plane_view *self = cursor->self;
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
    piece.rows_ahead = 2 * piece.rows;
    with_nan |= job->path->reduce_rows(&job->elements, &piece, row > cursor->begin, candidates);
  }
  return with_nan;
}

// Candidates of rows from `unit` on. A bit for each row with a NaN; for those that the processor notes only
// if it is asked after each row, which takes time.
static uint64_t reduce_block(const struct vector_job *job, const struct chunk *chunk, struct block *block,
                             int64_t unit, int64_t rows, int64_t pitch, bool ask) {
  uint64_t with_nan = 0;
  struct cursor cursor = forward_cursor_at(job, (size_t)unit);
  int64_t rows_at_once = FORWARD_PIECE_ELEMENTS / cursor.self->columns;
  rows_at_once = rows_at_once > 0 ? rows_at_once : 1;
  for (int64_t i = 0; i < rows; i++) {
    bool nan = reduce_row(job, &cursor, chunk, rows_at_once, block->candidates + i * pitch);
    nan |= ask && job->path->noted_nan();
    with_nan |= (uint64_t)nan << i;
    forward_cursor_advance(&cursor);
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
  (void)job->path->noted_nan(); // forgets what was noted before
  uint64_t with_nan = reduce_block(job, chunk, block, unit, rows, pitch, false);
  if (job->path->noted_nan()) {
    with_nan = reduce_block(job, chunk, block, unit, rows, pitch, true);
  }
  if (operator_run_is_cancelled(job->forward->run)) {
    return; // not all candidates are there
  }
  // Only whole rows have their outputs one after the other.
  int64_t together = is_row ? rows : 1;
  for (int64_t i = 0; i < rows; i += together) {
    struct forward_windows windows = {chunk->begins, chunk->widths, chunk->outputs, together, pitch};
    int64_t room = is_row ? (task_end - unit) * columns : columns - chunk->first_output;
    struct forward_results results =
        forward_results_at(job, (unit + i) * columns + chunk->first_output, room);
    job->path->reduce_windows(&windows, block->candidates + i * pitch, &results);
  }
  forward_redo_rows(job, unit, with_nan);
}

void forward_pool_rows(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  struct chunk own;
  struct block block;
  for (int64_t first = 0; first < job->forward->plan->output_out.columns;) {
    const struct chunk *chunk = forward_chunk_at(job, first, &own);
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
