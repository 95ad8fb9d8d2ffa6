// Vectors of FORWARD_VECTOR_BYTES bytes with lanes of 32 and 64 bits, and the few operations on them that the
// language's own vectors can't say well. For the sources of one code path, which are compiled with that
// path's options; everything is static, so that paths don't share code.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_LANES_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_LANES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define WORDS (FORWARD_VECTOR_BYTES / 4)
#define WIDE_LANES (FORWARD_VECTOR_BYTES / 8)

#define VECTOR_OF(type, bytes) type __attribute__((vector_size(bytes)))
#define VECTOR_IN_MEMORY(type, bytes)                                                                        \
  type __attribute__((vector_size(bytes), aligned(sizeof(type)), may_alias))

typedef VECTOR_OF(int32_t, FORWARD_VECTOR_BYTES) ints;
typedef VECTOR_OF(float, FORWARD_VECTOR_BYTES) floats;
typedef VECTOR_OF(uint32_t, FORWARD_VECTOR_BYTES) words;
typedef VECTOR_OF(int64_t, FORWARD_VECTOR_BYTES) wides; // half as many
typedef VECTOR_OF(int32_t, FORWARD_VECTOR_BYTES / 2) few_ints;
typedef VECTOR_OF(uint32_t, FORWARD_VECTOR_BYTES / 2) few_words;
typedef VECTOR_OF(uint16_t, FORWARD_VECTOR_BYTES / 2) halves;
typedef VECTOR_OF(uint16_t, FORWARD_VECTOR_BYTES / 4) few_halves;
typedef VECTOR_IN_MEMORY(int32_t, FORWARD_VECTOR_BYTES) ints_in_memory;
typedef VECTOR_IN_MEMORY(int64_t, FORWARD_VECTOR_BYTES) wides_in_memory;
typedef VECTOR_IN_MEMORY(int32_t, FORWARD_VECTOR_BYTES / 2) few_ints_in_memory;
typedef VECTOR_IN_MEMORY(uint16_t, FORWARD_VECTOR_BYTES / 2) halves_in_memory;

#define INLINE static inline __attribute__((always_inline))

#if FORWARD_VECTOR_BYTES == 64
#define EACH_HALF_LANE                                                                                       \
  {                                                                                                          \
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,    \
        28, 29, 30, 31                                                                                       \
  }
#define EACH_LANE                                                                                            \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#define EACH_WIDE_LANE                                                                                       \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#define EVEN_HALVES                                                                                          \
  {                                                                                                          \
    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52,   \
        54, 56, 58, 60, 62                                                                                   \
  }
#define ODD_HALVES                                                                                           \
  {                                                                                                          \
    1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53,   \
        55, 57, 59, 61, 63                                                                                   \
  }
#define EVEN                                                                                                 \
  { 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 }
#define ODD                                                                                                  \
  { 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 }
#define EVEN_WIDE                                                                                            \
  { 0, 2, 4, 6, 8, 10, 12, 14 }
#define ODD_WIDE                                                                                             \
  { 1, 3, 5, 7, 9, 11, 13, 15 }
#define INTERLEAVED_LOW                                                                                      \
  { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 }
#define INTERLEAVED_HIGH                                                                                     \
  { 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 }
#define INTERLEAVED_HALVES_LOW                                                                               \
  {                                                                                                          \
    0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45,    \
        14, 46, 15, 47                                                                                       \
  }
#define INTERLEAVED_HALVES_HIGH                                                                              \
  {                                                                                                          \
    16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60,  \
        29, 61, 30, 62, 31, 63                                                                               \
  }
#elif FORWARD_VECTOR_BYTES == 32
#define EACH_HALF_LANE                                                                                       \
  { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }
#define EACH_LANE                                                                                            \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#define EACH_WIDE_LANE                                                                                       \
  { 0, 1, 2, 3 }
#define EVEN_HALVES                                                                                          \
  { 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 }
#define ODD_HALVES                                                                                           \
  { 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 }
#define EVEN                                                                                                 \
  { 0, 2, 4, 6, 8, 10, 12, 14 }
#define ODD                                                                                                  \
  { 1, 3, 5, 7, 9, 11, 13, 15 }
#define EVEN_WIDE                                                                                            \
  { 0, 2, 4, 6 }
#define ODD_WIDE                                                                                             \
  { 1, 3, 5, 7 }
#define INTERLEAVED_LOW                                                                                      \
  { 0, 8, 1, 9, 2, 10, 3, 11 }
#define INTERLEAVED_HIGH                                                                                     \
  { 4, 12, 5, 13, 6, 14, 7, 15 }
#define INTERLEAVED_HALVES_LOW                                                                               \
  { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 }
#define INTERLEAVED_HALVES_HIGH                                                                              \
  { 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 }
#else
#define EACH_HALF_LANE                                                                                       \
  { 0, 1, 2, 3, 4, 5, 6, 7 }
#define EACH_LANE                                                                                            \
  { 0, 1, 2, 3 }
#define EACH_WIDE_LANE                                                                                       \
  { 0, 1 }
#define EVEN_HALVES                                                                                          \
  { 0, 2, 4, 6, 8, 10, 12, 14 }
#define ODD_HALVES                                                                                           \
  { 1, 3, 5, 7, 9, 11, 13, 15 }
#define EVEN                                                                                                 \
  { 0, 2, 4, 6 }
#define ODD                                                                                                  \
  { 1, 3, 5, 7 }
#define EVEN_WIDE                                                                                            \
  { 0, 2 }
#define ODD_WIDE                                                                                             \
  { 1, 3 }
#define INTERLEAVED_LOW                                                                                      \
  { 0, 4, 1, 5 }
#define INTERLEAVED_HIGH                                                                                     \
  { 2, 6, 3, 7 }
#define INTERLEAVED_HALVES_LOW                                                                               \
  { 0, 8, 1, 9, 2, 10, 3, 11 }
#define INTERLEAVED_HALVES_HIGH                                                                              \
  { 4, 12, 5, 13, 6, 14, 7, 15 }
#endif

// Has the memory send what is wanted soon. The place may lie outside: nothing is read then.
INLINE void ask_for(const char *place) {
  __builtin_prefetch(place);
}

// Stands between a load and what uses it more than once. The compiler would else rather load again than keep
// a register, which costs time where vectors cross lines of the cache.
INLINE void keep_loaded(void) {
  __asm__ volatile("" : : : "memory");
}

INLINE ints every(int32_t value) {
  return (ints){0} + value;
}

INLINE ints lane_numbers(void) {
  return (ints)EACH_LANE;
}

#if FORWARD_VECTOR_BYTES == 64 && defined(__AVX512BW__)

typedef __mmask16 condition;

INLINE ints even_in_blocks(ints a, ints b) {
  return (ints)_mm512_shuffle_ps((__m512)a, (__m512)b, 0x88);
}
INLINE ints odd_in_blocks(ints a, ints b) {
  return (ints)_mm512_shuffle_ps((__m512)a, (__m512)b, 0xdd);
}

INLINE condition greater_floats(ints a, ints b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}
INLINE condition equal_floats(ints a, ints b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
}
INLINE condition no_lanes(void) {
  return 0;
}
INLINE condition unordered_floats(ints a, ints b) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q);
}
INLINE ints smaller_ints(ints a, ints b) {
  return (ints)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
INLINE ints join(few_ints a, few_ints b) {
  return (ints)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)a), (__m256i)b, 1);
}
INLINE few_ints lower_half(ints a) {
  return (few_ints)_mm512_castsi512_si256((__m512i)a);
}
INLINE few_ints upper_half(ints a) {
  return (few_ints)_mm512_extracti64x4_epi64((__m512i)a, 1);
}
INLINE condition less_ints(ints a, ints b) {
  return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
}
INLINE ints choose(condition first, ints a, ints b) {
  return (ints)_mm512_mask_mov_epi32((__m512i)b, first, (__m512i)a);
}
INLINE ints larger_words(ints a, ints b) {
  return (ints)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
INLINE ints smaller_words(ints a, ints b) {
  return (ints)_mm512_min_epu32((__m512i)a, (__m512i)b);
}
INLINE bool any_greater(ints a, ints b) {
  return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b) != 0;
}
INLINE wides larger_wides(wides a, wides b) {
  return (wides)_mm512_max_epi64((__m512i)a, (__m512i)b);
}
INLINE wides keep_first(wides a, int64_t count, int64_t otherwise) {
  return (wides)_mm512_mask_mov_epi64(_mm512_set1_epi64(otherwise), (__mmask8)((1u << count) - 1),
                                      (__m512i)a);
}
INLINE bool any_zero(halves a) {
  return _mm256_testn_epi16_mask((__m256i)a, (__m256i)a) != 0;
}
INLINE ints first_words(ints a, int64_t count) {
  return (ints)_mm512_maskz_mov_epi32((__mmask16)((1u << count) - 1), (__m512i)a);
}
INLINE few_ints first_few_words(few_ints a, int64_t count) {
  return (few_ints)_mm256_maskz_mov_epi32((__mmask8)((1u << count) - 1), (__m256i)a);
}
INLINE ints larger_floats(ints a, ints b) {
  return (ints)_mm512_max_ps((__m512)a, (__m512)b);
}
INLINE uint32_t mask_of(condition lanes) {
  return lanes;
}
INLINE ints pick(ints a, ints b, ints from) {
  return (ints)_mm512_permutex2var_epi32((__m512i)a, (__m512i)from, (__m512i)b);
}
INLINE wides widen_few(few_ints a) {
  return (wides)_mm512_cvtepi32_epi64((__m256i)a);
}
INLINE ints widen(halves a) {
  return (ints)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)a), 16);
}

#else

typedef ints condition;

INLINE condition no_lanes(void) {
  return (ints){0};
}
INLINE condition greater_floats(ints a, ints b) {
  return (ints)((floats)a > (floats)b);
}
INLINE condition equal_floats(ints a, ints b) {
  return (ints)((floats)a == (floats)b);
}
INLINE condition less_ints(ints a, ints b) {
  return a < b;
}

#if FORWARD_VECTOR_BYTES == 32 && defined(__AVX2__)
INLINE ints even_in_blocks(ints a, ints b) {
  return (ints)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
}
INLINE ints odd_in_blocks(ints a, ints b) {
  return (ints)_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd);
}
INLINE condition unordered_floats(ints a, ints b) {
  return (ints)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);
}
INLINE ints smaller_ints(ints a, ints b) {
  return (ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
}
INLINE ints join(few_ints a, few_ints b) {
  return (ints)_mm256_set_m128i((__m128i)b, (__m128i)a);
}
INLINE few_ints lower_half(ints a) {
  return (few_ints)_mm256_castsi256_si128((__m256i)a);
}
INLINE few_ints upper_half(ints a) {
  return (few_ints)_mm256_extracti128_si256((__m256i)a, 1);
}
INLINE ints choose(condition first, ints a, ints b) {
  return (ints)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)first);
}
INLINE ints larger_words(ints a, ints b) {
  return (ints)_mm256_max_epu32((__m256i)a, (__m256i)b);
}
INLINE ints smaller_words(ints a, ints b) {
  return (ints)_mm256_min_epu32((__m256i)a, (__m256i)b);
}
INLINE bool any_greater(ints a, ints b) {
  return _mm256_movemask_epi8((__m256i)(a > b)) != 0;
}
INLINE wides larger_wides(wides a, wides b) {
  return (wides)_mm256_blendv_epi8((__m256i)b, (__m256i)a, _mm256_cmpgt_epi64((__m256i)a, (__m256i)b));
}
INLINE bool any_zero(halves a) {
  return _mm_movemask_epi8((__m128i)(a == 0)) != 0;
}
INLINE ints larger_floats(ints a, ints b) {
  return (ints)_mm256_max_ps((__m256)a, (__m256)b);
}
INLINE uint32_t mask_of(condition lanes) {
  return (uint32_t)_mm256_movemask_ps((__m256)lanes);
}
INLINE ints pick(ints a, ints b, ints from) {
  __m256 of_a = (__m256)_mm256_permutevar8x32_epi32((__m256i)a, (__m256i)from);
  __m256 of_b = (__m256)_mm256_permutevar8x32_epi32((__m256i)b, (__m256i)from);
  return (ints)_mm256_blendv_ps(of_a, of_b, (__m256)(from << 28));
}
INLINE wides widen_few(few_ints a) {
  return (wides)_mm256_cvtepi32_epi64((__m128i)a);
}
INLINE ints widen(halves a) {
  return (ints)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)a), 16);
}
#else
INLINE ints even_in_blocks(ints a, ints b) {
  return __builtin_shuffle(a, b, (ints)EVEN);
}
INLINE ints odd_in_blocks(ints a, ints b) {
  return __builtin_shuffle(a, b, (ints)EVEN + 1);
}
INLINE ints choose(condition first, ints a, ints b) {
  return (first & a) | (~first & b);
}
INLINE condition unordered_floats(ints a, ints b) {
  return (ints)((floats)a != (floats)a) | (ints)((floats)b != (floats)b);
}
INLINE ints smaller_ints(ints a, ints b) {
  return choose(a < b, a, b);
}
INLINE ints join(few_ints a, few_ints b) {
  few_ints parts[2] = {a, b};
  ints joined;
  memcpy(&joined, parts, sizeof joined);
  return joined;
}
INLINE few_ints lower_half(ints a) {
  few_ints parts[2];
  memcpy(parts, &a, sizeof parts);
  return parts[0];
}
INLINE few_ints upper_half(ints a) {
  few_ints parts[2];
  memcpy(parts, &a, sizeof parts);
  return parts[1];
}
INLINE ints larger_words(ints a, ints b) {
  return choose((ints)((words)a > (words)b), a, b);
}
INLINE ints smaller_words(ints a, ints b) {
  return choose((ints)((words)a < (words)b), a, b);
}
INLINE bool any_greater(ints a, ints b) {
  wides above = (wides)(a > b);
  int64_t any = 0;
  for (int lane = 0; lane < WIDE_LANES; lane++) {
    any |= above[lane];
  }
  return any != 0;
}
INLINE wides larger_wides(wides a, wides b) {
  wides first = a > b;
  return (first & a) | (~first & b);
}
INLINE bool any_zero(halves a) {
  halves zero = (halves)(a == 0);
  uint16_t any = 0;
  for (int lane = 0; lane < WORDS; lane++) {
    any |= zero[lane];
  }
  return any != 0;
}
INLINE ints larger_floats(ints a, ints b) {
  return choose(greater_floats(a, b), a, b);
}
INLINE uint32_t mask_of(condition lanes) {
  uint32_t mask = 0;
  for (int lane = 0; lane < WORDS; lane++) {
    mask |= (uint32_t)(lanes[lane] & 1) << lane;
  }
  return mask;
}
// Lane number i is a's from[i]th, or b's where from[i] goes on beyond a.
INLINE ints pick(ints a, ints b, ints from) {
  return __builtin_shuffle(a, b, from);
}
INLINE wides widen_few(few_ints a) {
  return __builtin_convertvector(a, wides);
}
INLINE ints widen(halves a) {
  return (ints)(__builtin_convertvector(a, words) << 16);
}
#endif

// Zeros in all lanes but the first `count`.
INLINE ints first_words(ints a, int64_t count) {
  return a & (lane_numbers() < (int32_t)count);
}
INLINE few_ints first_few_words(few_ints a, int64_t count) {
  return a & (lower_half(lane_numbers()) < (int32_t)count);
}

// `otherwise` in all lanes but the first `count`.
INLINE wides keep_first(wides a, int64_t count, int64_t otherwise) {
  wides kept = (wides)EACH_WIDE_LANE < (wides){0} + count;
  return (kept & a) | (~kept & ((wides){0} + otherwise));
}

#endif

// Positions below `plane` go on by a step below it, and begin again with 0 there. Unsigned, as the sum may
// pass 31 bits, and what is below the plane becomes a large number.
INLINE ints next_positions(ints positions, int32_t step, int32_t plane) {
  words sum = (words)positions + (uint32_t)step;
  return smaller_words((ints)sum, (ints)(sum - (uint32_t)plane));
}

// Pairs of lanes become one: a's in the lower half, b's in the upper.
INLINE wides larger_of_pairs(wides a, wides b) {
  return larger_wides(__builtin_shuffle(a, b, (wides)EVEN_WIDE), __builtin_shuffle(a, b, (wides)ODD_WIDE));
}

// What each of the vectors holds at most: lane number i tells vector number i's.
INLINE wides largest_of_each(const wides *of) {
  wides level[WIDE_LANES];
  memcpy(level, of, sizeof level);
#pragma GCC unroll 4
  for (int count = WIDE_LANES; count > 1; count /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; i++) {
      level[i] = larger_of_pairs(level[2 * i], level[2 * i + 1]);
    }
  }
  return level[0];
}

#endif
