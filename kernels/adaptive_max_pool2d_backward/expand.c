// The table by which gradInput is filled where windows don't share a position.
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/adaptive_pooling.h"

#include <string.h>

// The window over an element, if planes are one row.
static int64_t window_of(const struct expand_table *table, int64_t element) {
  return element / table->columns / table->window_rows * table->output_columns +
         element % table->columns / table->window_columns;
}

static bool build_group(struct expand_table *table, int32_t lanes) {
  int64_t window_row = table->window_rows * table->columns;
  int64_t window_rows = lanes / pooling_greatest_divisor(lanes, window_row);
  table->vectors = window_rows * window_row / lanes;
  table->group_gradients = window_rows * table->output_columns;
  // A vector reaches into two planes at most.
  if (table->vectors > EXPAND_VECTORS_MAX || table->plane_elements < lanes) {
    return false;
  }
  for (int64_t vector = 0; vector < table->vectors; vector++) {
    int64_t first = INT64_MAX;
    for (int32_t lane = 0; lane < lanes; lane++) {
      int64_t window = window_of(table, vector * lanes + lane);
      first = window < first ? window : first;
    }
    table->base[vector] = (int32_t)first;
    for (int32_t lane = 0; lane < lanes; lane++) {
      int64_t window = window_of(table, vector * lanes + lane) - first;
      if (window >= lanes) {
        return false;
      }
      table->lanes[vector][lane] = (int32_t)window;
    }
  }
  return true;
}

bool expand_table_build(struct expand_table *table, int64_t rows, int64_t output_rows, int32_t lanes,
                        bool whole_planes) {
  if (rows % output_rows != 0 || table->columns % table->output_columns != 0) {
    return false;
  }
  table->window_rows = rows / output_rows;
  table->window_columns = table->columns / table->output_columns;
  table->plane_elements = rows * table->columns;
  table->plane_gradients = output_rows * table->output_columns;
  // With larger windows it takes less to scatter their gradients.
  if (table->window_columns > lanes || table->window_rows > lanes / table->window_columns) {
    return false;
  }
  for (int32_t lane = 0; lane < lanes; lane++) {
    table->iota[lane] = lane;
    table->lanes[0][lane] = (int32_t)(lane / table->window_columns);
  }
  table->vectors = 0;
  if (table->window_columns > 1 && lanes % table->window_columns == 0 && table->columns % lanes == 0 &&
      table->output_columns >= lanes / 2) {
    return true;
  }
  return whole_planes && build_group(table, lanes);
}
