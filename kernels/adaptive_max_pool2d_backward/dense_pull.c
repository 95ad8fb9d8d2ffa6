// Pulls rows of gradInput from gradOutput, in pieces that stay in a core's first cache.
#include "kernels/adaptive_max_pool2d_backward/dense_job.h"

// Pulls rows of planes; how many gradients were taken.
static int64_t pull_rows(struct dense_job *job, size_t slot, int64_t plane, int64_t planes, int64_t row_begin,
                         int64_t row_end) {
  const struct pull_table *table = &job->table;
  int64_t begin = row_begin * table->output_rows / table->rows;
  int64_t end = (row_end * table->output_rows + table->rows - 1) / table->rows;
  int64_t first = plane * job->plane_gradients + begin * table->output_columns;
  int64_t count = (planes - 1) * job->plane_gradients + (end - begin) * table->output_columns;
  int64_t reached = first + count + table->reach;
  bool within = reached <= job->plan->grad_output.planes * job->plane_gradients;
  const unsigned char *indices = job->indices + first * job->index_bytes;
  const unsigned char *gradients = job->gradients + first * job->value_bytes;
  int32_t *stage = (int32_t *)dense_slot_stage(job, slot);
  float *float_stage = (float *)stage + job->plan->stage_gradients;
  int64_t offset = plane * job->plane_elements + row_begin * table->columns;
  struct backward_pull pull = {
      .table = table,
      .grad_input = job->grad_input + offset * job->value_bytes,
      .gradients = (const float *)gradients,
      .indices = (const int32_t *)indices,
      .planes = planes,
      .row_begin = row_begin,
      .row_end = row_end,
      .output_begin = begin,
      .streams = job->streams && job->value_bytes == sizeof(float) &&
                 table->columns * (int64_t)sizeof(float) % CACHE_LINE == 0 &&
                 (uintptr_t)job->grad_input % CACHE_LINE == 0,
  };
  job->slots[slot].zero_stage = false;
  if (job->index_bytes != sizeof(int32_t) || !within) {
    if (!job->kernels->narrow(stage, indices, count)) {
      return 0;
    }
    pull.indices = stage;
  }
  if (job->value_bytes != sizeof(float) || !within) {
    job->kernels->widen(float_stage, gradients, count);
    pull.gradients = float_stage;
  }
  return job->kernels->pull(&pull);
}

// Rows [row_begin, row_end) of one plane in pieces that fit in the stage.
int64_t dense_pull_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                        int64_t row_end) {
  int64_t taken = 0;
  for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += job->pull_rows) {
    int64_t end = row_end - row < job->pull_rows ? row_end : row + job->pull_rows;
    taken += pull_rows(job, slot, plane, 1, row, end);
  }
  return taken;
}

int64_t dense_pull_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  const int64_t rows = job->plan->grad_input.rows;
  int64_t taken = 0;
  if (job->pull_rows < rows) {
    for (int64_t i = 0; i < planes; i++) {
      taken += dense_pull_band(job, slot, plane + i, 0, rows);
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
