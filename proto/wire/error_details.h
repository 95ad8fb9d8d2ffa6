// A failed status <-> gRPC's code, message and grpc-status-details-bin.
//
// The one table from reasons to gRPC codes. Any thread; written bytes are malloc'ed and the caller's.
#ifndef ACLNN_PROTO_WIRE_ERROR_DETAILS_H
#define ACLNN_PROTO_WIRE_ERROR_DETAILS_H

#include "kernels/status.h"
#include "proto/wire/wire_buffer.h"

#include <stdint.h>

#define ERROR_DETAILS_BYTES_MAX 2048 // more would risk the 8 KiB after which trailers are lost
#define ERROR_DETAILS_KEY "grpc-status-details-bin"
#define ERROR_DOMAIN "aclnn"

// gRPC's numbers, here so that nothing but rpc needs grpc headers.
enum rpc_code {
  RPC_CODE_OK = 0,
  RPC_CODE_CANCELLED = 1,
  RPC_CODE_UNKNOWN = 2,
  RPC_CODE_INVALID_ARGUMENT = 3,
  RPC_CODE_DEADLINE_EXCEEDED = 4,
  RPC_CODE_NOT_FOUND = 5,
  RPC_CODE_RESOURCE_EXHAUSTED = 8,
  RPC_CODE_FAILED_PRECONDITION = 9,
  RPC_CODE_ABORTED = 10,
  RPC_CODE_UNIMPLEMENTED = 12,
  RPC_CODE_INTERNAL = 13,
  RPC_CODE_UNAVAILABLE = 14,
  RPC_CODE_UNAUTHENTICATED = 16,
};

enum rpc_code reason_to_rpc_code(enum reason reason);
// "INVALID_ARGUMENT" and the like; "UNKNOWN" for numbers that gRPC doesn't have.
const char *rpc_code_name(int code);

// google.rpc.Status with ErrorInfo (metadata: aclnn_status and parameter where there are any, then the
// status's own) and, where retry_after_ms > 0, RetryInfo. At most ERROR_DETAILS_BYTES_MAX: metadata that
// doesn't fit is shortened or left out, reason, aclnn_status and parameter never. Empty for CANCELLED and
// DEADLINE_EXCEEDED.
MUST_CHECK bool error_details_write(const struct status *failed, struct wire_buffer *out);

// The reverse, for clients: fills *failed from code, message and details (size 0: none). reason stays
// REASON_NONE when there is no ErrorInfo of our domain or its reason is unknown; then *reason_text (if not
// NULL) still has the text. Tolerates garbage: then only code and message are used.
void error_details_read(int code, const char *message, const uint8_t *details, size_t size,
                        struct status *failed, char reason_text[64]);

#endif
