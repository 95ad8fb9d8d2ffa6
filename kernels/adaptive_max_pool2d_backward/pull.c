// Which code path's kernels there are, and the table by which rows of gradInput are pulled from gradOutput.
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/adaptive_pooling.h"

#include <string.h>

const struct backward_kernels *backward_kernels_find(enum cpu_path path, enum data_type value_type,
                                                     enum data_type index_type) {
  switch (path) {
  case CPU_PATH_AVX512:
    return backward_kernels_avx512(value_type, index_type);
  case CPU_PATH_AVX2:
    return backward_kernels_avx2(value_type, index_type);
  case CPU_PATH_NEON:
    return backward_kernels_neon(value_type, index_type);
  default:
    return backward_kernels_scalar(value_type, index_type);
  }
}

// The windows that cover a row or column: [begin, end) of those of gradOutput.
struct cover {
  int64_t begin, end;
};

static struct cover cover_of(int64_t position, int64_t inputs, int64_t outputs) {
  return (struct cover){
      .begin = position * outputs / inputs,
      .end = ((position + 1) * outputs + inputs - 1) / inputs,
  };
}

// The number of the pattern in the table, which gets it if it is new; -1 if the table is full.
static int32_t pattern_number(struct pull_table *table, const struct pull_pattern *pattern) {
  // A new one is likely to be that of a vector shortly before.
  for (int64_t i = table->pattern_count; i-- > 0;) {
    if (memcmp(&table->pattern[i], pattern, sizeof *pattern) == 0) {
      return (int32_t)i;
    }
  }
  if (table->pattern_count == PULL_PATTERNS_MAX) {
    return -1;
  }
  table->pattern[table->pattern_count] = *pattern;
  return (int32_t)table->pattern_count++;
}

// Adds the slot in which each lane has its window number `turn`; false if it doesn't fit.
static bool add_slot(struct pull_table *table, const struct cover *covers, int32_t lanes, int64_t turn) {
  int64_t first = INT64_MAX, last = -1;
  for (int32_t lane = 0; lane < lanes; lane++) {
    int64_t window = covers[lane].begin + turn;
    if (window < covers[lane].end) {
      first = window < first ? window : first;
      last = window > last ? window : last;
    }
  }
  if (last < first) { // no lane has one
    first = 0;
    last = 0;
  }
  if (last - first >= 2 * lanes || table->slots == PULL_SLOTS_MAX) {
    return false;
  }
  struct pull_pattern pattern = {.width = last - first < lanes ? 1 : 2};
  bool as_they_come = true;
  for (int32_t lane = 0; lane < lanes; lane++) {
    int64_t window = covers[lane].begin + turn;
    if (window < covers[lane].end) {
      pattern.active[lane] = -1;
      pattern.lanes[lane] = (int32_t)(window - first);
      as_they_come = as_they_come && window - first == lane;
    }
  }
  if (as_they_come) {
    pattern.width = 0;
    for (int32_t lane = 0; lane < lanes; lane++) {
      pattern.lanes[lane] = lane;
    }
  }
  int32_t number = pattern_number(table, &pattern);
  if (number < 0) {
    return false;
  }
  table->width = pattern.width > table->width ? pattern.width : table->width;
  table->slot[table->slots++] = (struct pull_slot){(int32_t)first, number};
  // Slots of one vector are loaded alike.
  int64_t reach = first + 2 * lanes - table->output_columns;
  table->reach = reach > table->reach ? reach : table->reach;
  return true;
}

// The windows over each lane's column; the most for one.
static int64_t cover_vector(const struct pull_table *table, int64_t vector, int32_t lanes,
                            struct cover *covers) {
  int64_t most = 0;
  for (int32_t lane = 0; lane < lanes; lane++) {
    int64_t column = vector * lanes + lane;
    covers[lane] = (struct cover){0};
    if (column < table->columns) {
      covers[lane] = cover_of(column, table->columns, table->output_columns);
      int64_t count = covers[lane].end - covers[lane].begin;
      most = count > most ? count : most;
    }
  }
  return most;
}

bool pull_table_build(struct pull_table *table, int32_t lanes) {
  table->vectors = (table->columns + lanes - 1) / lanes;
  table->slots = 0;
  table->reach = 0;
  table->width = 0;
  for (int32_t lane = 0; lane < lanes; lane++) {
    table->iota[lane] = lane;
  }
  table->pattern_count = 0;
  if (table->vectors > PULL_SLOTS_MAX || table->rows > PULL_ROWS_MAX) {
    return false;
  }
  for (int64_t row = 0; row < table->rows; row++) {
    struct cover cover = cover_of(row, table->rows, table->output_rows);
    table->row[row] = (struct pull_row){(int32_t)cover.begin, (int32_t)(cover.end - cover.begin)};
  }
  const int64_t most = pooling_largest_window(table->output_columns, table->columns);
  for (int64_t vector = 0; vector < table->vectors; vector++) {
    struct cover covers[16];
    int64_t turns = cover_vector(table, vector, lanes, covers);
    table->first_slot[vector] = (uint16_t)table->slots;
    // With an empty slot here and there vectors are alike.
    for (int64_t turn = 0; turn < (most <= 2 ? most : turns); turn++) {
      if (!add_slot(table, covers, lanes, turn)) {
        return false;
      }
    }
  }
  table->first_slot[table->vectors] = (uint16_t)table->slots;
  table->slots_alike = table->first_slot[1];
  for (int64_t vector = 1; vector < table->vectors; vector++) {
    bool alike = table->first_slot[vector + 1] - table->first_slot[vector] == table->slots_alike;
    table->slots_alike = alike ? table->slots_alike : 0;
  }
  int64_t window_rows = pooling_window_count(table->rows, table->output_rows);
  table->strips = table->width <= 1 && table->slots_alike > 0 && table->slots_alike <= 2 &&
                  2 * window_rows >= 3 * table->output_rows;
  table->held = table->strips && table->rows >= table->output_rows && table->slots <= PULL_HELD_SLOTS;
  return true;
}
