// The inner loops of nonzero_words.c, for each kind of processor. All give the same bytes. Stateless.
//
// They see whole groups of 32 words. `bits` has a bit for each group, `masks` 32 bits for each group whose
// bit is set, neither aligned.
#ifndef ACLNN_PROTO_WIRE_NONZERO_KERNELS_H
#define ACLNN_PROTO_WIRE_NONZERO_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NONZERO_GROUP_WORDS 32
#define NONZERO_GROUP_BYTES_MAX (NONZERO_GROUP_WORDS * 4)

struct nonzero_found {
  uint8_t *masks;
  size_t masks_max;  // how many may be written
  size_t mask_count; // may exceed masks_max, then it didn't fit
  size_t word_count; // that aren't zero
};

struct nonzero_kernels {
  const char *name;
  bool (*is_supported)(void);
  // Sets the bits of the groups at `source` (bits were zero before), adds masks and counts.
  void (*find)(const uint8_t *source, size_t groups, uint8_t *bits, struct nonzero_found *found);
  // Writes the words; returns the place after them. Anything up to `end` may be overwritten.
  uint8_t *(*pack)(const uint8_t *source, size_t groups, const uint8_t *bits, const uint8_t *masks,
                   uint8_t *to, uint8_t *end);
  // Fills whole groups at `to`. The words are as many as the masks say and end at `end` or before.
  void (*unpack)(const uint8_t *words, const uint8_t *end, const uint8_t *bits, const uint8_t *masks,
                 size_t groups, uint8_t *to);
};

// The paths from the widest to plain C, which every machine supports; NULL at the end. Each has kernels for
// words of 2 and of 4 bytes.
extern const struct nonzero_kernels *const nonzero_paths[];

extern const struct nonzero_kernels nonzero_plain[2];
uint8_t *nonzero_pack_plain_2(const uint8_t *source, size_t groups, const uint8_t *bits, const uint8_t *masks,
                              uint8_t *to, uint8_t *end);
uint8_t *nonzero_pack_plain_4(const uint8_t *source, size_t groups, const uint8_t *bits, const uint8_t *masks,
                              uint8_t *to, uint8_t *end);
void nonzero_unpack_plain_2(const uint8_t *words, const uint8_t *end, const uint8_t *bits,
                            const uint8_t *masks, size_t groups, uint8_t *to);
void nonzero_unpack_plain_4(const uint8_t *words, const uint8_t *end, const uint8_t *bits,
                            const uint8_t *masks, size_t groups, uint8_t *to);

// nonzero_words_encode and _decode on a path of the caller's choice.
size_t nonzero_encode_by(const struct nonzero_kernels *path, int word_bytes, const uint8_t *source,
                         size_t raw_bytes, uint8_t *destination, size_t room);
bool nonzero_decode_by(const struct nonzero_kernels *path, const uint8_t *source, size_t source_bytes,
                       uint8_t *destination, size_t raw_bytes);

static inline uint32_t nonzero_mask(const uint8_t *masks, size_t index) {
  uint32_t mask;
  memcpy(&mask, masks + 4 * index, sizeof mask);
  return mask;
}

static inline bool nonzero_is_set(const uint8_t *bits, size_t group) {
  return (bits[group / 8] >> group % 8 & 1) != 0;
}

static inline void nonzero_add_group(uint8_t *bits, size_t group, uint32_t mask,
                                     struct nonzero_found *found) {
  if (mask == 0) {
    return;
  }
  bits[group / 8] |= (uint8_t)(1 << group % 8);
  if (found->mask_count < found->masks_max) {
    memcpy(found->masks + 4 * found->mask_count, &mask, sizeof mask);
  }
  found->mask_count++;
  found->word_count += (size_t)__builtin_popcount(mask);
}

#endif
