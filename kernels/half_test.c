#include "kernels/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

// A 16-bit float type as numbers, from which the expected values are computed in double.
struct half_type {
  int fraction_bits;
  int exponent_min; // of the smallest normal number, as in 2^exponent_min
  double largest;   // finite value
  uint16_t infinity;
  float (*to_float)(uint16_t bits);
  uint16_t (*from_float)(float value);
  void (*from_floats)(uint16_t *to, const float *from, size_t count);
};

static float widen_bf16(uint16_t bits) {
  return bf16_to_float(bits);
}

static const struct half_type fp16 = {
    10, -14, 65504.0, 0x7c00, fp16_to_float, fp16_from_float, fp16_from_floats};
static const struct half_type bf16 = {
    7, -126, 0x1.fep127, 0x7f80, widen_bf16, bf16_from_float, bf16_from_floats};

static double expected_value(const struct half_type *type, uint16_t bits) {
  int exponent = (bits & 0x7fff) >> type->fraction_bits;
  int fraction = bits & ((1 << type->fraction_bits) - 1);
  double magnitude;
  if (exponent == 0) {
    magnitude = ldexp(fraction, type->exponent_min - type->fraction_bits);
  } else {
    magnitude =
        ldexp((1 << type->fraction_bits) + fraction, exponent - 1 + type->exponent_min - type->fraction_bits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

// The nearest value of the type, ties to even, in double arithmetic.
static double expected_rounding(const struct half_type *type, float value) {
  if (value == 0 || isinf(value)) {
    return value;
  }
  int exponent = ilogb(value);
  if (exponent < type->exponent_min) {
    exponent = type->exponent_min;
  }
  double unit = ldexp(1.0, exponent - type->fraction_bits);
  double rounded = nearbyint(value / unit) * unit;
  if (fabs(rounded) > type->largest) {
    return copysign(INFINITY, value);
  }
  return copysign(rounded, value);
}

static void assert_rounds(const struct half_type *type, float value) {
  uint16_t bits = type->from_float(value);
  if (isnan(value)) {
    assert_true((bits & 0x7fff) > type->infinity);
    return;
  }
  double expected = expected_rounding(type, value);
  double given = type->to_float(bits);
  if (given != expected || signbit(given) != signbit(expected)) {
    fail_msg("%a became 0x%04x, which is %a, instead of %a", (double)value, bits, given, expected);
  }
}

static void assert_all_patterns(const struct half_type *type) {
  for (uint32_t pattern = 0; pattern <= 0xffff; pattern++) {
    uint16_t bits = (uint16_t)pattern;
    float value = type->to_float(bits);
    if ((bits & 0x7fff) > type->infinity) {
      assert_true(isnan(value));
      assert_true((type->from_float(value) & 0x7fff) > type->infinity);
      continue;
    }
    if ((bits & 0x7fff) == type->infinity) {
      assert_true(isinf(value));
    } else {
      assert_true(value == expected_value(type, bits));
    }
    assert_true(!signbit(value) == !(bits & 0x8000));
    assert_int_equal(type->from_float(value), bits);
  }
}

static void every_fp16_pattern_converts_exactly_and_back(void **state) {
  (void)state;
  assert_all_patterns(&fp16);
}

static void every_bf16_pattern_converts_exactly_and_back(void **state) {
  (void)state;
  assert_all_patterns(&bf16);
}

// The middle between two neighbours, and the floats on both sides of it, for each pair of neighbours.
static void assert_all_midpoints(const struct half_type *type) {
  for (uint16_t bits = 0; bits < type->infinity; bits++) {
    double low = expected_value(type, bits);
    double high = expected_value(type, (uint16_t)(bits + 1));
    float middle = (float)(low + (high - low) / 2);
    float values[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
      assert_rounds(type, values[i]);
      assert_rounds(type, -values[i]);
    }
  }
}

static void ties_of_fp16_go_to_even(void **state) {
  (void)state;
  assert_all_midpoints(&fp16);
}

static void ties_of_bf16_go_to_even(void **state) {
  (void)state;
  assert_all_midpoints(&bf16);
}

struct rounding {
  uint32_t value;
  uint16_t fp16;
  uint16_t bf16;
};

static void known_values_round_as_the_standard_says(void **state) {
  (void)state;
  static const struct rounding table[] = {
      {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, // zeros keep their sign
      {0x3f800000, 0x3c00, 0x3f80}, {0xc0490fdb, 0xc248, 0xc049}, // 1, -pi
      {0x45003000, 0x6802, 0x4500},                               // 2051: a tie of fp16, up to 2052
      {0x43818000, 0x5c0c, 0x4382},                               // 259: a tie of bf16, up to 260
      {0x43808000, 0x5c04, 0x4380},                               // 257: a tie of bf16, down to 256
      {0x477fefff, 0x7bff, 0x4780},                               // just below 65520: fp16's largest
      {0x477ff000, 0x7c00, 0x4780},                               // 65520: infinity
      {0x7f7fffff, 0x7c00, 0x7f80},                               // float's largest
      {0x7f7f7fff, 0x7c00, 0x7f7f},                               // just below bf16's overflow
      {0x33000000, 0x0000, 0x3300},                               // half of fp16's smallest: to even, zero
      {0x33000001, 0x0001, 0x3300},                               // a little more: fp16's smallest
      {0x387fe000, 0x0400, 0x3880},                               // a tie below fp16's normal numbers
      {0x00000001, 0x0000, 0x0000},                               // float's smallest
      {0x00008000, 0x0000, 0x0000},                               // half of bf16's smallest: to even
      {0x00008001, 0x0000, 0x0001},                               // a little more: kept, not flushed
      {0x007f0000, 0x0000, 0x007f},                               // a denormal of bf16
      {0x7f800000, 0x7c00, 0x7f80}, {0xff800000, 0xfc00, 0xff80}, // infinities
      {0x7fc00000, 0x7e00, 0x7fc0},                               // a quiet NaN
      {0x7f800001, 0x7e00, 0x7fc0}, {0xff800001, 0xfe00, 0xffc0}, // a signalling NaN never becomes infinity
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    assert_int_equal(fp16_from_float(float_from_bits(table[i].value)), table[i].fp16);
    assert_int_equal(bf16_from_float(float_from_bits(table[i].value)), table[i].bf16);
  }
}

static void floats_of_all_sizes_round_to_the_nearest(void **state) {
  (void)state;
  // Steps through the bit patterns of all floats by a stride that is prime to their number.
  uint32_t bits = 0;
  for (int i = 0; i < 1000000; i++, bits += 2654435761u) {
    assert_rounds(&fp16, float_from_bits(bits));
    assert_rounds(&bf16, float_from_bits(bits));
  }
}

static void arrays_convert_like_single_values(void **state) {
  (void)state;
  enum { COUNT = 257 };
  float values[COUNT];
  uint16_t converted[COUNT];
  const struct half_type *types[] = {&fp16, &bf16};
  for (uint32_t i = 0; i < COUNT; i++) {
    values[i] = float_from_bits(i * 16711935u);
  }
  for (size_t type = 0; type < 2; type++) {
    types[type]->from_floats(converted, values, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
      assert_int_equal(converted[i], types[type]->from_float(values[i]));
    }
  }
}

static void fp16_arrays_widen_like_single_values(void **state) {
  (void)state;
  enum { PATTERNS = 65536 };
  static uint16_t bits[PATTERNS];
  static float values[PATTERNS];
  for (uint32_t i = 0; i < PATTERNS; i++) {
    bits[i] = (uint16_t)i;
  }
  fp16_to_floats(values, bits, PATTERNS);
  for (uint32_t i = 0; i < PATTERNS; i++) {
    assert_int_equal(float_to_bits(values[i]), float_to_bits(fp16_to_float(bits[i])));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_fp16_pattern_converts_exactly_and_back),
      cmocka_unit_test(every_bf16_pattern_converts_exactly_and_back),
      cmocka_unit_test(ties_of_fp16_go_to_even),
      cmocka_unit_test(ties_of_bf16_go_to_even),
      cmocka_unit_test(known_values_round_as_the_standard_says),
      cmocka_unit_test(floats_of_all_sizes_round_to_the_nearest),
      cmocka_unit_test(arrays_convert_like_single_values),
      cmocka_unit_test(fp16_arrays_widen_like_single_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
