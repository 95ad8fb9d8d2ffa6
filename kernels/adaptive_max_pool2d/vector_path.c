// One source for all vector paths and both sizes of elements: compiled with a path's options, with
// FORWARD_VECTOR_BYTES, FORWARD_ELEMENT_BITS and the name of its table as FORWARD_VECTOR_PATH.
#include "kernels/adaptive_max_pool2d/vector_path.h"

#include "kernels/adaptive_max_pool2d/vector_pairs.h"
#include "kernels/adaptive_max_pool2d/vector_rows.h"
#include "kernels/adaptive_max_pool2d/vector_runs.h"
#include "kernels/adaptive_max_pool2d/vector_squares.h"

#if LANES > FORWARD_LANES_MAX || WORDS > FORWARD_WORDS_MAX
#error "FORWARD_LANES_MAX or FORWARD_WORDS_MAX is too small"
#endif

static void count_positions(const struct forward_results *results, int64_t count, int32_t position,
                            int32_t plane) {
  ints positions = lane_numbers();
  for (int lane = 0; lane < WORDS; lane++) {
    positions[lane] = (int32_t)(((int64_t)position + lane) % plane);
  }
  int32_t step = WORDS % plane;
  for (int64_t at = 0; at < count; at += WORDS) {
    if (count - at >= WORDS) {
      store_positions(results, at, positions, WORDS, true);
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
    .words = WORDS,
    .wide_lanes = WIDE_LANES,
    .reduce_rows = reduce_rows,
    .reduce_runs = reduce_runs,
    .pool_short_runs = pool_short_runs,
    .reduce_windows = reduce_windows,
    .pool_pairs = pool_pairs,
    .pool_squares = pool_squares,
    .count_positions = count_positions,
};
