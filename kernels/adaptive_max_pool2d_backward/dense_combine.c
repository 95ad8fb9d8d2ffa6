// Scatters gradients of 16 bits without sums of their own in memory: those that go to the same position are
// combined where they are, vectors of them at a time, and the last of them is stored last.
//
// That is right where indices lie in their windows. One that doesn't is left to the general way.
#include "kernels/adaptive_max_pool2d_backward/dense_job.h"

#include <string.h>

// In a slot's sums, which aren't needed then: `entries` of each of indices, gradients and what they become.
struct combine_stage {
  int32_t *indices;
  float *gradients;
  uint16_t *combined;
  int64_t before; // entries before the first line
  int64_t lines;  // that have room behind
};

static struct combine_stage stage_of(const struct dense_job *job, size_t slot) {
  const struct combine_table *table = &job->combine;
  const int64_t entry_bytes = (int64_t)(sizeof(int32_t) + sizeof(float) + sizeof(uint16_t));
  int64_t entries = job->plan->slot_floats * (int64_t)sizeof(float) / entry_bytes;
  entries = entries / COMBINE_BLOCK * COMBINE_BLOCK;
  struct combine_stage stage = {.indices = (int32_t *)dense_slot_sums(job, slot)};
  // A row and one more; lines of single rows are loaded with the row above.
  stage.before = (2 * table->output_columns + 1 + COMBINE_BLOCK - 1) / COMBINE_BLOCK * COMBINE_BLOCK;
  stage.gradients = (float *)(stage.indices + entries);
  stage.combined = (uint16_t *)(stage.gradients + entries);
  stage.lines = (entries - stage.before - COMBINE_BLOCK) / table->count;
  return stage;
}

bool dense_can_combine(struct dense_job *job) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  if (job->kernels->combine == NULL || job->disjoint) {
    return false;
  }
  job->combine.columns = grad_input->columns;
  job->combine.output_columns = grad_output->columns;
  return combine_table_build(&job->combine, grad_input->rows, grad_output->rows,
                             job->plan->bands_per_plane == 0) &&
         stage_of(job, 0).lines > 0;
}

// Loads `lines` of gradients, the first of which is `line`'s, and as many as `above` before it.
static bool load_lines(const struct dense_job *job, const struct combine_stage *stage,
                       const struct backward_line *line, int64_t lines, int64_t above) {
  const unsigned char *gradients = line->gradients, *indices = line->indices;
  int64_t begin = stage->before - above;
  int64_t count = above + lines * job->combine.count;
  for (int64_t i = 0; i <= job->combine.output_columns; i++) {
    stage->indices[begin - 1 - i] = -1;
  }
  job->kernels->widen(stage->gradients + begin, gradients - above * job->value_bytes, count);
  return job->kernels->narrow(stage->indices + begin, indices - above * job->index_bytes, count);
}

static bool combine_planes(const struct dense_job *job, const struct combine_stage *stage,
                           const struct backward_line *line, int64_t planes) {
  struct backward_combine combine = {
      .table = &job->combine,
      .indices = stage->indices + stage->before,
      .gradients = stage->gradients + stage->before,
      .combined = stage->combined + stage->before,
      .lines = planes,
      .last_row = job->combine.last_row[0],
  };
  return load_lines(job, stage, line, planes, 0) && job->kernels->combine(&combine);
}

// Rows [row, row + rows) of gradOutput, the first of which is `line`'s; `continues` says that the row above
// counts too.
static bool combine_rows(const struct dense_job *job, const struct combine_stage *stage,
                         const struct backward_line *line, int64_t row, int64_t rows, bool continues) {
  const struct combine_table *table = &job->combine;
  const int64_t inputs = job->plan->grad_input.rows, outputs = job->plan->grad_output.rows;
  if (!load_lines(job, stage, line, rows, continues ? table->count : 0)) {
    return false;
  }
  for (int64_t i = 0; i < rows; i++) {
    int64_t at = stage->before + i * table->count;
    int64_t begin = pooling_window_begin(row + i, inputs, outputs);
    int64_t last_row = pooling_window_end(row + i, inputs, outputs) - 1 - begin;
    struct backward_combine combine = {
        .table = table,
        .indices = stage->indices + at,
        .gradients = stage->gradients + at,
        .combined = stage->combined + at,
        .lines = 1,
        .first = (int32_t)(begin * table->columns),
        .last_row = table->last_row[last_row - table->shortest],
    };
    if (!job->kernels->combine(&combine)) {
      return false;
    }
  }
  return true;
}

static void skip(const struct dense_job *job, struct backward_line *line, int64_t gradients,
                 int64_t elements) {
  line->gradients = (const unsigned char *)line->gradients + gradients * job->value_bytes;
  line->indices = (const unsigned char *)line->indices + gradients * job->index_bytes;
  line->grad_input = (unsigned char *)line->grad_input + elements * job->value_bytes;
}

static void store_lines(const struct dense_job *job, const struct combine_stage *stage,
                        const struct backward_line *line, int64_t count, int64_t planes) {
  job->kernels->place(&(struct backward_place){
      .indices = stage->indices + stage->before,
      .combined = stage->combined + stage->before,
      .count = count,
      .planes = planes,
      .grad_input = line->grad_input,
      .first = line->first,
      .owned = line->owned,
  });
}

bool dense_combine_planes(struct dense_job *job, size_t slot, struct backward_line line, bool zero) {
  const struct combine_stage stage = stage_of(job, slot);
  const bool whole = job->combine.count == job->plane_gradients;
  job->slots[slot].zero_sums = false;
  for (int64_t left = line.planes; left > 0 && !dense_is_over(job);) {
    int64_t planes = !whole ? 1 : left < stage.lines ? left : stage.lines;
    if (!zero) {
      memset(line.grad_input, 0, (size_t)(planes * line.owned * job->value_bytes));
    }
    if (whole) {
      if (!combine_planes(job, &stage, &line, planes)) {
        return false;
      }
      store_lines(job, &stage, &line, line.count, planes);
      skip(job, &line, planes * line.count, planes * line.owned);
    } else {
      for (int64_t row = 0; row < job->plan->grad_output.rows; row += stage.lines) {
        int64_t rows = job->plan->grad_output.rows - row;
        rows = rows < stage.lines ? rows : stage.lines;
        if (!combine_rows(job, &stage, &line, row, rows, row > 0)) {
          return false;
        }
        store_lines(job, &stage, &line, rows * job->combine.count, 1);
        skip(job, &line, rows * job->combine.count, 0);
      }
      skip(job, &line, 0, line.owned);
    }
    left -= planes;
  }
  return true;
}

// Rows that were combined, the first of which is `row`. Only those whose windows reach beyond the owned
// positions have indices that aren't owned.
static void store_rows(const struct dense_job *job, const struct combine_stage *stage,
                       const struct backward_line *line, int64_t row, int64_t rows) {
  const struct combine_table *table = &job->combine;
  const int64_t inputs = job->plan->grad_input.rows, outputs = job->plan->grad_output.rows;
  for (int64_t i = 0; i < rows; i++) {
    int64_t begin = pooling_window_begin(row + i, inputs, outputs) * table->columns;
    int64_t end = pooling_window_end(row + i, inputs, outputs) * table->columns;
    bool inside = begin >= line->first && end <= line->first + line->owned;
    (inside ? job->kernels->place : job->kernels->place_owned)(&(struct backward_place){
        .indices = stage->indices + stage->before + i * table->count,
        .combined = stage->combined + stage->before + i * table->count,
        .count = table->count,
        .planes = 1,
        .grad_input = line->grad_input,
        .first = line->first,
        .owned = line->owned,
    });
  }
}

bool dense_combine_rows(struct dense_job *job, size_t slot, struct backward_line line, int64_t row_begin,
                        int64_t row_end) {
  const struct combine_stage stage = stage_of(job, slot);
  job->slots[slot].zero_sums = false;
  memset(line.grad_input, 0, (size_t)(line.owned * job->value_bytes));
  for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += stage.lines) {
    int64_t rows = row_end - row < stage.lines ? row_end - row : stage.lines;
    if (!combine_rows(job, &stage, &line, row, rows, row > row_begin)) {
      return false;
    }
    store_rows(job, &stage, &line, row, rows);
    skip(job, &line, rows * line.count, 0);
  }
  return true;
}
