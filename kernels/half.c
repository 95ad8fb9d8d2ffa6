#include "kernels/half.h"

// Everything here is computed for each value and then chosen from, so that loops become vectors.

static inline float widen_fp16(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7fffu;
  // A fp16 in the place of a float is 2^112 times too small, denormals too.
  uint32_t finite = float_to_bits(float_from_bits(magnitude << 13) * 0x1p112f);
  uint32_t infinite = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  return float_from_bits(sign | finite | infinite | quiet);
}

static inline uint16_t round_to_fp16(float value) {
  uint32_t bits = float_to_bits(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t normal = (magnitude + 0x0fffu + ((magnitude >> 13) & 1u) - ((127u - 15u) << 23)) >> 13;
  // Adding 0.5 lets the addition itself round to units of 2^-24, to nearest and even.
  uint32_t denormal = float_to_bits(float_from_bits(magnitude) + 0.5f) - float_to_bits(0.5f);
  uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t result = magnitude < 0x38800000u ? denormal : normal; // 2^-14
  // From 2^16 on a value is beyond the range, whatever the rounding.
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? nan : result;
  return (uint16_t)(sign | result);
}

float fp16_to_float(uint16_t bits) {
  return widen_fp16(bits);
}

void fp16_to_floats(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = widen_fp16(from[i]);
  }
}

uint16_t fp16_from_float(float value) {
  return round_to_fp16(value);
}

void bf16_from_floats(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = bf16_from_float(from[i]);
  }
}

void fp16_from_floats(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = round_to_fp16(from[i]);
  }
}
