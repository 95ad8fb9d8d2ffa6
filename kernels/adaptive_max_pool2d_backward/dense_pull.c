// Pulls rows of gradInput from gradOutput: in pieces that stay in a core's first cache, or held, in one go.
#include "kernels/adaptive_max_pool2d_backward/dense_job.h"

// Rows of planes, and the gradients of the windows over them.
struct piece {
  struct backward_pull pull;
  int64_t count; // from the first of these gradients to the last
  bool within;   // nothing beyond the tensors is loaded with them
};

static struct piece piece_of(const struct dense_job *job, int64_t plane, int64_t planes, int64_t row_begin,
                             int64_t row_end) {
  const struct pull_table *table = &job->table;
  int64_t begin = row_begin * table->output_rows / table->rows;
  int64_t end = (row_end * table->output_rows + table->rows - 1) / table->rows;
  int64_t first = plane * job->plane_gradients + begin * table->output_columns;
  int64_t count = (planes - 1) * job->plane_gradients + (end - begin) * table->output_columns;
  int64_t reached = first + count + table->reach;
  int64_t offset = plane * job->plane_elements + row_begin * table->columns;
  return (struct piece){
      .pull = {.table = table,
               .grad_input = job->grad_input + offset * job->value_bytes,
               .gradients = job->gradients + first * job->value_bytes,
               .indices = job->indices + first * job->index_bytes,
               .planes = planes,
               .row_begin = row_begin,
               .row_end = row_end,
               .output_begin = begin,
               .streams = job->streams && job->value_bytes == sizeof(float) &&
                          table->columns * (int64_t)sizeof(float) % CACHE_LINE == 0 &&
                          (uintptr_t)job->grad_input % CACHE_LINE == 0},
      .count = count,
      .within = reached <= job->plan->grad_output.planes * job->plane_gradients,
  };
}

// Pulls rows whose gradients fit in the stage; how many gradients were taken.
static int64_t pull_rows(struct dense_job *job, size_t slot, int64_t plane, int64_t planes, int64_t row_begin,
                         int64_t row_end) {
  struct piece piece = piece_of(job, plane, planes, row_begin, row_end);
  int32_t *stage = (int32_t *)dense_slot_stage(job, slot);
  float *float_stage = (float *)stage + job->plan->stage_gradients;
  job->slots[slot].zero_stage = false;
  if (job->index_bytes != sizeof(int32_t) || !piece.within) {
    if (!job->kernels->narrow(stage, piece.pull.indices, piece.count)) {
      return 0;
    }
    piece.pull.indices = stage;
  }
  if (job->value_bytes != sizeof(float) || !piece.within) {
    job->kernels->widen(float_stage, piece.pull.gradients, piece.count);
    piece.pull.gradients = float_stage;
  }
  return job->kernels->pull(&piece.pull);
}

// Rows [row_begin, row_end) of one plane in pieces that fit in the stage.
static int64_t pull_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                         int64_t row_end) {
  int64_t taken = 0;
  for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += job->pull_rows) {
    int64_t end = row_end - row < job->pull_rows ? row_end : row + job->pull_rows;
    taken += pull_rows(job, slot, plane, 1, row, end);
  }
  return taken;
}

static int64_t pull_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  const int64_t rows = job->plan->grad_input.rows;
  int64_t taken = 0;
  if (job->pull_rows < rows) {
    for (int64_t i = 0; i < planes; i++) {
      taken += pull_band(job, slot, plane + i, 0, rows);
    }
    return taken;
  }
  int64_t at_once = BACKWARD_PULL_GRADIENTS / job->plane_gradients;
  if (at_once > DENSE_PULL_ELEMENTS / job->plane_elements) {
    at_once = DENSE_PULL_ELEMENTS > job->plane_elements ? DENSE_PULL_ELEMENTS / job->plane_elements : 1;
  }
  for (int64_t done = 0; done < planes; done += at_once) {
    int64_t count = planes - done < at_once ? planes - done : at_once;
    taken += pull_rows(job, slot, plane + done, count, 0, rows);
  }
  return taken;
}

int64_t dense_pull_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                        int64_t row_end) {
  if (!job->holds) {
    return pull_band(job, slot, plane, row_begin, row_end);
  }
  int64_t taken = 0;
  int64_t at_once = 1 + OPERATOR_RUN_CANCEL_ELEMENTS / job->plan->grad_input.columns;
  for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += at_once) {
    int64_t end = row_end - row < at_once ? row_end : row + at_once;
    struct piece piece = piece_of(job, plane, 1, row, end);
    taken += piece.within ? job->kernels->pull_held(&piece.pull) : pull_band(job, slot, plane, row, end);
  }
  return taken;
}

int64_t dense_pull_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  // The others are followed by as many gradients as are loaded beyond them.
  int64_t last = (job->table.reach + job->plane_gradients - 1) / job->plane_gradients;
  int64_t left = job->plan->grad_output.planes - last - plane;
  int64_t held = !job->holds || left < 0 ? 0 : left < planes ? left : planes;
  int64_t taken = 0;
  if (held > 0) {
    struct piece piece = piece_of(job, plane, held, 0, job->plan->grad_input.rows);
    taken = job->kernels->pull_held(&piece.pull);
  }
  return held < planes ? taken + pull_planes(job, slot, plane + held, planes - held) : taken;
}
