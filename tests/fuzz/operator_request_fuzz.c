// GetWorkspaceSizeRequest: what was read can be written, and means the same when read again.
#include "proto/wire/messages.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct operator_request request;
  struct status status;
  if (!wire_read_operator_request(data, size, &request, &status)) {
    fuzz_expect_request_refusal(&status);
    return 0;
  }
  assert(request.argument_count <= REQUEST_ARGUMENTS_MAX);
  struct wire_buffer first;
  if (!wire_write_operator_request(&request, &first, &status)) {
    // Dims or values that were counted and not kept.
    assert(status.reason == REASON_ACLNN_ERR_PARAM_INVALID);
    return 0;
  }
  struct operator_request again;
  struct wire_buffer second;
  bool ok = wire_read_operator_request(first.data, first.size, &again, &status);
  assert(ok);
  ok = wire_write_operator_request(&again, &second, &status);
  assert(ok);
  fuzz_expect_same_bytes(&first, &second);
  wire_buffer_free(&first);
  wire_buffer_free(&second);
  return 0;
}
