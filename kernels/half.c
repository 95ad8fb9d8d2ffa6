#include "kernels/half.h"

static inline uint16_t round_to_bf16(float value) {
  uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)((bits >> 16) | 0x0040u);
  }
  // Half of a unit in the last place, less one bit where the result would stay even: ties go to even. A carry
  // out of the largest finite value makes infinity, as it should.
  uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return (uint16_t)((bits + rounding) >> 16);
}

float fp16_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    return float_from_bits(sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude < 0x0400u) {
    // A denormal is a whole number of units of 2^-24, which a float holds exactly.
    return float_from_bits(sign | float_to_bits((float)magnitude * 0x1p-24f));
  }
  return float_from_bits(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

static inline uint16_t round_to_fp16(float value) {
  uint32_t bits = float_to_bits(value);
  uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x47800000u) { // 2^16: beyond the range, whatever the rounding
    return (uint16_t)(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) { // 2^-14: the result is denormal or zero
    // Adding 0.5 lets the addition itself round to units of 2^-24, to nearest and even.
    float rounded = float_from_bits(magnitude) + 0.5f;
    return (uint16_t)(sign | (float_to_bits(rounded) - float_to_bits(0.5f)));
  }
  uint32_t rounding = 0x0fffu + ((magnitude >> 13) & 1u);
  return (uint16_t)(sign | ((magnitude + rounding - ((127u - 15u) << 23)) >> 13));
}

uint16_t bf16_from_float(float value) {
  return round_to_bf16(value);
}

uint16_t fp16_from_float(float value) {
  return round_to_fp16(value);
}

void bf16_from_floats(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = round_to_bf16(from[i]);
  }
}

void fp16_from_floats(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++) {
    to[i] = round_to_fp16(from[i]);
  }
}
