#include "client/c/job_test_support.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void test_plan_fill(struct workspace_size_response *plan, int64_t small_bytes, int64_t output_bytes) {
  memset(plan, 0, sizeof *plan);
  const char *names[] = {"gradOutput", "self", "indices", "gradInput"};
  for (size_t i = 0; i < 4; i++) {
    struct tensor_plan *tensor = &plan->tensors[i];
    strcpy(tensor->name, names[i]);
    tensor->direction = i == 3 ? DIRECTION_OUTPUT : DIRECTION_INPUT;
    tensor->transferred = i != 1;
    tensor->storage_bytes = i == 0 || i == 2 ? small_bytes : output_bytes;
    tensor->desc = (struct tensor_desc){
        .data_type = DATA_TYPE_UINT8, .format = FORMAT_ND, .rank = 1, .shape = {tensor->storage_bytes}};
  }
  plan->tensor_count = 4;
  plan->workspace_size = 128;
  plan->target = TARGET_CPU;
  plan->numerics = NUMERICS_EXACT;
  plan->executor = (struct wire_buffer){(uint8_t *)"handle", 6};
}

void test_tensors_fill(aclnn_tensor tensors[4], void *grad_output, void *indices, size_t small_bytes,
                       void *grad_input, size_t output_bytes) {
  memset(tensors, 0, 4 * sizeof *tensors);
  tensors[0] = (aclnn_tensor){.name = "gradOutput", .data = grad_output, .data_bytes = small_bytes};
  tensors[1] = (aclnn_tensor){.name = "self"};
  tensors[2] = (aclnn_tensor){.name = "indices", .data = indices, .data_bytes = small_bytes};
  tensors[3] =
      (aclnn_tensor){.name = "gradInput", .output = true, .data = grad_input, .data_bytes = output_bytes};
}

void test_message_add(struct wire_buffer *message, const void *data, size_t size) {
  message->data = realloc(message->data, message->size + size + 1);
  assert_non_null(message->data);
  if (size > 0) {
    memcpy(message->data + message->size, data, size);
  }
  message->size += size;
}

static void add_part(struct wire_buffer *message, uint32_t field, struct wire_buffer *part) {
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  test_message_add(message, header, execute_part_write_header(field, part->size, header));
  test_message_add(message, part->data, part->size);
  wire_buffer_free(part);
}

void test_message_add_accepted(struct wire_buffer *message, const struct workspace_size_response *plan) {
  struct wire_buffer part = {0};
  struct status status;
  assert_true(wire_write_execute_accepted(plan, &part, &status));
  add_part(message, 1, &part);
}

void test_message_add_chunk(struct wire_buffer *message, const struct tensor_chunk *chunk, const void *data) {
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  test_message_add(message, header, execute_chunk_write_header(chunk, header));
  test_message_add(message, data, chunk->data_bytes);
}

void test_message_add_done(struct wire_buffer *message) {
  const struct execute_done done = {
      .target = TARGET_CPU, .numerics = NUMERICS_EXACT, .attempts = 1, .queue_ns = 5, .compute_ns = 7};
  struct wire_buffer part = {0};
  struct status status;
  assert_true(wire_write_execute_done(&done, &part, &status));
  add_part(message, 3, &part);
}

struct wire_buffer test_next_message(struct job *job) {
  return test_next_message_encoded(job, NULL);
}

struct wire_buffer test_next_message_encoded(struct job *job, struct codec_choice *choice) {
  struct wire_buffer bytes = {0};
  struct job_message message;
  if (job_next_message(job, choice, &message)) {
    for (size_t i = 0; i < message.part_count; i++) {
      test_message_add(&bytes, message.parts[i].data, message.parts[i].size);
    }
  }
  return bytes;
}

bool test_receive(struct job *job, struct wire_buffer *message, struct status *status) {
  const struct span span = {message->data, message->size};
  bool ok = job_receive(job, &span, 1, status);
  wire_buffer_free(message);
  return ok;
}
