#include "proto/wire/error_details.h"

#include "aclnn/v1/error_details.pb-c.h"
#include "proto/wire/message_io.h"
#include "proto/wire/utf8.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_URL_ERROR_INFO "type.googleapis.com/google.rpc.ErrorInfo"
#define TYPE_URL_RETRY_INFO "type.googleapis.com/google.rpc.RetryInfo"
#define KEY_ACLNN_STATUS "aclnn_status"
#define KEY_PARAMETER "parameter"

// aclnn_status and parameter, besides the status's own.
#define ENTRIES_MAX (STATUS_METADATA_MAX + 2)
#define NUMBER_TEXT_BYTES 16
#define NAME_BYTES_MAX 63

// Tags and lengths take at most this much per entry and per part.
#define FRAMING_BYTES 16
// Everything that struct status can hold fits: nothing needs to be shortened or left out.
_Static_assert(STATUS_MESSAGE_BYTES_MAX + FRAMING_BYTES + (int)sizeof TYPE_URL_ERROR_INFO + FRAMING_BYTES +
                       NAME_BYTES_MAX + (int)sizeof ERROR_DOMAIN + FRAMING_BYTES +
                       (int)sizeof KEY_ACLNN_STATUS + NUMBER_TEXT_BYTES + FRAMING_BYTES +
                       (int)sizeof KEY_PARAMETER + STATUS_PARAMETER_BYTES_MAX + FRAMING_BYTES +
                       STATUS_METADATA_MAX *
                           (STATUS_METADATA_KEY_BYTES_MAX + STATUS_METADATA_VALUE_BYTES_MAX + FRAMING_BYTES) +
                       (int)sizeof TYPE_URL_RETRY_INFO + 2 * FRAMING_BYTES + 24 <=
                   ERROR_DETAILS_BYTES_MAX,
               "the largest status must fit into its details");

enum rpc_code reason_to_rpc_code(enum reason reason) {
  switch (reason) {
  case REASON_ACLNN_ERR_PARAM_NULLPTR:
  case REASON_ACLNN_ERR_PARAM_INVALID:
  case REASON_MESSAGE_INVALID:
  case REASON_TENSOR_DATA_INVALID:
  case REASON_SEQUENCE_INVALID:
  case REASON_CODEC_INVALID:
  case REASON_EXECUTOR_INVALID:
    return RPC_CODE_INVALID_ARGUMENT;
  case REASON_OPERATOR_UNKNOWN:
  case REASON_EXECUTOR_EXPIRED:
    return RPC_CODE_NOT_FOUND;
  case REASON_FEATURE_UNSUPPORTED:
    return RPC_CODE_UNIMPLEMENTED;
  case REASON_EXECUTOR_CONSUMED:
  case REASON_TARGET_UNAVAILABLE:
    return RPC_CODE_FAILED_PRECONDITION;
  case REASON_QUEUE_FULL:
  case REASON_QUEUE_TIMEOUT:
  case REASON_EXECUTOR_LIMIT:
  case REASON_IDENTITY_LIMIT:
  case REASON_JOB_TOO_LARGE:
  case REASON_DEVICE_MEMORY:
    return RPC_CODE_RESOURCE_EXHAUSTED;
  case REASON_DEVICE_LOST:
  case REASON_DRAINING:
  case REASON_TRANSPORT:
    return RPC_CODE_UNAVAILABLE;
  case REASON_IDLE_TIMEOUT:
    return RPC_CODE_ABORTED;
  case REASON_UNAUTHENTICATED:
    return RPC_CODE_UNAUTHENTICATED;
  case REASON_CANCELLED:
    return RPC_CODE_CANCELLED;
  case REASON_DEADLINE_EXCEEDED:
    return RPC_CODE_DEADLINE_EXCEEDED;
  case REASON_ACLNN_ERR_RUNTIME_ERROR:
  case REASON_ACLNN_ERR_INNER:
  case REASON_ACLNN_ERR_INNER_INFERSHAPE_ERROR:
  case REASON_ACLNN_ERR_INNER_TILING_ERROR:
  case REASON_ACLNN_ERR_INNER_FIND_KERNEL_ERROR:
  case REASON_ACLNN_ERR_INNER_CREATE_EXECUTOR:
  case REASON_ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR:
  case REASON_ACLNN_ERR_INNER_NULLPTR:
  case REASON_ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND:
  case REASON_ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND:
  case REASON_INTERNAL:
  case REASON_CONFIGURATION:
  case REASON_FILE_INVALID:
    return RPC_CODE_INTERNAL;
  case REASON_NONE:
  case REASON_COUNT:
    break;
  }
  return RPC_CODE_UNKNOWN;
}

const char *rpc_code_name(int code) {
  static const char *const names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  int count = (int)(sizeof names / sizeof *names);
  return code >= 0 && code < count ? names[code] : "UNKNOWN";
}

// ---- Writing

// ErrorInfo's metadata, composed on the writer's stack.
struct entries {
  size_t count;
  struct status_metadata own[STATUS_METADATA_MAX]; // repaired copies
  char aclnn_status[NUMBER_TEXT_BYTES];
  char parameter[STATUS_PARAMETER_BYTES_MAX + 1];
  Aclnn__V1__ErrorMetadata messages[ENTRIES_MAX];
  Aclnn__V1__ErrorMetadata *pointers[ENTRIES_MAX];
};

static void add_entry(struct entries *entries, char *key, char *value) {
  assert(entries->count < ENTRIES_MAX);
  Aclnn__V1__ErrorMetadata *message = &entries->messages[entries->count];
  aclnn__v1__error_metadata__init(message);
  message->key = key;
  message->value = value;
  entries->pointers[entries->count++] = message;
}

static void compose_entries(const struct status *failed, struct entries *entries) {
  entries->count = 0;
  if (failed->aclnn_status != 0) {
    (void)snprintf(entries->aclnn_status, sizeof entries->aclnn_status, "%" PRId32, failed->aclnn_status);
    add_entry(entries, KEY_ACLNN_STATUS, entries->aclnn_status);
  }
  if (failed->parameter[0] != '\0') {
    memcpy(entries->parameter, failed->parameter, sizeof entries->parameter);
    utf8_repair(entries->parameter);
    add_entry(entries, KEY_PARAMETER, entries->parameter);
  }
  assert(failed->metadata_count <= STATUS_METADATA_MAX);
  for (size_t i = 0; i < failed->metadata_count; i++) {
    entries->own[i] = failed->metadata[i];
    utf8_repair(entries->own[i].key);
    utf8_repair(entries->own[i].value);
    add_entry(entries, entries->own[i].key, entries->own[i].value);
  }
}

// Packs a detail's value into the bytes of an Any.
static void pack_detail(const ProtobufCMessage *value, char *type_url, uint8_t bytes[ERROR_DETAILS_BYTES_MAX],
                        Aclnn__V1__ErrorDetail *detail) {
  assert(protobuf_c_message_get_packed_size(value) <= ERROR_DETAILS_BYTES_MAX);
  aclnn__v1__error_detail__init(detail);
  detail->type_url = type_url;
  detail->value.data = bytes;
  detail->value.len = protobuf_c_message_pack(value, bytes);
}

static void pack_error_info(const struct status *failed, uint8_t bytes[ERROR_DETAILS_BYTES_MAX],
                            Aclnn__V1__ErrorDetail *detail) {
  struct entries entries;
  compose_entries(failed, &entries);
  Aclnn__V1__ErrorInfo info = ACLNN__V1__ERROR_INFO__INIT;
  info.reason = (char *)reason_name(failed->reason);
  info.domain = ERROR_DOMAIN;
  info.n_metadata = entries.count;
  info.metadata = entries.pointers;
  pack_detail(&info.base, TYPE_URL_ERROR_INFO, bytes, detail);
}

static void pack_retry_info(int64_t retry_after_ms, uint8_t bytes[ERROR_DETAILS_BYTES_MAX],
                            Aclnn__V1__ErrorDetail *detail) {
  Aclnn__V1__RetryDelay delay = ACLNN__V1__RETRY_DELAY__INIT;
  delay.seconds = retry_after_ms / 1000;
  delay.nanos = (int32_t)(retry_after_ms % 1000 * 1000000);
  Aclnn__V1__RetryInfo info = ACLNN__V1__RETRY_INFO__INIT;
  info.retry_delay = &delay;
  pack_detail(&info.base, TYPE_URL_RETRY_INFO, bytes, detail);
}

bool error_details_write(const struct status *failed, struct wire_buffer *out) {
  if (failed->reason == REASON_CANCELLED || failed->reason == REASON_DEADLINE_EXCEEDED) {
    *out = (struct wire_buffer){0};
    return true;
  }
  uint8_t info_bytes[ERROR_DETAILS_BYTES_MAX];
  uint8_t retry_bytes[ERROR_DETAILS_BYTES_MAX];
  Aclnn__V1__ErrorDetail details[2];
  Aclnn__V1__ErrorDetail *pointers[2] = {&details[0], &details[1]};
  pack_error_info(failed, info_bytes, &details[0]);
  size_t count = 1;
  if (failed->retry_after_ms > 0) {
    pack_retry_info(failed->retry_after_ms, retry_bytes, &details[1]);
    count = 2;
  }
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  memcpy(message, failed->message, sizeof message);
  utf8_repair(message);
  Aclnn__V1__ErrorStatus status = ACLNN__V1__ERROR_STATUS__INIT;
  status.code = (int32_t)reason_to_rpc_code(failed->reason);
  status.message = message;
  status.n_details = count;
  status.details = pointers;
  struct status ignored;
  return message_pack(&status.base, out, &ignored);
}

// ---- Reading

static enum reason reason_from_name(const char *name) {
  for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++) {
    if (strcmp(reason_name((enum reason)reason), name) == 0) {
      return (enum reason)reason;
    }
  }
  return REASON_NONE;
}

static int32_t parse_aclnn_status(const char *text) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  bool good = errno == 0 && end != text && *end == '\0' && value >= INT32_MIN && value <= INT32_MAX;
  return good ? (int32_t)value : 0;
}

static void read_entry(const Aclnn__V1__ErrorMetadata *entry, struct status *failed) {
  if (strcmp(entry->key, KEY_ACLNN_STATUS) == 0) {
    failed->aclnn_status = parse_aclnn_status(entry->value);
  } else if (strcmp(entry->key, KEY_PARAMETER) == 0) {
    utf8_copy_shortened(failed->parameter, sizeof failed->parameter, entry->value);
  } else if (failed->metadata_count < STATUS_METADATA_MAX) {
    struct status_metadata *metadata = &failed->metadata[failed->metadata_count++];
    utf8_copy_shortened(metadata->key, sizeof metadata->key, entry->key);
    utf8_copy_shortened(metadata->value, sizeof metadata->value, entry->value);
  }
}

static void read_error_info(const Aclnn__V1__ErrorInfo *info, struct status *failed, char reason_text[64]) {
  if (strcmp(info->domain, ERROR_DOMAIN) != 0) {
    return;
  }
  failed->reason = reason_from_name(info->reason);
  if (reason_text != NULL) {
    utf8_copy_shortened(reason_text, 64, info->reason);
  }
  for (size_t i = 0; i < info->n_metadata; i++) {
    read_entry(info->metadata[i], failed);
  }
}

static void read_retry_info(const Aclnn__V1__RetryInfo *info, struct status *failed) {
  const Aclnn__V1__RetryDelay *delay = info->retry_delay;
  int64_t seconds_max = INT64_MAX / 1000 - 1;
  if (delay == NULL || delay->seconds < 0 || delay->nanos < 0 || delay->nanos > 999999999) {
    return;
  }
  failed->retry_after_ms =
      delay->seconds > seconds_max ? INT64_MAX : delay->seconds * 1000 + delay->nanos / 1000000;
}

static const struct message_rules lenient_rules = {.strict = false};

static void read_detail(const Aclnn__V1__ErrorDetail *detail, struct status *failed, char reason_text[64]) {
  struct message_memory memory;
  struct status ignored;
  const uint8_t *data = detail->value.data;
  size_t size = detail->value.len;
  if (strcmp(detail->type_url, TYPE_URL_ERROR_INFO) == 0) {
    const ProtobufCMessage *info =
        message_unpack(&aclnn__v1__error_info__descriptor, &lenient_rules, data, size, &memory, &ignored);
    if (info != NULL) {
      read_error_info((const Aclnn__V1__ErrorInfo *)info, failed, reason_text);
    }
    message_memory_free(&memory);
  } else if (strcmp(detail->type_url, TYPE_URL_RETRY_INFO) == 0) {
    const ProtobufCMessage *info =
        message_unpack(&aclnn__v1__retry_info__descriptor, &lenient_rules, data, size, &memory, &ignored);
    if (info != NULL) {
      read_retry_info((const Aclnn__V1__RetryInfo *)info, failed);
    }
    message_memory_free(&memory);
  }
}

void error_details_read(int code, const char *message, const uint8_t *details, size_t size,
                        struct status *failed, char reason_text[64]) {
  *failed = (struct status){0};
  if (reason_text != NULL) {
    reason_text[0] = '\0';
  }
  if (code == RPC_CODE_CANCELLED) {
    failed->reason = REASON_CANCELLED;
  } else if (code == RPC_CODE_DEADLINE_EXCEEDED) {
    failed->reason = REASON_DEADLINE_EXCEEDED;
  }
  bool has_message = message != NULL && message[0] != '\0';
  utf8_copy_shortened(failed->message, sizeof failed->message, has_message ? message : rpc_code_name(code));
  utf8_repair(failed->message);
  if (size == 0) {
    return;
  }
  struct message_memory memory;
  struct status ignored;
  const Aclnn__V1__ErrorStatus *status = (const Aclnn__V1__ErrorStatus *)message_unpack(
      &aclnn__v1__error_status__descriptor, &lenient_rules, details, size, &memory, &ignored);
  if (status != NULL) {
    if (!has_message && status->message[0] != '\0') {
      utf8_copy_shortened(failed->message, sizeof failed->message, status->message);
    }
    for (size_t i = 0; i < status->n_details; i++) {
      read_detail(status->details[i], failed, reason_text);
    }
  }
  message_memory_free(&memory);
}
