// One source for all vector paths: compiled with a path's options, FORWARD_VECTOR_BYTES and the name of its
// table as FORWARD_VECTOR_PATH.
#include "kernels/adaptive_max_pool2d/vector_path.h"

#include "kernels/adaptive_max_pool2d/lanes.h"

#if LANES > FORWARD_LANES_MAX
#error "FORWARD_LANES_MAX is too small"
#endif

#define COLUMNS_AT_ONCE 4

INLINE ints load_whole(const struct forward_elements *elements, int64_t offset, bool half) {
  if (half) {
    halves loaded = *(const halves_in_memory *)((const uint16_t *)elements->storage + offset);
    return (ints)(__builtin_convertvector(loaded, words) << 16);
  }
  return *(const ints_in_memory *)((const int32_t *)elements->storage + offset);
}

// Near the storage's end: lanes beyond it are zeros.
static ints load_part(const struct forward_elements *elements, int64_t offset, bool half) {
  int64_t left = elements->count - offset;
  int64_t count = left < LANES ? left : LANES;
  ints loaded = {0};
  for (int64_t lane = 0; lane < count; lane++) {
    loaded[lane] = half ? (int32_t)((uint32_t)((const uint16_t *)elements->storage)[offset + lane] << 16)
                        : ((const int32_t *)elements->storage)[offset + lane];
  }
  return loaded;
}

INLINE ints load(const struct forward_elements *elements, int64_t offset, bool half, bool whole) {
  return whole ? load_whole(elements, offset, half) : load_part(elements, offset, half);
}

// In each lane the best so far, and how far it lies from the first.
struct best {
  ints values;
  ints distances;
};

INLINE void note(ints *largest, ints values) {
  *largest = larger_words(*largest, values & 0x7fffffff);
}

INLINE void compete(struct best *best, ints values, ints distance, ints *largest) {
  condition better = greater_floats(values, best->values);
  best->values = choose(better, values, best->values);
  best->distances = choose(better, distance, best->distances);
  note(largest, values);
}

// The lanes as candidates: those of the lower half and those of the upper.
INLINE void make_candidates(const struct best *best, int32_t position, wides candidates[2]) {
  ints signs = best->values >> 31;
  ints keys = (best->values ^ (signs & 0x7fffffff)) - signs;
  ints order = ~(best->distances + lane_numbers() + position);
  candidates[0] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_LOW);
  candidates[1] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_HIGH);
}

INLINE void store_candidates(const struct best *best, int32_t position, bool merge, int64_t *to) {
  wides candidates[2];
  make_candidates(best, position, candidates);
  wides_in_memory *stored = (wides_in_memory *)to;
  for (int i = 0; i < 2; i++) {
    stored[i] = merge ? larger_wides(candidates[i], stored[i]) : candidates[i];
  }
}

// `vectors` vectors of columns, from the first row to the last.
INLINE void reduce_columns(const struct forward_elements *elements, const struct forward_piece *piece,
                           int64_t column, int vectors, bool half, bool whole, bool merge, ints *largest,
                           int64_t *candidates) {
  struct best best[COLUMNS_AT_ONCE];
  int64_t offset = piece->offset + column;
  for (int i = 0; i < vectors; i++) {
    best[i] = (struct best){load(elements, offset + i * LANES, half, whole), {0}};
    note(largest, best[i].values);
  }
  ints distance = {0};
  for (int64_t row = 1; row < piece->rows; row++) {
    offset += piece->row_stride;
    distance += piece->row_positions;
    for (int i = 0; i < vectors; i++) {
      compete(&best[i], load(elements, offset + i * LANES, half, whole), distance, largest);
    }
  }
  for (int i = 0; i < vectors; i++) {
    int64_t first = column + i * LANES;
    store_candidates(&best[i], piece->position + (int32_t)first, merge, candidates + first);
  }
}

INLINE ints reduce_rows_typed(const struct forward_elements *elements, const struct forward_piece *piece,
                              bool half, bool merge, int64_t *candidates) {
  ints largest = {0};
  int64_t column = 0;
  for (; column + COLUMNS_AT_ONCE * LANES <= piece->columns; column += COLUMNS_AT_ONCE * LANES) {
    reduce_columns(elements, piece, column, COLUMNS_AT_ONCE, half, true, merge, &largest, candidates);
  }
  for (; column + LANES <= piece->columns; column += LANES) {
    reduce_columns(elements, piece, column, 1, half, true, merge, &largest, candidates);
  }
  if (column == piece->columns) {
    return largest;
  }
  if (piece->columns > LANES) {
    // Candidates that were there before would win over themselves: the overlap does no harm.
    reduce_columns(elements, piece, piece->columns - LANES, 1, half, true, merge, &largest, candidates);
  } else if (piece->offset + (piece->rows - 1) * piece->row_stride + LANES <= elements->count) {
    reduce_columns(elements, piece, 0, 1, half, true, merge, &largest, candidates);
  } else {
    reduce_columns(elements, piece, 0, 1, half, false, merge, &largest, candidates);
  }
  return largest;
}

static bool reduce_rows(const struct forward_elements *elements, const struct forward_piece *piece,
                        bool merge, int64_t *candidates) {
  ints largest = elements->half ? reduce_rows_typed(elements, piece, true, merge, candidates)
                                : reduce_rows_typed(elements, piece, false, merge, candidates);
  return any_greater(largest, every(elements->infinity));
}

INLINE wides better_half(const struct best *best, int32_t position) {
  wides candidates[2];
  make_candidates(best, position, candidates);
  return larger_wides(candidates[0], candidates[1]);
}

// Runs of at least one vector.
INLINE wides reduce_long_run(const struct forward_elements *elements, int64_t offset, int64_t count,
                             int32_t position, bool half, ints *largest) {
  wides winner;
  int64_t done = 0;
  if (count >= COLUMNS_AT_ONCE * LANES) {
    struct best best[COLUMNS_AT_ONCE];
    for (int i = 0; i < COLUMNS_AT_ONCE; i++) {
      best[i] = (struct best){load_whole(elements, offset + i * LANES, half), every(i * LANES)};
      note(largest, best[i].values);
    }
    done = COLUMNS_AT_ONCE * LANES;
    for (; done + COLUMNS_AT_ONCE * LANES <= count; done += COLUMNS_AT_ONCE * LANES) {
      for (int i = 0; i < COLUMNS_AT_ONCE; i++) {
        int64_t at = done + i * LANES;
        compete(&best[i], load_whole(elements, offset + at, half), every((int32_t)at), largest);
      }
    }
    winner = better_half(&best[0], position);
    for (int i = 1; i < COLUMNS_AT_ONCE; i++) {
      winner = larger_wides(winner, better_half(&best[i], position));
    }
    if (done == count) {
      return winner;
    }
  }
  int64_t first = done + LANES <= count ? done : count - LANES;
  struct best best = {load_whole(elements, offset + first, half), every((int32_t)first)};
  note(largest, best.values);
  for (int64_t at = first + LANES; at < count; at += LANES) {
    at = at + LANES <= count ? at : count - LANES; // the last overlaps: it ends where the run does
    compete(&best, load_whole(elements, offset + at, half), every((int32_t)at), largest);
  }
  wides rest = better_half(&best, position);
  return done > 0 ? larger_wides(winner, rest) : rest;
}

static bool reduce_run(const struct forward_elements *elements, int64_t offset, int64_t count,
                       int32_t position, bool merge, int64_t *candidates) {
  ints largest = {0};
  wides winner;
  if (count < LANES) {
    struct best best = {.values = load_part(elements, offset, elements->half)};
    // Lanes beyond the run repeat its first element, which comes before them.
    ints within = (ints)(lane_numbers() < every((int32_t)count));
    best.values = (within & best.values) | (~within & best.values[0]);
    best.distances = ~within & -lane_numbers();
    note(&largest, best.values);
    winner = better_half(&best, position);
  } else if (elements->half) {
    winner = reduce_long_run(elements, offset, count, position, true, &largest);
  } else {
    winner = reduce_long_run(elements, offset, count, position, false, &largest);
  }
  wides_in_memory *stored = (wides_in_memory *)candidates;
  *stored = merge ? larger_wides(winner, *stored) : winner;
  return any_greater(largest, every(elements->infinity));
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

static void reduce_windows(const struct forward_windows *windows, const int64_t *candidates,
                           int32_t *positions) {
  int64_t total = windows->rows * windows->count;
  int64_t window = 0;
  for (int64_t done = 0; done < total; done += WIDE_LANES) {
    wides winners[WIDE_LANES];
#pragma GCC unroll 8
    for (int i = 0; i < WIDE_LANES; i++) {
      winners[i] = reduce_window(candidates + windows->begins[window], windows->widths[window]);
      // Beyond the last row the last window is looked at again, to no effect.
      if (done + i + 1 < total && ++window == windows->count) {
        window = 0;
        candidates += windows->pitch;
      }
    }
    wides best = largest_of_each(winners);
    *(few_ints_in_memory *)(positions + done) = ~__builtin_convertvector(best, few_ints);
  }
}

INLINE void store_values(const struct forward_results *results, int64_t at, ints values, int64_t count,
                         bool half, bool whole) {
  if (half) {
    halves narrow = __builtin_convertvector((words)values >> 16, halves);
    uint16_t *to = (uint16_t *)results->values + at;
    if (whole) {
      *(halves_in_memory *)to = narrow;
    } else {
      memcpy(to, &narrow, (size_t)count * sizeof *to);
    }
    return;
  }
  int32_t *to = (int32_t *)results->values + at;
  if (whole) {
    *(ints_in_memory *)to = values;
  } else {
    memcpy(to, &values, (size_t)count * sizeof *to);
  }
}

INLINE void store_positions(const struct forward_results *results, int64_t at, ints positions, int64_t count,
                            bool whole) {
  if (!results->wide_indices) {
    int32_t *to = (int32_t *)results->indices + at;
    if (whole) {
      *(ints_in_memory *)to = positions;
    } else {
      memcpy(to, &positions, (size_t)count * sizeof *to);
    }
    return;
  }
  few_ints parts[2];
  memcpy(parts, &positions, sizeof parts);
  wides wide[2] = {__builtin_convertvector(parts[0], wides), __builtin_convertvector(parts[1], wides)};
  int64_t *to = (int64_t *)results->indices + at;
  if (whole) {
    ((wides_in_memory *)to)[0] = wide[0];
    ((wides_in_memory *)to)[1] = wide[1];
  } else {
    memcpy(to, wide, (size_t)count * sizeof *to);
  }
}

// One vector of columns of a pair of rows: distances are positions here.
INLINE struct best better_row(const struct forward_elements *elements, const struct forward_row_pair *rows,
                              int64_t column, bool half, bool whole, ints *largest) {
  ints lanes = lane_numbers() + (int32_t)column;
  struct best best = {load(elements, rows->offsets[0] + column, half, whole), lanes + rows->positions[0]};
  note(largest, best.values);
  compete(&best, load(elements, rows->offsets[1] + column, half, whole), lanes + rows->positions[1], largest);
  return best;
}

// The better of two columns for each output.
INLINE struct best better_column(const struct best vectors[2], const int32_t *first_lanes,
                                 const int32_t *second_lanes) {
  ints first = *(const ints_in_memory *)first_lanes;
  ints second = *(const ints_in_memory *)second_lanes;
  struct best left = {pick(vectors[0].values, vectors[1].values, first),
                      pick(vectors[0].distances, vectors[1].distances, first)};
  struct best right = {pick(vectors[0].values, vectors[1].values, second),
                       pick(vectors[0].distances, vectors[1].distances, second)};
  condition better = greater_floats(right.values, left.values) |
                     (equal_floats(right.values, left.values) & less_ints(right.distances, left.distances));
  return (struct best){choose(better, right.values, left.values),
                       choose(better, right.distances, left.distances)};
}

INLINE void store_results(const struct forward_results *results, int64_t at, const struct best *best,
                          int64_t count, bool half) {
  if (at + LANES <= results->room) {
    store_values(results, at, best->values, count, half, true);
    store_positions(results, at, best->distances, count, true);
  } else {
    count = count < LANES ? count : LANES;
    store_values(results, at, best->values, count, half, false);
    store_positions(results, at, best->distances, count, false);
  }
}

INLINE bool pool_pairs_typed(const struct forward_elements *elements, const struct forward_pairs *pairs,
                             const struct forward_row_pair *rows, const struct forward_results *results,
                             bool half, bool whole) {
  ints largest = {0};
  for (int64_t at = 0; at < pairs->outputs; at += LANES) {
    int64_t column = pairs->begins[at / LANES];
    struct best vectors[2] = {better_row(elements, rows, column, half, whole, &largest),
                              better_row(elements, rows, column + LANES, half, whole, &largest)};
    struct best best = better_column(vectors, pairs->first + at, pairs->second + at);
    store_results(results, at, &best, pairs->outputs - at, half);
  }
  return any_greater(largest, every(elements->infinity));
}

static int64_t farther(const struct forward_row_pair *rows) {
  return rows->offsets[0] > rows->offsets[1] ? rows->offsets[0] : rows->offsets[1];
}

static bool pool_pairs(const struct forward_elements *elements, const struct forward_pairs *pairs,
                       const struct forward_row_pair *rows, const struct forward_results *results) {
  int64_t last_column = pairs->begins[(pairs->outputs - 1) / LANES];
  bool whole = farther(rows) + last_column + 2 * LANES <= elements->count;
  if (elements->half) {
    return whole ? pool_pairs_typed(elements, pairs, rows, results, true, true)
                 : pool_pairs_typed(elements, pairs, rows, results, true, false);
  }
  return whole ? pool_pairs_typed(elements, pairs, rows, results, false, true)
               : pool_pairs_typed(elements, pairs, rows, results, false, false);
}

INLINE bool pool_two_rows_typed(const struct forward_elements *elements, const struct forward_pairs *pairs,
                                const struct forward_row_pair *rows, const struct forward_results *results,
                                bool half, bool whole) {
  ints largest = {0};
  struct best vectors[2] = {better_row(elements, &rows[0], 0, half, whole, &largest),
                            better_row(elements, &rows[1], 0, half, whole, &largest)};
  struct best best = better_column(vectors, pairs->first, pairs->second);
  store_results(results, 0, &best, pairs->outputs, half);
  return any_greater(largest, every(elements->infinity));
}

static bool pool_two_rows(const struct forward_elements *elements, const struct forward_pairs *pairs,
                          const struct forward_row_pair *rows, const struct forward_results *results) {
  int64_t last = farther(&rows[0]) > farther(&rows[1]) ? farther(&rows[0]) : farther(&rows[1]);
  bool whole = last + LANES <= elements->count;
  if (elements->half) {
    return whole ? pool_two_rows_typed(elements, pairs, rows, results, true, true)
                 : pool_two_rows_typed(elements, pairs, rows, results, true, false);
  }
  return whole ? pool_two_rows_typed(elements, pairs, rows, results, false, true)
               : pool_two_rows_typed(elements, pairs, rows, results, false, false);
}

static void count_positions(const struct forward_results *results, int64_t count, int32_t position,
                            int32_t plane) {
  ints positions = lane_numbers();
  for (int lane = 0; lane < LANES; lane++) {
    positions[lane] = (int32_t)(((int64_t)position + lane) % plane);
  }
  int32_t step = LANES % plane;
  for (int64_t at = 0; at < count; at += LANES) {
    if (count - at >= LANES) {
      store_positions(results, at, positions, LANES, true);
    } else {
      store_positions(results, at, positions, count - at, false);
    }
    // Below the plane's size both, so that one subtraction is enough; the sum could pass 31 bits.
    ints until_end = every(plane - step) - positions;
    positions = choose(less_ints((ints){0}, until_end), positions + step, -until_end);
  }
}

const struct forward_vector_path FORWARD_VECTOR_PATH = {
    .lanes = LANES,
    .wide_lanes = WIDE_LANES,
    .reduce_rows = reduce_rows,
    .reduce_run = reduce_run,
    .reduce_windows = reduce_windows,
    .pool_pairs = pool_pairs,
    .pool_two_rows = pool_two_rows,
    .count_positions = count_positions,
};
