// ExecuteRequest and ExecuteResponse: the outcome doesn't depend on how the message is split into spans, and
// what is read is what protobuf-c reads.
//
// The first byte says which message it is, the second how long the spans are.
#include "proto/wire/execute_envelope.h"
#include "proto/wire/test_oracle.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <string.h>

#define SPANS_MAX 4096

static void expect_refusal(const struct status *status) {
  static const enum reason allowed[] = {REASON_MESSAGE_INVALID, REASON_FEATURE_UNSUPPORTED,
                                        REASON_SEQUENCE_INVALID};
  fuzz_expect_refusal(status, allowed, sizeof allowed / sizeof *allowed);
}

static void expect_same_part(struct span_cursor first, struct span_cursor second, size_t size) {
  assert(span_cursor_left(&first) == size && span_cursor_left(&second) == size);
  for (size_t i = 0; i < size; i++) {
    uint8_t a;
    uint8_t b;
    bool ok = span_read_bytes(&first, &a, 1) && span_read_bytes(&second, &b, 1);
    assert(ok && a == b);
  }
}

static void expect_same_chunk(const struct tensor_chunk *chunk, const struct tensor_chunk *expected) {
  assert(chunk->tensor_index == expected->tensor_index && chunk->offset == expected->offset);
  assert(chunk->codec == expected->codec && codec_is_known((uint64_t)chunk->codec));
  assert(chunk->raw_bytes == expected->raw_bytes && chunk->data_bytes == expected->data_bytes);
  expect_same_part(chunk->data, expected->data, chunk->data_bytes);
}

static void expect_same_message(struct execute_message whole, struct execute_message split) {
  assert(whole.has_head == split.has_head && whole.has_done == split.has_done);
  assert(whole.head_bytes == split.head_bytes && whole.done_bytes == split.done_bytes);
  assert(whole.chunk_count == split.chunk_count);
  expect_same_part(whole.head, split.head, whole.head_bytes);
  expect_same_part(whole.done, split.done, whole.done_bytes);
  struct tensor_chunk a;
  struct tensor_chunk b;
  for (size_t i = 0; i < whole.chunk_count; i++) {
    bool ok = execute_message_next_chunk(&whole, &a) && execute_message_next_chunk(&split, &b);
    assert(ok);
    expect_same_chunk(&a, &b);
  }
  bool more = execute_message_next_chunk(&whole, &a) || execute_message_next_chunk(&split, &b);
  assert(!more);
}

// Where protobuf-c takes the message too, it has to see the same chunks.
static void expect_what_protobuf_c_reads(struct execute_message message, const uint8_t *data, size_t size) {
  struct oracle oracle;
  if (!oracle_read(message._kind, data, size, &oracle)) {
    return;
  }
  assert(oracle.chunk_count == message.chunk_count);
  for (size_t i = 0; i < oracle.chunk_count; i++) {
    struct tensor_chunk chunk;
    bool ok = execute_message_next_chunk(&message, &chunk);
    assert(ok);
    expect_same_chunk(&chunk, &oracle.chunks[i]);
  }
  oracle_free(&oracle);
}

// Spans of step bytes, every third one followed by an empty one.
static size_t split(const uint8_t *data, size_t size, size_t step, struct span spans[SPANS_MAX]) {
  size_t count = 0;
  for (size_t at = 0; at < size;) {
    if (count % 3 == 2) {
      spans[count++] = (struct span){NULL, 0};
    }
    bool last = count + 2 >= SPANS_MAX || size - at <= step;
    size_t length = last ? size - at : step;
    spans[count++] = (struct span){data + at, length};
    at += length;
  }
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) {
    return 0;
  }
  enum execute_message_kind kind = (data[0] & 1) == 0 ? EXECUTE_MESSAGE_REQUEST : EXECUTE_MESSAGE_RESPONSE;
  size_t step = (size_t)data[1] % 32 + 1;
  data += 2;
  size -= 2;
  static struct span spans[SPANS_MAX];
  size_t count = split(data, size, step, spans);
  struct span one = {data, size};
  struct execute_message whole;
  struct execute_message pieces;
  struct status whole_status;
  struct status pieces_status;
  bool ok = execute_message_read(kind, &one, 1, &whole, &whole_status);
  bool ok_split = execute_message_read(kind, spans, count, &pieces, &pieces_status);
  assert(ok == ok_split);
  if (!ok) {
    expect_refusal(&whole_status);
    assert(strcmp(whole_status.message, pieces_status.message) == 0);
    return 0;
  }
  expect_same_message(whole, pieces);
  expect_what_protobuf_c_reads(whole, data, size);
  return 0;
}
