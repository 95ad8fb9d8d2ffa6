// One source for all vector paths and both sizes of elements: compiled with a path's options, with
// FORWARD_VECTOR_BYTES, FORWARD_ELEMENT_BITS and the name of its table as FORWARD_VECTOR_PATH.
#include "kernels/adaptive_max_pool2d/vector_path.h"

#include <stddef.h>

#include "kernels/adaptive_max_pool2d/vector_pairs.h"
#include "kernels/adaptive_max_pool2d/vector_rows.h"
#include "kernels/adaptive_max_pool2d/vector_runs.h"
#include "kernels/adaptive_max_pool2d/vector_squares.h"
#include "kernels/adaptive_max_pool2d/vector_strips.h"

#if LANES > FORWARD_LANES_MAX || WORDS > FORWARD_WORDS_MAX
#error "FORWARD_LANES_MAX or FORWARD_WORDS_MAX is too small"
#endif

// A vector of positions and as many values; fewer at the end.
INLINE void copy_words(const struct forward_results *results, const element *from, int64_t at, ints positions,
                       int64_t count, bool whole) {
  memcpy((element *)results->values + at, from + at, (whole ? WORDS : (size_t)count) * sizeof *from);
  store_positions(results, at, positions, count, whole);
}

static void copy_with_positions(const struct forward_elements *elements, int64_t offset, int64_t count,
                                int32_t position, int32_t plane, const struct forward_results *results) {
  const element *from = element_at(elements, offset);
  const struct forward_results to = *results; // what is stored can't change it
  ints positions = lane_numbers();
  for (int lane = 0; lane < WORDS; lane++) {
    positions[lane] = (int32_t)(((int64_t)position + lane) % plane);
  }
  int32_t step = WORDS % plane;
  int64_t at = 0;
  for (; at + WORDS <= count; at += WORDS) {
    copy_words(&to, from, at, positions, WORDS, true);
    positions = next_positions(positions, step, plane);
  }
  copy_words(&to, from, at, positions, count - at, false);
}

static bool noted_nan(void) {
  return noted_nan_after(NULL);
}

const struct forward_vector_path FORWARD_VECTOR_PATH = {
    .lanes = LANES,
    .words = WORDS,
    .wide_lanes = WIDE_LANES,
    .noted_nan = noted_nan,
    .reduce_rows = reduce_rows,
    .reduce_runs = reduce_runs,
    .pool_short_runs = pool_short_runs,
    .reduce_windows = reduce_windows,
    .pool_strips = pool_strips,
    .pool_pairs = pool_pairs,
    .pool_squares = pool_squares,
    .copy_with_positions = copy_with_positions,
};
