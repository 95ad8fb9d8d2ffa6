// Windows of two rows and columns each, without overlap, in rows that lie one after the other: what a vector
// of outputs needs are the even and the odd lanes of vectors of two rows.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_SQUARES_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_SQUARES_H

#include "kernels/adaptive_max_pool2d/vector_elements.h"

// How far ahead of what is looked at memory is asked for what comes next: as long as it takes to arrive.
#define SQUARES_AHEAD_BYTES 4096

// The places of a square's elements from the first of its pair of rows on, for a vector of squares.
struct square_places {
  numbers upper[2];
  numbers lower[2];
  numbers order; // see in_order
};

// A vector of outputs: elements, and places as above. In the order that left_numbers has.
struct square_winners {
  numbers raw;
  numbers places;
};

// Vectors of rows as they are in memory. Of equals the first wins: the left one, and the upper.
INLINE struct square_winners best_of_squares(const numbers upper[2], const numbers lower[2],
                                             const struct square_places *places, struct watch *watch) {
  numbers raw[4] = {left_numbers(upper[0], upper[1]), right_numbers(upper[0], upper[1]),
                    left_numbers(lower[0], lower[1]), right_numbers(lower[0], lower[1])};
  numbers values[4];
  UNROLLED for (int i = 0; i < 4; i++) {
    values[i] = numbers_of(raw[i]);
  }
  watch_two_busy(watch, values[0], values[1]);
  watch_two_busy(watch, values[2], values[3]);
  number_condition right_above = greater(values[1], values[0]);
  number_condition right_below = greater(values[3], values[2]);
  numbers above = larger(values[1], values[0]);
  numbers below = larger(values[3], values[2]);
  number_condition is_below = greater(below, above);
  numbers place_above = choose_numbers(right_above, places->upper[1], places->upper[0]);
  numbers place_below = choose_numbers(right_below, places->lower[1], places->lower[0]);
  struct square_winners winners = {.places = choose_numbers(is_below, place_below, place_above)};
#if FORWARD_ELEMENT_BITS == 16
  watch_maxima(watch, larger(below, above));
  winners.raw = choose_numbers(is_below, choose_numbers(right_below, raw[3], raw[2]),
                               choose_numbers(right_above, raw[1], raw[0]));
#else
  winners.raw = larger(below, above);
#endif
  return winners;
}

// A row of at least a vector of outputs. The last vector ends where the row does, and may overlap.
INLINE void pool_wide_squares(const element *upper, int64_t columns, int32_t position,
                              const struct square_places *places, const struct forward_results *results,
                              struct watch *watch) {
  const element *lower = upper + columns;
  int64_t last = columns / 2 - LANES;
  for (int64_t at = 0; at <= last; at = at == last || at + LANES <= last ? at + LANES : last) {
    const numbers above[2] = {load_raw(upper + 2 * at), load_raw(upper + 2 * at + LANES)};
    const numbers below[2] = {load_raw(lower + 2 * at), load_raw(lower + 2 * at + LANES)};
    struct square_winners winners = best_of_squares(above, below, places, watch);
    store_raw(results, at, in_order(winners.raw, places->order), LANES, true);
    store_places(results, at, in_order(winners.places, places->order), position + 2 * (int32_t)at, LANES,
                 true);
  }
}

#if FORWARD_ELEMENT_BITS == 16
// Two vectors that hold the same row of `rows` pairs of rows, each from its own share of the lanes on.
INLINE void load_shared(const element *row, int64_t columns, int rows, numbers loaded[2]) {
  if (rows == 1) {
    loaded[0] = load_raw(row);
    loaded[1] = load_raw(row + LANES);
    return;
  }
  if (rows == 2) {
    loaded[0] = load_raw(row);
    loaded[1] = load_raw(row + 2 * columns);
    return;
  }
  UNROLLED for (int i = 0; i < 2; i++) {
    const element *first = row + i * 4 * columns;
    loaded[i] =
        (numbers)join(*(const few_ints_in_memory *)first, *(const few_ints_in_memory *)(first + 2 * columns));
  }
}

// `rows` pairs of rows in a vector of outputs. What is stored beyond a row's results is the next one's to
// store.
INLINE void pool_narrow_squares(const element *upper, int64_t columns, int rows, const int32_t *positions,
                                const struct square_places *places, const struct forward_results *results,
                                int64_t at, struct watch *watch) {
  numbers above[2], below[2];
  load_shared(upper, columns, rows, above);
  load_shared(upper + columns, columns, rows, below);
  struct square_winners winners = best_of_squares(above, below, places, watch);
  int groups = NUMBER_GROUPS / rows;
  UNROLLED for (int group = 0; group < NUMBER_GROUPS; group++) {
    int row = group / groups;
    int64_t to = at + row * (columns / 2) + group % groups * WIDE_LANES;
    group_elements raw = group_of_elements(winners.raw, group);
    few_ints found = group_of_places(winners.places, group) + positions[row];
    memcpy((element *)results->values + to, &raw, sizeof raw);
    if (results->wide_indices) {
      *(wides_in_memory *)((int64_t *)results->indices + to) = widen_few(found);
    } else {
      *(few_ints_in_memory *)((int32_t *)results->indices + to) = found;
    }
  }
}
#endif

INLINE struct square_places square_places_of(int64_t columns, int rows) {
#if FORWARD_ELEMENT_BITS == 16
  numbers left = (number_lanes() & (element)(LANES / rows - 1)) * 2;
  numbers order = number_lanes();
#else
  numbers next = number_lanes() + (rows == 1 ? LANES : 0);
  numbers left = left_numbers(number_lanes(), next);
  numbers order = {0};
  int64_t outputs = rows == 1 ? LANES / 2 : columns / 2; // of each vector
  for (int64_t lane = 0; lane < LANES && lane < 2 * outputs; lane++) {
    order[lane] = (element)left_lane(lane < outputs ? lane : lane - outputs, lane < outputs ? 0 : 1);
  }
#endif
  numbers below = left + (element)columns;
  return (struct square_places){{left, left + 1}, {below, below + 1}, order};
}

// The position of the next pair of rows.
INLINE int32_t next_position(const struct forward_squares *squares, int32_t position) {
  int32_t next = position + 2 * (int32_t)squares->columns;
  return next == squares->plane ? 0 : next;
}

// The last pair of rows that a vector may begin with, for what it reads and for what it writes.
INLINE int64_t last_of_squares(const struct forward_elements *elements, const struct forward_squares *squares,
                               int64_t room, int rows) {
  int64_t outputs = squares->columns / 2;
  int64_t span = rows == 1 ? 2 * LANES : 2 * (LANES / rows);
  int64_t written = HALF ? LANES / rows : LANES;
  int64_t written_rows = HALF ? rows - 1 : 0;
  int64_t left = elements->count - squares->offset - squares->columns - span;
  int64_t readable = left < 0 ? -1 : left / (2 * squares->columns) - (rows - 1);
  int64_t writable = room < written ? -1 : (room - written) / outputs - written_rows;
  int64_t last = readable < writable ? readable : writable;
  return last < squares->row_pairs - rows ? last : squares->row_pairs - rows;
}

#if FORWARD_ELEMENT_BITS == 16
INLINE int64_t pool_rows_of_squares(struct forward_elements elements, struct forward_squares squares,
                                    struct forward_results results, int rows, struct watch *watch) {
  const element *upper = element_at(&elements, squares.offset);
  const int64_t outputs = squares.columns / 2;
  struct square_places places = square_places_of(squares.columns, rows);
  int64_t last = last_of_squares(&elements, &squares, results.room, rows);
  int64_t done = 0;
  for (int32_t position = squares.position; done <= last; done += rows) {
    int32_t positions[4];
    UNROLLED for (int i = 0; i < rows; i++) {
      positions[i] = position;
      position = next_position(&squares, position);
    }
    pool_narrow_squares(upper, squares.columns, rows, positions, &places, &results, done * outputs, watch);
    upper += 2 * squares.columns * rows;
  }
  return done;
}
#else
// One or two pairs of rows in a vector of outputs. What is stored beyond the results is written again.
INLINE int64_t pool_rows_of_squares(struct forward_elements elements, struct forward_squares squares,
                                    struct forward_results results, int rows, struct watch *watch) {
  const element *upper = element_at(&elements, squares.offset);
  const int64_t columns = squares.columns;
  const int64_t second = rows == 1 ? LANES : 2 * columns;
  const int32_t second_position = rows == 1 ? squares.position : next_position(&squares, squares.position);
  struct square_places places = square_places_of(columns, rows);
  numbers positions = left_numbers(every_number(squares.position), every_number(second_position));
  const int32_t advance = (int32_t)(2 * columns * rows % squares.plane);
  int64_t last = last_of_squares(&elements, &squares, results.room, rows);
  int64_t done = 0;
  for (; done <= last; done += rows) {
    UNROLLED for (int i = 0; i < 4; i++) {
      ask_for((const char *)(upper + i / 2 * second + i % 2 * columns) + SQUARES_AHEAD_BYTES);
    }
    const numbers above[2] = {load_raw(upper), load_raw(upper + second)};
    const numbers below[2] = {load_raw(upper + columns), load_raw(upper + columns + second)};
    struct square_winners winners = best_of_squares(above, below, &places, watch);
    int64_t at = done * (columns / 2);
    store_raw(&results, at, in_order(winners.raw, places.order), LANES, true);
    store_positions(&results, at, in_order(winners.places + positions, places.order), LANES, true);
    positions = next_positions(positions, advance, squares.plane);
    upper += 2 * columns * rows;
  }
  return done;
}
#endif

INLINE int64_t pool_wide_rows_of_squares(struct forward_elements elements, struct forward_squares squares,
                                         struct forward_results results, struct watch *watch) {
  const element *upper = element_at(&elements, squares.offset);
  struct square_places places = square_places_of(squares.columns, 1);
  int32_t position = squares.position;
  size_t index_bytes = results.wide_indices ? sizeof(int64_t) : sizeof(int32_t);
  for (int64_t row = 0; row < squares.row_pairs; row++) {
    pool_wide_squares(upper, squares.columns, position, &places, &results, watch);
    position = next_position(&squares, position);
    upper += 2 * squares.columns;
    results.values = (char *)results.values + (size_t)(squares.columns / 2) * sizeof(element);
    results.indices = (char *)results.indices + (size_t)(squares.columns / 2) * index_bytes;
  }
  return squares.row_pairs;
}

static int64_t pool_squares(const struct forward_elements *elements, const struct forward_squares *squares,
                            const struct forward_results *results, bool *with_nan) {
  struct watch watch = watch_nothing();
  int64_t outputs = squares->columns / 2;
  int64_t done;
  if (outputs >= LANES) {
    done = pool_wide_rows_of_squares(*elements, *squares, *results, &watch);
  } else if (outputs > LANES / 2) {
    done = pool_rows_of_squares(*elements, *squares, *results, 1, &watch);
#if FORWARD_ELEMENT_BITS == 16
  } else if (outputs <= LANES / 4) {
    done = pool_rows_of_squares(*elements, *squares, *results, 4, &watch);
#endif
  } else {
    done = pool_rows_of_squares(*elements, *squares, *results, 2, &watch);
  }
  *with_nan = watch_saw_nan(&watch, elements->infinity);
  return done;
}

#endif
