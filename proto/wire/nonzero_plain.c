// Plain C, for any machine.
#include "proto/wire/nonzero_kernels.h"

#define INLINE static inline __attribute__((always_inline))

static bool always(void) {
  return true;
}

INLINE bool is_zero(const uint8_t *group, size_t size) {
  uint64_t any = 0;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word;
    memcpy(&word, group + at, sizeof word);
    any |= word;
  }
  return any == 0;
}

INLINE uint32_t mask_of(const uint8_t *group, size_t width) {
  uint32_t mask = 0;
  for (size_t word = 0; word < NONZERO_GROUP_WORDS; word++) {
    uint32_t value = 0;
    memcpy(&value, group + word * width, width);
    mask |= (uint32_t)(value != 0) << word;
  }
  return mask;
}

INLINE void find(const uint8_t *source, size_t groups, uint8_t *bits, struct nonzero_found *found,
                 size_t width) {
  for (size_t group = 0; group < groups; group++) {
    const uint8_t *at = source + group * NONZERO_GROUP_WORDS * width;
    if (!is_zero(at, NONZERO_GROUP_WORDS * width)) {
      nonzero_add_group(bits, group, mask_of(at, width), found);
    }
  }
}

INLINE uint8_t *pack(const uint8_t *source, size_t groups, const uint8_t *bits, const uint8_t *masks,
                     uint8_t *to, size_t width) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    if (!nonzero_is_set(bits, group)) {
      continue;
    }
    const uint8_t *at = source + group * NONZERO_GROUP_WORDS * width;
    for (uint32_t mask = nonzero_mask(masks, used++); mask != 0; mask &= mask - 1) {
      memcpy(to, at + (size_t)__builtin_ctz(mask) * width, width);
      to += width;
    }
  }
  return to;
}

INLINE void unpack(const uint8_t *words, const uint8_t *bits, const uint8_t *masks, size_t groups,
                   uint8_t *to, size_t width) {
  size_t used = 0;
  for (size_t group = 0; group < groups; group++) {
    uint8_t *at = to + group * NONZERO_GROUP_WORDS * width;
    memset(at, 0, NONZERO_GROUP_WORDS * width);
    if (!nonzero_is_set(bits, group)) {
      continue;
    }
    for (uint32_t mask = nonzero_mask(masks, used++); mask != 0; mask &= mask - 1) {
      memcpy(at + (size_t)__builtin_ctz(mask) * width, words, width);
      words += width;
    }
  }
}

#define KERNELS(width)                                                                                       \
  static void find_##width(const uint8_t *source, size_t groups, uint8_t *bits,                              \
                           struct nonzero_found *found) {                                                    \
    find(source, groups, bits, found, width);                                                                \
  }                                                                                                          \
  uint8_t *nonzero_pack_plain_##width(const uint8_t *source, size_t groups, const uint8_t *bits,             \
                                      const uint8_t *masks, uint8_t *to, uint8_t *end) {                     \
    (void)end;                                                                                               \
    return pack(source, groups, bits, masks, to, width);                                                     \
  }                                                                                                          \
  void nonzero_unpack_plain_##width(const uint8_t *words, const uint8_t *end, const uint8_t *bits,           \
                                    const uint8_t *masks, size_t groups, uint8_t *to) {                      \
    (void)end;                                                                                               \
    unpack(words, bits, masks, groups, to, width);                                                           \
  }

KERNELS(2)
KERNELS(4)

const struct nonzero_kernels nonzero_plain[2] = {
    {"plain", always, find_2, nonzero_pack_plain_2, nonzero_unpack_plain_2},
    {"plain", always, find_4, nonzero_pack_plain_4, nonzero_unpack_plain_4},
};
