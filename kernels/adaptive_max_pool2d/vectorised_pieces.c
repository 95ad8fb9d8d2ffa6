// How the outputs are cut into pieces: windows, chunks of a row, and rows one after the other.
#include "kernels/adaptive_max_pool2d/vectorised.h"

#include <assert.h>
#include <string.h>

struct windows forward_windows_at(int64_t position, int64_t input, int64_t output) {
  int64_t begin = pooling_window_begin(position, input, output);
  // The difference fits, even where the products wrap.
  int64_t rest = (int64_t)((uint64_t)position * (uint64_t)input - (uint64_t)begin * (uint64_t)output);
  return (struct windows){.input = input, .output = output, .begin = begin, .rest = rest};
}

struct cursor forward_cursor_at(const struct vector_job *job, size_t unit) {
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
  cursor.next = forward_windows_at(cursor.row, plan->self.rows, rows);
  forward_cursor_read_window(&cursor);
  return cursor;
}

// Fills the tables of METHOD_PAIRS: two vectors of columns hold what a vector of outputs needs.
static void fill_lanes(const struct vector_job *job, struct chunk *chunk) {
  int64_t lanes = job->path->words;
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

void forward_fill_chunk(const struct vector_job *job, struct chunk *chunk, int64_t first_output) {
  int64_t columns = job->forward->plan->self.columns;
  int64_t outputs = job->forward->plan->output_out.columns;
  struct windows windows = forward_windows_at(first_output, columns, outputs);
  int64_t step = columns / outputs;
  int64_t step_rest = columns % outputs;
  chunk->first_output = first_output;
  chunk->outputs = 0;
  chunk->first_column = windows.begin;
  chunk->widest = 0;
  while (first_output + chunk->outputs < outputs && chunk->outputs < OUTPUTS_MAX) {
    int64_t begin = windows.begin - chunk->first_column;
    int64_t end = next_window(&windows, step, step_rest) - chunk->first_column;
    if (chunk->outputs > 0 && end > COLUMNS_MAX) {
      break;
    }
    chunk->begins[chunk->outputs] = (int32_t)begin;
    chunk->widths[chunk->outputs] = (int32_t)(end - begin);
    chunk->widest = end - begin > chunk->widest ? (int32_t)(end - begin) : chunk->widest;
    chunk->outputs++;
    chunk->columns = end;
  }
  if (job->method == METHOD_PAIRS || job->method == METHOD_SQUARES) {
    fill_lanes(job, chunk);
  }
}

const struct chunk *forward_chunk_at(const struct vector_job *job, int64_t first_output, struct chunk *own) {
  if (first_output == 0) {
    return &job->chunk;
  }
  forward_fill_chunk(job, own, first_output);
  return own;
}

struct forward_results forward_results_at(const struct vector_job *job, int64_t flat, int64_t room) {
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

void forward_redo_rows(const struct vector_job *job, int64_t unit, uint64_t rows) {
  int64_t plane_rows = job->forward->plan->output_out.rows;
  for (; rows != 0; rows &= rows - 1) {
    int64_t row = unit + __builtin_ctzll(rows);
    forward_pool_row(job->forward, row / plane_rows, row % plane_rows);
  }
}
