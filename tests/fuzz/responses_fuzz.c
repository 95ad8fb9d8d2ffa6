// What a client reads: whatever a server sends, it ends well, and what was read can be written.
//
// The first byte says which message it is.
#include "proto/wire/messages.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <stdlib.h>

static void expect_refusal(const struct status *status) {
  static const enum reason allowed[] = {REASON_MESSAGE_INVALID};
  fuzz_expect_refusal(status, allowed, 1);
}

static void try_workspace_size(const uint8_t *data, size_t size) {
  struct workspace_size_response response;
  struct status status;
  if (!wire_read_workspace_size_response(data, size, &response, &status)) {
    expect_refusal(&status);
    return;
  }
  assert(response.tensor_count <= WIRE_TENSORS_MAX);
  for (size_t i = 0; i < response.tensor_count; i++) {
    const struct tensor_desc *desc = &response.tensors[i].desc;
    assert(desc->rank <= TENSOR_RANK_MAX);
    assert(desc->stride_count == 0 || desc->stride_count == desc->rank);
  }
  struct wire_buffer first;
  struct wire_buffer second;
  struct workspace_size_response again;
  bool ok = wire_write_workspace_size_response(&response, &first, &status) &&
            wire_read_workspace_size_response(first.data, first.size, &again, &status) &&
            wire_write_workspace_size_response(&again, &second, &status);
  assert(ok);
  fuzz_expect_same_bytes(&first, &second);
  workspace_size_response_free(&response);
  workspace_size_response_free(&again);
  wire_buffer_free(&first);
  wire_buffer_free(&second);
}

static void try_accepted_and_done(const uint8_t *data, size_t size) {
  struct workspace_size_response plan;
  struct execute_done done;
  struct status status;
  bool has_plan;
  if (!wire_read_execute_accepted(data, size, &has_plan, &plan, &status)) {
    expect_refusal(&status);
  } else if (has_plan) {
    workspace_size_response_free(&plan);
  }
  if (!wire_read_execute_done(data, size, &done, &status)) {
    expect_refusal(&status);
  }
}

static void try_server_info(const uint8_t *data, size_t size) {
  // Large, and libFuzzer calls from one thread.
  static struct server_info info;
  static struct server_info again;
  struct status status;
  if (!wire_read_server_info(data, size, &info, &status)) {
    expect_refusal(&status);
    return;
  }
  struct wire_buffer first;
  struct wire_buffer second;
  bool ok = wire_write_server_info(&info, &first, &status) &&
            wire_read_server_info(first.data, first.size, &again, &status) &&
            wire_write_server_info(&again, &second, &status);
  assert(ok);
  fuzz_expect_same_bytes(&first, &second);
  wire_buffer_free(&first);
  wire_buffer_free(&second);
}

static void try_operators(const uint8_t *data, size_t size) {
  struct operator_info *operators;
  struct operator_info *again;
  size_t count;
  size_t count_again;
  struct status status;
  if (!wire_read_operator_list(data, size, &operators, &count, &status)) {
    expect_refusal(&status);
    return;
  }
  struct wire_buffer first;
  struct wire_buffer second;
  bool ok = wire_write_operator_list(operators, count, &first, &status) &&
            wire_read_operator_list(first.data, first.size, &again, &count_again, &status) &&
            wire_write_operator_list(again, count_again, &second, &status);
  assert(ok && count == count_again);
  fuzz_expect_same_bytes(&first, &second);
  free(operators);
  free(again);
  wire_buffer_free(&first);
  wire_buffer_free(&second);
}

static void try_health(const uint8_t *data, size_t size) {
  struct wire_buffer service;
  enum health_status health;
  struct status status;
  if (wire_read_health_request(data, size, &service, &status)) {
    assert(service.data[service.size] == '\0');
    wire_buffer_free(&service);
  } else {
    expect_refusal(&status);
  }
  if (!wire_read_health_response(data, size, &health, &status)) {
    expect_refusal(&status);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const tries[])(const uint8_t *, size_t) = {try_workspace_size, try_accepted_and_done,
                                                           try_server_info, try_operators, try_health};
  if (size > 0) {
    tries[data[0] % (sizeof tries / sizeof *tries)](data + 1, size - 1);
  }
  return 0;
}
