#include "proto/wire/codec.h"

#include "proto/wire/nonzero_words.h"

#include <inttypes.h>
#include <limits.h>
#include <lz4.h>
#include <string.h>

const char *codec_name(enum codec codec) {
  switch (codec) {
  case CODEC_NONE:
    return "NONE";
  case CODEC_LZ4_BLOCK:
    return "LZ4_BLOCK";
  case CODEC_NONZERO_WORDS:
    return "NONZERO_WORDS";
  case CODEC_END:
    break;
  }
  return "unknown";
}

static bool copy_plain(const struct tensor_chunk *chunk, uint8_t *destination, size_t room,
                       size_t *decoded_bytes, struct status *status) {
  if (chunk->raw_bytes != 0 && (chunk->raw_bytes < 0 || (uint64_t)chunk->raw_bytes != chunk->data_bytes)) {
    return status_fail(status, REASON_CODEC_INVALID, NULL,
                       "raw_bytes is %" PRId64 ", but the chunk has %zu bytes and no codec", chunk->raw_bytes,
                       chunk->data_bytes);
  }
  if (chunk->data_bytes > room) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, NULL, "the chunk has %zu bytes where %zu are left",
                       chunk->data_bytes, room);
  }
  struct span_cursor data = chunk->data;
  if (!span_read_bytes(&data, destination, chunk->data_bytes)) {
    return status_fail(status, REASON_INTERNAL, NULL, "the chunk's data are shorter than its data_bytes");
  }
  *decoded_bytes = chunk->data_bytes;
  return true;
}

// The encoded bytes in one piece: where they are, or joined in scratch.
static const uint8_t *join_data(const struct tensor_chunk *chunk, uint8_t *scratch, size_t scratch_bytes) {
  struct span_cursor data = chunk->data;
  while (data.span < data.span_count && data.offset == data.spans[data.span].size) {
    data.span++;
    data.offset = 0;
  }
  if (data.span < data.span_count && data.spans[data.span].size - data.offset >= chunk->data_bytes) {
    return data.spans[data.span].data + data.offset;
  }
  if (chunk->data_bytes > scratch_bytes || !span_read_bytes(&data, scratch, chunk->data_bytes)) {
    return NULL;
  }
  return scratch;
}

static bool decodes(enum codec codec, const uint8_t *encoded, size_t encoded_bytes, uint8_t *destination,
                    size_t raw_bytes) {
  if (codec == CODEC_NONZERO_WORDS) {
    return nonzero_words_decode(encoded, encoded_bytes, destination, raw_bytes);
  }
  int decoded =
      LZ4_decompress_safe((const char *)encoded, (char *)destination, (int)encoded_bytes, (int)raw_bytes);
  return decoded >= 0 && (size_t)decoded == raw_bytes;
}

static bool decode_encoded(const struct tensor_chunk *chunk, uint8_t *destination, size_t room,
                           uint8_t *scratch, size_t scratch_bytes, size_t *decoded_bytes,
                           struct status *status) {
  const char *name = codec_name(chunk->codec);
  if (chunk->raw_bytes <= 0 || (uint64_t)chunk->raw_bytes > room || chunk->raw_bytes > INT_MAX) {
    return status_fail(status, REASON_CODEC_INVALID, NULL,
                       "raw_bytes is %" PRId64 "; a chunk with codec %s has 1 to %zu here", chunk->raw_bytes,
                       name, room);
  }
  if (chunk->data_bytes == 0 || chunk->data_bytes > INT_MAX) {
    return status_fail(status, REASON_CODEC_INVALID, NULL, "%zu bytes of data can't be of codec %s",
                       chunk->data_bytes, name);
  }
  const uint8_t *encoded = join_data(chunk, scratch, scratch_bytes);
  if (encoded == NULL) {
    return status_fail(status, REASON_CODEC_INVALID, NULL, "%zu encoded bytes are more than the %zu allowed",
                       chunk->data_bytes, scratch_bytes);
  }
  if (!decodes(chunk->codec, encoded, chunk->data_bytes, destination, (size_t)chunk->raw_bytes)) {
    return status_fail(status, REASON_CODEC_INVALID, NULL,
                       "%zu bytes of data with codec %s don't decode to raw_bytes %" PRId64,
                       chunk->data_bytes, name, chunk->raw_bytes);
  }
  *decoded_bytes = (size_t)chunk->raw_bytes;
  return true;
}

bool codec_decode(const struct tensor_chunk *chunk, uint8_t *destination, size_t room, uint8_t *scratch,
                  size_t scratch_bytes, size_t *decoded_bytes, struct status *status) {
  switch (chunk->codec) {
  case CODEC_NONE:
    return copy_plain(chunk, destination, room, decoded_bytes, status);
  case CODEC_LZ4_BLOCK:
  case CODEC_NONZERO_WORDS:
    return decode_encoded(chunk, destination, room, scratch, scratch_bytes, decoded_bytes, status);
  case CODEC_END:
    break;
  }
  return status_fail(status, REASON_FEATURE_UNSUPPORTED, NULL, "codec %d is not known here",
                     (int)chunk->codec);
}

size_t codec_encode(enum codec codec, int word_bytes, const uint8_t *source, size_t source_bytes,
                    uint8_t *destination, size_t room) {
  if (source_bytes == 0 || source_bytes > LZ4_MAX_INPUT_SIZE || room < 2) {
    return 0;
  }
  // One byte less than room, as an encoding that just fills it isn't smaller.
  size_t capacity = room - 1;
  if (codec == CODEC_NONZERO_WORDS) {
    return nonzero_words_encode(word_bytes, source, source_bytes, destination, capacity);
  }
  if (codec != CODEC_LZ4_BLOCK) {
    return 0;
  }
  int encoded = LZ4_compress_default((const char *)source, (char *)destination, (int)source_bytes,
                                     capacity > INT_MAX ? INT_MAX : (int)capacity);
  return encoded > 0 ? (size_t)encoded : 0;
}
