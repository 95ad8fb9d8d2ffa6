// One source for all vector paths: compiled with a path's options, FORWARD_VECTOR_BYTES and the name of its
// table as FORWARD_VECTOR_PATH.
#include "kernels/adaptive_max_pool2d/vector_path.h"

#include "kernels/adaptive_max_pool2d/lanes.h"

#if LANES > FORWARD_LANES_MAX
#error "FORWARD_LANES_MAX is too small"
#endif

// As registers hold.
#if FORWARD_VECTOR_BYTES == 64
#define COLUMNS_AT_ONCE 8
#else
#define COLUMNS_AT_ONCE 4
#endif
#define RUNS_AT_ONCE 4
// What such a loop works on stays in registers then.
#define UNROLLED _Pragma("GCC unroll 8")

INLINE ints load_whole(const struct forward_elements *elements, int64_t offset, bool half) {
  if (half) {
    return widen(*(const halves_in_memory *)((const uint16_t *)elements->storage + offset));
  }
  return *(const ints_in_memory *)((const int32_t *)elements->storage + offset);
}

// Near the storage's end: lanes beyond it are zeros.
static ints load_part(const void *storage, int64_t storage_count, int64_t offset, bool half) {
  int64_t left = storage_count - offset;
  int64_t count = left < LANES ? left : LANES;
  ints loaded = {0};
  for (int64_t lane = 0; lane < count; lane++) {
    loaded[lane] = half ? (int32_t)((uint32_t)((const uint16_t *)storage)[offset + lane] << 16)
                        : ((const int32_t *)storage)[offset + lane];
  }
  return loaded;
}

INLINE ints load(const struct forward_elements *elements, int64_t offset, bool half, bool whole) {
  return whole ? load_whole(elements, offset, half)
               : load_part(elements->storage, elements->count, offset, half);
}

// In each lane the best so far and where it lies, as a distance from the first or as a position.
struct best {
  ints values;
  ints places;
};

INLINE void note(ints *largest, ints values) {
  *largest = larger_words(*largest, values & 0x7fffffff);
}

INLINE void compete(struct best *best, ints values, ints distance, ints *largest) {
  condition better = greater_floats(values, best->values);
  best->values = choose(better, values, best->values);
  best->places = choose(better, distance, best->places);
  note(largest, values);
}

// The lanes as candidates: those of the lower half and those of the upper.
INLINE void make_candidates(const struct best *best, int32_t position, wides candidates[2]) {
  ints signs = best->values >> 31;
  ints keys = (best->values ^ (signs & 0x7fffffff)) - signs;
  ints order = ~(((best->places + lane_numbers() + position) << 1) - signs);
  candidates[0] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_LOW);
  candidates[1] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_HIGH);
}

// The other way round.
INLINE void read_candidates(wides candidates, few_ints *values, few_ints *positions) {
  few_ints order = ~__builtin_convertvector(candidates, few_ints);
  few_ints keys = __builtin_convertvector(candidates >> 32, few_ints);
  few_ints signs = keys >> 31;
  *values = ((keys + signs) ^ (signs & 0x7fffffff)) | (order << 31);
  *positions = (few_ints)((few_words)order >> 1);
}

INLINE void store_candidates(const struct best *best, int32_t position, bool merge, int64_t *to) {
  wides candidates[2];
  make_candidates(best, position, candidates);
  wides_in_memory *stored = (wides_in_memory *)to;
  for (int i = 0; i < 2; i++) {
    stored[i] = merge ? larger_wides(candidates[i], stored[i]) : candidates[i];
  }
}

// `vectors` vectors of columns, from the first row to the last. The last vector ends where the columns do,
// and may overlap with the one before.
INLINE void reduce_columns(const struct forward_elements *elements, const struct forward_piece *piece,
                           int64_t column, int vectors, bool half, bool whole, bool merge, ints *largest,
                           int64_t *candidates) {
  struct best best[COLUMNS_AT_ONCE];
  int64_t columns[COLUMNS_AT_ONCE];
  UNROLLED for (int i = 0; i < vectors; i++) {
    int64_t last = piece->columns > LANES ? piece->columns - LANES : 0;
    columns[i] = column + i * LANES < last ? column + i * LANES : last;
    best[i] = (struct best){load(elements, piece->offset + columns[i], half, whole), {0}};
    note(largest, best[i].values);
  }
  ints place = {0};
  int64_t offset = piece->offset;
  for (int64_t row = 1; row < piece->rows; row++) {
    offset += piece->row_stride;
    place += piece->row_positions;
    UNROLLED for (int i = 0; i < vectors; i++) {
      ask_for(elements->storage, offset + columns[i] + piece->rows * piece->row_stride, half);
      compete(&best[i], load(elements, offset + columns[i], half, whole), place, largest);
    }
  }
  UNROLLED for (int i = 0; i < vectors; i++) {
    store_candidates(&best[i], piece->position + (int32_t)columns[i], merge, candidates + columns[i]);
  }
}

INLINE ints reduce_rows_typed(const struct forward_elements *elements, const struct forward_piece *piece,
                              bool half, bool merge, int64_t *candidates) {
  ints largest = {0};
  bool whole = piece->columns >= LANES ||
               piece->offset + (piece->rows - 1) * piece->row_stride + LANES <= elements->count;
  if (!whole) {
    reduce_columns(elements, piece, 0, 1, half, false, merge, &largest, candidates);
    return largest;
  }
  int64_t left = (piece->columns + LANES - 1) / LANES;
  int64_t column = 0;
  for (; left >= COLUMNS_AT_ONCE; left -= COLUMNS_AT_ONCE) {
    reduce_columns(elements, piece, column, COLUMNS_AT_ONCE, half, true, merge, &largest, candidates);
    column += COLUMNS_AT_ONCE * LANES;
  }
  switch (left) {
#define REMAINING(vectors)                                                                                   \
  case vectors:                                                                                              \
    reduce_columns(elements, piece, column, vectors, half, true, merge, &largest, candidates);               \
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
  if (count >= RUNS_AT_ONCE * LANES) {
    struct best best[RUNS_AT_ONCE];
    UNROLLED for (int i = 0; i < RUNS_AT_ONCE; i++) {
      best[i] = (struct best){load_whole(elements, offset + i * LANES, half), every(i * LANES)};
      note(largest, best[i].values);
    }
    done = RUNS_AT_ONCE * LANES;
    for (; done + RUNS_AT_ONCE * LANES <= count; done += RUNS_AT_ONCE * LANES) {
      UNROLLED for (int i = 0; i < RUNS_AT_ONCE; i++) {
        int64_t at = done + i * LANES;
        compete(&best[i], load_whole(elements, offset + at, half), every((int32_t)at), largest);
      }
    }
    winner = better_half(&best[0], position);
    UNROLLED for (int i = 1; i < RUNS_AT_ONCE; i++) {
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

// Runs of less than a vector.
INLINE wides reduce_short_run(const struct forward_elements *elements, int64_t offset, int64_t count,
                              int32_t position, bool half, ints *largest) {
  // Lanes beyond the run hold the least there is, at positions that come after the run's.
  ints least = every(elements->infinity | INT32_MIN);
  ints loaded = load(elements, offset, half, offset + LANES <= elements->count);
  struct best best = {choose(less_ints(lane_numbers(), every((int32_t)count)), loaded, least), {0}};
  note(largest, best.values);
  return better_half(&best, position);
}

INLINE bool reduce_runs_typed(const struct forward_elements *elements, const struct forward_runs *runs,
                              bool half, bool merge, bool *with_nan, int64_t *candidates) {
  int64_t offset = runs->offset;
  int32_t position = runs->position;
  bool any = false;
  for (int64_t i = 0; i < runs->runs; i++) {
    ints largest = {0};
    wides winner = runs->length < LANES
                       ? reduce_short_run(elements, offset, runs->length, position, half, &largest)
                       : reduce_long_run(elements, offset, runs->length, position, half, &largest);
    wides_in_memory *stored = (wides_in_memory *)candidates + i;
    *stored = merge ? larger_wides(winner, *stored) : winner;
    bool nan = any_greater(largest, every(elements->infinity));
    with_nan[i] = merge ? with_nan[i] || nan : nan;
    any = any || nan;
    offset += runs->length;
    position = position == runs->last_position ? 0 : position + (int32_t)runs->length;
  }
  return any;
}

static bool reduce_runs(const struct forward_elements *elements, const struct forward_runs *runs, bool merge,
                        bool *with_nan, int64_t *candidates) {
  return elements->half ? reduce_runs_typed(elements, runs, true, merge, with_nan, candidates)
                        : reduce_runs_typed(elements, runs, false, merge, with_nan, candidates);
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
  wides wide[2] = {widen_few(parts[0]), widen_few(parts[1])};
  int64_t *to = (int64_t *)results->indices + at;
  if (whole) {
    ((wides_in_memory *)to)[0] = wide[0];
    ((wides_in_memory *)to)[1] = wide[1];
  } else {
    memcpy(to, wide, (size_t)count * sizeof *to);
  }
}

// The outputs of a vector of candidates.
INLINE void store_winners(const struct forward_results *results, int64_t at, wides winners, int64_t count,
                          bool half) {
  few_ints values, positions;
  read_candidates(winners, &values, &positions);
  wides wide_positions = __builtin_convertvector(positions, wides);
  few_halves narrow_values = __builtin_convertvector((few_words)values >> 16, few_halves);
  size_t value_bytes = half ? sizeof(uint16_t) : sizeof(int32_t);
  size_t index_bytes = results->wide_indices ? sizeof(int64_t) : sizeof(int32_t);
  char *to_values = (char *)results->values + (size_t)at * value_bytes;
  char *to_indices = (char *)results->indices + (size_t)at * index_bytes;
  const void *from_values = half ? (const void *)&narrow_values : (const void *)&values;
  const void *from_indices = results->wide_indices ? (const void *)&wide_positions : (const void *)&positions;
  if (at + WIDE_LANES > results->room) {
    memcpy(to_values, from_values, (size_t)count * value_bytes);
    memcpy(to_indices, from_indices, (size_t)count * index_bytes);
    return;
  }
  if (half) {
    memcpy(to_values, &narrow_values, sizeof narrow_values);
  } else {
    memcpy(to_values, &values, sizeof values);
  }
  if (results->wide_indices) {
    memcpy(to_indices, &wide_positions, sizeof wide_positions);
  } else {
    memcpy(to_indices, &positions, sizeof positions);
  }
}

static void reduce_windows(const struct forward_windows *windows, const int64_t *candidates, bool half,
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
    store_winners(results, done, largest_of_each(winners), left < WIDE_LANES ? left : WIDE_LANES, half);
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
                      pick(vectors[0].places, vectors[1].places, first)};
  struct best right = {pick(vectors[0].values, vectors[1].values, second),
                       pick(vectors[0].places, vectors[1].places, second)};
  condition better = greater_floats(right.values, left.values) |
                     (equal_floats(right.values, left.values) & less_ints(right.places, left.places));
  return (struct best){choose(better, right.values, left.values), choose(better, right.places, left.places)};
}

INLINE void store_results(const struct forward_results *results, int64_t at, const struct best *best,
                          int64_t count, bool half) {
  if (at + LANES <= results->room) {
    store_values(results, at, best->values, count, half, true);
    store_positions(results, at, best->places, count, true);
  } else {
    count = count < LANES ? count : LANES;
    store_values(results, at, best->values, count, half, false);
    store_positions(results, at, best->places, count, false);
  }
}

// Short runs all have their vectors at the same places. The last ends where the run does.
struct places_in_run {
  int64_t begins[FORWARD_SHORT_RUN / LANES];
  int64_t length;
};

INLINE ints load_of_run(const struct forward_elements *elements, int64_t offset,
                        const struct places_in_run *places, int vectors, int i, bool half) {
  if (vectors > 1) {
    return load_whole(elements, offset + places->begins[i], half);
  }
  // A run may be less than a vector: lanes beyond it hold the least there is.
  ints loaded = load(elements, offset, half, offset + LANES <= elements->count);
  ints least = every(elements->infinity | INT32_MIN);
  return choose(less_ints(lane_numbers(), every((int32_t)places->length)), loaded, least);
}

// Where the maxima are, which are known, in as many runs as there are lanes.
INLINE struct best find_in_runs(const struct forward_elements *elements, int64_t offset,
                                const struct places_in_run *places, int64_t runs, ints maxima, int vectors,
                                bool half) {
  int32_t values[LANES];
  int32_t positions[LANES];
  memcpy(values, &maxima, sizeof values);
  memset(positions, 0, sizeof positions);
  for (int64_t run = 0; run < runs; run++) {
    ints maximum = every(values[run]);
    uint64_t equal = 0;
    UNROLLED for (int i = 0; i < vectors; i++) {
      ints loaded = load_of_run(elements, offset, places, vectors, i, half);
      equal |= (uint64_t)mask_of(equal_floats(loaded, maximum)) << (vectors > 1 ? places->begins[i] : 0);
    }
    // None is equal if there is a NaN: the result isn't used then. The highest bit is a place anyway.
    int position = __builtin_ctzll(equal | UINT64_C(1) << (places->length - 1));
    positions[run] = position;
    values[run] = half ? (int32_t)((uint32_t)((const uint16_t *)elements->storage)[offset + position] << 16)
                       : ((const int32_t *)elements->storage)[offset + position];
    offset += places->length;
  }
  struct best best;
  memcpy(&best.values, values, sizeof values);
  memcpy(&best.places, positions, sizeof positions);
  return best;
}

// Finds the maxima first, of several runs together, and then where they are.
INLINE void pool_short_runs_typed(const struct forward_elements *elements, const struct forward_runs *runs,
                                  bool *with_nan, const struct forward_results *results, int vectors,
                                  bool half) {
  struct places_in_run places = {.length = runs->length};
  UNROLLED for (int i = 0; i < vectors; i++) {
    places.begins[i] = (i + 1) * LANES < runs->length ? i * LANES : runs->length - LANES;
  }
  int32_t position = runs->position;
  for (int64_t done = 0; done < runs->runs; done += LANES) {
    int64_t count = runs->runs - done < LANES ? runs->runs - done : LANES;
    int64_t first = runs->offset + done * runs->length;
    ints maxima[LANES];
    int32_t positions[LANES];
    ints largest = {0};
    for (int64_t run = 0; run < LANES; run++) {
      // Beyond the last run the last is looked at again, to no effect.
      int64_t offset = first + (run < count ? run : count - 1) * places.length;
      // The pause between two groups, when places are looked for, would else be one of the memory too.
      UNROLLED for (int i = 0; i < vectors; i++) {
        ask_for(elements->storage, offset + LANES * (places.length + i), half);
      }
      ints maximum = load_of_run(elements, offset, &places, vectors, 0, half);
      note(&largest, maximum);
      UNROLLED for (int i = 1; i < vectors; i++) {
        ints loaded = load_of_run(elements, offset, &places, vectors, i, half);
        maximum = larger_floats(maximum, loaded);
        note(&largest, loaded);
      }
      maxima[run] = maximum;
      positions[run] = position;
      position = position == runs->last_position ? 0 : position + (int32_t)runs->length;
    }
    memset(with_nan + done, any_greater(largest, every(elements->infinity)), (size_t)count);
    ints maximum_of_each = largest_floats_of_each(maxima);
    struct best best = find_in_runs(elements, first, &places, count, maximum_of_each, vectors, half);
    ints bases;
    memcpy(&bases, positions, sizeof bases);
    best.places += bases;
    store_results(results, done, &best, count, half);
  }
}

#define POOL_SHORT_RUNS(vectors)                                                                             \
  case vectors:                                                                                              \
    if (elements->half) {                                                                                    \
      pool_short_runs_typed(elements, runs, with_nan, results, vectors, true);                               \
    } else {                                                                                                 \
      pool_short_runs_typed(elements, runs, with_nan, results, vectors, false);                              \
    }                                                                                                        \
    break

static void pool_short_runs(const struct forward_elements *elements, const struct forward_runs *runs,
                            bool *with_nan, const struct forward_results *results) {
  switch ((runs->length + LANES - 1) / LANES) {
    POOL_SHORT_RUNS(1);
    POOL_SHORT_RUNS(2);
    POOL_SHORT_RUNS(3);
    POOL_SHORT_RUNS(4);
#if FORWARD_SHORT_RUN > 4 * LANES
    POOL_SHORT_RUNS(5);
    POOL_SHORT_RUNS(6);
    POOL_SHORT_RUNS(7);
    POOL_SHORT_RUNS(8);
#endif
  default:
    break;
  }
}

// One row of outputs from two vectors of columns at a time.
INLINE bool pool_row(const struct forward_elements *elements, const struct forward_pairs *pairs,
                     const struct forward_row_pair *rows, const struct forward_results *results, bool half,
                     bool whole) {
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

// Two narrow rows at once.
INLINE bool pool_two_rows(const struct forward_elements *elements, const struct forward_pairs *pairs,
                          const struct forward_row_pair *rows, const struct forward_results *results,
                          bool half, bool whole) {
  ints largest = {0};
  struct best vectors[2] = {better_row(elements, &rows[0], 0, half, whole, &largest),
                            better_row(elements, &rows[1], 0, half, whole, &largest)};
  struct best best = better_column(vectors, pairs->first, pairs->second);
  store_results(results, 0, &best, 2 * pairs->outputs, half);
  return any_greater(largest, every(elements->infinity));
}

static bool reads_within(const struct forward_elements *elements, const struct forward_row_pair *rows,
                         int64_t columns) {
  int64_t farther = rows->offsets[0] > rows->offsets[1] ? rows->offsets[0] : rows->offsets[1];
  return farther + columns <= elements->count;
}

// Takes copies: what is stored can't change them, so that they stay in registers.
INLINE uint64_t pool_pairs_typed(struct forward_elements elements, struct forward_pairs pairs,
                                 const struct forward_row_pair *rows, int64_t count,
                                 struct forward_results results, bool half) {
  size_t value_bytes = half ? sizeof(uint16_t) : sizeof(int32_t);
  size_t index_bytes = results.wide_indices ? sizeof(int64_t) : sizeof(int32_t);
  int64_t columns = pairs.begins[(pairs.outputs - 1) / LANES] + 2 * LANES;
  uint64_t with_nan = 0;
  int64_t done = 0;
  for (int64_t at_once = 1; done < count; done += at_once) {
    const struct forward_row_pair row[2] = {rows[done], rows[done + 1 < count ? done + 1 : done]};
    bool nan;
    at_once = 1;
    if (pairs.two_rows && done + 1 < count && reads_within(&elements, &row[0], LANES) &&
        reads_within(&elements, &row[1], LANES)) {
      nan = pool_two_rows(&elements, &pairs, row, &results, half, true);
      at_once = 2;
    } else if (reads_within(&elements, &row[0], columns)) {
      nan = pool_row(&elements, &pairs, row, &results, half, true);
    } else {
      nan = pool_row(&elements, &pairs, row, &results, half, false);
    }
    with_nan |= (nan ? (UINT64_C(1) << at_once) - 1 : 0) << done;
    results.values = (char *)results.values + (size_t)(at_once * pairs.row_outputs) * value_bytes;
    results.indices = (char *)results.indices + (size_t)(at_once * pairs.row_outputs) * index_bytes;
    results.room -= at_once * pairs.row_room;
  }
  return with_nan;
}

static uint64_t pool_pairs(const struct forward_elements *elements, const struct forward_pairs *pairs,
                           const struct forward_row_pair *rows, int64_t count,
                           const struct forward_results *results) {
  return elements->half ? pool_pairs_typed(*elements, *pairs, rows, count, *results, true)
                        : pool_pairs_typed(*elements, *pairs, rows, count, *results, false);
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
    .reduce_runs = reduce_runs,
    .pool_short_runs = pool_short_runs,
    .reduce_windows = reduce_windows,
    .pool_pairs = pool_pairs,
    .count_positions = count_positions,
};
