// What the parts of the vector code's driver share: how the outputs are cut into pieces, and where those lie.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTORISED_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTORISED_H

#include "kernels/adaptive_max_pool2d/cpu_job.h"
#include "kernels/adaptive_max_pool2d/vector_path.h"

// Sizes of a block: 32 KB of candidates, of rows of at most 2048 columns.
#define CANDIDATES_MAX 4096
#define COLUMNS_MAX 2048
#define OUTPUTS_MAX 512
#define ROWS_MAX 64 // as a mask has bits

enum method {
  METHOD_COPY,       // each window is the output's own place
  METHOD_SQUARES,    // two rows and columns without overlap
  METHOD_PAIRS,      // at most two rows and columns
  METHOD_EQUAL_RUNS, // equally long runs one after the other, such as whole planes
  METHOD_RUNS,       // windows that are contiguous, or long: each is searched on its own
  METHOD_STRIPS,     // all others, unless their rows are large
  METHOD_ROWS,       // all others: first over the rows of the windows, then over their columns
};

// Outputs next to each other in a row, and their windows' columns, which are the same in all rows.
struct chunk {
  int64_t first_output;
  int64_t outputs;
  int64_t first_column;
  int64_t columns;
  int32_t widest;
  int32_t begins[OUTPUTS_MAX]; // from first_column on
  int32_t widths[OUTPUTS_MAX];
  int32_t first_lanes[OUTPUTS_MAX + FORWARD_WORDS_MAX]; // METHOD_PAIRS: see struct forward_pairs
  int32_t second_lanes[OUTPUTS_MAX + FORWARD_WORDS_MAX];
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

struct windows forward_windows_at(int64_t position, int64_t input, int64_t output);

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

struct cursor forward_cursor_at(const struct vector_job *job, size_t unit);

static inline void forward_cursor_read_window(struct cursor *cursor) {
  cursor->begin = cursor->next.begin;
  cursor->end = next_window(&cursor->next, cursor->step, cursor->step_rest);
}

// Goes on to the next row. Here, as rows may be short.
static inline void forward_cursor_advance(struct cursor *cursor) {
  if (++cursor->row == cursor->next.output) {
    cursor->row = 0;
    cursor->plane++;
    cursor->next.begin = 0;
    cursor->next.rest = 0;
    if (cursor->plane < cursor->self->planes) {
      cursor->plane_offset = plane_view_offset(cursor->self, cursor->plane);
    }
  }
  forward_cursor_read_window(cursor);
}

void forward_fill_chunk(const struct vector_job *job, struct chunk *chunk, int64_t first_output);

// The job's chunk or, where a row has several, one that is filled into `own`.
const struct chunk *forward_chunk_at(const struct vector_job *job, int64_t first_output, struct chunk *own);

// Where output number `flat` goes.
struct forward_results forward_results_at(const struct vector_job *job, int64_t flat, int64_t room);

// Leaves rows with a NaN to the plain code.
void forward_redo_rows(const struct vector_job *job, int64_t unit, uint64_t rows);

// The ways through the data.
operator_run_task forward_copy_rows;
operator_run_task forward_pool_squares;
operator_run_task forward_pool_pairs;
operator_run_task forward_pool_equal_runs;
operator_run_task forward_pool_runs;
operator_run_task forward_pool_strips;
operator_run_task forward_pool_rows;

#endif
