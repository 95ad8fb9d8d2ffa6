// Windows that are runs of elements, one after the other in the storage.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_RUNS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_RUNS_H

#include "kernels/adaptive_max_pool2d/vector_elements.h"

#define RUNS_AT_ONCE 4

// Places are distances from the run's first element.
INLINE wides winner_of(struct watch *watch, const struct best *best, const element *run, int64_t lanes,
                       int32_t position) {
  wides candidates[NUMBER_GROUPS];
  struct origin origin = {run, 1, position, 1};
  watch_maxima(watch, best->values);
  candidates_of(best, &origin, lanes, candidates);
  UNROLLED for (int i = 1; i < NUMBER_GROUPS; i++) {
    candidates[0] = larger_wides(candidates[0], candidates[i]);
  }
  return candidates[0];
}

// As many vectors of a run as there can be, RUNS_AT_ONCE at a time; tells how many elements that were.
INLINE int64_t reduce_bulk(const element *run, int64_t count, int32_t position, struct watch *watch,
                           wides *winner) {
  struct best best[RUNS_AT_ONCE];
  int64_t done = 0;
  for (; done + RUNS_AT_ONCE * LANES <= count; done += RUNS_AT_ONCE * LANES) {
    numbers values[RUNS_AT_ONCE];
    UNROLLED for (int i = 0; i < RUNS_AT_ONCE; i++) {
      values[i] = numbers_of(load_raw(run + done + i * LANES));
    }
    UNROLLED for (int i = 0; i < RUNS_AT_ONCE; i += 2) {
      watch_two(watch, values[i], values[i + 1]);
    }
    UNROLLED for (int i = 0; i < RUNS_AT_ONCE; i++) {
      numbers place = every_number((int32_t)done + i * LANES);
      if (done == 0) {
        best[i] = (struct best){values[i], place};
      } else {
        compete(&best[i], values[i], place);
      }
    }
  }
  *winner = winner_of(watch, &best[0], run, LANES, position);
  UNROLLED for (int i = 1; i < RUNS_AT_ONCE; i++) {
    *winner = larger_wides(*winner, winner_of(watch, &best[i], run, LANES, position));
  }
  return done;
}

// Runs of at least one vector.
INLINE wides reduce_long_run(const element *run, int64_t count, int32_t position, struct watch *watch) {
  wides winner;
  int64_t done = 0;
  if (count >= RUNS_AT_ONCE * LANES) {
    done = reduce_bulk(run, count, position, watch, &winner);
    if (done == count) {
      return winner;
    }
  }
  int64_t first = done + LANES <= count ? done : count - LANES;
  struct best best = {numbers_of(load_raw(run + first)), every_number((int32_t)first)};
  watch_two(watch, best.values, best.values);
  for (int64_t at = first + LANES; at < count; at += LANES) {
    at = at + LANES <= count ? at : count - LANES; // the last overlaps: it ends where the run does
    numbers values = numbers_of(load_raw(run + at));
    watch_two(watch, values, values);
    compete(&best, values, every_number((int32_t)at));
  }
  wides rest = winner_of(watch, &best, run, LANES, position);
  return done > 0 ? larger_wides(winner, rest) : rest;
}

// What compares below all numbers but other negative infinities.
INLINE numbers least_number(const struct forward_elements *elements) {
#if FORWARD_ELEMENT_BITS == 16
  return every_number(-(elements->infinity >> 16));
#else
  return every_number(elements->infinity | INT32_MIN);
#endif
}

// A run of less than a vector: lanes beyond it hold the least there is, at places that come after the run's.
INLINE numbers load_short_run(const struct forward_elements *elements, int64_t offset, int64_t count) {
  const element *run = element_at(elements, offset);
  numbers raw = offset + LANES <= elements->count ? load_raw(run) : load_first(run, count);
  number_condition beyond = greater_place(number_lanes(), every_number((int32_t)count - 1));
  return choose_numbers(beyond, least_number(elements), numbers_of(raw));
}

INLINE wides reduce_short_run(const struct forward_elements *elements, int64_t offset, int64_t count,
                              int32_t position, struct watch *watch) {
  struct best best = {load_short_run(elements, offset, count), {0}};
  watch_two(watch, best.values, best.values);
  return winner_of(watch, &best, element_at(elements, offset), count, position);
}

static bool reduce_runs(const struct forward_elements *elements, const struct forward_runs *runs, bool merge,
                        bool *with_nan, int64_t *candidates) {
  int64_t offset = runs->offset;
  int32_t position = runs->position;
  bool any = false;
  for (int64_t i = 0; i < runs->runs; i++) {
    struct watch watch = watch_nothing();
    wides winner = runs->length < LANES
                       ? reduce_short_run(elements, offset, runs->length, position, &watch)
                       : reduce_long_run(element_at(elements, offset), runs->length, position, &watch);
    wides_in_memory *stored = (wides_in_memory *)candidates + i;
    *stored = merge ? larger_wides(winner, *stored) : winner;
    bool nan = watch_saw_nan(&watch, elements->infinity);
    with_nan[i] = merge ? with_nan[i] || nan : nan;
    any = any || nan;
    offset += runs->length;
    position = position == runs->last_position ? 0 : position + (int32_t)runs->length;
  }
  return any;
}

// A vector of runs: in each lane of `best` the best of every so many elements of one run.
struct short_runs {
  struct best best[LANES];
};

// The vectors of a run begin a vector apart, but the last ends where the run does.
INLINE struct best best_of_run(const struct forward_elements *elements, const element *run, int64_t length,
                               int vectors, struct watch *watch) {
  numbers values[FORWARD_SHORT_RUN / LANES];
  if (vectors == 1) {
    ask_for((const char *)(run + LANES * length));
    values[0] = load_short_run(elements, run - element_at(elements, 0), length);
  }
  UNROLLED for (int i = 0; i < vectors && vectors > 1; i++) {
    // The pause between two vectors of runs, when their lanes meet, would else be one of the memory too.
    ask_for((const char *)(run + LANES * (length + i)));
    values[i] = numbers_of(load_raw(i + 1 < vectors ? run + i * LANES : run + length - LANES));
    keep_loaded();
  }
  UNROLLED for (int i = 0; i < vectors; i += 2) {
    watch_two_busy(watch, values[i], values[i + 1 < vectors ? i + 1 : i]);
  }
  struct best best = {values[0], number_lanes()};
  UNROLLED for (int i = 1; i < vectors; i++) {
    int64_t begin = i + 1 < vectors ? i * LANES : length - LANES;
    compete(&best, values[i], number_lanes() + (element)begin);
  }
  return best;
}

// The lanes of each run meet: the largest value, and the first place that has it.
INLINE struct best best_of_each(const struct short_runs *runs) {
  numbers candidates[LANES];
  UNROLLED for (int run = 0; run < LANES; run++) {
    candidates[run] = runs->best[run].values;
  }
  struct best best = {.values = reduce_each(candidates, larger)};
  UNROLLED for (int run = 0; run < LANES; run++) {
    number_condition is_maximum = equal(runs->best[run].values, lane_everywhere(best.values, run));
    candidates[run] = choose_numbers(is_maximum, runs->best[run].places, every_number(FORWARD_SHORT_RUN));
  }
  best.places = reduce_each(candidates, smaller_places);
  return best;
}

// The elements themselves: only they tell which of the zeros they are.
INLINE numbers raw_of_best(const element *first, int64_t length, int64_t count, const struct best *best) {
  numbers raw = raw_of(best->values);
  if (number_mask(equal(best->values, (numbers){0})) != 0) {
    element found[LANES];
    memcpy(found, &raw, sizeof found);
    for (int64_t run = 0; run < count; run++) {
      found[run] = found[run] == 0 || found[run] == ELEMENT_SIGN ? first[run * length + best->places[run]]
                                                                 : found[run];
    }
    raw = load_raw(found);
  }
  return raw;
}

// Positions of as many runs as there are lanes.
struct run_positions {
  ints of_runs[NUMBER_WORDS];
  int32_t advance; // to the next runs
  int32_t plane;
};

INLINE struct run_positions run_positions_of(const struct forward_runs *runs) {
  struct run_positions positions;
  int32_t position = runs->position;
  int32_t all[LANES];
  for (int64_t run = 0; run < LANES; run++) {
    all[run] = position;
    position = position == runs->last_position ? 0 : position + (int32_t)runs->length;
  }
  memcpy(positions.of_runs, all, sizeof all);
  positions.plane = runs->last_position + (int32_t)runs->length;
  positions.advance = (int32_t)(LANES * runs->length % positions.plane);
  return positions;
}

// As many runs as there are lanes, or the last `count`. True if there may be a NaN among them.
INLINE bool pool_vector_of_runs(const struct forward_elements *elements, const struct forward_runs *runs,
                                int64_t done, int64_t count, int vectors,
                                const struct run_positions *positions,
                                const struct forward_results *results) {
  const element *first = element_at(elements, runs->offset + done * runs->length);
  const int64_t length = runs->length;
  struct short_runs together;
  struct watch watch = watch_nothing();
  for (int64_t run = 0; run < LANES; run++) {
    // Beyond the last run the last is looked at again, to no effect.
    const element *from = first + (run < count ? run : count - 1) * length;
    together.best[run] = best_of_run(elements, from, length, vectors, &watch);
  }
  struct best best = best_of_each(&together);
  watch_maxima(&watch, best.values);
  if (watch_saw_nan(&watch, elements->infinity)) {
    return true; // there may be no place
  }
  bool whole = done + LANES <= results->room;
  store_raw(results, done, raw_of_best(first, length, count, &best), count, whole);
  UNROLLED for (int part = 0; part < NUMBER_WORDS; part++) {
    int64_t left = count - part * WORDS;
    left = left < 0 ? 0 : left < WORDS ? left : WORDS;
    store_positions(results, done + part * WORDS,
                    words_of_places(best.places, part) + positions->of_runs[part], left, whole);
  }
  return false;
}

INLINE bool pool_short_runs_typed(const struct forward_elements *elements, const struct forward_runs *runs,
                                  bool *with_nan, const struct forward_results *results, int vectors) {
  struct run_positions positions = run_positions_of(runs);
  bool any = false;
  for (int64_t done = 0; done < runs->runs; done += LANES) {
    int64_t left = runs->runs - done;
    bool nan = left >= LANES ? pool_vector_of_runs(elements, runs, done, LANES, vectors, &positions, results)
                             : pool_vector_of_runs(elements, runs, done, left, vectors, &positions, results);
    any = any || nan;
    memset(with_nan + done, nan, (size_t)(left < LANES ? left : LANES));
    UNROLLED for (int part = 0; part < NUMBER_WORDS; part++) {
      positions.of_runs[part] = next_positions(positions.of_runs[part], positions.advance, positions.plane);
    }
  }
  return any;
}

#define POOL_SHORT_RUNS(vectors)                                                                             \
  case vectors:                                                                                              \
    return pool_short_runs_typed(elements, runs, with_nan, results, vectors)

static bool pool_short_runs(const struct forward_elements *elements, const struct forward_runs *runs,
                            bool *with_nan, const struct forward_results *results) {
  switch ((runs->length + LANES - 1) / LANES) {
    POOL_SHORT_RUNS(1);
    POOL_SHORT_RUNS(2);
#if FORWARD_SHORT_RUN > 2 * LANES
    POOL_SHORT_RUNS(3);
    POOL_SHORT_RUNS(4);
#endif
#if FORWARD_SHORT_RUN > 4 * LANES
    POOL_SHORT_RUNS(5);
    POOL_SHORT_RUNS(6);
    POOL_SHORT_RUNS(7);
    POOL_SHORT_RUNS(8);
#endif
#if FORWARD_SHORT_RUN > 8 * LANES
    POOL_SHORT_RUNS(9);
    POOL_SHORT_RUNS(10);
    POOL_SHORT_RUNS(11);
    POOL_SHORT_RUNS(12);
    POOL_SHORT_RUNS(13);
    POOL_SHORT_RUNS(14);
    POOL_SHORT_RUNS(15);
    POOL_SHORT_RUNS(16);
#endif
  default:
    return false;
  }
}

#endif
