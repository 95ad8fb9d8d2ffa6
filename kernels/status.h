// Outcome of an operation that can fail, as a value.
//
// A function that can fail returns bool, true for success, and takes a `struct status *` last. It writes the
// status only when it fails and leaves its other outputs untouched then. The caller owns the status; it holds
// no memory of its own, may be copied, and may move between threads. This header also holds the one list of
// reasons: what they are called on the wire and which of CANN's numbers they carry. How a reason maps to a
// gRPC code is proto/wire's.
#ifndef ACLNN_KERNELS_STATUS_H
#define ACLNN_KERNELS_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))

// The reasons of the wire contract, X(name, CANN's number or 0). CANN's own names come first; the numbers are
// those of op_errno.h in the public opbase repository.
#define STATUS_REASONS(X)                                                                                    \
  X(ACLNN_ERR_PARAM_NULLPTR, 161001)                                                                         \
  X(ACLNN_ERR_PARAM_INVALID, 161002)                                                                         \
  X(ACLNN_ERR_RUNTIME_ERROR, 361001)                                                                         \
  X(ACLNN_ERR_INNER, 561000)                                                                                 \
  X(ACLNN_ERR_INNER_INFERSHAPE_ERROR, 561001)                                                                \
  X(ACLNN_ERR_INNER_TILING_ERROR, 561002)                                                                    \
  X(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, 561003)                                                               \
  X(ACLNN_ERR_INNER_CREATE_EXECUTOR, 561101)                                                                 \
  X(ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, 561102)                                                              \
  X(ACLNN_ERR_INNER_NULLPTR, 561103)                                                                         \
  X(ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, 561107)                                                              \
  X(ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, 561112)                                                        \
  X(OPERATOR_UNKNOWN, 0)                                                                                     \
  X(MESSAGE_INVALID, 0)                                                                                      \
  X(TENSOR_DATA_INVALID, 0)                                                                                  \
  X(SEQUENCE_INVALID, 0)                                                                                     \
  X(CODEC_INVALID, 0)                                                                                        \
  X(FEATURE_UNSUPPORTED, 0)                                                                                  \
  X(EXECUTOR_INVALID, 0)                                                                                     \
  X(EXECUTOR_CONSUMED, 0)                                                                                    \
  X(EXECUTOR_EXPIRED, 0)                                                                                     \
  X(QUEUE_FULL, 0)                                                                                           \
  X(QUEUE_TIMEOUT, 0)                                                                                        \
  X(EXECUTOR_LIMIT, 0)                                                                                       \
  X(IDENTITY_LIMIT, 0)                                                                                       \
  X(JOB_TOO_LARGE, 0)                                                                                        \
  X(TARGET_UNAVAILABLE, 0)                                                                                   \
  X(DEVICE_MEMORY, 0)                                                                                        \
  X(DEVICE_LOST, 361001)                                                                                     \
  X(IDLE_TIMEOUT, 0)                                                                                         \
  X(UNAUTHENTICATED, 0)                                                                                      \
  X(DRAINING, 0)                                                                                             \
  X(INTERNAL, 561000)                                                                                        \
  /* The next two end a call without an ErrorInfo; CONFIGURATION and the two after it never cross the wire.  \
   */                                                                                                        \
  X(CANCELLED, 0)                                                                                            \
  X(DEADLINE_EXCEEDED, 0)                                                                                    \
  X(CONFIGURATION, 0)                                                                                        \
  X(TRANSPORT, 0)                                                                                            \
  X(FILE_INVALID, 0)

enum reason {
  REASON_NONE = 0,
#define STATUS_REASON_ENUM(name, number) REASON_##name,
  STATUS_REASONS(STATUS_REASON_ENUM)
#undef STATUS_REASON_ENUM
      REASON_COUNT
};

// Longer messages and values are shortened: trailers over 8 KiB are lost on the way.
#define STATUS_MESSAGE_BYTES_MAX 512
#define STATUS_PARAMETER_BYTES_MAX 63
#define STATUS_METADATA_MAX 6
#define STATUS_METADATA_KEY_BYTES_MAX 31
#define STATUS_METADATA_VALUE_BYTES_MAX 95

struct status_metadata {
  char key[STATUS_METADATA_KEY_BYTES_MAX + 1];
  char value[STATUS_METADATA_VALUE_BYTES_MAX + 1];
};

struct status {
  enum reason reason;
  int32_t aclnn_status;   // CANN's number, 0 where there is none
  int64_t retry_after_ms; // advice when to try again, 0 for none
  char parameter[STATUS_PARAMETER_BYTES_MAX + 1];
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  struct status_metadata metadata[STATUS_METADATA_MAX];
  size_t metadata_count;
};

// Fills *status with the reason, its CANN number, the parameter to blame (NULL for none) and a formatted
// message that is shortened at a UTF-8 boundary. Returns false, so that callers can `return
// status_fail(...)`.
bool status_fail(struct status *status, enum reason reason, const char *parameter, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

// Adds one entry of metadata to a failed status; beyond STATUS_METADATA_MAX it is left out.
void status_add_metadata(struct status *status, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The reason's name on the wire, such as "QUEUE_FULL".
const char *reason_name(enum reason reason);

// CANN's number of the reason, or 0.
int32_t reason_aclnn_status(enum reason reason);

#endif
