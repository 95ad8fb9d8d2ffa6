// Windows in rows: first the best of each column over the rows of the windows, then of each window over its
// columns.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_ROWS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_ROWS_H

#include "kernels/adaptive_max_pool2d/vector_elements.h"

// As registers hold.
#if FORWARD_VECTOR_BYTES == 64
#define COLUMNS_AT_ONCE 8
#else
#define COLUMNS_AT_ONCE 4
#endif

// Rows of so few vectors leave it to the processor to note NaN. Longer ones are bound by the memory: without
// the comparisons they were no faster, or slower.
#define NOTED_VECTORS_MAX 4

INLINE void store_candidates(const struct best *best, const struct origin *origin, int64_t lanes, bool merge,
                             int64_t *to) {
  wides candidates[NUMBER_GROUPS];
  candidates_of(best, origin, lanes, candidates);
  wides_in_memory *stored = (wides_in_memory *)to;
  UNROLLED for (int i = 0; i < NUMBER_GROUPS; i++) {
    stored[i] = merge ? larger_wides(candidates[i], stored[i]) : candidates[i];
  }
}

// Whether the processor has noted a NaN since it was asked last, with all that led to these candidates
// compared before.
static bool noted_nan_after(const int64_t *candidates) {
#if NOTES_NAN
  __asm__ volatile("" : : "r"(candidates) : "memory");
  uint32_t state = _mm_getcsr();
  if ((state & _MM_EXCEPT_INVALID) != 0) {
    _mm_setcsr(state & ~(uint32_t)_MM_EXCEPT_INVALID);
    return true;
  }
#else
  (void)candidates;
#endif
  return false;
}

// Rows of which the best of each column is looked for.
struct column_search {
  const element *rows;
  int64_t count;
  int64_t columns;
  int64_t row_stride;
  int64_t rows_ahead; // for which memory is asked
  numbers step;       // of places, from row to row
  bool noted;         // NaN are the processor's to note, but in a single row
};

// `vectors` vectors of columns, from the first row to the last. The last vector ends where the columns do,
// and may overlap with the one before: `columns` tells where each begins. Where a vector of a row is not all
// in the storage, `left` elements are from the first on; otherwise it's INT64_MAX.
INLINE void search_columns(const struct column_search *search, int64_t column, int vectors, int64_t left,
                           struct watch *watch, struct best *best, int64_t *columns) {
  const element *rows = search->rows;
  const int64_t row_stride = search->row_stride;
  const int64_t last = search->columns > LANES ? search->columns - LANES : 0;
  bool whole = left == INT64_MAX;
  UNROLLED for (int i = 0; i < vectors; i++) {
    columns[i] = column + i * LANES < last ? column + i * LANES : last;
    numbers raw = whole ? load_raw(rows + columns[i]) : load_first(rows, left);
    best[i] = (struct best){numbers_of(raw), {0}};
    if (!search->noted || search->count == 1) {
      watch_two(watch, best[i].values, best[i].values);
    }
  }
  const char *wanted_soon = (const char *)(rows + (search->rows_ahead + 1) * row_stride);
  numbers place = {0};
  for (int64_t row = 1; row < search->count; row++) {
    rows += row_stride;
    place = add_places(place, search->step);
    numbers values[COLUMNS_AT_ONCE];
    UNROLLED for (int i = 0; i < vectors; i++) {
      ask_for(wanted_soon + columns[i] * (int64_t)sizeof *rows);
      values[i] = numbers_of(whole ? load_raw(rows + columns[i]) : load_first(rows, left - row * row_stride));
    }
    wanted_soon += row_stride * (int64_t)sizeof *rows;
    if (!search->noted) {
      UNROLLED for (int i = 0; i < vectors; i += 2) {
        watch_two(watch, values[i], values[i + 1 < vectors ? i + 1 : i]);
      }
    }
    UNROLLED for (int i = 0; i < vectors; i++) {
      compete(&best[i], values[i], place);
    }
  }
  UNROLLED for (int i = 0; i < vectors; i++) {
    watch_maxima(watch, best[i].values);
  }
}

INLINE void reduce_columns(const struct forward_elements *elements, const struct forward_piece *piece,
                           int64_t column, int vectors, int64_t left, bool merge, struct watch *watch,
                           int64_t *candidates) {
  const struct column_search search = {
      .rows = element_at(elements, piece->offset),
      .count = piece->rows,
      .columns = piece->columns,
      .row_stride = piece->row_stride,
      .rows_ahead = piece->rows_ahead,
      .step = every_number(HALF ? 1 : piece->row_positions),
      .noted = NOTES_NAN && vectors <= NOTED_VECTORS_MAX,
  };
  struct best best[COLUMNS_AT_ONCE];
  int64_t columns[COLUMNS_AT_ONCE];
  search_columns(&search, column, vectors, left, watch, best, columns);
  UNROLLED for (int i = 0; i < vectors; i++) {
    struct origin origin = {element_at(elements, piece->offset + columns[i]), piece->row_stride,
                            piece->position + (int32_t)columns[i], piece->row_positions};
    store_candidates(&best[i], &origin, piece->columns < LANES ? piece->columns : LANES, merge,
                     candidates + columns[i]);
  }
}

// What a vector of columns is reduced with, several at a time from a column on; the task is the user's.
typedef void reduce_vectors(const void *task, int64_t column, int vectors, struct watch *watch);

// All columns, of vectors that are all in the storage.
INLINE void reduce_all_vectors(const void *task, int64_t columns, reduce_vectors *reduce,
                               struct watch *watch) {
  int64_t vectors = (columns + LANES - 1) / LANES;
  int64_t column = 0;
  for (; vectors >= COLUMNS_AT_ONCE; vectors -= COLUMNS_AT_ONCE) {
    reduce(task, column, COLUMNS_AT_ONCE, watch);
    column += COLUMNS_AT_ONCE * LANES;
  }
  switch (vectors) {
#define REMAINING(count)                                                                                     \
  case count:                                                                                                \
    reduce(task, column, count, watch);                                                                      \
    break
    REMAINING(1);
    REMAINING(2);
    REMAINING(3);
#if COLUMNS_AT_ONCE > 4
    REMAINING(4);
    REMAINING(5);
    REMAINING(6);
    REMAINING(7);
#endif
#undef REMAINING
  default:
    break;
  }
}

struct piece_task {
  const struct forward_elements *elements;
  const struct forward_piece *piece;
  bool merge;
  int64_t *candidates;
};

INLINE void reduce_vectors_of_piece(const void *task, int64_t column, int vectors, struct watch *watch) {
  const struct piece_task *piece = task;
  reduce_columns(piece->elements, piece->piece, column, vectors, INT64_MAX, piece->merge, watch,
                 piece->candidates);
}

INLINE bool reduce_piece(const struct forward_elements *elements, const struct forward_piece *piece,
                         bool merge, int64_t *candidates) {
  struct watch watch = watch_nothing();
  int64_t left = elements->count - piece->offset;
  if (piece->columns < LANES && (piece->rows - 1) * piece->row_stride + LANES > left) {
    reduce_columns(elements, piece, 0, 1, left, merge, &watch, candidates);
  } else {
    const struct piece_task task = {elements, piece, merge, candidates};
    reduce_all_vectors(&task, piece->columns, reduce_vectors_of_piece, &watch);
  }
  return watch_saw_nan(&watch, elements->infinity);
}

static bool reduce_rows(const struct forward_elements *elements, const struct forward_piece *piece,
                        bool merge, int64_t *candidates) {
  return reduce_piece(elements, piece, merge, candidates);
}

INLINE wides reduce_window(const int64_t *candidates, int64_t width) {
  wides winner = *(const wides_in_memory *)candidates;
  if (width < WIDE_LANES) {
    return keep_first(winner, width, INT64_MIN);
  }
  int64_t at = WIDE_LANES;
  for (; at + WIDE_LANES <= width; at += WIDE_LANES) {
    winner = larger_wides(winner, *(const wides_in_memory *)(candidates + at));
  }
  if (at < width) {
    winner = larger_wides(winner, *(const wides_in_memory *)(candidates + width - WIDE_LANES));
  }
  return winner;
}

// The outputs of a vector of candidates.
INLINE void store_winners(const struct forward_results *results, int64_t at, wides winners, int64_t count) {
  few_ints values, positions;
  read_candidates(winners, &values, &positions);
  wides wide_positions = widen_few(positions);
#if FORWARD_ELEMENT_BITS == 16
  few_halves raw = __builtin_convertvector((few_words)values >> 16, few_halves);
#else
  few_ints raw = values;
#endif
  size_t index_bytes = results->wide_indices ? sizeof(int64_t) : sizeof(int32_t);
  char *to_values = (char *)results->values + (size_t)at * sizeof(element);
  char *to_indices = (char *)results->indices + (size_t)at * index_bytes;
  if (at + WIDE_LANES > results->room) {
    const void *from = results->wide_indices ? (const void *)&wide_positions : (const void *)&positions;
    memcpy(to_values, &raw, (size_t)count * sizeof(element));
    memcpy(to_indices, from, (size_t)count * index_bytes);
    return;
  }
  memcpy(to_values, &raw, sizeof raw);
  if (results->wide_indices) {
    memcpy(to_indices, &wide_positions, sizeof wide_positions);
  } else {
    memcpy(to_indices, &positions, sizeof positions);
  }
}

static void reduce_windows(const struct forward_windows *windows, const int64_t *candidates,
                           const struct forward_results *results) {
  int64_t total = windows->rows * windows->count;
  int64_t window = 0;
  for (int64_t done = 0; done < total; done += WIDE_LANES) {
    wides winners[WIDE_LANES];
    UNROLLED for (int i = 0; i < WIDE_LANES; i++) {
      winners[i] = reduce_window(candidates + windows->begins[window], windows->widths[window]);
      // Beyond the last row the last window is looked at again, to no effect.
      if (done + i + 1 < total && ++window == windows->count) {
        window = 0;
        candidates += windows->pitch;
      }
    }
    int64_t left = total - done;
    store_winners(results, done, largest_of_each(winners), left < WIDE_LANES ? left : WIDE_LANES);
  }
}

#endif
