#include "server/rpc/received_message.h"

#include "server/rpc/library.h"
#include "server/rpc/limits.h"

#include <grpc/byte_buffer.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEAD_BYTES = 40, DATA_BYTES = 3 * MESSAGE_SPANS_MAX };

// A request whose head is zeros (nobody looks into it here) and whose one chunk counts up.
static size_t write_message(uint8_t *bytes) {
  size_t size = execute_part_write_header(1, HEAD_BYTES, bytes);
  memset(bytes + size, 0x5a, HEAD_BYTES);
  size += HEAD_BYTES;
  struct tensor_chunk chunk = {.tensor_index = 2, .offset = 7, .data_bytes = DATA_BYTES};
  size += execute_chunk_write_header(&chunk, bytes + size);
  for (size_t i = 0; i < DATA_BYTES; ++i) {
    bytes[size++] = (uint8_t)i;
  }
  return size;
}

// As gRPC delivers it: in pieces of so many bytes.
static grpc_byte_buffer *deliver(const uint8_t *bytes, size_t size, size_t piece_bytes) {
  size_t count = 0;
  grpc_slice *slices = calloc(size / piece_bytes + 1, sizeof *slices);
  assert_non_null(slices);
  for (size_t offset = 0; offset < size; offset += piece_bytes) {
    size_t length = size - offset < piece_bytes ? size - offset : piece_bytes;
    slices[count++] = grpc_slice_from_copied_buffer((const char *)bytes + offset, length);
  }
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, count);
  for (size_t i = 0; i < count; ++i) {
    grpc_slice_unref(slices[i]);
  }
  free(slices);
  return buffer;
}

static void check_content(struct received_message *message) {
  uint8_t head[HEAD_BYTES], expected[HEAD_BYTES], data[DATA_BYTES];
  struct tensor_chunk chunk;
  assert_true(message->parts.has_head);
  assert_int_equal(message->parts.head_bytes, HEAD_BYTES);
  received_message_copy_head(message, head);
  memset(expected, 0x5a, sizeof expected);
  assert_memory_equal(head, expected, sizeof head);
  assert_true(execute_message_next_chunk(&message->parts, &chunk));
  assert_int_equal(chunk.tensor_index, 2);
  assert_int_equal(chunk.offset, 7);
  assert_int_equal(chunk.data_bytes, DATA_BYTES);
  assert_true(span_read_bytes(&chunk.data, data, sizeof data));
  for (size_t i = 0; i < DATA_BYTES; ++i) {
    assert_int_equal(data[i], (uint8_t)i);
  }
  assert_false(execute_message_next_chunk(&message->parts, &chunk));
}

// Pieces of one byte are more than MESSAGE_SPANS_MAX: these are joined first.
static void message_is_read_in_whatever_pieces_it_comes(void **unused) {
  (void)unused;
  static const size_t pieces[] = {1, 2, 3, 7, 64, 1000, 100000, 1};
  static uint8_t bytes[DATA_BYTES + 200];
  size_t size = write_message(bytes);
  struct received_message message = {0};
  struct status status;
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; ++i) {
    message.buffer = deliver(bytes, size, pieces[i]);
    assert_true(received_message_open(&message, &status));
    check_content(&message);
    received_message_close(&message);
    assert_null(message.buffer);
  }
  received_message_free(&message);
}

static void what_is_no_message_is_refused_and_given_back(void **unused) {
  (void)unused;
  static const uint8_t garbage[] = {0x0a, 0xff, 0xff, 0x01};
  struct received_message message = {0};
  struct status status;
  message.buffer = deliver(garbage, sizeof garbage, 1);
  assert_false(received_message_open(&message, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  received_message_free(&message);
}

static void empty_message_has_no_parts(void **unused) {
  (void)unused;
  struct received_message message = {0};
  struct status status;
  message.buffer = deliver(NULL, 0, 1);
  assert_true(received_message_open(&message, &status));
  assert_false(message.parts.has_head);
  assert_int_equal(message.parts.chunk_count, 0);
  received_message_free(&message);
  received_message_free(&message); // fine without one
}

static int start_library(void **unused) {
  (void)unused;
  rpc_library_start();
  return 0;
}

static int stop_library(void **unused) {
  (void)unused;
  rpc_library_stop();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(message_is_read_in_whatever_pieces_it_comes),
      cmocka_unit_test(what_is_no_message_is_refused_and_given_back),
      cmocka_unit_test(empty_message_has_no_parts),
  };
  return cmocka_run_group_tests(tests, start_library, stop_library);
}
