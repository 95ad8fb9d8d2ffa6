#include "client/c/job.h"
#include "client/c/job_test_support.h"
#include "client/c/request.h"
#include "proto/wire/codec.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define MEBIBYTE ((size_t)1 << 20)

static const struct job_options MEBIBYTE_CHUNKS = {.chunk_bytes = 1 << 20};

struct sent_chunk {
  uint32_t tensor_index;
  int64_t offset;
  size_t size;
};

// Reads a message as the server would: its chunks' places, the data compared with `sources`.
static size_t read_chunks(const struct wire_buffer *bytes, const uint8_t *const sources[], bool *has_begin,
                          struct sent_chunk *chunks) {
  const struct span span = {bytes->data, bytes->size};
  struct execute_message message;
  struct status status;
  assert_true(execute_message_read(EXECUTE_MESSAGE_REQUEST, &span, 1, &message, &status));
  *has_begin = message.has_head;
  struct tensor_chunk chunk;
  size_t count = 0;
  while (execute_message_next_chunk(&message, &chunk)) {
    uint8_t *data = malloc(chunk.data_bytes);
    assert_non_null(data);
    assert_true(span_read_bytes(&chunk.data, data, chunk.data_bytes));
    assert_memory_equal(data, sources[chunk.tensor_index] + chunk.offset, chunk.data_bytes);
    free(data);
    chunks[count++] = (struct sent_chunk){chunk.tensor_index, chunk.offset, chunk.data_bytes};
  }
  return count;
}

static uint8_t *pattern(size_t size, uint8_t seed) {
  uint8_t *data = malloc(size);
  assert_non_null(data);
  for (size_t i = 0; i < size; i++) {
    data[i] = (uint8_t)(i * 31 + seed + (i >> 12));
  }
  return data;
}

static void small_job_is_one_message(void **state) {
  (void)state;
  uint8_t grad_output[40], indices[40], grad_input[100];
  memset(grad_output, 1, sizeof grad_output);
  memset(indices, 2, sizeof indices);
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, 40, 100);
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 100);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, 4);
  assert_true(job_use_plan(&job, &plan, &status));

  struct wire_buffer message = test_next_message(&job);
  const uint8_t *sources[] = {grad_output, NULL, indices};
  struct sent_chunk chunks[4];
  bool has_begin;
  assert_int_equal(read_chunks(&message, sources, &has_begin, chunks), 2);
  assert_true(has_begin);
  assert_int_equal(chunks[0].tensor_index, 0);
  assert_int_equal(chunks[1].tensor_index, 2); // self is not transferred
  assert_int_equal(chunks[1].size, 40);
  assert_true(job_is_sent(&job));
  wire_buffer_free(&message);

  message = test_next_message(&job);
  assert_int_equal(message.size, 0);
  job_finish(&job, false, NULL);
}

// Sends all of a job and checks that each tensor's chunks are in order and complete.
static void send_all(size_t tensor_bytes, int64_t chunk_bytes, int64_t server_limit,
                     size_t largest_expected) {
  uint8_t *grad_output = pattern(tensor_bytes, 1);
  uint8_t *indices = pattern(tensor_bytes, 2);
  uint8_t grad_input[8];
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, (int64_t)tensor_bytes, 8);
  plan.max_chunk_bytes = server_limit;
  test_tensors_fill(tensors, grad_output, indices, tensor_bytes, grad_input, 8);
  struct job job;
  struct status status;
  const struct job_options options = {.chunk_bytes = chunk_bytes};
  job_init(&job, &options, tensors, 4);
  assert_true(job_use_plan(&job, &plan, &status));

  const uint8_t *sources[] = {grad_output, NULL, indices};
  int64_t sent[3] = {0};
  size_t largest = 0;
  bool first = true;
  for (struct wire_buffer bytes = test_next_message(&job); bytes.size > 0; bytes = test_next_message(&job)) {
    assert_true(bytes.size < WIRE_MESSAGE_BYTES_MAX);
    struct sent_chunk chunks[4];
    bool has_begin;
    size_t count = read_chunks(&bytes, sources, &has_begin, chunks);
    assert_int_equal(has_begin, first);
    first = false;
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(chunks[i].offset, sent[chunks[i].tensor_index]);
      sent[chunks[i].tensor_index] += (int64_t)chunks[i].size;
      largest = chunks[i].size > largest ? chunks[i].size : largest;
    }
    wire_buffer_free(&bytes);
  }
  assert_true(job_is_sent(&job));
  assert_int_equal(sent[0], tensor_bytes);
  assert_int_equal(sent[2], tensor_bytes);
  assert_int_equal(largest, largest_expected);
  assert_int_equal(job.wire_bytes_sent, 2 * tensor_bytes);
  job_finish(&job, false, NULL);
  free(grad_output);
  free(indices);
}

static void tensors_travel_in_ordered_chunks(void **state) {
  (void)state;
  send_all(3 * MEBIBYTE + 17, 1 << 20, 0, MEBIBYTE);
  send_all(2 * MEBIBYTE, 1 << 20, 0, MEBIBYTE);
  send_all(1, 1 << 20, 0, 1);
}

static void chunks_keep_to_the_smaller_limit(void **state) {
  (void)state;
  send_all(3 * MEBIBYTE, 1 << 20, 4096, 4096);
  send_all(3 * MEBIBYTE, 8192, 1 << 20, 8192);
  send_all(9 * MEBIBYTE, WIRE_CHUNK_BYTES_MAX, WIRE_CHUNK_BYTES_MAX, (size_t)WIRE_CHUNK_BYTES_MAX);
}

static void empty_inputs_send_begin_alone(void **state) {
  (void)state;
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, 0, 0);
  test_tensors_fill(tensors, NULL, NULL, 0, NULL, 0);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, 4);
  assert_true(job_use_plan(&job, &plan, &status));
  struct wire_buffer message = test_next_message(&job);
  struct sent_chunk chunks[4];
  bool has_begin;
  assert_int_equal(read_chunks(&message, NULL, &has_begin, chunks), 0);
  assert_true(has_begin);
  assert_true(job_is_sent(&job));
  wire_buffer_free(&message);
  job_finish(&job, false, NULL);
}

static void fill_request(struct operator_request *request, const aclnn_tensor *tensors) {
  struct status status;
  const aclnn_call_arguments arguments = {.operator_name = "aclnnAdaptiveMaxPool2dBackward",
                                          .tensors = (aclnn_tensor *)tensors,
                                          .tensor_count = 4};
  assert_true(request_build(&arguments, ACLNN_TARGET_AUTO, ACLNN_NUMERICS_DEVICE, request, &status));
}

static void request_without_foresight_waits_for_the_plan(void **state) {
  (void)state;
  uint8_t grad_output[40] = {1}, indices[40] = {2}, grad_input[100];
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, 40, 100);
  plan.executor = (struct wire_buffer){0};
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 100);
  struct operator_request request;
  fill_request(&request, tensors);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, 4);
  assert_true(job_use_request(&job, &request, NULL, 0, &status));

  const uint8_t *sources[] = {grad_output, NULL, indices};
  struct sent_chunk chunks[4];
  bool has_begin;
  struct wire_buffer message = test_next_message(&job);
  assert_int_equal(read_chunks(&message, sources, &has_begin, chunks), 0);
  assert_true(has_begin);
  wire_buffer_free(&message);
  message = test_next_message(&job);
  assert_int_equal(message.size, 0);
  assert_false(job_is_sent(&job));

  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, &plan);
  assert_true(test_receive(&job, &reply, &status));
  message = test_next_message(&job);
  assert_int_equal(read_chunks(&message, sources, &has_begin, chunks), 2);
  assert_false(has_begin);
  assert_true(job_is_sent(&job));
  wire_buffer_free(&message);
  job_finish(&job, false, NULL);
}

static void foreseen_inputs_go_with_the_request(void **state) {
  (void)state;
  uint8_t grad_output[40] = {1}, indices[40] = {2}, grad_input[100];
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, 40, 100);
  plan.executor = (struct wire_buffer){0};
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 100);
  struct operator_request request;
  fill_request(&request, tensors);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, 4);
  assert_true(job_use_request(&job, &request, plan.tensors, 4, &status));

  const uint8_t *sources[] = {grad_output, NULL, indices};
  struct sent_chunk chunks[4];
  bool has_begin;
  struct wire_buffer message = test_next_message(&job);
  assert_int_equal(read_chunks(&message, sources, &has_begin, chunks), 2);
  assert_true(has_begin);
  assert_true(job_is_sent(&job));
  wire_buffer_free(&message);

  // A plan that speaks of other sizes than were sent is no plan for this job.
  plan.tensors[2].storage_bytes = plan.tensors[2].desc.shape[0] = 80;
  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, &plan);
  assert_false(test_receive(&job, &reply, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  job_finish(&job, false, NULL);
}

static void check_refused(aclnn_tensor *tensors, size_t count, enum reason reason, const char *parameter,
                          const char *message) {
  struct workspace_size_response plan;
  test_plan_fill(&plan, 40, 100);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, count);
  assert_false(job_use_plan(&job, &plan, &status));
  assert_int_equal(status.reason, reason);
  assert_string_equal(status.parameter, parameter);
  assert_string_equal(status.message, message);
  job_finish(&job, false, NULL);
}

static void unfit_tensors_are_refused_before_sending(void **state) {
  (void)state;
  uint8_t grad_output[40], indices[40], grad_input[100];
  aclnn_tensor tensors[4];
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 99);
  check_refused(tensors, 4, REASON_ACLNN_ERR_PARAM_INVALID, "gradInput",
                "gradInput: data_bytes is 99, but its storage has 100 bytes");
  test_tensors_fill(tensors, grad_output, indices, 39, grad_input, 100);
  check_refused(tensors, 4, REASON_ACLNN_ERR_PARAM_INVALID, "gradOutput",
                "gradOutput: data_bytes is 39, but its storage has 40 bytes");
  test_tensors_fill(tensors, grad_output, NULL, 40, grad_input, 100);
  check_refused(tensors, 4, REASON_ACLNN_ERR_PARAM_NULLPTR, "indices", "indices: data is NULL");
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 100);
  check_refused(tensors, 3, REASON_ACLNN_ERR_PARAM_NULLPTR, "gradInput",
                "gradInput is part of the plan, but no tensor of that name is given");
  tensors[1].name = "selv";
  check_refused(tensors, 4, REASON_ACLNN_ERR_PARAM_INVALID, "selv",
                "selv is given, but no tensor of that name is part of the plan");
  tensors[1].name = "self";
  tensors[0].output = true;
  check_refused(tensors, 4, REASON_ACLNN_ERR_PARAM_INVALID, "gradOutput",
                "gradOutput is given as an output, but it is an input of the operator");
}

static void input_without_transfer_may_be_left_out(void **state) {
  (void)state;
  uint8_t grad_output[40], indices[40], grad_input[100];
  aclnn_tensor tensors[4];
  test_tensors_fill(tensors, grad_output, indices, 40, grad_input, 100);
  tensors[1] = tensors[3];
  struct workspace_size_response plan;
  test_plan_fill(&plan, 40, 100);
  struct job job;
  struct status status;
  job_init(&job, &MEBIBYTE_CHUNKS, tensors, 3);
  assert_true(job_use_plan(&job, &plan, &status));
  job_finish(&job, false, NULL);
}

// A clock that stands still: encoding takes no time.
static int64_t stand_still(void *context) {
  (void)context;
  return 0;
}

// Decodes a message's chunks into their tensors, in order. Returns the bytes of tensors that travelled.
static size_t decode_chunks(const struct wire_buffer *bytes, uint8_t *const tensors[], int64_t received[],
                            bool *has_encoded) {
  static uint8_t scratch[WIRE_MESSAGE_BYTES_MAX];
  const struct span span = {bytes->data, bytes->size};
  struct execute_message message;
  struct status status;
  struct tensor_chunk chunk;
  size_t wire_bytes = 0;
  assert_true(execute_message_read(EXECUTE_MESSAGE_REQUEST, &span, 1, &message, &status));
  while (execute_message_next_chunk(&message, &chunk)) {
    size_t decoded;
    assert_int_equal(chunk.offset, received[chunk.tensor_index]);
    assert_true(codec_decode(&chunk, tensors[chunk.tensor_index] + chunk.offset, MEBIBYTE, scratch,
                             sizeof scratch, &decoded, &status));
    received[chunk.tensor_index] += (int64_t)decoded;
    wire_bytes += chunk.data_bytes;
    *has_encoded = *has_encoded || chunk.codec != CODEC_NONE;
  }
  return wire_bytes;
}

// Sends gradOutput (as given) and indices (noise) and checks what arrives; the bytes that travelled.
static size_t send_encoded(uint8_t *grad_output, size_t tensor_bytes, codec_set codecs,
                           codec_set server_codecs, size_t *messages, bool *has_encoded) {
  uint8_t *indices = pattern(tensor_bytes, 2), grad_input[8];
  uint8_t *arrived[3] = {malloc(tensor_bytes + MEBIBYTE), NULL, malloc(tensor_bytes + MEBIBYTE)};
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, (int64_t)tensor_bytes, 8);
  plan.accept_codecs = server_codecs;
  test_tensors_fill(tensors, grad_output, indices, tensor_bytes, grad_input, 8);
  struct job job;
  struct status status;
  const struct job_options options = {.chunk_bytes = 1 << 20, .codecs = codecs};
  job_init(&job, &options, tensors, 4);
  assert_true(job_use_plan(&job, &plan, &status));
  struct codec_choice choice;
  codec_choice_init(&choice, 0, stand_still, NULL);
  int64_t received[3] = {0};
  size_t wire_bytes = 0;
  *messages = 0;
  *has_encoded = false;
  struct wire_buffer bytes;
  while ((bytes = test_next_message_encoded(&job, &choice)).size > 0) {
    assert_true(bytes.size < WIRE_MESSAGE_BYTES_MAX);
    wire_bytes += decode_chunks(&bytes, arrived, received, has_encoded);
    ++*messages;
    wire_buffer_free(&bytes);
  }
  assert_memory_equal(arrived[0], grad_output, tensor_bytes);
  assert_memory_equal(arrived[2], indices, tensor_bytes);
  job_finish(&job, false, NULL);
  free(arrived[0]);
  free(arrived[2]);
  free(indices);
  return wire_bytes;
}

static void mostly_zeros_travel_encoded_and_share_messages(void **state) {
  (void)state;
  const size_t size = 9 * MEBIBYTE + 12345;
  const codec_set all = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK | 1u << CODEC_NONZERO_WORDS;
  uint8_t *grad_output = calloc(1, size);
  for (size_t at = 0; at < size; at += 1000) {
    grad_output[at] = (uint8_t)(at + 1);
  }
  size_t messages, few;
  bool has_encoded;
  size_t plain = send_encoded(grad_output, size, 0, all, &messages, &has_encoded);
  assert_int_equal(plain, 2 * size);
  assert_false(has_encoded);
  plain = send_encoded(grad_output, size, all, 1u << CODEC_NONE, &messages, &has_encoded);
  assert_int_equal(plain, 2 * size);
  assert_false(has_encoded);
  size_t encoded = send_encoded(grad_output, size, all, all, &few, &has_encoded);
  assert_true(has_encoded);
  assert_true(encoded < size + size / 10);
  assert_true(few < messages);
  free(grad_output);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_job_is_one_message),
      cmocka_unit_test(tensors_travel_in_ordered_chunks),
      cmocka_unit_test(chunks_keep_to_the_smaller_limit),
      cmocka_unit_test(empty_inputs_send_begin_alone),
      cmocka_unit_test(request_without_foresight_waits_for_the_plan),
      cmocka_unit_test(foreseen_inputs_go_with_the_request),
      cmocka_unit_test(unfit_tensors_are_refused_before_sending),
      cmocka_unit_test(input_without_transfer_may_be_left_out),
      cmocka_unit_test(mostly_zeros_travel_encoded_and_share_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
