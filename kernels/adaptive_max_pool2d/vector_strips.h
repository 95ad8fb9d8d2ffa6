// Strips: rows whose windows make a row of outputs, FORWARD_PIECE_ELEMENTS at most of them.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_STRIPS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_VECTOR_STRIPS_H

#include "kernels/adaptive_max_pool2d/vector_elements.h"
#include "kernels/adaptive_max_pool2d/vector_rows.h"

INLINE int64_t strips_rows_ahead(const struct forward_strips *strips, const struct forward_strip *strip) {
  return 2 * strip->rows > strips->rows_ahead ? 2 * strip->rows : strips->rows_ahead;
}

#if FORWARD_ELEMENT_BITS == 16

// Positions within a strip have 16 bits as well, so that a candidate has 32: above the number, without a
// sign, below the position, inverted. Which of the zeros a winner is has to be looked up.

// What makes a number and a position, as 16 bits above 16 others, a candidate.
#define CANDIDATE_BITS 0x8000ffffu

typedef VECTOR_IN_MEMORY(uint32_t, FORWARD_VECTOR_BYTES) words_in_memory;
typedef VECTOR_OF(int16_t, FORWARD_VECTOR_BYTES / 2) few_numbers;

// The candidates of the columns of all strips, and where in its plane the strip of each output begins.
struct strip_block {
  _Alignas(64) uint32_t
      candidates[FORWARD_STRIPS_COLUMNS_MAX + WORDS * WORDS]; // what is read beyond doesn't matter
  _Alignas(64) int32_t positions[FORWARD_STRIPS_OUTPUTS_MAX + WORDS];
};

INLINE void reduce_strip_columns(const struct forward_elements *elements, const struct forward_strips *strips,
                                 const struct forward_strip *strip, int64_t column, int vectors, int64_t left,
                                 struct watch *watch, uint32_t *candidates) {
  const struct column_search search = {
      .rows = element_at(elements, strip->offset),
      .count = strip->rows,
      .columns = strips->columns,
      .row_stride = strips->row_stride,
      .rows_ahead = strips_rows_ahead(strips, strip),
      .step = every_number(strips->row_positions),
  };
  struct best best[COLUMNS_AT_ONCE];
  int64_t columns[COLUMNS_AT_ONCE];
  search_columns(&search, column, vectors, left, watch, best, columns);
  UNROLLED for (int i = 0; i < vectors; i++) {
    numbers places = add_places(best[i].places, number_lanes() + (element)columns[i]);
    words_in_memory *to = (words_in_memory *)(candidates + columns[i]);
    to[0] =
        (words)__builtin_shuffle(places, best[i].values, (numbers)INTERLEAVED_HALVES_LOW) ^ CANDIDATE_BITS;
    to[1] =
        (words)__builtin_shuffle(places, best[i].values, (numbers)INTERLEAVED_HALVES_HIGH) ^ CANDIDATE_BITS;
  }
}

struct strip_task {
  const struct forward_elements *elements;
  const struct forward_strips *strips;
  const struct forward_strip *strip;
  uint32_t *candidates;
};

INLINE void reduce_vectors_of_strip(const void *task, int64_t column, int vectors, struct watch *watch) {
  const struct strip_task *strip = task;
  reduce_strip_columns(strip->elements, strip->strips, strip->strip, column, vectors, INT64_MAX, watch,
                       strip->candidates);
}

// The candidates of a strip's columns. True if there is a NaN.
static bool reduce_strip(const struct forward_elements *elements, const struct forward_strips *strips,
                         const struct forward_strip *strip, uint32_t *candidates) {
  struct watch watch = watch_nothing();
  int64_t left = elements->count - strip->offset;
  if (strips->columns < LANES && (strip->rows - 1) * strips->row_stride + LANES > left) {
    reduce_strip_columns(elements, strips, strip, 0, 1, left, &watch, candidates);
  } else {
    const struct strip_task task = {elements, strips, strip, candidates};
    reduce_all_vectors(&task, strips->columns, reduce_vectors_of_strip, &watch);
  }
  return watch_saw_nan(&watch, elements->infinity);
}

INLINE words load_candidates(const uint32_t *from) {
  return *(const words_in_memory *)from;
}

INLINE words larger_candidates(words a, words b) {
  return (words)larger_words((ints)a, (ints)b);
}

// The best of a window in each lane, or 0, which is less than any.
INLINE words reduce_strip_window(const uint32_t *candidates, int64_t width) {
  words winner = load_candidates(candidates);
  if (width < WORDS) {
    return (words)first_words((ints)winner, width);
  }
  int64_t at = WORDS;
  for (; at + WORDS <= width; at += WORDS) {
    winner = larger_candidates(winner, load_candidates(candidates + at));
  }
  if (at < width) {
    winner = larger_candidates(winner, load_candidates(candidates + width - WORDS));
  }
  return winner;
}

// How windows become lanes of vectors.
enum strip_windows {
  STRIP_WINDOWS_PACKED, // each is half a vector, and the next one follows
  STRIP_WINDOWS_SMALL,  // each fits into half a vector
  STRIP_WINDOWS_ANY,
};

// The windows of all strips, one after the other.
struct window_cursor {
  const struct forward_strips *strips;
  const uint32_t *candidates;
  int64_t window;
  int64_t left; // besides this one
};

// Beyond the last window the last is looked at again, to no effect.
INLINE void next_strip_window(struct window_cursor *cursor) {
  if (cursor->left == 0) {
    return;
  }
  cursor->left--;
  if (++cursor->window == cursor->strips->windows) {
    cursor->window = 0;
    cursor->candidates += cursor->strips->columns;
  }
}

INLINE words take_window(struct window_cursor *cursor) {
  words winner = reduce_strip_window(cursor->candidates + cursor->strips->begins[cursor->window],
                                     cursor->strips->widths[cursor->window]);
  next_strip_window(cursor);
  return winner;
}

INLINE words take_two_windows(struct window_cursor *cursor) {
  few_ints both[2];
  UNROLLED for (int i = 0; i < 2; i++) {
    const uint32_t *from = cursor->candidates + cursor->strips->begins[cursor->window];
    few_ints loaded = *(const few_ints_in_memory *)from;
    both[i] = first_few_words(loaded, cursor->strips->widths[cursor->window]);
    next_strip_window(cursor);
  }
  return (words)join(both[0], both[1]);
}

// Lanes of two vectors that follow each other become one.
INLINE void reduce_pairs_of_candidates(words *level, int count) {
  UNROLLED for (int i = 0; i < count / 2; i++) {
    words a = level[2 * i];
    words b = level[2 * i + 1];
    level[i] = larger_candidates(__builtin_shuffle(a, b, (words)EVEN), __builtin_shuffle(a, b, (words)ODD));
  }
}

// As many winners as words, in order.
INLINE words take_winners(struct window_cursor *cursor, int64_t done, enum strip_windows kind) {
  words level[WORDS];
  int count = kind == STRIP_WINDOWS_ANY ? WORDS : WORDS / 2;
  UNROLLED for (int i = 0; i < count; i++) {
    level[i] = kind == STRIP_WINDOWS_ANY ? take_window(cursor)
               : kind == STRIP_WINDOWS_PACKED
                   ? load_candidates(cursor->candidates + done * (WORDS / 2) + i * WORDS)
                   : take_two_windows(cursor);
  }
  reduce_pairs_of_candidates(level, count);
  reduce_pairs_of_candidates(level, count / 2);
  reduce_pairs_of_candidates(level, count / 4);
  reduce_pairs_of_candidates(level, count / 8);
  return level[0];
}

// Elements as they were: from numbers all but negative zeros can be made.
static few_numbers look_up_zeros(const struct forward_elements *elements, const struct forward_strips *strips,
                                 few_numbers raw, words winners, int64_t done, int64_t count) {
  for (int64_t lane = 0; lane < count && lane < WORDS; lane++) {
    if (raw[lane] == 0) {
      int64_t place = (uint16_t)~winners[lane];
      int64_t offset = strips->strips[(done + lane) / strips->windows].offset;
      raw[lane] = *element_at(elements, offset + place / strips->row_positions * strips->row_stride +
                                            place % strips->row_positions);
    }
  }
  return raw;
}

INLINE void store_strip_winners(const struct forward_elements *elements, const struct forward_strips *strips,
                                const struct forward_results *results, const struct strip_block *block,
                                words winners, int64_t done, int64_t count) {
  few_numbers keys = (few_numbers) __builtin_convertvector(winners >> 16, halves) ^ INT16_MIN;
  few_numbers signs = keys >> 15;
  few_numbers raw = ((keys ^ signs) - signs) | (few_numbers)((halves)signs << 15);
  if (any_zero((halves)keys)) {
    raw = look_up_zeros(elements, strips, raw, winners, done, count);
  }
  ints positions = (ints)(~winners & 0xffff) + *(const ints_in_memory *)(block->positions + done);
  bool fits = done + WORDS <= results->room;
  count = count < WORDS ? count : WORDS;
  memcpy((element *)results->values + done, &raw, fits ? sizeof raw : (size_t)count * sizeof(element));
  store_positions(results, done, positions, count, fits);
}

INLINE void reduce_strip_windows(struct forward_elements elements, const struct forward_strips *strips,
                                 struct forward_results results, const struct strip_block *block,
                                 enum strip_windows kind) {
  int64_t total = strips->count * strips->windows;
  struct window_cursor cursor = {.strips = strips, .candidates = block->candidates, .left = total - 1};
  for (int64_t done = 0; done < total; done += WORDS) {
    words winners = take_winners(&cursor, done, kind);
    store_strip_winners(&elements, strips, &results, block, winners, done, total - done);
  }
}

static uint64_t pool_strips(const struct forward_elements *elements, const struct forward_strips *strips,
                            const struct forward_results *results) {
  struct strip_block block;
  uint64_t with_nan = 0;
  for (int64_t i = 0; i < strips->count; i++) {
    const struct forward_strip *strip = &strips->strips[i];
    bool nan = reduce_strip(elements, strips, strip, block.candidates + i * strips->columns);
    with_nan |= (uint64_t)nan << i;
    for (int64_t window = 0; window < strips->windows; window += WORDS) {
      *(ints_in_memory *)(block.positions + i * strips->windows + window) = every(strip->position);
    }
  }
  if (strips->widest > WORDS / 2) {
    reduce_strip_windows(*elements, strips, *results, &block, STRIP_WINDOWS_ANY);
  } else if (strips->windows * (WORDS / 2) == strips->columns) {
    reduce_strip_windows(*elements, strips, *results, &block, STRIP_WINDOWS_PACKED);
  } else {
    reduce_strip_windows(*elements, strips, *results, &block, STRIP_WINDOWS_SMALL);
  }
  return with_nan;
}

#else

static uint64_t pool_strips(const struct forward_elements *elements, const struct forward_strips *strips,
                            const struct forward_results *results) {
  _Alignas(64) int64_t candidates[FORWARD_STRIPS_COLUMNS_MAX + LANES];
  uint64_t with_nan = 0;
  for (int64_t i = 0; i < strips->count; i++) {
    const struct forward_strip *strip = &strips->strips[i];
    const struct forward_piece piece = {
        .offset = strip->offset,
        .rows = strip->rows,
        .columns = strips->columns,
        .row_stride = strips->row_stride,
        .position = strip->position,
        .row_positions = strips->row_positions,
        .rows_ahead = strips_rows_ahead(strips, strip),
    };
    bool nan = reduce_piece(elements, &piece, false, candidates + i * strips->pitch);
    nan |= strips->noted_each && noted_nan_after(candidates);
    with_nan |= (uint64_t)nan << i;
  }
  const struct forward_windows windows = {strips->begins, strips->widths, strips->windows, strips->count,
                                          strips->pitch};
  reduce_windows(&windows, candidates, results);
  return with_nan;
}

#endif

#endif
