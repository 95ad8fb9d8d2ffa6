// The two 16-bit float types, converted exactly: round to nearest, ties to even, denormals kept, overflow to
// infinity; a NaN stays a (quiet) NaN. Pure functions of bits, usable from any thread.
#ifndef ACLNN_KERNELS_HALF_H
#define ACLNN_KERNELS_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float bf16_to_float(uint16_t bits) {
  return float_from_bits((uint32_t)bits << 16);
}

// Without branches, so that loops over it become vectors.
static inline uint16_t bf16_from_float(float value) {
  uint32_t bits = float_to_bits(value);
  uint32_t nan = (bits >> 16) | 0x0040u;
  // Half of a unit in the last place, less one bit where the result would stay even: ties go to even. A carry
  // out of the largest finite value makes infinity, as it should.
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

float fp16_to_float(uint16_t bits);
uint16_t fp16_from_float(float value);

// `count` values at once.
void fp16_to_floats(float *to, const uint16_t *from, size_t count);
void bf16_from_floats(uint16_t *to, const float *from, size_t count);
void fp16_from_floats(uint16_t *to, const float *from, size_t count);

#endif
