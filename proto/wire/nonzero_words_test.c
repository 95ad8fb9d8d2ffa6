#include "proto/wire/nonzero_words.h"

#include "proto/wire/nonzero_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RAW_MAX ((size_t)9000)
#define GUARD 64

// Deterministic and different each time.
static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

// Words that aren't zero, about one in `period`.
static void fill(uint8_t *data, size_t size, int word_bytes, uint32_t period, uint32_t seed) {
  memset(data, 0, size);
  for (size_t word = 0; word < size / (size_t)word_bytes; word++) {
    if (next_random(&seed) % period == 0) {
      data[word * (size_t)word_bytes + next_random(&seed) % (uint32_t)word_bytes] =
          (uint8_t)(1 + next_random(&seed) % 255);
    }
  }
  for (size_t i = size / (size_t)word_bytes * (size_t)word_bytes; i < size; i++) {
    data[i] = (uint8_t)next_random(&seed);
  }
}

// What the format says, word by word.
static size_t encode_plainly(int word_bytes, const uint8_t *raw, size_t raw_bytes, uint8_t *to) {
  const size_t width = (size_t)word_bytes, words = raw_bytes / width, groups = (words + 31) / 32;
  static const uint8_t zeros[4];
  size_t size = 1 + (groups + 7) / 8;
  memset(to, 0, size);
  to[0] = (uint8_t)word_bytes;
  for (size_t group = 0; group < groups; group++) {
    uint32_t mask = 0;
    for (size_t word = group * 32; word < words && word < group * 32 + 32; word++) {
      mask |= (uint32_t)(memcmp(raw + word * width, zeros, width) != 0) << word % 32;
    }
    if (mask != 0) {
      to[1 + group / 8] |= (uint8_t)(1 << group % 8);
      for (int byte = 0; byte < 4; byte++) {
        to[size++] = (uint8_t)(mask >> 8 * byte);
      }
    }
  }
  for (size_t word = 0; word < words; word++) {
    if (memcmp(raw + word * width, zeros, width) != 0) {
      memcpy(to + size, raw + word * width, width);
      size += width;
    }
  }
  memcpy(to + size, raw + words * width, raw_bytes % width);
  return size + raw_bytes % width;
}

static void check_one(const struct nonzero_kernels *path, int word_bytes, size_t raw_bytes, uint32_t period,
                      uint32_t seed) {
  // Each in a block of just its size, so that a sanitizer sees a byte too many.
  uint8_t *raw = malloc(raw_bytes), *expected = malloc(2 * RAW_MAX);
  fill(raw, raw_bytes, word_bytes, period, seed);
  size_t size = encode_plainly(word_bytes, raw, raw_bytes, expected);
  uint8_t *encoded = malloc(size), *decoded = malloc(raw_bytes);
  assert_int_equal(nonzero_encode_by(path, word_bytes, raw, raw_bytes, encoded, size), size);
  assert_memory_equal(encoded, expected, size);
  memset(decoded, 0xa5, raw_bytes);
  assert_true(nonzero_decode_by(path, encoded, size, decoded, raw_bytes));
  assert_memory_equal(decoded, raw, raw_bytes);
  assert_int_equal(nonzero_encode_by(path, word_bytes, raw, raw_bytes, encoded, size - 1), 0);
  free(raw);
  free(expected);
  free(encoded);
  free(decoded);
}

static void check_path(const struct nonzero_kernels *path, int word_bytes) {
  static const uint32_t periods[] = {1, 2, 4, 40, 256, 100000};
  for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
    for (size_t raw_bytes = 1; raw_bytes < 700; raw_bytes++) {
      check_one(path, word_bytes, raw_bytes, periods[i], (uint32_t)raw_bytes);
    }
    check_one(path, word_bytes, RAW_MAX, periods[i], 7);
    check_one(path, word_bytes, RAW_MAX - 3, periods[i], 8);
  }
}

static void every_size_and_density_comes_back_on_every_path(void **state) {
  (void)state;
  for (size_t path = 0; nonzero_paths[path] != NULL; path++) {
    if (nonzero_paths[path]->is_supported()) {
      check_path(nonzero_paths[path], 2);
      check_path(nonzero_paths[path], 4);
    } else {
      print_message("this processor doesn't have the path %s\n", nonzero_paths[path]->name);
    }
  }
}

static void minus_zero_is_no_zero(void **state) {
  (void)state;
  const float raw[40] = {[3] = -0.0f};
  uint8_t encoded[64];
  float decoded[40];
  size_t size = nonzero_words_encode(4, (const uint8_t *)raw, sizeof raw, encoded, sizeof encoded);
  assert_int_equal(size, 1 + 1 + 4 + 4);
  assert_true(nonzero_words_decode(encoded, size, (uint8_t *)decoded, sizeof decoded));
  assert_memory_equal(raw, decoded, sizeof raw);
}

// Any byte of an encoding may be wrong, cut off or too many: it is refused or decodes to something, within
// its place.
static void check_broken(const struct nonzero_kernels *path) {
  enum { RAW = 600 };
  uint8_t raw[RAW], encoded[2 * RAW], decoded[RAW + GUARD];
  for (int word_bytes = 2; word_bytes <= 4; word_bytes += 2) {
    fill(raw, RAW, word_bytes, 9, 3);
    size_t size = nonzero_encode_by(path, word_bytes, raw, RAW, encoded, sizeof encoded);
    assert_in_range(size, 20, RAW);
    for (size_t cut = 0; cut < size; cut++) {
      assert_false(nonzero_decode_by(path, encoded, cut, decoded, RAW));
    }
    assert_false(nonzero_decode_by(path, encoded, size + 1, decoded, RAW));
    for (size_t at = 0; at < size; at++) {
      for (int bit = 0; bit < 8; bit++) {
        uint8_t *block = malloc(size);
        memcpy(block, encoded, size);
        block[at] ^= (uint8_t)(1 << bit);
        memset(decoded, 0xa5, sizeof decoded);
        (void)nonzero_decode_by(path, block, size, decoded, RAW);
        for (size_t i = RAW; i < sizeof decoded; i++) {
          assert_int_equal(decoded[i], 0xa5);
        }
        free(block);
      }
    }
  }
}

static void broken_data_stay_within_their_place(void **state) {
  (void)state;
  for (size_t path = 0; nonzero_paths[path] != NULL; path++) {
    if (nonzero_paths[path]->is_supported()) {
      check_broken(nonzero_paths[path]);
    }
  }
}

static void refuse(const uint8_t *data, size_t size, size_t raw_bytes) {
  uint8_t decoded[1024];
  assert_in_range(raw_bytes, 0, sizeof decoded);
  assert_false(nonzero_words_decode(data, size, decoded, raw_bytes));
}

static void what_is_no_encoding_is_refused(void **state) {
  (void)state;
  // 40 words of 4 bytes: two groups, the second has 8 words.
  static const uint8_t zeros[] = {4, 0};
  uint8_t decoded[160];
  assert_true(nonzero_words_decode(zeros, sizeof zeros, decoded, sizeof decoded));
  refuse(zeros, sizeof zeros, 0);
  refuse(zeros, 0, 160);
  refuse((const uint8_t[]){3, 0}, 2, 160);
  refuse((const uint8_t[]){8, 0}, 2, 160);
  refuse((const uint8_t[]){4, 4}, 2, 160);                          // a third group
  refuse((const uint8_t[]){4, 4, 1, 0, 0, 0, 1, 2, 3, 4}, 10, 160); // the same, with its word
  refuse((const uint8_t[]){4, 2, 0, 1, 0, 0, 1, 2, 3, 4}, 10, 160); // its ninth word
  refuse((const uint8_t[]){4, 2, 0x80, 0, 0, 0, 1, 2, 3}, 9, 160);  // three bytes of a word
  assert_true(nonzero_words_decode((const uint8_t[]){4, 2, 0x80, 0, 0, 0, 1, 2, 3, 4}, 10, decoded, 160));
  assert_memory_equal(decoded + 156, ((const uint8_t[]){1, 2, 3, 4}), 4);
}

static void nothing_and_too_much_are_not_encoded(void **state) {
  (void)state;
  uint8_t raw[8] = {0}, encoded[64];
  assert_int_equal(nonzero_words_encode(4, raw, 0, encoded, sizeof encoded), 0);
  assert_int_equal(nonzero_words_encode(4, raw, NONZERO_WORDS_RAW_MAX + 1, encoded, sizeof encoded), 0);
  assert_int_equal(nonzero_words_encode(4, raw, sizeof raw, encoded, 0), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_size_and_density_comes_back_on_every_path),
      cmocka_unit_test(minus_zero_is_no_zero),
      cmocka_unit_test(broken_data_stay_within_their_place),
      cmocka_unit_test(what_is_no_encoding_is_refused),
      cmocka_unit_test(nothing_and_too_much_are_not_encoded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
