#include "proto/wire/execute_envelope.h"

#include "aclnn/v1/operator_service.pb-c.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNKS_MAX 8
#define DATA_MAX 64

// What a reading found, with the payloads copied out.
struct outcome {
  bool ok;
  enum reason reason;
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  bool has_head, has_done;
  size_t head_bytes, done_bytes, chunk_count;
  uint8_t head[DATA_MAX], done[DATA_MAX];
  struct tensor_chunk chunks[CHUNKS_MAX];
  uint8_t data[CHUNKS_MAX][DATA_MAX];
};

static void read_spans(enum execute_message_kind kind, const struct span *spans, size_t count,
                       struct outcome *outcome) {
  memset(outcome, 0, sizeof *outcome);
  struct execute_message message;
  memset(&message, 0xee, sizeof message);
  struct execute_message untouched = message;
  struct status status;
  outcome->ok = execute_message_read(kind, spans, count, &message, &status);
  if (!outcome->ok) {
    outcome->reason = status.reason;
    memcpy(outcome->message, status.message, sizeof status.message);
    assert_memory_equal(&message, &untouched, sizeof message);
    return;
  }
  outcome->has_head = message.has_head;
  outcome->has_done = message.has_done;
  outcome->head_bytes = message.head_bytes;
  outcome->done_bytes = message.done_bytes;
  outcome->chunk_count = message.chunk_count;
  assert_in_range(message.head_bytes, 0, DATA_MAX);
  assert_true(span_read_bytes(&message.head, outcome->head, message.head_bytes));
  assert_int_equal(span_cursor_left(&message.head), 0);
  assert_true(span_read_bytes(&message.done, outcome->done, message.done_bytes));
  struct tensor_chunk chunk;
  size_t index = 0;
  while (execute_message_next_chunk(&message, &chunk)) {
    assert_in_range(index, 0, CHUNKS_MAX - 1);
    assert_int_equal(span_cursor_left(&chunk.data), chunk.data_bytes);
    outcome->chunks[index] = chunk;
    assert_true(span_read_bytes(&chunk.data, outcome->data[index], chunk.data_bytes));
    memset(&outcome->chunks[index].data, 0, sizeof chunk.data);
    index++;
  }
  assert_int_equal(index, message.chunk_count);
  assert_false(execute_message_next_chunk(&message, &chunk));
}

// Reads the message at every split into three spans, with empty ones between: the outcome must not change.
static void read_split(enum execute_message_kind kind, const struct test_bytes *bytes,
                       struct outcome *outcome) {
  struct span whole = {bytes->data, bytes->size};
  read_spans(kind, &whole, 1, outcome);
  struct outcome again;
  for (size_t first = 0; first <= bytes->size; first++) {
    for (size_t second = first; second <= bytes->size; second++) {
      struct span spans[] = {{NULL, 0},
                             {bytes->data, first},
                             {NULL, 0},
                             {NULL, 0},
                             {bytes->data + first, second - first},
                             {bytes->data + second, bytes->size - second},
                             {NULL, 0}};
      read_spans(kind, spans, 7, &again);
      assert_memory_equal(&again, outcome, sizeof again);
    }
  }
}

static void read_and_free(enum execute_message_kind kind, struct test_bytes bytes, struct outcome *outcome) {
  read_split(kind, &bytes, outcome);
  bytes_free(&bytes);
}

static void expect_failure(enum execute_message_kind kind, struct test_bytes bytes, enum reason reason,
                           const char *named) {
  struct outcome outcome;
  read_and_free(kind, bytes, &outcome);
  assert_false(outcome.ok);
  print_message("%s\n", outcome.message);
  assert_int_equal(outcome.reason, reason);
  assert_non_null(strstr(outcome.message, named));
}

static struct test_bytes from_hex(const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  return bytes;
}

static struct test_bytes chunk_bytes(int64_t tensor_index, int64_t offset, int64_t codec, int64_t raw_bytes,
                                     const char *data) {
  struct test_bytes bytes = {0};
  bytes_number(&bytes, 1, tensor_index);
  bytes_number(&bytes, 2, offset);
  bytes_number(&bytes, 3, codec);
  bytes_number(&bytes, 4, raw_bytes);
  bytes_text(&bytes, 999, data);
  return bytes;
}

// begin, two chunks and a hint between them.
static struct test_bytes sample_request(void) {
  struct test_bytes bytes = {0};
  bytes_text(&bytes, 1, "begin");
  bytes_message(&bytes, 2, chunk_bytes(3, 70000, 1, 1 << 20, "payload"));
  bytes_text(&bytes, 1000, "hint");
  bytes_message(&bytes, 2, chunk_bytes(0, 0, 0, 0, "x"));
  return bytes;
}

static void a_request_is_read_at_every_split(void **state) {
  (void)state;
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, sample_request(), &outcome);
  assert_true(outcome.ok);
  assert_true(outcome.has_head);
  assert_false(outcome.has_done);
  assert_int_equal(outcome.head_bytes, 5);
  assert_memory_equal(outcome.head, "begin", 5);
  assert_int_equal(outcome.chunk_count, 2);
  assert_int_equal(outcome.chunks[0].tensor_index, 3);
  assert_int_equal(outcome.chunks[0].offset, 70000);
  assert_int_equal(outcome.chunks[0].codec, CODEC_LZ4_BLOCK);
  assert_int_equal(outcome.chunks[0].raw_bytes, 1 << 20);
  assert_int_equal(outcome.chunks[0].data_bytes, 7);
  assert_memory_equal(outcome.data[0], "payload", 7);
  assert_int_equal(outcome.chunks[1].tensor_index, 0);
  assert_memory_equal(outcome.data[1], "x", 1);
}

static void a_response_is_read_at_every_split(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  bytes_text(&bytes, 3, "done");
  bytes_message(&bytes, 2, chunk_bytes(1, 2, 0, 0, "ab"));
  bytes_text(&bytes, 1, "accepted");
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_RESPONSE, bytes, &outcome);
  assert_true(outcome.ok && outcome.has_head && outcome.has_done);
  assert_memory_equal(outcome.head, "accepted", 8);
  assert_memory_equal(outcome.done, "done", 4);
  assert_int_equal(outcome.chunk_count, 1);
}

static void an_empty_message_has_nothing(void **state) {
  (void)state;
  struct outcome outcome;
  read_spans(EXECUTE_MESSAGE_REQUEST, NULL, 0, &outcome);
  assert_true(outcome.ok);
  assert_false(outcome.has_head || outcome.has_done);
  assert_int_equal(outcome.chunk_count, 0);
}

static void a_begin_may_be_empty(void **state) {
  (void)state;
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, from_hex("0a 00"), &outcome);
  assert_true(outcome.ok && outcome.has_head);
  assert_int_equal(outcome.head_bytes, 0);
}

static void a_message_cut_within_a_field_is_refused(void **state) {
  (void)state;
  struct test_bytes bytes = sample_request();
  // Where top-level fields end: what is cut there is a shorter message.
  bool boundary[256] = {[0] = true};
  struct span span = {bytes.data, bytes.size};
  struct span_cursor cursor;
  span_cursor_init(&cursor, &span, 1);
  while (span_cursor_left(&cursor) > 0) {
    uint32_t field;
    enum wire_type type;
    assert_true(span_read_tag(&cursor, &field, &type) && span_skip_value(&cursor, field, type));
    boundary[cursor.consumed] = true;
  }
  for (size_t size = 0; size < bytes.size; size++) {
    struct test_bytes prefix = bytes_prefix(&bytes, size);
    struct outcome outcome;
    read_split(EXECUTE_MESSAGE_REQUEST, &prefix, &outcome);
    assert_int_equal(outcome.ok, boundary[size]);
    assert_true(outcome.ok || outcome.reason == REASON_MESSAGE_INVALID);
    bytes_free(&prefix);
  }
  bytes_free(&bytes);
}

static void fields_of_a_chunk_come_in_any_order(void **state) {
  (void)state;
  struct test_bytes chunk = {0};
  bytes_text(&chunk, 999, "abc");
  bytes_number(&chunk, 4, 9);
  bytes_number(&chunk, 3, 1);
  bytes_number(&chunk, 2, 5);
  bytes_number(&chunk, 1, 2);
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 2, chunk);
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, bytes, &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunks[0].tensor_index, 2);
  assert_int_equal(outcome.chunks[0].offset, 5);
  assert_int_equal(outcome.chunks[0].codec, CODEC_LZ4_BLOCK);
  assert_int_equal(outcome.chunks[0].raw_bytes, 9);
  assert_memory_equal(outcome.data[0], "abc", 3);
}

static void of_a_double_field_the_last_counts(void **state) {
  (void)state;
  struct test_bytes chunk = {0};
  bytes_text(&chunk, 999, "first data");
  bytes_number(&chunk, 1, 2);
  bytes_number(&chunk, 1, 0);
  bytes_number(&chunk, 2, 8);
  bytes_number(&chunk, 2, 4);
  bytes_text(&chunk, 999, "last");
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 2, chunk);
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, bytes, &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunks[0].tensor_index, 0);
  assert_int_equal(outcome.chunks[0].offset, 4);
  assert_int_equal(outcome.chunks[0].data_bytes, 4);
  assert_memory_equal(outcome.data[0], "last", 4);
}

static void a_chunk_without_data_is_empty(void **state) {
  (void)state;
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, from_hex("12 00 12 02 08 05 12 03 ba 3e 00"), &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunk_count, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(outcome.chunks[i].data_bytes, 0);
  }
  assert_int_equal(outcome.chunks[1].tensor_index, 5);
}

static void numbers_beyond_the_struct_are_not_cut(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 2, chunk_bytes(UINT32_MAX, -1, 0, INT64_MIN, "a"));
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, bytes, &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunks[0].tensor_index, UINT32_MAX);
  assert_int_equal(outcome.chunks[0].offset, -1);
  assert_int_equal(outcome.chunks[0].raw_bytes, INT64_MIN);

  bytes = (struct test_bytes){0};
  bytes_message(&bytes, 2, chunk_bytes((int64_t)UINT32_MAX + 1, 0, 0, 0, "a"));
  expect_failure(EXECUTE_MESSAGE_REQUEST, bytes, REASON_MESSAGE_INVALID, "4294967296");
  bytes = (struct test_bytes){0};
  bytes_message(&bytes, 2, chunk_bytes(-1, 0, 0, 0, "a"));
  expect_failure(EXECUTE_MESSAGE_RESPONSE, bytes, REASON_MESSAGE_INVALID, "tensor_index");
}

static void two_begins_are_a_sequence_error(void **state) {
  (void)state;
  expect_failure(EXECUTE_MESSAGE_REQUEST, from_hex("0a 01 61 0a 01 62"), REASON_SEQUENCE_INVALID, "begin");
  expect_failure(EXECUTE_MESSAGE_REQUEST, from_hex("0a 00 12 00 0a 00"), REASON_SEQUENCE_INVALID, "begin");
  expect_failure(EXECUTE_MESSAGE_RESPONSE, from_hex("0a 00 0a 00"), REASON_SEQUENCE_INVALID, "accepted");
  expect_failure(EXECUTE_MESSAGE_RESPONSE, from_hex("1a 00 1a 00"), REASON_SEQUENCE_INVALID, "done");
}

static void unknown_fields_of_a_request_are_refused_by_number(void **state) {
  (void)state;
  enum execute_message_kind kind = EXECUTE_MESSAGE_REQUEST;
  expect_failure(kind, from_hex("1a 00"), REASON_FEATURE_UNSUPPORTED, "field 3 of ExecuteRequest");
  expect_failure(kind, from_hex("12 02 28 01"), REASON_FEATURE_UNSUPPORTED, "field 5 of TensorChunk");
  struct test_bytes bytes = {0};
  bytes_number(&bytes, 998, 1);
  expect_failure(kind, bytes, REASON_FEATURE_UNSUPPORTED, "field 998 of ExecuteRequest");
  struct test_bytes chunk = {0};
  bytes_number(&chunk, 998, 1);
  bytes = (struct test_bytes){0};
  bytes_message(&bytes, 2, chunk);
  expect_failure(kind, bytes, REASON_FEATURE_UNSUPPORTED, "field 998 of TensorChunk");
}

static void hints_are_skipped_everywhere(void **state) {
  (void)state;
  struct test_bytes chunk = {0};
  bytes_number(&chunk, 1000, 1);
  bytes_text(&chunk, 536870911, "hint");
  bytes_text(&chunk, 999, "abc");
  struct test_bytes bytes = {0};
  bytes_text(&bytes, 1000, "hint");
  bytes_message(&bytes, 2, chunk);
  bytes_tag(&bytes, 1001, WIRE_TYPE_FIXED64);
  bytes_raw(&bytes, "12345678", 8);
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_REQUEST, bytes, &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunk_count, 1);
  assert_memory_equal(outcome.data[0], "abc", 3);
}

static void a_group_is_no_hint(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  bytes_tag(&bytes, 1000, WIRE_TYPE_START_GROUP);
  bytes_tag(&bytes, 1000, WIRE_TYPE_END_GROUP);
  expect_failure(EXECUTE_MESSAGE_REQUEST, bytes, REASON_MESSAGE_INVALID, "group");
}

static void unknown_fields_of_a_response_are_skipped(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  bytes_number(&bytes, 4, 1);
  bytes_tag(&bytes, 5, WIRE_TYPE_START_GROUP);
  bytes_number(&bytes, 1, 1);
  bytes_tag(&bytes, 5, WIRE_TYPE_END_GROUP);
  struct test_bytes chunk = {0};
  bytes_number(&chunk, 5, 1);
  bytes_text(&chunk, 999, "abc");
  bytes_message(&bytes, 2, chunk);
  struct outcome outcome;
  read_and_free(EXECUTE_MESSAGE_RESPONSE, bytes, &outcome);
  assert_true(outcome.ok);
  assert_int_equal(outcome.chunk_count, 1);
}

static void an_unknown_codec_is_refused_by_number(void **state) {
  (void)state;
  static const int64_t codecs[] = {2, 15, 17, 77, -1, (int64_t)1 << 32, ((int64_t)1 << 32) + 1};
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    for (int kind = EXECUTE_MESSAGE_REQUEST; kind <= EXECUTE_MESSAGE_RESPONSE; kind++) {
      struct test_bytes bytes = {0};
      bytes_message(&bytes, 2, chunk_bytes(0, 0, codecs[i], 1, "a"));
      char number[32];
      (void)snprintf(number, sizeof number, "codec %lld ", (long long)codecs[i]);
      expect_failure((enum execute_message_kind)kind, bytes, REASON_FEATURE_UNSUPPORTED, number);
    }
  }
}

static void wrong_wire_types_are_refused(void **state) {
  (void)state;
  static const char *const messages[] = {
      "08 01",                            // begin as a number
      "10 01",                            // chunks as a number
      "15 00 00 00 00",                   // chunks as four bytes
      "12 03 0a 01 61",                   // tensor_index as bytes
      "12 03 12 01 61",                   // offset as bytes
      "12 05 1d 00 00 00 00",             // codec as four bytes
      "12 09 21 00 00 00 00 00 00 00 00", // raw_bytes as eight bytes
      "12 03 b8 3e 01",                   // data as a number
      "0b 0c",                            // begin as a group
  };
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    expect_failure(EXECUTE_MESSAGE_REQUEST, from_hex(messages[i]), REASON_MESSAGE_INVALID, "wire type");
  }
}

static void lengths_beyond_what_is_there_are_refused(void **state) {
  (void)state;
  static const char *const messages[] = {
      "0a 02 61",                               // begin
      "12 05 08 01",                            // a chunk
      "12 04 ba 3e 02 61 62",                   // data longer than their chunk
      "0a ff ff ff ff ff ff ff ff ff 01",       // a length that would wrap
      "12 0d ba 3e ff ff ff ff ff ff ff ff 7f", // data, likewise
  };
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    expect_failure(EXECUTE_MESSAGE_REQUEST, from_hex(messages[i]), REASON_MESSAGE_INVALID, "");
  }
}

static void half_a_million_tiny_chunks_are_read_in_one_go(void **state) {
  (void)state;
  enum { CHUNKS = 500000, CHUNK_SIZE = 8 };
  uint8_t *data = malloc(CHUNKS * CHUNK_SIZE);
  struct span *spans = calloc(2 * CHUNKS, sizeof *spans);
  assert_non_null(data);
  assert_non_null(spans);
  // Anything that isn't linear in the number of chunks and spans takes minutes here.
  for (size_t i = 0; i < CHUNKS; i++) {
    static const uint8_t chunk[CHUNK_SIZE] = {0x12, 6, 0x08, 1, 0xba, 0x3e, 1, 'x'};
    memcpy(data + i * CHUNK_SIZE, chunk, CHUNK_SIZE);
    spans[2 * i] = (struct span){data + i * CHUNK_SIZE, CHUNK_SIZE};
  }
  struct execute_message message;
  struct status status;
  assert_true(execute_message_read(EXECUTE_MESSAGE_REQUEST, spans, 2 * CHUNKS, &message, &status));
  assert_int_equal(message.chunk_count, CHUNKS);
  struct tensor_chunk chunk;
  size_t count = 0;
  while (execute_message_next_chunk(&message, &chunk)) {
    count += chunk.data_bytes;
  }
  assert_int_equal(count, CHUNKS);
  free(spans);
  free(data);
}

// The writers put out what protobuf-c packs for the same message.
static void expect_same_as_protobuf_c(const struct tensor_chunk *chunk, const char *data) {
  uint8_t written[512];
  size_t size = execute_part_write_header(1, 3, written);
  memcpy(written + size, "\x0a\x01h", 3);
  size += 3;
  size_t header_bytes = execute_chunk_write_header(chunk, written + size);
  assert_in_range(header_bytes, 1, EXECUTE_ENVELOPE_BYTES_MAX);
  size += header_bytes;
  memcpy(written + size, data, chunk->data_bytes);
  size += chunk->data_bytes;

  Aclnn__V1__TensorChunk message = ACLNN__V1__TENSOR_CHUNK__INIT;
  message.tensor_index = chunk->tensor_index;
  message.offset = chunk->offset;
  message.codec = (Aclnn__V1__Codec)chunk->codec;
  message.raw_bytes = chunk->raw_bytes;
  message.data = (ProtobufCBinaryData){.len = chunk->data_bytes, .data = (uint8_t *)data};
  Aclnn__V1__TensorChunk *chunks[] = {&message};
  Aclnn__V1__ExecuteBegin begin = ACLNN__V1__EXECUTE_BEGIN__INIT;
  begin.plan_case = ACLNN__V1__EXECUTE_BEGIN__PLAN_EXECUTOR;
  begin.executor = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"h"};
  Aclnn__V1__ExecuteRequest request = ACLNN__V1__EXECUTE_REQUEST__INIT;
  request.begin = &begin;
  request.n_chunks = 1;
  request.chunks = chunks;
  uint8_t packed[512];
  assert_int_equal(aclnn__v1__execute_request__get_packed_size(&request), size);
  assert_int_equal(aclnn__v1__execute_request__pack(&request, packed), size);
  assert_memory_equal(written, packed, size);
}

static void written_chunks_are_what_protobuf_c_packs(void **state) {
  (void)state;
  char data[300];
  memset(data, 'd', sizeof data);
  const struct tensor_chunk samples[] = {
      {.data_bytes = 1},
      {.tensor_index = 1, .offset = 127, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 128, .data_bytes = 127},
      {.tensor_index = UINT32_MAX, .offset = INT64_MAX, .raw_bytes = INT64_MAX, .data_bytes = 300},
      {.tensor_index = 300,
       .offset = -1,
       .codec = CODEC_LZ4_BLOCK,
       .raw_bytes = INT64_MIN,
       .data_bytes = 128},
  };
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    expect_same_as_protobuf_c(&samples[i], data);
  }
}

static void a_chunk_header_has_these_bytes(void **state) {
  (void)state;
  struct tensor_chunk chunk = {
      .tensor_index = 2, .offset = 300, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 1024, .data_bytes = 5};
  uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX];
  size_t size = execute_chunk_write_header(&chunk, out);
  static const uint8_t expected[] = {
      0x12, 18,         // ExecuteRequest.chunks, 13 bytes of fields and 5 of data
      0x08, 2,          // tensor_index
      0x10, 0xac, 0x02, // offset
      0x18, 1,          // codec
      0x20, 0x80, 0x08, // raw_bytes
      0xba, 0x3e, 5,    // data
  };
  assert_int_equal(size, sizeof expected);
  assert_memory_equal(out, expected, size);
  assert_int_equal(execute_part_write_header(3, 300, out), 3);
  assert_memory_equal(out, "\x1a\xac\x02", 3);
}

static void the_longest_header_fits(void **state) {
  (void)state;
  struct tensor_chunk chunk = {.tensor_index = UINT32_MAX,
                               .offset = -1,
                               .codec = CODEC_LZ4_BLOCK,
                               .raw_bytes = -1,
                               .data_bytes = SIZE_MAX / 4};
  uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX];
  assert_in_range(execute_chunk_write_header(&chunk, out), 1, EXECUTE_ENVELOPE_BYTES_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_is_read_at_every_split),
      cmocka_unit_test(a_response_is_read_at_every_split),
      cmocka_unit_test(an_empty_message_has_nothing),
      cmocka_unit_test(a_begin_may_be_empty),
      cmocka_unit_test(a_message_cut_within_a_field_is_refused),
      cmocka_unit_test(fields_of_a_chunk_come_in_any_order),
      cmocka_unit_test(of_a_double_field_the_last_counts),
      cmocka_unit_test(a_chunk_without_data_is_empty),
      cmocka_unit_test(numbers_beyond_the_struct_are_not_cut),
      cmocka_unit_test(two_begins_are_a_sequence_error),
      cmocka_unit_test(unknown_fields_of_a_request_are_refused_by_number),
      cmocka_unit_test(hints_are_skipped_everywhere),
      cmocka_unit_test(a_group_is_no_hint),
      cmocka_unit_test(unknown_fields_of_a_response_are_skipped),
      cmocka_unit_test(an_unknown_codec_is_refused_by_number),
      cmocka_unit_test(wrong_wire_types_are_refused),
      cmocka_unit_test(lengths_beyond_what_is_there_are_refused),
      cmocka_unit_test(half_a_million_tiny_chunks_are_read_in_one_go),
      cmocka_unit_test(written_chunks_are_what_protobuf_c_packs),
      cmocka_unit_test(a_chunk_header_has_these_bytes),
      cmocka_unit_test(the_longest_header_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
