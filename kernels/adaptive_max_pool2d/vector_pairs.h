// Windows of at most two rows and columns, which may overlap: the lanes of two vectors are picked by tables.
// Elements of 16 bits are widened to the upper half of 32, where they order as fp32 does.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_PAIRS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_PAIRS_H

#include "kernels/adaptive_max_pool2d/vector_elements.h"

INLINE ints load_words(const struct forward_elements *elements, int64_t offset, bool whole) {
  element part[WORDS] = {0};
  const element *from = element_at(elements, offset);
  if (!whole) {
    int64_t left = elements->count - offset;
    left = left < 0 ? 0 : left < WORDS ? left : WORDS;
    memcpy(part, from, (size_t)left * sizeof *from);
    from = part;
  }
#if FORWARD_ELEMENT_BITS == 16
  return widen(*(const halves_in_memory *)from);
#else
  return *(const ints_in_memory *)from;
#endif
}

// Notices NaN: of fp16 not all of them are NaN of fp32, but they are larger than the infinity.
INLINE void note(ints *largest, ints values) {
  *largest = larger_words(*largest, values & 0x7fffffff);
}

// In each lane the best so far and its position.
struct best_words {
  ints values;
  ints positions;
};

// One vector of columns of a pair of rows.
INLINE struct best_words better_row(const struct forward_elements *elements,
                                    const struct forward_row_pair *rows, int64_t column, bool whole,
                                    ints *largest) {
  ints lanes = lane_numbers() + (int32_t)column;
  ints upper = load_words(elements, rows->offsets[0] + column, whole);
  ints lower = load_words(elements, rows->offsets[1] + column, whole);
  note(largest, upper);
  note(largest, lower);
  condition better = greater_floats(lower, upper);
  return (struct best_words){choose(better, lower, upper),
                             choose(better, lanes + rows->positions[1], lanes + rows->positions[0])};
}

// The better of two columns for each output.
INLINE struct best_words better_column(const struct best_words vectors[2], const int32_t *first_lanes,
                                       const int32_t *second_lanes) {
  ints first = *(const ints_in_memory *)first_lanes;
  ints second = *(const ints_in_memory *)second_lanes;
  struct best_words left = {pick(vectors[0].values, vectors[1].values, first),
                            pick(vectors[0].positions, vectors[1].positions, first)};
  struct best_words right = {pick(vectors[0].values, vectors[1].values, second),
                             pick(vectors[0].positions, vectors[1].positions, second)};
  condition better = greater_floats(right.values, left.values) |
                     (equal_floats(right.values, left.values) & less_ints(right.positions, left.positions));
  return (struct best_words){choose(better, right.values, left.values),
                             choose(better, right.positions, left.positions)};
}

INLINE void store_words(const struct forward_results *results, int64_t at, const struct best_words *best,
                        int64_t count) {
#if FORWARD_ELEMENT_BITS == 16
  halves raw = __builtin_convertvector((words)best->values >> 16, halves);
#else
  ints raw = best->values;
#endif
  element *to = (element *)results->values + at;
  if (at + WORDS <= results->room) {
    memcpy(to, &raw, sizeof raw);
    store_positions(results, at, best->positions, count, true);
  } else {
    count = count < WORDS ? count : WORDS;
    memcpy(to, &raw, (size_t)count * sizeof *to);
    store_positions(results, at, best->positions, count, false);
  }
}

// One row of outputs from two vectors of columns at a time.
INLINE bool pool_row(const struct forward_elements *elements, const struct forward_pairs *pairs,
                     const struct forward_row_pair *rows, const struct forward_results *results, bool whole) {
  ints largest = {0};
  for (int64_t at = 0; at < pairs->outputs; at += WORDS) {
    int64_t column = pairs->begins[at / WORDS];
    struct best_words vectors[2] = {better_row(elements, rows, column, whole, &largest),
                                    better_row(elements, rows, column + WORDS, whole, &largest)};
    struct best_words best = better_column(vectors, pairs->first + at, pairs->second + at);
    store_words(results, at, &best, pairs->outputs - at);
  }
  return any_greater(largest, every(elements->infinity));
}

// Two narrow rows at once.
INLINE bool pool_two_rows(const struct forward_elements *elements, const struct forward_pairs *pairs,
                          const struct forward_row_pair *rows, const struct forward_results *results) {
  ints largest = {0};
  struct best_words vectors[2] = {better_row(elements, &rows[0], 0, true, &largest),
                                  better_row(elements, &rows[1], 0, true, &largest)};
  struct best_words best = better_column(vectors, pairs->first, pairs->second);
  store_words(results, 0, &best, 2 * pairs->outputs);
  return any_greater(largest, every(elements->infinity));
}

static bool reads_within(const struct forward_elements *elements, const struct forward_row_pair *rows,
                         int64_t columns) {
  int64_t farther = rows->offsets[0] > rows->offsets[1] ? rows->offsets[0] : rows->offsets[1];
  return farther + columns <= elements->count;
}

// Takes copies: what is stored can't change them, so that they stay in registers.
INLINE uint64_t pool_copied_pairs(struct forward_elements elements, struct forward_pairs pairs,
                                  const struct forward_row_pair *rows, int64_t count,
                                  struct forward_results results) {
  size_t index_bytes = results.wide_indices ? sizeof(int64_t) : sizeof(int32_t);
  int64_t columns = pairs.begins[(pairs.outputs - 1) / WORDS] + 2 * WORDS;
  uint64_t with_nan = 0;
  int64_t done = 0;
  for (int64_t at_once = 1; done < count; done += at_once) {
    const struct forward_row_pair row[2] = {rows[done], rows[done + 1 < count ? done + 1 : done]};
    bool nan;
    at_once = 1;
    if (pairs.two_rows && done + 1 < count && reads_within(&elements, &row[0], WORDS) &&
        reads_within(&elements, &row[1], WORDS)) {
      nan = pool_two_rows(&elements, &pairs, row, &results);
      at_once = 2;
    } else if (reads_within(&elements, &row[0], columns)) {
      nan = pool_row(&elements, &pairs, row, &results, true);
    } else {
      nan = pool_row(&elements, &pairs, row, &results, false);
    }
    with_nan |= (nan ? (UINT64_C(1) << at_once) - 1 : 0) << done;
    results.values = (char *)results.values + (size_t)(at_once * pairs.row_outputs) * sizeof(element);
    results.indices = (char *)results.indices + (size_t)(at_once * pairs.row_outputs) * index_bytes;
    results.room -= at_once * pairs.row_room;
  }
  return with_nan;
}

static uint64_t pool_pairs(const struct forward_elements *elements, const struct forward_pairs *pairs,
                           const struct forward_row_pair *rows, int64_t count,
                           const struct forward_results *results) {
  return pool_copied_pairs(*elements, *pairs, rows, count, *results);
}

#endif
