// Vectors of elements as numbers that compare: fp32 in lanes of 32 bits as they are, fp16 and bf16 in lanes
// of 16 bits as integers with the same order, in which both zeros are 0 and NaN lie beyond the infinities on
// both sides. FORWARD_ELEMENT_BITS says which of the two a source is compiled for; besides that see lanes.h.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_NUMBERS_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_NUMBERS_H

#include "kernels/adaptive_max_pool2d/lanes.h"

#define HALF (FORWARD_ELEMENT_BITS == 16)
#define LANES (FORWARD_VECTOR_BYTES * 8 / FORWARD_ELEMENT_BITS)
// Parts of a vector of numbers that have as many lanes as a vector of 64 bits, and of 32.
#define NUMBER_GROUPS (LANES / WIDE_LANES)
#define NUMBER_WORDS (LANES / WORDS)

// What makes the loops over lanes and vectors straight code, whose vectors stay in registers.
#define UNROLLED _Pragma("GCC unroll 32")

#if FORWARD_ELEMENT_BITS == 16
typedef int16_t element;
typedef VECTOR_OF(uint16_t, FORWARD_VECTOR_BYTES) natural_numbers;
#define ELEMENT_SIGN INT16_MIN
typedef VECTOR_OF(int16_t, FORWARD_VECTOR_BYTES / 4) group_elements;
#else
typedef int32_t element;
typedef VECTOR_OF(uint32_t, FORWARD_VECTOR_BYTES) natural_numbers;
#define ELEMENT_SIGN INT32_MIN
typedef few_ints group_elements;
#endif
typedef VECTOR_OF(element, FORWARD_VECTOR_BYTES) numbers;
typedef VECTOR_IN_MEMORY(element, FORWARD_VECTOR_BYTES) numbers_in_memory;

INLINE numbers every_number(int32_t value) {
  return (numbers){0} + (element)value;
}

// For places that need all bits of an element.
INLINE numbers add_places(numbers a, numbers b) {
  return (numbers)((natural_numbers)a + (natural_numbers)b);
}

INLINE numbers number_lanes(void) {
#if FORWARD_ELEMENT_BITS == 16
  return (numbers)EACH_HALF_LANE;
#else
  return (numbers)EACH_LANE;
#endif
}

INLINE numbers even_numbers(numbers a, numbers b) {
#if FORWARD_ELEMENT_BITS == 16
  return __builtin_shuffle(a, b, (numbers)EVEN_HALVES);
#else
  return __builtin_shuffle(a, b, (numbers)EVEN);
#endif
}

INLINE numbers odd_numbers(numbers a, numbers b) {
#if FORWARD_ELEMENT_BITS == 16
  return __builtin_shuffle(a, b, (numbers)ODD_HALVES);
#else
  return __builtin_shuffle(a, b, (numbers)ODD);
#endif
}

// The even and the odd lanes of two vectors in an order that the processor gives at little cost; in_order
// puts them into another.
#if FORWARD_ELEMENT_BITS == 16
INLINE numbers left_numbers(numbers a, numbers b) {
  return even_numbers(a, b);
}
INLINE numbers right_numbers(numbers a, numbers b) {
  return odd_numbers(a, b);
}
INLINE numbers in_order(numbers a, numbers order) {
  (void)order; // they are
  return a;
}
#else
INLINE numbers left_numbers(numbers a, numbers b) {
  return even_in_blocks(a, b);
}
INLINE numbers right_numbers(numbers a, numbers b) {
  return odd_in_blocks(a, b);
}
// Where left_numbers has the even lane number 2 * `pair` of its first or second vector.
INLINE int64_t left_lane(int64_t pair, int64_t vector) {
  return pair / 2 * 4 + vector * 2 + pair % 2;
}
INLINE numbers in_order(numbers a, numbers order) {
  return __builtin_shuffle(a, order);
}
#endif

INLINE numbers lane_everywhere(numbers a, int lane) {
  return __builtin_shuffle(a, every_number(lane));
}

// A part of as many lanes as ints have.
INLINE ints words_of_places(numbers places, int part) {
#if FORWARD_ELEMENT_BITS == 16
  few_ints half = part == 0 ? lower_half((ints)places) : upper_half((ints)places);
  return (ints) __builtin_convertvector((halves)half, words);
#else
  (void)part;
  return places;
#endif
}

INLINE few_ints group_of_places(numbers places, int group) {
  ints part = words_of_places(places, group / 2);
  return group % 2 == 0 ? lower_half(part) : upper_half(part);
}

INLINE group_elements group_of_elements(numbers raw, int group) {
  group_elements groups[NUMBER_GROUPS];
  memcpy(groups, &raw, sizeof groups);
  return groups[group];
}

// Notices NaN among the numbers that it is shown. Of 16 bits it needs to see the maxima at the end as well:
// they are what tells of the positive ones.
#if FORWARD_ELEMENT_BITS == 16

struct watch {
  numbers least;
  numbers most;
};

#if FORWARD_VECTOR_BYTES == 64 && defined(__AVX512BW__)

typedef __mmask32 number_condition;

INLINE numbers numbers_of(numbers raw) {
  __m512i bits = (__m512i)raw;
  return (numbers)_mm512_mask_sub_epi16(bits, _mm512_movepi16_mask(bits), _mm512_set1_epi16(INT16_MIN), bits);
}
INLINE number_condition greater(numbers a, numbers b) {
  return _mm512_cmpgt_epi16_mask((__m512i)a, (__m512i)b);
}
INLINE number_condition equal(numbers a, numbers b) {
  return _mm512_cmpeq_epi16_mask((__m512i)a, (__m512i)b);
}
INLINE numbers choose_numbers(number_condition first, numbers a, numbers b) {
  return (numbers)_mm512_mask_mov_epi16((__m512i)b, first, (__m512i)a);
}
INLINE numbers larger(numbers a, numbers b) {
  return (numbers)_mm512_max_epi16((__m512i)a, (__m512i)b);
}
INLINE numbers smaller(numbers a, numbers b) {
  return (numbers)_mm512_min_epi16((__m512i)a, (__m512i)b);
}
INLINE uint32_t number_mask(number_condition lanes) {
  return lanes;
}

#else

typedef numbers number_condition;

INLINE number_condition greater(numbers a, numbers b) {
  return a > b;
}
INLINE number_condition equal(numbers a, numbers b) {
  return a == b;
}

#if FORWARD_VECTOR_BYTES == 32 && defined(__AVX2__)
INLINE numbers numbers_of(numbers raw) {
  return (numbers)_mm256_sign_epi16((__m256i)(raw & INT16_MAX), (__m256i)raw);
}
INLINE numbers choose_numbers(number_condition first, numbers a, numbers b) {
  return (numbers)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)first);
}
INLINE numbers larger(numbers a, numbers b) {
  return (numbers)_mm256_max_epi16((__m256i)a, (__m256i)b);
}
INLINE numbers smaller(numbers a, numbers b) {
  return (numbers)_mm256_min_epi16((__m256i)a, (__m256i)b);
}
INLINE uint32_t number_mask(number_condition lanes) {
  __m256i packed = _mm256_packs_epi16((__m256i)lanes, _mm256_setzero_si256());
  uint32_t bits = (uint32_t)_mm256_movemask_epi8(packed);
  return (bits & 0xff) | (bits >> 8 & 0xff00);
}
#else
INLINE numbers choose_numbers(number_condition first, numbers a, numbers b) {
  return (first & a) | (~first & b);
}
INLINE numbers numbers_of(numbers raw) {
  return choose_numbers(raw < 0, INT16_MIN - raw, raw);
}
INLINE numbers larger(numbers a, numbers b) {
  return choose_numbers(a > b, a, b);
}
INLINE numbers smaller(numbers a, numbers b) {
  return choose_numbers(a < b, a, b);
}
INLINE uint32_t number_mask(number_condition lanes) {
  uint32_t mask = 0;
  for (int lane = 0; lane < LANES; lane++) {
    mask |= (uint32_t)(lanes[lane] & 1) << lane;
  }
  return mask;
}
#endif

#endif

INLINE struct watch watch_nothing(void) {
  return (struct watch){{0}, {0}};
}
INLINE void watch_two(struct watch *watch, numbers a, numbers b) {
  watch->least = smaller(watch->least, smaller(a, b));
}
INLINE void watch_maxima(struct watch *watch, numbers maxima) {
  watch->most = larger(watch->most, maxima);
}
INLINE bool watch_saw_nan(const struct watch *watch, int32_t infinity) {
  int32_t most = infinity >> 16;
  return number_mask(greater(watch->most, every_number(most)) | greater(every_number(-most), watch->least)) !=
         0;
}
// Except that negative zeros become positive ones.
INLINE numbers raw_of(numbers a) {
  return numbers_of(a);
}

#else

typedef condition number_condition;

INLINE numbers numbers_of(numbers raw) {
  return raw;
}
INLINE numbers raw_of(numbers a) {
  return a;
}
INLINE number_condition greater(numbers a, numbers b) {
  return greater_floats(a, b);
}
INLINE number_condition equal(numbers a, numbers b) {
  return equal_floats(a, b);
}
INLINE numbers choose_numbers(number_condition first, numbers a, numbers b) {
  return choose(first, a, b);
}
// b if none is.
INLINE numbers larger(numbers a, numbers b) {
  return larger_floats(a, b);
}
INLINE uint32_t number_mask(number_condition lanes) {
  return mask_of(lanes);
}

struct watch {
  condition unordered;
  ints largest; // without signs: NaN lie above the infinity
};

INLINE struct watch watch_nothing(void) {
  return (struct watch){no_lanes(), {0}};
}
INLINE void watch_two(struct watch *watch, numbers a, numbers b) {
  watch->unordered |= unordered_floats(a, b);
}
INLINE void watch_two_largest(struct watch *watch, numbers a, numbers b) {
  watch->largest = larger_words(watch->largest, larger_words(a & INT32_MAX, b & INT32_MAX));
}
INLINE void watch_maxima(struct watch *watch, numbers maxima) {
  (void)watch;
  (void)maxima;
}
INLINE bool watch_saw_nan(const struct watch *watch, int32_t infinity) {
  return mask_of(watch->unordered) != 0 || any_greater(watch->largest, every(infinity));
}

#endif

// Whether `larger` has the processor note when one of its operands is a NaN, in the flags that its arithmetic
// leaves behind: that takes no time. AVX2's other ways take hardly any.
#if FORWARD_ELEMENT_BITS == 32 && FORWARD_VECTOR_BYTES == 64
#define NOTES_NAN 1
#else
#define NOTES_NAN 0
#endif

// The same for loops that compare a lot, where AVX-512 has but one unit that compares.
INLINE void watch_two_busy(struct watch *watch, numbers a, numbers b) {
#if FORWARD_ELEMENT_BITS == 32 && FORWARD_VECTOR_BYTES == 64
  watch_two_largest(watch, a, b);
#else
  watch_two(watch, a, b);
#endif
}

// Of lane numbers and the like, which are integers in either case.
INLINE number_condition greater_place(numbers a, numbers b) {
#if FORWARD_ELEMENT_BITS == 16
  return greater(a, b);
#else
  return less_ints(b, a);
#endif
}

INLINE numbers smaller_places(numbers a, numbers b) {
#if FORWARD_ELEMENT_BITS == 16
  return smaller(a, b);
#else
  return smaller_ints(a, b);
#endif
}

// Half as many vectors: pairs of lanes of each become one.
INLINE void reduce_pairs(numbers *level, int count, numbers of_two(numbers, numbers)) {
  UNROLLED for (int i = 0; i < count / 2; i++) {
    numbers a = level[2 * i];
    numbers b = level[2 * i + 1];
    level[i] = of_two(even_numbers(a, b), odd_numbers(a, b));
  }
}

// Of each of as many vectors as there are lanes what its lanes together give, two by two: lane number i tells
// vector number i's. Level by level, as the compiler doesn't unroll a loop that halves its counter.
INLINE numbers reduce_each(const numbers *of, numbers of_two(numbers, numbers)) {
  numbers level[LANES];
  memcpy(level, of, sizeof level);
  reduce_pairs(level, LANES, of_two);
  reduce_pairs(level, LANES / 2, of_two);
  reduce_pairs(level, LANES / 4, of_two);
  reduce_pairs(level, LANES / 8, of_two);
  reduce_pairs(level, LANES / 16, of_two);
  return level[0];
}

#endif
