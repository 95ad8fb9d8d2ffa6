// The table by which gradInput is filled where windows don't share a position.
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/adaptive_pooling.h"

#include <string.h>

// Walks over the elements of planes that lie one after the other, as if they were one row.
struct walk {
  int64_t row, column;  // in the window
  int64_t first_window; // of the row of windows
  int64_t window;       // in it
};

static void walk_on(struct walk *walk, const struct expand_table *table) {
  if (++walk->column < table->window_columns) {
    return;
  }
  walk->column = 0;
  if (++walk->window < table->output_columns) {
    return;
  }
  walk->window = 0;
  if (++walk->row == table->window_rows) {
    walk->row = 0;
    walk->first_window += table->output_columns;
  }
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
  table->half = true;
  table->last_base = 0;
  struct walk walk = {0};
  for (int64_t vector = 0; vector < table->vectors; vector++) {
    int64_t windows[EXPAND_LANES_MAX], first = INT64_MAX;
    for (int32_t lane = 0; lane < lanes; lane++) {
      windows[lane] = walk.first_window + walk.window;
      first = windows[lane] < first ? windows[lane] : first;
      walk_on(&walk, table);
    }
    table->base[vector] = (int32_t)first;
    table->last_base = table->base[vector] > table->last_base ? table->base[vector] : table->last_base;
    for (int32_t lane = 0; lane < lanes; lane++) {
      int64_t window = windows[lane] - first;
      if (window >= lanes) {
        return false;
      }
      table->half = table->half && window < lanes / 2;
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
