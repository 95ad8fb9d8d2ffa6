#include "proto/wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RAW_BYTES 1000
#define ROOM 4096

static const struct encoding {
  enum codec codec;
  int word_bytes;
} encodings[] = {{CODEC_LZ4_BLOCK, 0}, {CODEC_NONZERO_WORDS, 2}, {CODEC_NONZERO_WORDS, 4}};
#define ENCODINGS (sizeof encodings / sizeof encodings[0])

struct fixture {
  struct encoding encoding;
  uint8_t raw[RAW_BYTES];
  uint8_t encoded[ROOM];
  size_t encoded_bytes;
  uint8_t decoded[ROOM];
  uint8_t scratch[ROOM];
  size_t decoded_bytes;
  struct span spans[4];
  struct status status;
};

// Mostly zeros, as a pooling gradient is.
static void setup(struct fixture *fixture, size_t encoding) {
  memset(fixture, 0, sizeof *fixture);
  fixture->encoding = encodings[encoding];
  for (size_t i = 0; i < RAW_BYTES; i += 37) {
    fixture->raw[i] = (uint8_t)(i + 1);
  }
  fixture->encoded_bytes = codec_encode(fixture->encoding.codec, fixture->encoding.word_bytes, fixture->raw,
                                        RAW_BYTES, fixture->encoded, RAW_BYTES);
  assert_in_range(fixture->encoded_bytes, 1, RAW_BYTES - 1);
  memset(fixture->decoded, 0xa5, sizeof fixture->decoded);
}

static struct tensor_chunk chunk_of(struct fixture *fixture, enum codec codec, int64_t raw_bytes,
                                    const uint8_t *data, size_t size, size_t split) {
  fixture->spans[0] = (struct span){NULL, 0};
  fixture->spans[1] = (struct span){data, split};
  fixture->spans[2] = (struct span){NULL, 0};
  fixture->spans[3] = (struct span){data + split, size - split};
  struct tensor_chunk chunk = {.codec = codec, .raw_bytes = raw_bytes, .data_bytes = size};
  span_cursor_init(&chunk.data, fixture->spans, 4);
  return chunk;
}

static bool decode(struct fixture *fixture, const struct tensor_chunk *chunk, size_t room,
                   size_t scratch_bytes) {
  return codec_decode(chunk, fixture->decoded, room, fixture->scratch, scratch_bytes, &fixture->decoded_bytes,
                      &fixture->status);
}

static void expect_codec_invalid(struct fixture *fixture, const struct tensor_chunk *chunk, size_t room) {
  assert_false(decode(fixture, chunk, room, ROOM));
  assert_int_equal(fixture->status.reason, REASON_CODEC_INVALID);
}

static void round_trip_at_every_split(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    for (size_t split = 0; split <= fixture.encoded_bytes; split++) {
      struct tensor_chunk chunk = chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded,
                                           fixture.encoded_bytes, split);
      memset(fixture.decoded, 0xa5, ROOM);
      assert_true(decode(&fixture, &chunk, RAW_BYTES, fixture.encoded_bytes));
      assert_int_equal(fixture.decoded_bytes, RAW_BYTES);
      assert_memory_equal(fixture.decoded, fixture.raw, RAW_BYTES);
      assert_int_equal(fixture.decoded[RAW_BYTES], 0xa5);
    }
  }
}

static void plain_chunk_is_copied_at_every_split(void **state) {
  (void)state;
  struct fixture fixture;
  setup(&fixture, 0);
  for (size_t split = 0; split <= RAW_BYTES; split += 111) {
    for (int64_t raw_bytes = 0; raw_bytes <= RAW_BYTES; raw_bytes += RAW_BYTES) {
      struct tensor_chunk chunk = chunk_of(&fixture, CODEC_NONE, raw_bytes, fixture.raw, RAW_BYTES, split);
      assert_true(decode(&fixture, &chunk, RAW_BYTES, 0));
      assert_int_equal(fixture.decoded_bytes, RAW_BYTES);
      assert_memory_equal(fixture.decoded, fixture.raw, RAW_BYTES);
    }
  }
}

static void plain_chunk_with_another_raw_bytes_is_refused(void **state) {
  (void)state;
  struct fixture fixture;
  setup(&fixture, 0);
  static const int64_t wrong[] = {1, RAW_BYTES - 1, RAW_BYTES + 1, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct tensor_chunk chunk = chunk_of(&fixture, CODEC_NONE, wrong[i], fixture.raw, RAW_BYTES, 0);
    expect_codec_invalid(&fixture, &chunk, ROOM);
  }
}

static void plain_chunk_beyond_room_is_surplus_data(void **state) {
  (void)state;
  struct fixture fixture;
  setup(&fixture, 0);
  struct tensor_chunk chunk = chunk_of(&fixture, CODEC_NONE, 0, fixture.raw, RAW_BYTES, 0);
  assert_false(decode(&fixture, &chunk, RAW_BYTES - 1, 0));
  assert_int_equal(fixture.status.reason, REASON_TENSOR_DATA_INVALID);
  assert_int_equal(fixture.decoded[0], 0xa5);
}

static void encoded_data_need_the_exact_raw_bytes(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    static const int64_t wrong[] = {0,         -1,        INT64_MIN, RAW_BYTES - 1, RAW_BYTES + 1,
                                    INT32_MAX, INT64_MAX, 1,         ROOM + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
      struct tensor_chunk chunk =
          chunk_of(&fixture, fixture.encoding.codec, wrong[i], fixture.encoded, fixture.encoded_bytes, 0);
      expect_codec_invalid(&fixture, &chunk, ROOM);
    }
  }
}

static void an_lz4_block_of_nothing_is_refused(void **state) {
  (void)state;
  struct fixture fixture;
  setup(&fixture, 0);
  // LZ4 itself takes it: one token without literals.
  static const uint8_t nothing[] = {0};
  struct tensor_chunk chunk = chunk_of(&fixture, CODEC_LZ4_BLOCK, 0, nothing, 1, 0);
  expect_codec_invalid(&fixture, &chunk, ROOM);
}

static void encoded_raw_bytes_beyond_room_are_refused(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    struct tensor_chunk chunk =
        chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded, fixture.encoded_bytes, 0);
    expect_codec_invalid(&fixture, &chunk, RAW_BYTES - 1);
    assert_int_equal(fixture.decoded[0], 0xa5);
  }
}

static void cut_or_continued_encoded_data_are_refused(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    for (size_t size = 0; size < fixture.encoded_bytes; size++) {
      struct tensor_chunk chunk =
          chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded, size, 0);
      expect_codec_invalid(&fixture, &chunk, ROOM);
    }
    for (size_t surplus = 1; surplus < 20; surplus++) {
      struct tensor_chunk chunk = chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded,
                                           fixture.encoded_bytes + surplus, 0);
      expect_codec_invalid(&fixture, &chunk, ROOM);
    }
  }
}

static void split_data_beyond_scratch_are_refused(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    struct tensor_chunk chunk =
        chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded, fixture.encoded_bytes, 5);
    assert_false(decode(&fixture, &chunk, ROOM, fixture.encoded_bytes - 1));
    assert_int_equal(fixture.status.reason, REASON_CODEC_INVALID);
    // In one piece they need no scratch.
    chunk = chunk_of(&fixture, fixture.encoding.codec, RAW_BYTES, fixture.encoded, fixture.encoded_bytes, 0);
    assert_true(decode(&fixture, &chunk, ROOM, 0));
  }
}

static void a_hand_made_block_decodes(void **state) {
  (void)state;
  struct fixture fixture;
  setup(&fixture, 0);
  // Five literals, then the end: LZ4's smallest block that says something.
  static const uint8_t literals[] = {0x50, 'h', 'e', 'l', 'l', 'o'};
  struct tensor_chunk chunk = chunk_of(&fixture, CODEC_LZ4_BLOCK, 5, literals, sizeof literals, 3);
  assert_true(decode(&fixture, &chunk, 5, ROOM));
  assert_memory_equal(fixture.decoded, "hello", 5);
}

static void what_does_not_get_smaller_is_sent_plain(void **state) {
  (void)state;
  for (size_t encoding = 0; encoding < ENCODINGS; encoding++) {
    struct fixture fixture;
    setup(&fixture, encoding);
    uint8_t noise[256];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
      seed = seed * 1664525u + 1013904223u;
      noise[i] = (uint8_t)(seed >> 24);
    }
    assert_int_equal(codec_encode(fixture.encoding.codec, fixture.encoding.word_bytes, noise, sizeof noise,
                                  fixture.scratch, sizeof noise),
                     0);
    assert_int_equal(codec_encode(fixture.encoding.codec, fixture.encoding.word_bytes, fixture.raw, 0,
                                  fixture.scratch, ROOM),
                     0);
    assert_int_equal(codec_encode(CODEC_NONE, 0, fixture.raw, RAW_BYTES, fixture.scratch, ROOM), 0);
    size_t smallest = fixture.encoded_bytes;
    for (size_t room = 0; room <= smallest; room++) {
      assert_int_equal(codec_encode(fixture.encoding.codec, fixture.encoding.word_bytes, fixture.raw,
                                    RAW_BYTES, fixture.scratch, room),
                       0);
    }
    assert_int_equal(codec_encode(fixture.encoding.codec, fixture.encoding.word_bytes, fixture.raw, RAW_BYTES,
                                  fixture.scratch, smallest + 1),
                     smallest);
  }
}

static void codecs_have_names(void **state) {
  (void)state;
  assert_string_equal(codec_name(CODEC_NONE), "NONE");
  assert_string_equal(codec_name(CODEC_LZ4_BLOCK), "LZ4_BLOCK");
  assert_string_equal(codec_name(CODEC_NONZERO_WORDS), "NONZERO_WORDS");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip_at_every_split),
      cmocka_unit_test(plain_chunk_is_copied_at_every_split),
      cmocka_unit_test(plain_chunk_with_another_raw_bytes_is_refused),
      cmocka_unit_test(plain_chunk_beyond_room_is_surplus_data),
      cmocka_unit_test(encoded_data_need_the_exact_raw_bytes),
      cmocka_unit_test(an_lz4_block_of_nothing_is_refused),
      cmocka_unit_test(encoded_raw_bytes_beyond_room_are_refused),
      cmocka_unit_test(cut_or_continued_encoded_data_are_refused),
      cmocka_unit_test(split_data_beyond_scratch_are_refused),
      cmocka_unit_test(a_hand_made_block_decodes),
      cmocka_unit_test(what_does_not_get_smaller_is_sent_plain),
      cmocka_unit_test(codecs_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
