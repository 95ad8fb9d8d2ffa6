// What the parts of a code path share: how elements are loaded, how they become candidates and how results
// are stored. See vector_path.h for what a candidate is.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_ELEMENTS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_ELEMENTS_H

#include "kernels/adaptive_max_pool2d/numbers.h"
#include "kernels/adaptive_max_pool2d/vector_path.h"

INLINE const element *element_at(const struct forward_elements *elements, int64_t offset) {
  return (const element *)elements->storage + offset;
}

INLINE numbers load_raw(const element *from) {
  return *(const numbers_in_memory *)from;
}

// Lanes from `count` on are zeros, and nothing is read for them.
static numbers load_first(const element *from, int64_t count) {
  element loaded[LANES] = {0};
  memcpy(loaded, from, (size_t)(count < LANES ? count : LANES) * sizeof *from);
  return load_raw(loaded);
}

// In each lane the best so far and its place, whose meaning is the user's.
struct best {
  numbers values;
  numbers places;
};

// The maximum doesn't wait for the comparison: rows follow each other faster.
INLINE void compete(struct best *best, numbers values, numbers places) {
  best->places = choose_numbers(greater(values, best->values), places, best->places);
  best->values = larger(values, best->values);
}

// Where the elements lie that a vector of bests comes from. Lane number i with place p, if elements have 16
// bits, is first[p * place_elements + i], at its plane's position + p * place_positions + i. Otherwise there
// is room for distances: it is at position + p + i.
struct origin {
  const element *first;
  int64_t place_elements;
  int32_t position;
  int32_t place_positions;
};

#if FORWARD_ELEMENT_BITS == 16
// Numbers don't tell which of the zeros they are: a look at the elements does. Zeros are rare among maxima.
static numbers signs_of_zeros(const struct best *best, const struct origin *origin, int64_t lanes) {
  numbers signs = {0};
  for (int64_t lane = 0; lane < lanes; lane++) {
    if (best->values[lane] == 0) {
      signs[lane] = origin->first[(uint16_t)best->places[lane] * origin->place_elements + lane] >> 15;
    }
  }
  return signs;
}
#endif

// One part of the lanes as candidates: those of its lower half and those of its upper.
INLINE void make_candidates(ints keys, ints signs, ints positions, wides candidates[2]) {
  ints order = ~((positions << 1) - signs);
  candidates[0] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_LOW);
  candidates[1] = (wides)__builtin_shuffle(order, keys, (ints)INTERLEAVED_HIGH);
}

// Only the first `lanes` have elements that may be looked at again.
INLINE void candidates_of(const struct best *best, const struct origin *origin, int64_t lanes,
                          wides candidates[NUMBER_GROUPS]) {
#if FORWARD_ELEMENT_BITS == 16
  numbers all_signs = best->values >> 15;
  if (number_mask(equal(best->values, (numbers){0})) != 0) {
    all_signs |= signs_of_zeros(best, origin, lanes);
  }
  UNROLLED for (int part = 0; part < NUMBER_WORDS; part++) {
    ints keys = words_of_places(best->values, part) << 16;
    ints signs = (words_of_places(all_signs, part) << 16) >> 16;
    ints places = words_of_places(best->places, part);
    ints positions = places * origin->place_positions + lane_numbers() + (origin->position + part * WORDS);
    make_candidates(keys, signs, positions, candidates + 2 * part);
  }
#else
  (void)lanes;
  ints signs = best->values >> 31;
  ints keys = (best->values ^ (signs & 0x7fffffff)) - signs;
  make_candidates(keys, signs, best->places + lane_numbers() + origin->position, candidates);
#endif
}

// The other way round; values of 16 bits are in the upper half.
INLINE void read_candidates(wides candidates, few_ints *values, few_ints *positions) {
  few_ints order = ~__builtin_convertvector(candidates, few_ints);
  few_ints keys = __builtin_convertvector(candidates >> 32, few_ints);
  few_ints signs = keys >> 31;
  *values = ((keys + signs) ^ (signs & 0x7fffffff)) | (order << 31);
  *positions = (few_ints)((few_words)order >> 1);
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
  wides wide[2] = {widen_few(lower_half(positions)), widen_few(upper_half(positions))};
  int64_t *to = (int64_t *)results->indices + at;
  if (whole) {
    ((wides_in_memory *)to)[0] = wide[0];
    ((wides_in_memory *)to)[1] = wide[1];
  } else {
    memcpy(to, wide, (size_t)count * sizeof *to);
  }
}

INLINE void store_raw(const struct forward_results *results, int64_t at, numbers raw, int64_t count,
                      bool whole) {
  element *to = (element *)results->values + at;
  if (whole) {
    *(numbers_in_memory *)to = raw;
  } else {
    memcpy(to, &raw, (size_t)count * sizeof *to);
  }
}

// Places as distances from a position.
INLINE void store_places(const struct forward_results *results, int64_t at, numbers places, int32_t position,
                         int64_t count, bool whole) {
  UNROLLED for (int part = 0; part < NUMBER_WORDS; part++) {
    ints positions = words_of_places(places, part) + position;
    int64_t left = count - part * WORDS;
    left = left < 0 ? 0 : left;
    store_positions(results, at + part * WORDS, positions, left < WORDS ? left : WORDS, whole);
  }
}

#endif
