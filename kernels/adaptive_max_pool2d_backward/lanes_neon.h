// lanes.h in the words of NEON, which every aarch64 has. There is nothing that writes past the caches.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_LANES_NEON_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_LANES_NEON_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))

#define lanes_keep(values) __asm__("" : "+w"(*(values)))

typedef uint32x4_t lanes;
typedef uint32x4_t hits; // all bits of a lane, or none

LANES_INLINE lanes lanes_every(int32_t value) {
  return vdupq_n_u32((uint32_t)value);
}

LANES_INLINE lanes lanes_load(const void *from) {
  return vreinterpretq_u32_u8(vld1q_u8(from));
}

LANES_INLINE lanes lanes_load_half(const void *from) {
  return vcombine_u32(vreinterpret_u32_u8(vld1_u8(from)), vdup_n_u32(0));
}

LANES_INLINE lanes lanes_widen(const void *from) {
  return vmovl_u16(vreinterpret_u16_u8(vld1_u8(from)));
}

LANES_INLINE lanes lanes_load_fp16(const void *from) {
  return vreinterpretq_u32_f32(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))));
}

LANES_INLINE lanes lanes_load_bf16(const void *from) {
  return vshll_n_u16(vreinterpret_u16_u8(vld1_u8(from)), 16);
}

LANES_INLINE lanes lanes_widen_half(const void *from) {
  uint32_t two;
  memcpy(&two, from, sizeof two);
  return vmovl_u16(vreinterpret_u16_u32(vdup_n_u32(two)));
}

LANES_INLINE void lanes_store(void *to, lanes values) {
  vst1q_u8(to, vreinterpretq_u8_u32(values));
}

LANES_INLINE lanes lanes_add(lanes a, lanes b) {
  return vaddq_u32(a, b);
}

LANES_INLINE lanes lanes_subtract(lanes a, lanes b) {
  return vsubq_u32(a, b);
}

LANES_INLINE lanes lanes_multiply(lanes a, lanes b) {
  return vmulq_u32(a, b);
}

LANES_INLINE lanes lanes_scale(lanes values, float factor, float more) {
  float32x4_t scaled = vmulq_n_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(values)), factor);
  return vreinterpretq_u32_s32(vcvtq_s32_f32(vaddq_f32(scaled, vdupq_n_f32(more))));
}

LANES_INLINE hits lanes_at_most_where(hits where, lanes values, lanes most) {
  return vandq_u32(where, vcleq_u32(values, most));
}

LANES_INLINE bool lanes_all(hits hit) {
  return vminvq_u32(hit) == UINT32_MAX;
}

LANES_INLINE lanes lanes_or(lanes a, lanes b) {
  return vorrq_u32(a, b);
}

LANES_INLINE lanes lanes_least(lanes a, lanes b) {
  return vminq_u32(a, b);
}

// Tables are of bytes: the four of each lane that the pattern names.
LANES_INLINE uint8x16_t lanes_bytes(lanes pattern) {
  return vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), pattern, 0x04040404));
}

LANES_INLINE lanes lanes_permute(lanes values, lanes pattern) {
  return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(values), lanes_bytes(pattern)));
}

LANES_INLINE lanes lanes_permute_wide(lanes low, lanes high, lanes pattern) {
  return lanes_permute(vuzp1q_u32(low, high), pattern);
}

LANES_INLINE lanes lanes_permute_half_wide(lanes low, lanes pattern) {
  return lanes_permute(vuzp1q_u32(low, low), pattern);
}

LANES_INLINE hits lanes_equal(lanes a, lanes b) {
  return vceqq_u32(a, b);
}

LANES_INLINE lanes lanes_count(lanes counts, hits hit) {
  return vsubq_u32(counts, hit);
}

LANES_INLINE void lanes_store_hit_floats(void *to, hits hit, lanes values, bool streams) {
  (void)streams;
  float32x4_t kept = vreinterpretq_f32_u32(vandq_u32(values, hit));
  lanes_store(to, vreinterpretq_u32_f32(vaddq_f32(kept, vdupq_n_f32(0))));
}

LANES_INLINE void lanes_store_halves(void *to, lanes values) {
  vst1_u8(to, vreinterpret_u8_u16(vmovn_u32(values)));
}

LANES_INLINE void lanes_store_hit_halves(void *to, hits hit, lanes values, bool streams) {
  (void)streams;
  lanes kept = vandq_u32(values, hit);
  hits negative_zero = vceqq_u32(kept, vdupq_n_u32(0x8000));
  lanes_store_halves(to, vbicq_u32(kept, negative_zero));
}

LANES_INLINE lanes lanes_permute_two(lanes first, lanes second, lanes pattern) {
  uint8x16x2_t both = {{vreinterpretq_u8_u32(first), vreinterpretq_u8_u32(second)}};
  return vreinterpretq_u32_u8(vqtbl2q_u8(both, lanes_bytes(pattern)));
}

LANES_INLINE hits lanes_negative(lanes values) {
  return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(values), 31));
}

LANES_INLINE hits lanes_equal_where(hits where, lanes a, lanes b) {
  return vandq_u32(vceqq_u32(a, b), where);
}

LANES_INLINE lanes lanes_add_hit_floats(lanes sums, hits hit, lanes values) {
  float32x4_t added = vreinterpretq_f32_u32(vandq_u32(values, hit));
  return vreinterpretq_u32_f32(vaddq_f32(vreinterpretq_f32_u32(sums), added));
}

LANES_INLINE void lanes_stream(void *to, lanes values) {
  lanes_store(to, values);
}

LANES_INLINE lanes lanes_to_fp16(lanes floats) {
  return vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(vreinterpretq_f32_u32(floats))));
}

LANES_INLINE lanes lanes_to_bf16(lanes floats) {
  float32x4_t values = vreinterpretq_f32_u32(floats);
  lanes upper = vshrq_n_u32(floats, 16);
  lanes tie = vandq_u32(upper, vdupq_n_u32(1));
  lanes rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(floats, vdupq_n_u32(0x7fff)), tie), 16);
  hits number = vceqq_f32(values, values);
  return vbslq_u32(number, rounded, vorrq_u32(upper, vdupq_n_u32(0x40)));
}

#endif
