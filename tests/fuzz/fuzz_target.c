#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <string.h>

void fuzz_expect_refusal(const struct status *status, const enum reason *allowed, size_t count) {
  bool found = false;
  for (size_t i = 0; i < count; i++) {
    found = found || status->reason == allowed[i];
  }
  assert(found);
  assert(status->aclnn_status == reason_aclnn_status(status->reason));
  size_t length = strnlen(status->message, sizeof status->message);
  assert(length > 0 && length < sizeof status->message);
  assert(strnlen(status->parameter, sizeof status->parameter) < sizeof status->parameter);
}

void fuzz_expect_request_refusal(const struct status *status) {
  static const enum reason allowed[] = {REASON_MESSAGE_INVALID, REASON_FEATURE_UNSUPPORTED,
                                        REASON_ACLNN_ERR_PARAM_INVALID, REASON_EXECUTOR_INVALID};
  fuzz_expect_refusal(status, allowed, sizeof allowed / sizeof *allowed);
}

void fuzz_expect_same_bytes(const struct wire_buffer *first, const struct wire_buffer *second) {
  assert(first->size == second->size);
  assert(memcmp(first->data, second->data, first->size) == 0);
}
