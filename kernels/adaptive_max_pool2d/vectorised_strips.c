// The vector code for windows in rows, unless they are large.
#include "kernels/adaptive_max_pool2d/vectorised.h"

// How far ahead of what is looked at memory is asked for what comes next: as long as it takes to arrive.
#define STRIPS_AHEAD_BYTES 4096

// Of more strips the windows would be searched for so long that the memory would wait.
#define STRIPS_AT_ONCE_MAX 32

// How many strips are searched at once: as many as the intermediate results have room for, and no more than
// can be cancelled soon.
static int64_t strips_at_once(const struct chunk *chunk, int64_t pitch, int64_t strip_elements) {
  int64_t fit = FORWARD_STRIPS_COLUMNS_MAX / pitch;
  int64_t outputs = FORWARD_STRIPS_OUTPUTS_MAX / chunk->outputs;
  int64_t elements = FORWARD_PIECE_ELEMENTS / strip_elements;
  fit = fit < outputs ? fit : outputs;
  fit = fit < elements ? fit : elements;
  fit = fit < STRIPS_AT_ONCE_MAX ? fit : STRIPS_AT_ONCE_MAX;
  return fit > 0 ? fit : 1;
}

// Candidates of 64 bits begin with a vector, whose stores then cross no lines of the cache. Those of 32 bits
// lie one after the other, as some windows are taken several at once.
static int64_t pitch_of(const struct vector_job *job, const struct chunk *chunk) {
  int64_t lanes = job->path->lanes;
  bool half = job->forward->value_bytes == (int64_t)sizeof(uint16_t);
  return half ? chunk->columns : (chunk->columns + lanes - 1) / lanes * lanes;
}

static void pool_strips_of_chunk(const struct vector_job *job, const struct chunk *chunk, int64_t begin,
                                 int64_t end) {
  const struct plane_view *self = &job->forward->plan->self;
  int64_t columns = job->forward->plan->output_out.columns;
  // Only whole rows have their outputs one after the other.
  bool is_row = chunk->outputs == columns;
  int64_t row_bytes = self->row_stride * job->forward->value_bytes;
  int64_t rows_ahead = row_bytes > 0 ? STRIPS_AHEAD_BYTES / row_bytes : 0;
  int64_t pitch = pitch_of(job, chunk);
  struct cursor cursor = forward_cursor_at(job, (size_t)begin);
  int64_t at_once = is_row ? strips_at_once(chunk, pitch, (cursor.step + 2) * self->columns) : 1;
  for (int64_t unit = begin; unit < end && !operator_run_is_cancelled(job->forward->run); unit += at_once) {
    struct forward_strip strip[STRIPS_AT_ONCE_MAX];
    struct forward_strips strips = {
        .strips = strip,
        .count = end - unit < at_once ? end - unit : at_once,
        .columns = chunk->columns,
        .row_stride = self->row_stride,
        .pitch = pitch,
        .rows_ahead = rows_ahead,
        .row_positions = (int32_t)self->columns,
        .widest = chunk->widest,
        .begins = chunk->begins,
        .widths = chunk->widths,
        .windows = chunk->outputs,
    };
    for (int64_t i = 0; i < strips.count; i++) {
      strip[i] = (struct forward_strip){
          .offset = cursor.plane_offset + cursor.begin * self->row_stride + chunk->first_column,
          .rows = cursor.end - cursor.begin,
          .position = (int32_t)(cursor.begin * self->columns + chunk->first_column),
      };
      forward_cursor_advance(&cursor);
    }
    int64_t room = is_row ? (end - unit) * columns : columns - chunk->first_output;
    struct forward_results results = forward_results_at(job, unit * columns + chunk->first_output, room);
    (void)job->path->noted_nan(); // forgets what was noted before
    uint64_t with_nan = job->path->pool_strips(&job->elements, &strips, &results);
    if (job->path->noted_nan()) {
      strips.noted_each = true;
      with_nan = job->path->pool_strips(&job->elements, &strips, &results);
    }
    forward_redo_rows(job, unit, with_nan);
  }
}

void forward_pool_strips(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct vector_job *job = context;
  struct chunk own;
  for (int64_t first = 0; first < job->forward->plan->output_out.columns;) {
    const struct chunk *chunk = forward_chunk_at(job, first, &own);
    pool_strips_of_chunk(job, chunk, (int64_t)begin, (int64_t)end);
    first += chunk->outputs;
  }
}
