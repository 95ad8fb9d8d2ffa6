// grpc-status-details-bin: garbage is tolerated, and what was read can be written and read again.
//
// The first byte is gRPC's code.
#include "proto/wire/error_details.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <string.h>

static void expect_well_formed(const struct status *status) {
  assert(status->reason < REASON_COUNT);
  assert(status->retry_after_ms >= 0);
  assert(status->metadata_count <= STATUS_METADATA_MAX);
  assert(memchr(status->message, '\0', sizeof status->message) != NULL);
  assert(memchr(status->parameter, '\0', sizeof status->parameter) != NULL);
  for (size_t i = 0; i < status->metadata_count; i++) {
    const struct status_metadata *metadata = &status->metadata[i];
    assert(memchr(metadata->key, '\0', sizeof metadata->key) != NULL);
    assert(memchr(metadata->value, '\0', sizeof metadata->value) != NULL);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) {
    return 0;
  }
  struct status first;
  struct status second;
  char text[64];
  error_details_read(data[0], NULL, data + 1, size - 1, &first, text);
  expect_well_formed(&first);
  assert(memchr(text, '\0', sizeof text) != NULL);
  struct wire_buffer buffer;
  bool ok = error_details_write(&first, &buffer);
  assert(ok && buffer.size <= ERROR_DETAILS_BYTES_MAX);
  if (buffer.size > 0) {
    error_details_read(RPC_CODE_INTERNAL, NULL, buffer.data, buffer.size, &second, NULL);
    assert(second.reason == first.reason && second.aclnn_status == first.aclnn_status);
    assert(second.retry_after_ms == first.retry_after_ms);
    assert(strcmp(second.parameter, first.parameter) == 0);
    assert(second.metadata_count == first.metadata_count);
    for (size_t i = 0; i < first.metadata_count; i++) {
      assert(strcmp(second.metadata[i].key, first.metadata[i].key) == 0);
      assert(strcmp(second.metadata[i].value, first.metadata[i].value) == 0);
    }
  }
  wire_buffer_free(&buffer);
  return 0;
}
