// The table by which gradients are combined that go to the same position.
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/adaptive_pooling.h"

// What lies behind a line counts as inside, whatever it is.
static void fill_up(struct combine_table *table) {
  table->padded = (table->count + COMBINE_BLOCK - 1) / COMBINE_BLOCK * COMBINE_BLOCK;
  for (int64_t i = table->count; i < table->padded; i++) {
    table->base[i] = 0;
    table->last_column[i] = UINT32_MAX;
    table->last_row[0][i] = UINT32_MAX;
    table->last_row[1][i] = UINT32_MAX;
  }
}

// The first row has its columns already.
static void add_rows(struct combine_table *table, int64_t rows, int64_t output_rows) {
  for (int64_t row = 0; row < output_rows; row++) {
    int64_t begin = pooling_window_begin(row, rows, output_rows);
    int64_t last_row = pooling_window_end(row, rows, output_rows) - 1 - begin;
    for (int64_t column = 0; column < table->output_columns; column++) {
      int64_t at = row * table->output_columns + column;
      table->base[at] = table->base[column] + (uint32_t)(begin * table->columns);
      table->last_column[at] = table->last_column[column];
      table->last_row[0][at] = (uint32_t)last_row;
    }
  }
}

bool combine_table_build(struct combine_table *table, int64_t rows, int64_t output_rows, bool whole_planes) {
  const int64_t columns = table->columns, output_columns = table->output_columns;
  // With as many windows or fewer than positions, a window ends before the next but one begins.
  if (output_rows < BACKWARD_COMBINE_OUTPUTS_MIN || output_columns < BACKWARD_COMBINE_OUTPUTS_MIN ||
      output_rows > rows || output_columns > columns || output_columns > COMBINE_COUNT_MAX ||
      rows / output_rows + 2 > COMBINE_WINDOW_MAX / columns) {
    return false;
  }
  whole_planes = whole_planes && output_rows <= COMBINE_COUNT_MAX / output_columns;
  table->count = whole_planes ? output_rows * output_columns : output_columns;
  table->inverse = 1.0f / (float)columns;
  table->half = 0.5f / (float)columns;
  table->shortest = (rows + output_rows - 1) / output_rows - 1;
  for (int64_t column = 0; column < output_columns; column++) {
    int64_t begin = pooling_window_begin(column, columns, output_columns);
    table->base[column] = (uint32_t)begin;
    table->last_column[column] = (uint32_t)(pooling_window_end(column, columns, output_columns) - 1 - begin);
    table->last_row[0][column] = (uint32_t)table->shortest;
    table->last_row[1][column] = (uint32_t)table->shortest + 1;
  }
  if (whole_planes) {
    add_rows(table, rows, output_rows);
  }
  fill_up(table);
  return true;
}
