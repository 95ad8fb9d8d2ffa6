// Codecs: decoding writes just raw_bytes or refuses, and what was encoded decodes to itself.
//
// The first byte says which codec, the second where the data are split, the next two are raw_bytes.
#include "proto/wire/codec.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *allocate(size_t size) {
  uint8_t *memory = malloc(size > 0 ? size : 1);
  assert(memory != NULL);
  return memory;
}

// Decodes into a piece of memory of just room bytes; NULL if that was refused.
static uint8_t *decode(enum codec codec, const uint8_t *data, size_t size, size_t split, int64_t raw_bytes,
                       size_t room, size_t *decoded_bytes) {
  struct span spans[] = {{data, split}, {NULL, 0}, {data + split, size - split}};
  struct tensor_chunk chunk = {.codec = codec, .raw_bytes = raw_bytes, .data_bytes = size};
  span_cursor_init(&chunk.data, spans, 3);
  uint8_t *destination = allocate(room);
  uint8_t *scratch = allocate(size);
  struct status status;
  bool ok = codec_decode(&chunk, destination, room, scratch, size, decoded_bytes, &status);
  free(scratch);
  if (!ok) {
    static const enum reason allowed[] = {REASON_CODEC_INVALID, REASON_TENSOR_DATA_INVALID};
    fuzz_expect_refusal(&status, allowed, 2);
    free(destination);
    return NULL;
  }
  return destination;
}

static void try_round_trip(enum codec codec, int word_bytes, const uint8_t *data, size_t size) {
  uint8_t *encoded = allocate(size);
  size_t encoded_bytes = codec_encode(codec, word_bytes, data, size, encoded, size);
  assert(encoded_bytes == 0 || encoded_bytes < size);
  if (encoded_bytes > 0) {
    size_t decoded_bytes;
    uint8_t *decoded =
        decode(codec, encoded, encoded_bytes, encoded_bytes / 2, (int64_t)size, size, &decoded_bytes);
    assert(decoded != NULL && decoded_bytes == size);
    assert(memcmp(decoded, data, size) == 0);
    free(decoded);
  }
  free(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) {
    return 0;
  }
  static const enum codec codecs[] = {CODEC_NONE, CODEC_LZ4_BLOCK, CODEC_NONZERO_WORDS};
  enum codec codec = codecs[data[0] % 3];
  int64_t raw_bytes = data[2] | data[3] << 8;
  size_t split = data[1];
  data += 4;
  size -= 4;
  split = split < size ? split : size;
  size_t decoded_bytes;
  uint8_t *decoded = decode(codec, data, size, split, raw_bytes, (size_t)raw_bytes, &decoded_bytes);
  if (decoded != NULL) {
    assert(decoded_bytes == (size_t)raw_bytes || raw_bytes == 0);
    assert(codec != CODEC_NONE || memcmp(decoded, data, size) == 0);
    free(decoded);
  }
  try_round_trip(CODEC_LZ4_BLOCK, 0, data, size);
  try_round_trip(CODEC_NONZERO_WORDS, 2, data, size);
  try_round_trip(CODEC_NONZERO_WORDS, 4, data, size);
  return 0;
}
