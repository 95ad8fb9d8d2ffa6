// Compiled for each code path with that path's options; BACKWARD_PATH is its name, BACKWARD_LANES the number
// of floats in its vectors (1 where there are none). The plain loops are left to the compiler's vectoriser.
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
#define KERNELS_OF_PATH JOIN(backward_kernels_, BACKWARD_PATH)

// The library of a path of another architecture is empty but for its (absent) kernels.
#if BACKWARD_LANES == 1 || (BACKWARD_LANES == 4 && defined(__aarch64__)) ||                                  \
    (BACKWARD_LANES == 8 && defined(__AVX2__)) || (BACKWARD_LANES == 16 && defined(__AVX512F__))

#define INLINE static inline __attribute__((always_inline))

enum value_kind { VALUE_FP32, VALUE_FP16, VALUE_BF16 };
enum index_kind { INDEX_INT32, INDEX_INT64 };

INLINE int64_t index_at(const void *indices, int64_t i, enum index_kind kind) {
  return kind == INDEX_INT64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

INLINE float value_at(const void *values, int64_t i, enum value_kind kind) {
  switch (kind) {
  case VALUE_FP16:
#if defined(__F16C__)
    return _cvtsh_ss(((const uint16_t *)values)[i]);
#else
    return fp16_to_float(((const uint16_t *)values)[i]);
#endif
  case VALUE_BF16:
    return bf16_to_float(((const uint16_t *)values)[i]);
  default:
    return ((const float *)values)[i];
  }
}

INLINE int64_t bytes_of(enum value_kind kind) {
  return kind == VALUE_FP32 ? 4 : 2;
}

INLINE uint16_t round_value(float value, enum value_kind kind) {
  if (kind == VALUE_BF16) {
    return bf16_from_float(value);
  }
#if defined(__F16C__)
  return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
  return fp16_from_float(value);
#endif
}

// A sign bit in the result of either subtraction (or of the index itself) says that an index is outside,
// wherever they wrap: [lower, upper) is within [0, 2^31).
INLINE bool within_typed(const void *indices, int64_t count, int64_t lower, int64_t upper,
                         enum index_kind kind) {
  if (kind == INDEX_INT64) {
    const uint64_t *values = indices;
    uint64_t least = (uint64_t)lower, most = (uint64_t)upper - 1, outside = 0;
    for (int64_t i = 0; i < count; i++) {
      outside |= (values[i] - least) | (most - values[i]);
    }
    return (outside >> 63) == 0;
  }
  const uint32_t *values = indices;
  uint32_t least = (uint32_t)lower, most = (uint32_t)upper - 1, outside = 0;
  for (int64_t i = 0; i < count; i++) {
    outside |= (values[i] - least) | (most - values[i]);
  }
  return (outside >> 31) == 0;
}

// One gradient in each plane: there is nothing to loop over in a plane.
INLINE void add_single(const struct backward_line *line, enum value_kind value, enum index_kind index) {
  float *restrict sums = line->sums;
#pragma GCC unroll 4
  for (int64_t plane = 0; plane < line->planes; plane++) {
    sums[plane * line->owned + index_at(line->indices, plane, index) - line->first] +=
        value_at(line->gradients, plane, value);
  }
}

INLINE void add_typed(const struct backward_line *line, enum value_kind value, enum index_kind index) {
  const unsigned char *gradients = line->gradients, *indices = line->indices;
  float *restrict sums = line->sums;
  int64_t count = line->count, first = line->first;
  if (count == 1) {
    add_single(line, value, index);
    return;
  }
  for (int64_t plane = 0; plane < line->planes; plane++) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; i++) {
      sums[index_at(indices, i, index) - first] += value_at(gradients, i, value);
    }
    gradients += count * bytes_of(value);
    indices += count * (index == INDEX_INT64 ? 8 : 4);
    sums += line->owned;
  }
}

INLINE void add_owned_typed(const struct backward_line *line, enum value_kind value, enum index_kind index) {
  uint64_t first = (uint64_t)line->first, owned = (uint64_t)line->owned;
  // Not always the same sum, which each of them would wait for.
  uint64_t others = owned >= 16 ? 15 : 0;
  for (int64_t i = 0; i < line->count; i++) {
    uint64_t position = (uint64_t)index_at(line->indices, i, index) - first;
    // No branch, which would be taken at random: what isn't owned adds +0 to a sum, and none is ever -0.
    uint64_t mine = -(uint64_t)(position < owned);
    uint32_t bits = float_to_bits(value_at(line->gradients, i, value)) & (uint32_t)mine;
    position = (position & mine) | ((uint64_t)i & others & ~mine);
    line->sums[position] += float_from_bits(bits);
  }
}

INLINE uint16_t without_negative_zero(uint16_t bits) {
  return bits == 0x8000u ? 0 : bits;
}

// One gradient in each plane: none of them meets another.
INLINE void store_single(const struct backward_line *line, enum index_kind index) {
  const uint16_t *gradients = line->gradients;
  uint16_t *restrict to = line->grad_input;
#pragma GCC unroll 4
  for (int64_t plane = 0; plane < line->planes; plane++) {
    to[plane * line->owned + index_at(line->indices, plane, index)] = without_negative_zero(gradients[plane]);
  }
}

INLINE bool store_typed(const struct backward_line *line, enum index_kind index) {
  const uint16_t *gradients = line->gradients;
  const unsigned char *indices = line->indices;
  uint16_t *restrict to = line->grad_input;
  int64_t count = line->count;
  if (count == 1) {
    store_single(line, index);
    return true;
  }
  uint32_t found = 0;
  for (int64_t plane = 0; plane < line->planes; plane++) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; i++) {
      int64_t position = index_at(indices, i, index);
      found |= to[position];
      to[position] = without_negative_zero(gradients[i]);
    }
    gradients += count;
    indices += count * (index == INDEX_INT64 ? 8 : 4);
    to += line->owned;
  }
  return found == 0;
}

// Makes the elements right that got more than one of the `count` gradients of a plane: `doubles` are the
// positions (in gradOutput) of those that found another one there.
INLINE void sum_doubles(uint16_t *to, const uint16_t *gradients, const void *indices, int64_t count,
                        const int32_t *doubles, int32_t double_count, enum value_kind value,
                        enum index_kind index) {
  for (int32_t k = 0; k < double_count; k++) {
    int64_t position = index_at(indices, doubles[k], index);
    float sum = 0;
    for (int64_t i = 0; i < count; i++) {
      if (index_at(indices, i, index) == position) {
        sum += value_at(gradients, i, value);
      }
    }
    to[position] = round_value(sum, value);
  }
}

INLINE void store_few_typed(const struct backward_line *line, enum value_kind value, enum index_kind index) {
  const uint16_t *gradients = line->gradients;
  const unsigned char *indices = line->indices;
  uint16_t *restrict to = line->grad_input;
  int64_t count = line->count;
  for (int64_t plane = 0; plane < line->planes; plane++) {
    int32_t doubles[BACKWARD_FEW], double_count = 0;
    for (int64_t i = 0; i < count; i++) {
      int64_t position = index_at(indices, i, index);
      doubles[double_count] = (int32_t)i;
      double_count += to[position] != 0;
      to[position] = without_negative_zero(gradients[i]);
    }
    if (double_count > 0) {
      sum_doubles(to, gradients, indices, count, doubles, double_count, value, index);
    }
    gradients += count;
    indices += count * (index == INDEX_INT64 ? 8 : 4);
    to += line->owned;
  }
}

INLINE bool store_owned_typed(const struct backward_line *line, enum index_kind index) {
  uint64_t first = (uint64_t)line->first, owned = (uint64_t)line->owned;
  const uint16_t *gradients = line->gradients;
  uint16_t *to = line->grad_input;
  uint32_t found = 0;
  for (int64_t i = 0; i < line->count; i++) {
    uint64_t position = (uint64_t)index_at(line->indices, i, index) - first;
    if (position < owned) {
      found |= to[position];
      to[position] = without_negative_zero(gradients[i]);
    }
  }
  return found == 0;
}

INLINE void round_named_typed(const struct backward_line *line, enum value_kind value,
                              enum index_kind index) {
  uint64_t first = (uint64_t)line->first, owned = (uint64_t)line->owned;
  for (int64_t i = 0; i < line->count; i++) {
    uint64_t position = (uint64_t)index_at(line->indices, i, index) - first;
    position = position < owned ? position : 0;
    ((uint16_t *)line->grad_input)[position] = round_value(line->sums[position], value);
  }
}

INLINE void zero_named_typed(const struct backward_line *line, enum index_kind index) {
  uint64_t first = (uint64_t)line->first, owned = (uint64_t)line->owned;
  for (int64_t i = 0; i < line->count; i++) {
    uint64_t position = (uint64_t)index_at(line->indices, i, index) - first;
    line->sums[position < owned ? position : 0] = 0;
  }
}

INLINE bool copy_typed(void *grad_input, const void *gradients, const void *indices, int64_t first,
                       int64_t count, int64_t planes, enum value_kind value, enum index_kind index) {
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t base = plane * count;
    uint64_t different = 0;
    if (index == INDEX_INT64) {
      const uint64_t *from = (const uint64_t *)indices + base;
      for (int64_t i = 0; i < count; i++) {
        different |= from[i] ^ (uint64_t)(first + i);
      }
    } else {
      const uint32_t *from = (const uint32_t *)indices + base;
      uint32_t narrow = 0;
      for (uint32_t i = 0; i < (uint32_t)count; i++) {
        narrow |= from[i] ^ ((uint32_t)first + i);
      }
      different = narrow;
    }
    if (different != 0) {
      return false;
    }
  }
  if (value == VALUE_FP32) {
    float *restrict to = grad_input;
    for (int64_t i = 0; i < planes * count; i++) {
      to[i] = ((const float *)gradients)[i] + 0.0f;
    }
  } else {
    uint16_t *restrict to = grad_input;
    for (int64_t i = 0; i < planes * count; i++) {
      to[i] = without_negative_zero(((const uint16_t *)gradients)[i]);
    }
  }
  return true;
}

INLINE void clear_typed(const struct backward_line *line, int64_t value_bytes, enum index_kind index) {
  const unsigned char *indices = line->indices;
  unsigned char *to = line->grad_input;
  int64_t count = line->count;
  // One gradient in each plane: there is nothing to loop over in a plane.
  for (int64_t plane = 0; plane < line->planes && count == 1; plane++) {
    memset(to + (plane * line->owned + index_at(indices, plane, index)) * value_bytes, 0,
           (size_t)value_bytes);
  }
  for (int64_t plane = 0; plane < line->planes && count > 1; plane++) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; i++) {
      memset(to + index_at(indices, i, index) * value_bytes, 0, (size_t)value_bytes);
    }
    indices += count * (index == INDEX_INT64 ? 8 : 4);
    to += line->owned * value_bytes;
  }
}

// A line of both; `from` becomes zeros if it is to.
INLINE void stream_line(unsigned char *to, unsigned char *from, bool leaves_zeros) {
#if defined(__AVX512F__)
  _mm512_stream_si512((void *)to, _mm512_load_si512(from));
  if (leaves_zeros) {
    _mm512_store_si512(from, _mm512_setzero_si512());
  }
#elif defined(__AVX2__)
  for (int i = 0; i < CACHE_LINE; i += 32) {
    _mm256_stream_si256((void *)(to + i), _mm256_load_si256((const void *)(from + i)));
    if (leaves_zeros) {
      _mm256_store_si256((void *)(from + i), _mm256_setzero_si256());
    }
  }
#else
  memcpy(to, from, CACHE_LINE);
  if (leaves_zeros) {
    memset(from, 0, CACHE_LINE);
  }
#endif
}

INLINE void stream_bytes(unsigned char *to, unsigned char *from, int64_t bytes, bool leaves_zeros) {
  int64_t head = (int64_t)(-(uintptr_t)to % CACHE_LINE);
  head = head < bytes ? head : bytes;
  memcpy(to, from, (size_t)head);
  int64_t done = head;
  for (; bytes - done >= CACHE_LINE; done += CACHE_LINE) {
    stream_line(to + done, from + done, leaves_zeros);
  }
  memcpy(to + done, from + done, (size_t)(bytes - done));
  if (leaves_zeros) {
    memset(from, 0, (size_t)head);
    memset(from + done, 0, (size_t)(bytes - done));
  }
}

static void move(void *to, void *from, int64_t bytes) {
  stream_bytes(to, from, bytes, true);
}

static void stream(void *to, const void *from, int64_t bytes) {
  stream_bytes(to, (unsigned char *)from, bytes, false);
}

static void settle(void) {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

INLINE void round_typed(void *to_pointer, const float *sums, int64_t count, enum value_kind value) {
  uint16_t *restrict to = to_pointer;
  int64_t i = 0;
#if defined(__AVX2__)
  for (; value == VALUE_FP16 && count - i >= 8; i += 8) {
    _mm_storeu_si128((void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(sums + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; i++) {
    to[i] = round_value(sums[i], value);
  }
}

INLINE void widen_typed(float *restrict to, const void *gradients, int64_t count, enum value_kind value) {
  int64_t i = 0;
#if defined(__AVX2__)
  for (; value == VALUE_FP16 && count - i >= 8; i += 8) {
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)gradients + i))));
  }
#endif
  for (; i < count; i++) {
    to[i] = value_at(gradients, i, value);
  }
}

INLINE bool narrow_typed(int32_t *restrict to, const void *indices, int64_t count, enum index_kind index) {
  if (index == INDEX_INT32) {
    memcpy(to, indices, (size_t)count * sizeof *to);
    return true;
  }
  const uint64_t *from = indices;
  uint64_t all = 0;
  for (int64_t i = 0; i < count; i++) {
    all |= from[i];
    to[i] = (int32_t)(uint32_t)from[i];
  }
  return all >> 31 == 0;
}

#if BACKWARD_LANES > 1
#include "kernels/adaptive_max_pool2d_backward/lanes.h"
#include "kernels/adaptive_max_pool2d_backward/vector_combine.h"
#include "kernels/adaptive_max_pool2d_backward/vector_expand.h"
#include "kernels/adaptive_max_pool2d_backward/vector_pull.h"
#include "kernels/adaptive_max_pool2d_backward/vector_pull_held.h"

#define PULL(value)                                                                                          \
  static int64_t pull_##value(const struct backward_pull *pull) {                                            \
    return pull_typed(pull, value);                                                                          \
  }
PULL(VALUE_FP32)
PULL(VALUE_FP16)
PULL(VALUE_BF16)
#define PULL_OF(value) pull_##value

#define PULL_HELD(value, index)                                                                              \
  static int64_t pull_held_##value##_##index(const struct backward_pull *pull) {                             \
    return pull_held_typed(pull, value, index);                                                              \
  }
PULL_HELD(VALUE_FP32, INDEX_INT32)
PULL_HELD(VALUE_FP32, INDEX_INT64)
PULL_HELD(VALUE_FP16, INDEX_INT32)
PULL_HELD(VALUE_FP16, INDEX_INT64)
PULL_HELD(VALUE_BF16, INDEX_INT32)
PULL_HELD(VALUE_BF16, INDEX_INT64)
#define PULL_HELD_OF(value, index) pull_held_##value##_##index

#define COMBINE(value)                                                                                       \
  static bool combine_##value(const struct backward_combine *combine) {                                      \
    return combine_typed(combine, value);                                                                    \
  }
COMBINE(VALUE_FP16)
COMBINE(VALUE_BF16)
#define combine_VALUE_FP32 NULL
#define COMBINE_OF(value) combine_##value
#define PLACE place
#define PLACE_OWNED place_owned
#define PULL_LANES BACKWARD_LANES

#define EXPAND(value, index)                                                                                 \
  static int64_t expand_##value##_##index(const struct backward_expand *expand) {                            \
    return expand_typed(expand, bytes_of(value), index);                                                     \
  }
EXPAND(VALUE_FP32, INDEX_INT32)
EXPAND(VALUE_FP32, INDEX_INT64)
EXPAND(VALUE_FP16, INDEX_INT32)
EXPAND(VALUE_FP16, INDEX_INT64)
#define expand_VALUE_BF16_INDEX_INT32 expand_VALUE_FP16_INDEX_INT32
#define expand_VALUE_BF16_INDEX_INT64 expand_VALUE_FP16_INDEX_INT64
#define EXPAND_OF(value, index) expand_##value##_##index
#else
#define PULL_OF(value) NULL
#define PULL_HELD_OF(value, index) NULL
#define COMBINE_OF(value) NULL
#define PLACE NULL
#define PLACE_OWNED NULL
#define EXPAND_OF(value, index) NULL
#define PULL_LANES 0
#endif

// One set of functions for each pair of types.
#define KERNELS(name, value, index)                                                                          \
  static bool within_##name(const void *indices, int64_t count, int64_t lower, int64_t upper) {              \
    return within_typed(indices, count, lower, upper, index);                                                \
  }                                                                                                          \
  static void add_##name(const struct backward_line *line) {                                                 \
    add_typed(line, value, index);                                                                           \
  }                                                                                                          \
  static void add_owned_##name(const struct backward_line *line) {                                           \
    add_owned_typed(line, value, index);                                                                     \
  }                                                                                                          \
  static void clear_##name(const struct backward_line *line) {                                               \
    clear_typed(line, bytes_of(value), index);                                                               \
  }                                                                                                          \
  static bool store_##name(const struct backward_line *line) {                                               \
    return store_typed(line, index);                                                                         \
  }                                                                                                          \
  static void store_few_##name(const struct backward_line *line) {                                           \
    store_few_typed(line, value, index);                                                                     \
  }                                                                                                          \
  static bool store_owned_##name(const struct backward_line *line) {                                         \
    return store_owned_typed(line, index);                                                                   \
  }                                                                                                          \
  static void round_named_##name(const struct backward_line *line) {                                         \
    round_named_typed(line, value, index);                                                                   \
  }                                                                                                          \
  static void zero_named_##name(const struct backward_line *line) {                                          \
    zero_named_typed(line, index);                                                                           \
  }                                                                                                          \
  static void round_##name(void *to, const float *sums, int64_t count) {                                     \
    round_typed(to, sums, count, value);                                                                     \
  }                                                                                                          \
  static bool copy_##name(void *to, const void *gradients, const void *indices, int64_t first,               \
                          int64_t count, int64_t planes) {                                                   \
    return copy_typed(to, gradients, indices, first, count, planes, value, index);                           \
  }                                                                                                          \
  static void widen_##name(float *to, const void *gradients, int64_t count) {                                \
    widen_typed(to, gradients, count, value);                                                                \
  }                                                                                                          \
  static bool narrow_##name(int32_t *to, const void *indices, int64_t count) {                               \
    return narrow_typed(to, indices, count, index);                                                          \
  }                                                                                                          \
  static const struct backward_kernels kernels_##name = {                                                    \
      .are_within = within_##name,                                                                           \
      .add = add_##name,                                                                                     \
      .add_owned = add_owned_##name,                                                                         \
      .store = store_##name,                                                                                 \
      .store_few = store_few_##name,                                                                         \
      .store_owned = store_owned_##name,                                                                     \
      .combine = COMBINE_OF(value),                                                                          \
      .place = PLACE,                                                                                        \
      .place_owned = PLACE_OWNED,                                                                            \
      .round_named = round_named_##name,                                                                     \
      .zero_named = zero_named_##name,                                                                       \
      .round = round_##name,                                                                                 \
      .copy = copy_##name,                                                                                   \
      .move = move,                                                                                          \
      .stream = stream,                                                                                      \
      .clear = clear_##name,                                                                                 \
      .settle = settle,                                                                                      \
      .widen = widen_##name,                                                                                 \
      .narrow = narrow_##name,                                                                               \
      .pull = PULL_OF(value),                                                                                \
      .pull_held = PULL_HELD_OF(value, index),                                                               \
      .expand = EXPAND_OF(value, index),                                                                     \
      .pull_lanes = PULL_LANES,                                                                              \
  };
KERNELS(fp32_int32, VALUE_FP32, INDEX_INT32)
KERNELS(fp32_int64, VALUE_FP32, INDEX_INT64)
KERNELS(fp16_int32, VALUE_FP16, INDEX_INT32)
KERNELS(fp16_int64, VALUE_FP16, INDEX_INT64)
KERNELS(bf16_int32, VALUE_BF16, INDEX_INT32)
KERNELS(bf16_int64, VALUE_BF16, INDEX_INT64)

const struct backward_kernels *KERNELS_OF_PATH(enum data_type value_type, enum data_type index_type) {
  bool wide = index_type == DATA_TYPE_INT64;
  switch (value_type) {
  case DATA_TYPE_FLOAT16:
    return wide ? &kernels_fp16_int64 : &kernels_fp16_int32;
  case DATA_TYPE_BF16:
    return wide ? &kernels_bf16_int64 : &kernels_bf16_int32;
  default:
    return wide ? &kernels_fp32_int64 : &kernels_fp32_int32;
  }
}

#else

const struct backward_kernels *KERNELS_OF_PATH(enum data_type value_type, enum data_type index_type) {
  (void)value_type;
  (void)index_type;
  return NULL;
}

#endif
