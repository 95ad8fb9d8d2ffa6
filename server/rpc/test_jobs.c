#include "server/rpc/test_jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void set_name(struct argument *argument, const char *name, enum parameter_kind kind) {
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = kind;
}

void test_job_request(int64_t planes, struct operator_request *request) {
  *request = (struct operator_request){.argument_count = 4, .target = TARGET_CPU};
  snprintf(request->operator_name, sizeof request->operator_name, "aclnnAdaptiveMaxPool2d");
  set_name(&request->arguments[0], "self", PARAMETER_KIND_TENSOR);
  request->arguments[0].value.tensor =
      (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .rank = 3, .shape = {planes, SIDE, SIDE}};
  set_name(&request->arguments[1], "outputSize", PARAMETER_KIND_INT_ARRAY);
  request->arguments[1].value.int_array = (struct int_array){.count = 2, .values = {POOLED, POOLED}};
  set_name(&request->arguments[2], "outputOut", PARAMETER_KIND_TENSOR);
  set_name(&request->arguments[3], "indicesOut", PARAMETER_KIND_TENSOR);
}

void test_message_append(struct wire_buffer *message, const void *data, size_t size) {
  message->data = realloc(message->data, message->size + size + 1);
  assert_non_null(message->data);
  memcpy(message->data + message->size, data, size);
  message->size += size;
}

void test_message_append_begin(struct wire_buffer *message, const struct execute_begin *begin) {
  struct wire_buffer part = {0};
  struct status status;
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  assert_true(wire_write_execute_begin(begin, &part, &status));
  test_message_append(message, header, execute_part_write_header(1, part.size, header));
  test_message_append(message, part.data, part.size);
  wire_buffer_free(&part);
}

void test_message_append_input(struct wire_buffer *message, int64_t offset, size_t size) {
  float values[SIDE * SIDE];
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  for (int i = 0; i < SIDE * SIDE; ++i) {
    values[i] = (float)i;
  }
  struct tensor_chunk chunk = {.tensor_index = 0, .offset = offset, .data_bytes = size};
  test_message_append(message, header, execute_chunk_write_header(&chunk, header));
  test_message_append(message, (const uint8_t *)values + offset, size);
}

void test_message_begin(struct wire_buffer *message, int64_t planes) {
  struct execute_begin begin = {.has_request = true};
  test_job_request(planes, &begin.request);
  test_message_append_begin(message, &begin);
}

struct wire_buffer test_message_whole_job(void) {
  struct wire_buffer message = {0};
  test_message_begin(&message, 1);
  test_message_append_input(&message, 0, INPUT_BYTES);
  return message;
}

struct wire_buffer test_message_first_half(void) {
  struct wire_buffer message = {0};
  test_message_begin(&message, 1);
  test_message_append_input(&message, 0, INPUT_BYTES / 2);
  return message;
}

struct wire_buffer test_message_second_half(void) {
  struct wire_buffer message = {0};
  test_message_append_input(&message, INPUT_BYTES / 2, INPUT_BYTES / 2);
  return message;
}

static void check_head_and_done(struct execute_message *message, struct workspace_size_response *plan,
                                struct execute_done *done) {
  uint8_t bytes[4096];
  struct status status;
  bool has_plan;
  if (plan != NULL) {
    assert_true(message->head_bytes <= sizeof bytes &&
                span_read_bytes(&message->head, bytes, message->head_bytes));
    assert_true(wire_read_execute_accepted(bytes, message->head_bytes, &has_plan, plan, &status));
    assert_true(has_plan);
  }
  if (done != NULL) {
    assert_true(message->done_bytes <= sizeof bytes &&
                span_read_bytes(&message->done, bytes, message->done_bytes));
    assert_true(wire_read_execute_done(bytes, message->done_bytes, done, &status));
  }
}

void test_reply_check(struct wire_buffer *reply, struct workspace_size_response *plan,
                      struct execute_done *done) {
  struct span span = {.data = reply->data, .size = reply->size};
  struct execute_message message;
  struct tensor_chunk chunk;
  struct status status;
  float pooled[POOLED * POOLED];
  assert_true(execute_message_read(EXECUTE_MESSAGE_RESPONSE, &span, 1, &message, &status));
  assert_true(message.has_head);
  assert_true(message.has_done);
  assert_int_equal(message.chunk_count, 2);
  assert_true(execute_message_next_chunk(&message, &chunk));
  assert_int_equal(chunk.tensor_index, 1);
  assert_int_equal(chunk.data_bytes, OUTPUT_BYTES);
  assert_true(span_read_bytes(&chunk.data, pooled, sizeof pooled));
  for (int i = 0; i < POOLED * POOLED; ++i) {
    assert_true(pooled[i] == (float)((i / POOLED * 2 + 1) * SIDE + i % POOLED * 2 + 1));
  }
  check_head_and_done(&message, plan, done);
  wire_buffer_free(reply);
}
