#include "proto/wire/nonzero_words.h"

#include "proto/wire/nonzero_kernels.h"

#include <string.h>

// How raw bytes divide.
struct shape {
  size_t width;       // of a word
  size_t full;        // groups of 32 words
  size_t rest;        // words of the last group, 0: there is no further one
  size_t groups;      // all
  size_t tail;        // bytes that make no word
  size_t header_size; // of the encoded form: all before the masks
};

static struct shape shape_of(int word_bytes, size_t raw_bytes) {
  struct shape shape = {.width = (size_t)word_bytes};
  size_t words = raw_bytes / shape.width;
  shape.full = words / NONZERO_GROUP_WORDS;
  shape.rest = words % NONZERO_GROUP_WORDS;
  shape.groups = shape.full + (shape.rest > 0);
  shape.tail = raw_bytes % shape.width;
  shape.header_size = 1 + (shape.groups + 7) / 8;
  return shape;
}

static const struct nonzero_kernels *widest_path(void) {
  const struct nonzero_kernels *const *path = nonzero_paths;
  while (!(*path)->is_supported()) {
    path++;
  }
  return *path;
}

size_t nonzero_encode_by(const struct nonzero_kernels *path, int word_bytes, const uint8_t *source,
                         size_t raw_bytes, uint8_t *destination, size_t room) {
  const struct nonzero_kernels *kernels = &path[word_bytes / 2 - 1];
  const struct shape shape = shape_of(word_bytes, raw_bytes);
  if (raw_bytes == 0 || raw_bytes > NONZERO_WORDS_RAW_MAX || shape.header_size + shape.tail > room) {
    return 0;
  }
  const size_t full_bytes = shape.full * NONZERO_GROUP_WORDS * shape.width;
  const size_t rest_bytes = shape.rest * shape.width;
  uint8_t last[NONZERO_GROUP_BYTES_MAX] = {0};
  uint8_t last_bit = 0;
  memcpy(last, source + full_bytes, rest_bytes);
  uint8_t *bits = destination + 1, *masks = destination + shape.header_size;
  destination[0] = (uint8_t)word_bytes;
  memset(bits, 0, shape.header_size - 1);
  struct nonzero_found found = {.masks = masks, .masks_max = (room - shape.header_size) / 4};
  kernels->find(source, shape.full, bits, &found);
  const size_t full_masks = found.mask_count;
  if (shape.rest > 0) {
    kernels->find(last, 1, &last_bit, &found);
    bits[shape.full / 8] |= (uint8_t)(last_bit << shape.full % 8);
  }
  size_t size = shape.header_size + 4 * found.mask_count + shape.width * found.word_count + shape.tail;
  if (size > room) {
    return 0;
  }
  uint8_t *to = masks + 4 * found.mask_count, *end = destination + size - shape.tail;
  to = kernels->pack(source, shape.full, bits, masks, to, end);
  (void)kernels->pack(last, 1, &last_bit, masks + 4 * full_masks, to, end);
  memcpy(end, source + full_bytes + rest_bytes, shape.tail);
  return size;
}

size_t nonzero_words_encode(int word_bytes, const uint8_t *source, size_t raw_bytes, uint8_t *destination,
                            size_t room) {
  return nonzero_encode_by(widest_path(), word_bytes, source, raw_bytes, destination, room);
}

// Counts the masks; false if a bit beyond the last group is set.
static bool count_masks(const struct shape *shape, const uint8_t *bits, size_t *count) {
  *count = 0;
  for (size_t byte = 0; byte < shape->header_size - 1; byte++) {
    *count += (size_t)__builtin_popcount(bits[byte]);
  }
  return shape->groups % 8 == 0 || bits[shape->groups / 8] >> shape->groups % 8 == 0;
}

// Whether the encoded form is as long as it says and speaks of no word beyond the last.
static bool check(const struct shape *shape, const uint8_t *source, size_t source_bytes,
                  size_t *masks_count) {
  const uint8_t *bits = source + 1, *masks = source + shape->header_size;
  if (source_bytes < shape->header_size || !count_masks(shape, bits, masks_count) ||
      (source_bytes - shape->header_size) / 4 < *masks_count) {
    return false;
  }
  size_t words = 0;
  for (size_t i = 0; i < *masks_count; i++) {
    words += (size_t)__builtin_popcount(nonzero_mask(masks, i));
  }
  if (shape->rest > 0 && nonzero_is_set(bits, shape->full) &&
      nonzero_mask(masks, *masks_count - 1) >> shape->rest != 0) {
    return false;
  }
  return source_bytes == shape->header_size + 4 * *masks_count + shape->width * words + shape->tail;
}

bool nonzero_decode_by(const struct nonzero_kernels *path, const uint8_t *source, size_t source_bytes,
                       uint8_t *destination, size_t raw_bytes) {
  if (source_bytes == 0 || (source[0] != 2 && source[0] != 4) || raw_bytes == 0) {
    return false;
  }
  const struct shape shape = shape_of(source[0], raw_bytes);
  size_t masks_count;
  if (!check(&shape, source, source_bytes, &masks_count)) {
    return false;
  }
  const struct nonzero_kernels *kernels = &path[source[0] / 2 - 1];
  const uint8_t *bits = source + 1, *masks = source + shape.header_size;
  const uint8_t *words = masks + 4 * masks_count, *end = source + source_bytes - shape.tail;
  kernels->unpack(words, end, bits, masks, shape.full, destination);
  uint8_t *at = destination + shape.full * NONZERO_GROUP_WORDS * shape.width;
  if (shape.rest > 0) {
    // Its words are the last ones.
    uint8_t last[NONZERO_GROUP_BYTES_MAX];
    uint8_t bit = nonzero_is_set(bits, shape.full);
    const uint8_t *mask = masks + 4 * (masks_count - bit);
    size_t count = bit != 0 ? (size_t)__builtin_popcount(nonzero_mask(mask, 0)) : 0;
    kernels->unpack(end - count * shape.width, end, &bit, mask, 1, last);
    memcpy(at, last, shape.rest * shape.width);
  }
  memcpy(at + shape.rest * shape.width, end, shape.tail);
  return true;
}

bool nonzero_words_decode(const uint8_t *source, size_t source_bytes, uint8_t *destination,
                          size_t raw_bytes) {
  return nonzero_decode_by(widest_path(), source, source_bytes, destination, raw_bytes);
}
