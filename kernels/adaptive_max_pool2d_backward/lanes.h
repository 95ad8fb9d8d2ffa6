// Vectors of 32-bit lanes as this folder's loops use them, in the words of each instruction set. For vector.c
// and its parts, which are compiled once for each of them; BACKWARD_LANES is the number of lanes.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_LANES_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_LANES_H

#if BACKWARD_LANES == 4
#include "kernels/adaptive_max_pool2d_backward/lanes_neon.h"
#else

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline))

// Keeps the compiler from reading a value where it is used.
#define lanes_keep(values) __asm__("" : "+v"(*(values)))

#if BACKWARD_LANES == 16

typedef __m512i lanes;
typedef __mmask16 hits; // which lanes something holds for

LANES_INLINE lanes lanes_every(int32_t value) {
  return _mm512_set1_epi32(value);
}

LANES_INLINE lanes lanes_load(const void *from) {
  return _mm512_loadu_si512(from);
}

// Half as many; the other lanes are anything.
LANES_INLINE lanes lanes_load_half(const void *from) {
  return _mm512_castsi256_si512(_mm256_loadu_si256(from));
}

LANES_INLINE lanes lanes_widen(const void *from) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
}

// 16-bit floats as floats.
LANES_INLINE lanes lanes_load_fp16(const void *from) {
  return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(from)));
}

LANES_INLINE lanes lanes_load_bf16(const void *from) {
  return _mm512_slli_epi32(lanes_widen(from), 16);
}

LANES_INLINE lanes lanes_widen_half(const void *from) {
  return _mm512_castsi256_si512(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)));
}

LANES_INLINE void lanes_store(void *to, lanes values) {
  _mm512_storeu_si512(to, values);
}

LANES_INLINE lanes lanes_add(lanes a, lanes b) {
  return _mm512_add_epi32(a, b);
}

LANES_INLINE lanes lanes_subtract(lanes a, lanes b) {
  return _mm512_sub_epi32(a, b);
}

LANES_INLINE lanes lanes_multiply(lanes a, lanes b) {
  return _mm512_mullo_epi32(a, b);
}

// Signed numbers times `factor` and `more`, without what is behind the point; exact as far as floats are.
LANES_INLINE lanes lanes_scale(lanes values, float factor, float more) {
  __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(values), _mm512_set1_ps(factor));
  return _mm512_cvttps_epi32(_mm512_add_ps(scaled, _mm512_set1_ps(more)));
}

// Numbers without sign that are at most those of `most`.
LANES_INLINE hits lanes_at_most_where(hits where, lanes values, lanes most) {
  return _mm512_mask_cmple_epu32_mask(where, values, most);
}

LANES_INLINE bool lanes_all(hits hit) {
  return hit == 0xffff;
}

LANES_INLINE lanes lanes_or(lanes a, lanes b) {
  return _mm512_or_si512(a, b);
}

LANES_INLINE lanes lanes_least(lanes a, lanes b) {
  return _mm512_min_epu32(a, b);
}

LANES_INLINE lanes lanes_permute(lanes values, lanes pattern) {
  return _mm512_permutexvar_epi32(pattern, values);
}

// The low halves of 64-bit numbers, as the pattern says: of those of `low`, which it counts first, and
// `high`.
LANES_INLINE lanes lanes_permute_wide(lanes low, lanes high, lanes pattern) {
  return _mm512_permutex2var_epi32(low, _mm512_add_epi32(pattern, pattern), high);
}

// The same of one vector's.
LANES_INLINE lanes lanes_permute_half_wide(lanes low, lanes pattern) {
  return _mm512_permutexvar_epi32(_mm512_add_epi32(pattern, pattern), low);
}

LANES_INLINE hits lanes_equal(lanes a, lanes b) {
  return _mm512_cmpeq_epi32_mask(a, b);
}

LANES_INLINE lanes lanes_count(lanes counts, hits hit) {
  return _mm512_mask_add_epi32(counts, hit, counts, _mm512_set1_epi32(1));
}

// Hits, as floats without a negative zero; the other lanes are 0.
LANES_INLINE void lanes_store_hit_floats(void *to, hits hit, lanes values, bool streams) {
  __m512 kept = _mm512_maskz_add_ps(hit, _mm512_castsi512_ps(values), _mm512_setzero_ps());
  if (streams) {
    _mm512_stream_ps(to, kept);
  } else {
    _mm512_storeu_ps(to, kept);
  }
}

// The same for 16-bit floats of either kind, each in a lane's lower half.
LANES_INLINE void lanes_store_hit_halves(void *to, hits hit, lanes values, bool streams) {
  hit = _mm512_mask_test_epi32_mask(hit, values, _mm512_set1_epi32(0x7fff));
  __m256i kept = _mm512_maskz_cvtepi32_epi16(hit, values);
  if (streams) {
    _mm256_stream_si256(to, kept);
  } else {
    _mm256_storeu_si256(to, kept);
  }
}

// Of the lanes of two vectors, counted one after the other.
LANES_INLINE lanes lanes_permute_two(lanes first, lanes second, lanes pattern) {
  return _mm512_permutex2var_epi32(first, pattern, second);
}

LANES_INLINE hits lanes_negative(lanes values) {
  return _mm512_movepi32_mask(values);
}

LANES_INLINE hits lanes_equal_where(hits where, lanes a, lanes b) {
  return _mm512_mask_cmpeq_epi32_mask(where, a, b);
}

// Adds floats in the lanes of hits; the others stay, or get +0.
LANES_INLINE lanes lanes_add_hit_floats(lanes sums, hits hit, lanes values) {
  __m512 old = _mm512_castsi512_ps(sums);
  return _mm512_castps_si512(_mm512_mask_add_ps(old, hit, old, _mm512_castsi512_ps(values)));
}

LANES_INLINE void lanes_stream(void *to, lanes values) {
  _mm512_stream_si512(to, values);
}

// The lower halves of lanes.
LANES_INLINE void lanes_store_halves(void *to, lanes values) {
  _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(values));
}

LANES_INLINE lanes lanes_to_fp16(lanes floats) {
  return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(_mm512_castsi512_ps(floats), _MM_FROUND_TO_NEAREST_INT));
}

// Rounds as half.c does; the upper half of a lane may be anything.
LANES_INLINE lanes lanes_to_bf16(lanes floats) {
  __m512 values = _mm512_castsi512_ps(floats);
  lanes upper = _mm512_srli_epi32(floats, 16);
  lanes tie = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  lanes raised = _mm512_add_epi32(_mm512_add_epi32(floats, _mm512_set1_epi32(0x7fff)), tie);
  lanes rounded = _mm512_srli_epi32(raised, 16);
  hits nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
}

#else

typedef __m256i lanes;
typedef __m256i hits;

LANES_INLINE lanes lanes_every(int32_t value) {
  return _mm256_set1_epi32(value);
}

LANES_INLINE lanes lanes_load(const void *from) {
  return _mm256_loadu_si256(from);
}

LANES_INLINE lanes lanes_load_half(const void *from) {
  return _mm256_castsi128_si256(_mm_loadu_si128(from));
}

LANES_INLINE lanes lanes_widen(const void *from) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
}

LANES_INLINE lanes lanes_load_fp16(const void *from) {
  return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(from)));
}

LANES_INLINE lanes lanes_load_bf16(const void *from) {
  return _mm256_slli_epi32(lanes_widen(from), 16);
}

LANES_INLINE lanes lanes_widen_half(const void *from) {
  return _mm256_cvtepu16_epi32(_mm_loadl_epi64(from));
}

LANES_INLINE void lanes_store(void *to, lanes values) {
  _mm256_storeu_si256(to, values);
}

LANES_INLINE lanes lanes_add(lanes a, lanes b) {
  return _mm256_add_epi32(a, b);
}

LANES_INLINE lanes lanes_subtract(lanes a, lanes b) {
  return _mm256_sub_epi32(a, b);
}

LANES_INLINE lanes lanes_multiply(lanes a, lanes b) {
  return _mm256_mullo_epi32(a, b);
}

LANES_INLINE lanes lanes_scale(lanes values, float factor, float more) {
  __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(values), _mm256_set1_ps(factor));
  return _mm256_cvttps_epi32(_mm256_add_ps(scaled, _mm256_set1_ps(more)));
}

LANES_INLINE hits lanes_at_most_where(hits where, lanes values, lanes most) {
  return _mm256_and_si256(where, _mm256_cmpeq_epi32(_mm256_min_epu32(values, most), values));
}

LANES_INLINE bool lanes_all(hits hit) {
  return _mm256_movemask_epi8(hit) == -1;
}

LANES_INLINE lanes lanes_or(lanes a, lanes b) {
  return _mm256_or_si256(a, b);
}

LANES_INLINE lanes lanes_least(lanes a, lanes b) {
  return _mm256_min_epu32(a, b);
}

LANES_INLINE lanes lanes_permute(lanes values, lanes pattern) {
  return _mm256_permutevar8x32_epi32(values, pattern);
}

LANES_INLINE lanes lanes_permute_wide(lanes low, lanes high, lanes pattern) {
  __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), 0x88);
  lanes in_order = _mm256_permute4x64_epi64(_mm256_castps_si256(even), 0xd8);
  return _mm256_permutevar8x32_epi32(in_order, pattern);
}

LANES_INLINE lanes lanes_permute_half_wide(lanes low, lanes pattern) {
  return _mm256_permutevar8x32_epi32(low, _mm256_add_epi32(pattern, pattern));
}

LANES_INLINE hits lanes_equal(lanes a, lanes b) {
  return _mm256_cmpeq_epi32(a, b);
}

LANES_INLINE lanes lanes_count(lanes counts, hits hit) {
  return _mm256_sub_epi32(counts, hit);
}

LANES_INLINE void lanes_store_hit_floats(void *to, hits hit, lanes values, bool streams) {
  lanes kept = _mm256_and_si256(values, hit);
  __m256 positive = _mm256_add_ps(_mm256_castsi256_ps(kept), _mm256_setzero_ps());
  if (streams) {
    _mm256_stream_ps(to, positive);
  } else {
    _mm256_storeu_ps(to, positive);
  }
}

LANES_INLINE void lanes_store_hit_halves(void *to, hits hit, lanes values, bool streams) {
  lanes kept = _mm256_and_si256(values, hit);
  lanes negative_zero = _mm256_cmpeq_epi32(kept, _mm256_set1_epi32(0x8000));
  kept = _mm256_andnot_si256(negative_zero, kept);
  __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
  if (streams) {
    _mm_stream_si128(to, narrow);
  } else {
    _mm_storeu_si128(to, narrow);
  }
}

LANES_INLINE lanes lanes_permute_two(lanes first, lanes second, lanes pattern) {
  lanes is_second = _mm256_cmpgt_epi32(pattern, _mm256_set1_epi32(BACKWARD_LANES - 1));
  return _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(first, pattern),
                            _mm256_permutevar8x32_epi32(second, pattern), is_second);
}

LANES_INLINE hits lanes_negative(lanes values) {
  return _mm256_srai_epi32(values, 31);
}

LANES_INLINE hits lanes_equal_where(hits where, lanes a, lanes b) {
  return _mm256_and_si256(_mm256_cmpeq_epi32(a, b), where);
}

LANES_INLINE lanes lanes_add_hit_floats(lanes sums, hits hit, lanes values) {
  __m256 added = _mm256_castsi256_ps(_mm256_and_si256(values, hit));
  return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(sums), added));
}

LANES_INLINE void lanes_stream(void *to, lanes values) {
  _mm256_stream_si256(to, values);
}

LANES_INLINE void lanes_store_halves(void *to, lanes values) {
  values = _mm256_and_si256(values, _mm256_set1_epi32(0xffff));
  _mm_storeu_si128(to, _mm_packus_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1)));
}

LANES_INLINE lanes lanes_to_fp16(lanes floats) {
  return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_castsi256_ps(floats), _MM_FROUND_TO_NEAREST_INT));
}

LANES_INLINE lanes lanes_to_bf16(lanes floats) {
  __m256 values = _mm256_castsi256_ps(floats);
  lanes upper = _mm256_srli_epi32(floats, 16);
  lanes tie = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  lanes raised = _mm256_add_epi32(_mm256_add_epi32(floats, _mm256_set1_epi32(0x7fff)), tie);
  lanes rounded = _mm256_srli_epi32(raised, 16);
  lanes nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
}

#endif

#endif

#endif
