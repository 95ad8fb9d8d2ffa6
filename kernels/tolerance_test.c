#include "kernels/tolerance.h"

#include "kernels/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tensor_desc line(enum data_type data_type, int64_t elements) {
  struct tensor_desc desc = {.data_type = data_type, .rank = 1, .shape = {elements}};
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "out", &status));
  return desc;
}

static struct tensor_comparison compare(const struct tensor_desc *desc, const void *actual,
                                        const void *golden, bool exactly) {
  struct tensor_comparison comparison;
  tensor_compare(desc, actual, golden, exactly, &comparison);
  return comparison;
}

static void same_bits_agree(void **state) {
  (void)state;
  const float values[] = {1, -0.0f, INFINITY, NAN, 1e-45f};
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 5);
  for (int exactly = 0; exactly < 2; exactly++) {
    struct tensor_comparison same = compare(&desc, values, values, exactly);
    assert_true(same.agree);
    assert_int_equal(same.elements, 5);
    assert_int_equal(same.differing, 0);
    assert_int_equal(same.first, -1);
    assert_int_equal(same.worst, -1);
    assert_true(same.worst_error == 0 && same.mean_error == 0);
  }
}

static void one_bit_differs_exactly_and_is_within_tolerance(void **state) {
  (void)state;
  float golden[1000], actual[1000];
  for (size_t i = 0; i < 1000; i++) {
    golden[i] = actual[i] = (float)i + 1;
  }
  actual[700] = float_from_bits(float_to_bits(golden[700]) ^ 1);
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 1000);
  struct tensor_comparison exact = compare(&desc, actual, golden, true);
  assert_false(exact.agree);
  assert_int_equal(exact.differing, 1);
  assert_int_equal(exact.first, 700);
  assert_int_equal(exact.worst, 700);
  assert_true(exact.worst_error > 0 && exact.worst_error < 1e-6);
  assert_true(fabs(exact.mean_error - exact.worst_error / 1000) < 1e-12);
  assert_true(compare(&desc, actual, golden, false).agree);
}

// For each type: 10 T is beyond the worst that an element may be off, T beyond the mean.
static void bounds_are_those_of_the_type(void **state) {
  (void)state;
  static const struct {
    enum data_type data_type;
    double bound;
  } types[] = {{DATA_TYPE_FLOAT, 0x1p-13}, {DATA_TYPE_FLOAT16, 0x1p-10}, {DATA_TYPE_BF16, 0x1p-7}};
  for (size_t i = 0; i < 3; i++) {
    // Steps of T from 1 can be written in each of the types.
    for (int steps = 0; steps < 24; steps++) {
      float value = (float)(1 + steps * types[i].bound);
      uint16_t halves[2][100];
      float singles[2][100];
      for (size_t j = 0; j < 100; j++) {
        float off = j == 99 ? value : 1;
        singles[0][j] = off, singles[1][j] = 1;
        bool bf16 = types[i].data_type == DATA_TYPE_BF16;
        halves[0][j] = bf16 ? bf16_from_float(off) : fp16_from_float(off);
        halves[1][j] = bf16 ? bf16_from_float(1) : fp16_from_float(1);
      }
      bool single = types[i].data_type == DATA_TYPE_FLOAT;
      const void *actual = single ? (const void *)singles[0] : halves[0];
      const void *golden = single ? (const void *)singles[1] : halves[1];
      struct tensor_desc hundred = line(types[i].data_type, 100), last = line(types[i].data_type, 1);
      // One of a hundred is measured by the worst, one alone by the mean. The shift of the denominator
      // brings an error of exactly the bound just below it.
      assert_int_equal(compare(&hundred, actual, golden, false).agree, steps <= 10);
      size_t bytes = data_type_bytes(types[i].data_type);
      assert_int_equal(compare(&last, (const uint8_t *)actual + 99 * bytes, golden, false).agree, steps <= 1);
    }
  }
}

static void golden_zero_is_measured_absolutely(void **state) {
  (void)state;
  float golden[] = {0}, actual[] = {1e-12f};
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 1);
  assert_true(compare(&desc, actual, golden, false).agree);
  actual[0] = 1e-6f;
  struct tensor_comparison far = compare(&desc, actual, golden, false);
  assert_false(far.agree);
  assert_true(fabs(far.worst_error - 10) < 1e-5);
  actual[0] = -0.0f; // another zero is no error, but not the same
  assert_true(compare(&desc, actual, golden, false).agree);
  assert_int_equal(compare(&desc, actual, golden, true).first, 0);
}

static void nan_equals_nan_and_nothing_else(void **state) {
  (void)state;
  const float quiet = float_from_bits(0x7fc00000), other = float_from_bits(0xffc00123);
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 1);
  for (int exactly = 0; exactly < 2; exactly++) {
    assert_true(compare(&desc, &quiet, &other, exactly).agree);
    const float values[] = {0, 1, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
      struct tensor_comparison one = compare(&desc, &quiet, &values[i], exactly);
      assert_false(one.agree);
      assert_true(isinf(one.worst_error) && isinf(one.mean_error));
      assert_false(compare(&desc, &values[i], &quiet, exactly).agree);
    }
  }
  const uint16_t halves[] = {0x7e00, 0xfe01}, brains[] = {0x7fc0, 0xffc1};
  struct tensor_desc half = line(DATA_TYPE_FLOAT16, 1), brain = line(DATA_TYPE_BF16, 1);
  assert_true(compare(&half, &halves[0], &halves[1], true).agree);
  assert_true(compare(&brain, &brains[0], &brains[1], true).agree);
}

static void infinities_must_be_the_same(void **state) {
  (void)state;
  const float values[] = {INFINITY, -INFINITY, 3.4028235e38f};
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 1);
  for (size_t i = 0; i < 3; i++) {
    for (size_t j = 0; j < 3; j++) {
      assert_int_equal(compare(&desc, &values[i], &values[j], false).agree, i == j);
    }
  }
}

static void integers_must_be_the_same(void **state) {
  (void)state;
  int64_t golden[] = {1, INT64_MAX, 3}, actual[] = {1, INT64_MAX - 1, 4};
  struct tensor_desc desc = line(DATA_TYPE_INT64, 3);
  struct tensor_comparison comparison = compare(&desc, actual, golden, false);
  assert_false(comparison.agree);
  assert_int_equal(comparison.differing, 2);
  assert_int_equal(comparison.first, 1);
  int32_t small[] = {7}, other[] = {8};
  desc = line(DATA_TYPE_INT32, 1);
  assert_false(compare(&desc, small, other, false).agree);
  double wide[] = {1}, wider[] = {nextafter(1, 2)};
  desc = line(DATA_TYPE_DOUBLE, 1); // the yardstick has no bound for it
  assert_false(compare(&desc, wide, wider, false).agree);
}

static void only_the_view_counts(void **state) {
  (void)state;
  // Two by three, columns first, every other element, from the storage's second on.
  struct tensor_desc desc = {.data_type = DATA_TYPE_INT32,
                             .rank = 2,
                             .shape = {2, 3},
                             .stride_count = 2,
                             .strides = {2, 4},
                             .storage_offset = 1,
                             .storage_elements = 14};
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "out", &status));
  for (int64_t hit = 0; hit < 14; hit++) {
    int32_t golden[14] = {0}, actual[14] = {0};
    actual[hit] = 1;
    struct tensor_comparison comparison = compare(&desc, actual, golden, true);
    int64_t expected = -1;
    for (int64_t flat = 0; flat < 6; flat++) {
      expected = tensor_desc_offset_of(&desc, flat) == hit ? flat : expected;
    }
    assert_int_equal(comparison.elements, 6);
    assert_int_equal(comparison.first, expected);
    assert_int_equal(comparison.agree, expected < 0);
  }
}

static void empty_views_agree(void **state) {
  (void)state;
  const float nothing = 0;
  struct tensor_desc desc = line(DATA_TYPE_FLOAT, 0);
  struct tensor_comparison comparison = compare(&desc, &nothing, &nothing, true);
  assert_true(comparison.agree);
  assert_int_equal(comparison.elements, 0);
  desc = (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .rank = 2, .shape = {3, 0}};
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "out", &status));
  assert_true(compare(&desc, &nothing, &nothing, false).agree);
}

static void scalars_are_compared(void **state) {
  (void)state;
  struct tensor_desc desc = {.data_type = DATA_TYPE_FLOAT};
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "out", &status));
  const float one = 1, two = 2;
  assert_int_equal(compare(&desc, &one, &two, false).first, 0);
  assert_true(compare(&desc, &one, &one, false).agree);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits_agree),
      cmocka_unit_test(one_bit_differs_exactly_and_is_within_tolerance),
      cmocka_unit_test(bounds_are_those_of_the_type),
      cmocka_unit_test(golden_zero_is_measured_absolutely),
      cmocka_unit_test(nan_equals_nan_and_nothing_else),
      cmocka_unit_test(infinities_must_be_the_same),
      cmocka_unit_test(integers_must_be_the_same),
      cmocka_unit_test(only_the_view_counts),
      cmocka_unit_test(empty_views_agree),
      cmocka_unit_test(scalars_are_compared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
