// AVX-512 (with VBMI2, which packs 16-bit words), and AVX2 for finding.
#include "proto/wire/nonzero_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

#define VECTOR_BYTES 64

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

AVX512 static void find_4_avx512(const uint8_t *source, size_t groups, uint8_t *bits,
                                 struct nonzero_found *found) {
  for (size_t group = 0; group < groups; group++) {
    __m512i low = _mm512_loadu_si512(source), high = _mm512_loadu_si512(source + VECTOR_BYTES);
    uint32_t mask = (uint32_t)_mm512_test_epi32_mask(high, high) << 16 | _mm512_test_epi32_mask(low, low);
    nonzero_add_group(bits, group, mask, found);
    source += 2 * VECTOR_BYTES;
  }
}

AVX512 static void find_2_avx512(const uint8_t *source, size_t groups, uint8_t *bits,
                                 struct nonzero_found *found) {
  for (size_t group = 0; group < groups; group++) {
    __m512i words = _mm512_loadu_si512(source);
    nonzero_add_group(bits, group, _mm512_test_epi16_mask(words, words), found);
    source += VECTOR_BYTES;
  }
}

// Stores the first `size` bytes of a vector, and more where there is room: that is quicker.
AVX512 static uint8_t *store_first(__m512i vector, size_t size, uint8_t *to, const uint8_t *end) {
  if (end - to >= VECTOR_BYTES) {
    _mm512_storeu_si512(to, vector);
  } else {
    _mm512_mask_storeu_epi8(to, _bzhi_u64(UINT64_MAX, (uint32_t)size), vector);
  }
  return to + size;
}

AVX512 static uint8_t *pack_4_avx512(const uint8_t *source, size_t groups, const uint8_t *bits,
                                     const uint8_t *masks, uint8_t *to, uint8_t *end) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    if (!nonzero_is_set(bits, group)) {
      continue;
    }
    const uint8_t *at = source + group * 2 * VECTOR_BYTES;
    uint32_t mask = nonzero_mask(masks, used++), low = mask & 0xffff, high = mask >> 16;
    __m512i words = _mm512_maskz_compress_epi32((__mmask16)low, _mm512_loadu_si512(at));
    to = store_first(words, 4 * (size_t)__builtin_popcount(low), to, end);
    words = _mm512_maskz_compress_epi32((__mmask16)high, _mm512_loadu_si512(at + VECTOR_BYTES));
    to = store_first(words, 4 * (size_t)__builtin_popcount(high), to, end);
  }
  return to;
}

AVX512 static uint8_t *pack_2_avx512(const uint8_t *source, size_t groups, const uint8_t *bits,
                                     const uint8_t *masks, uint8_t *to, uint8_t *end) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    if (nonzero_is_set(bits, group)) {
      uint32_t mask = nonzero_mask(masks, used++);
      __m512i words = _mm512_maskz_compress_epi16(mask, _mm512_loadu_si512(source + group * VECTOR_BYTES));
      to = store_first(words, 2 * (size_t)__builtin_popcount(mask), to, end);
    }
  }
  return to;
}

AVX512 static __m512i load_first(const uint8_t *words, size_t size, const uint8_t *end) {
  if (end - words >= VECTOR_BYTES) {
    return _mm512_loadu_si512(words);
  }
  return _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, (uint32_t)size), words);
}

AVX512 static void unpack_4_avx512(const uint8_t *words, const uint8_t *end, const uint8_t *bits,
                                   const uint8_t *masks, size_t groups, uint8_t *to) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    __m512i low = _mm512_setzero_si512(), high = low;
    if (nonzero_is_set(bits, group)) {
      uint32_t mask = nonzero_mask(masks, used++);
      size_t low_bytes = 4 * (size_t)__builtin_popcount(mask & 0xffff);
      size_t high_bytes = 4 * (size_t)__builtin_popcount(mask >> 16);
      low = _mm512_maskz_expand_epi32((__mmask16)mask, load_first(words, low_bytes, end));
      words += low_bytes;
      high = _mm512_maskz_expand_epi32((__mmask16)(mask >> 16), load_first(words, high_bytes, end));
      words += high_bytes;
    }
    _mm512_storeu_si512(to, low);
    _mm512_storeu_si512(to + VECTOR_BYTES, high);
    to += 2 * VECTOR_BYTES;
  }
}

AVX512 static void unpack_2_avx512(const uint8_t *words, const uint8_t *end, const uint8_t *bits,
                                   const uint8_t *masks, size_t groups, uint8_t *to) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    __m512i all = _mm512_setzero_si512();
    if (nonzero_is_set(bits, group)) {
      uint32_t mask = nonzero_mask(masks, used++);
      size_t size = 2 * (size_t)__builtin_popcount(mask);
      all = _mm512_maskz_expand_epi16(mask, load_first(words, size, end));
      words += size;
    }
    _mm512_storeu_si512(to, all);
    to += VECTOR_BYTES;
  }
}

AVX2 static void find_4_avx2(const uint8_t *source, size_t groups, uint8_t *bits,
                             struct nonzero_found *found) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t group = 0; group < groups; group++) {
    uint32_t mask = 0;
    for (int part = 0; part < 4; part++) {
      __m256i words = _mm256_loadu_si256((const __m256i *)(source + 32 * part));
      __m256 zeros = _mm256_castsi256_ps(_mm256_cmpeq_epi32(words, zero));
      mask |= (uint32_t)(~_mm256_movemask_ps(zeros) & 0xff) << 8 * part;
    }
    nonzero_add_group(bits, group, mask, found);
    source += 128;
  }
}

AVX2 static void find_2_avx2(const uint8_t *source, size_t groups, uint8_t *bits,
                             struct nonzero_found *found) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t group = 0; group < groups; group++) {
    __m256i low = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)source), zero);
    __m256i high = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *)(source + 32)), zero);
    // Packing works within halves of a vector; the permutation brings the quarters into their order.
    __m256i zeros = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
    nonzero_add_group(bits, group, ~(uint32_t)_mm256_movemask_epi8(zeros), found);
    source += 64;
  }
}

static const struct nonzero_kernels avx512[2] = {
    {"avx512", has_avx512, find_2_avx512, pack_2_avx512, unpack_2_avx512},
    {"avx512", has_avx512, find_4_avx512, pack_4_avx512, unpack_4_avx512},
};
static const struct nonzero_kernels avx2[2] = {
    {"avx2", has_avx2, find_2_avx2, nonzero_pack_plain_2, nonzero_unpack_plain_2},
    {"avx2", has_avx2, find_4_avx2, nonzero_pack_plain_4, nonzero_unpack_plain_4},
};

const struct nonzero_kernels *const nonzero_paths[] = {avx512, avx2, nonzero_plain, NULL};

#else

const struct nonzero_kernels *const nonzero_paths[] = {nonzero_plain, NULL};

#endif
