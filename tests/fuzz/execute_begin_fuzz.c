// ExecuteBegin and DestroyExecutorRequest: as operator_request_fuzz.c.
#include "proto/wire/messages.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>

static void try_begin(const uint8_t *data, size_t size) {
  struct execute_begin begin;
  struct status status;
  if (!wire_read_execute_begin(data, size, &begin, &status)) {
    fuzz_expect_request_refusal(&status);
    return;
  }
  assert(begin.executor.size <= WIRE_HANDLE_BYTES_MAX);
  assert(!begin.has_request || begin.executor.data == NULL);
  assert((begin.accept_codecs & 1u << CODEC_NONE) != 0 && begin.accept_codecs < 1u << CODEC_END);
  struct wire_buffer first;
  if (!wire_write_execute_begin(&begin, &first, &status)) {
    assert(begin.has_request && status.reason == REASON_ACLNN_ERR_PARAM_INVALID);
    return;
  }
  struct execute_begin again;
  struct wire_buffer second;
  bool ok = wire_read_execute_begin(first.data, first.size, &again, &status);
  assert(ok);
  ok = wire_write_execute_begin(&again, &second, &status);
  assert(ok);
  fuzz_expect_same_bytes(&first, &second);
  execute_begin_free(&begin);
  execute_begin_free(&again);
  wire_buffer_free(&first);
  wire_buffer_free(&second);
}

static void try_destroy(const uint8_t *data, size_t size) {
  struct wire_buffer executor;
  struct status status;
  if (wire_read_destroy_request(data, size, &executor, &status)) {
    assert(executor.size <= WIRE_HANDLE_BYTES_MAX);
    wire_buffer_free(&executor);
  } else {
    fuzz_expect_request_refusal(&status);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try_begin(data, size);
  try_destroy(data, size);
  struct status status;
  if (!wire_read_empty_request(data, size, &status)) {
    fuzz_expect_request_refusal(&status);
  }
  return 0;
}
