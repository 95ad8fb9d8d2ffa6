#include "client/c/error.h"

#include "proto/wire/error_details.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof((aclnn_error){0}.message) == STATUS_MESSAGE_BYTES_MAX + 1, "messages are of one length");
static_assert(sizeof((aclnn_error){0}.parameter) == STATUS_PARAMETER_BYTES_MAX + 1, "parameters likewise");

bool error_fail(aclnn_error *error, enum reason reason, const char *parameter, const char *format, ...) {
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  struct status status;
  (void)status_fail(&status, reason, parameter, "%s", message);
  return error_from_status(error, &status);
}

bool error_from_status(aclnn_error *error, const struct status *status) {
  *error = (aclnn_error){
      .code = (int)reason_to_rpc_code(status->reason),
      .aclnn_status = status->aclnn_status,
      .retry_after_ms = status->retry_after_ms,
  };
  snprintf(error->reason, sizeof error->reason, "%s", reason_name(status->reason));
  snprintf(error->parameter, sizeof error->parameter, "%s", status->parameter);
  snprintf(error->message, sizeof error->message, "%s", status->message);
  return false;
}

bool error_from_call(aclnn_error *error, int code, const char *message, const uint8_t *details, size_t size) {
  struct status status;
  char reason_text[64];
  error_details_read(code, message, details, size, &status, reason_text);
  *error = (aclnn_error){
      .code = code,
      .aclnn_status = status.aclnn_status,
      .retry_after_ms = status.retry_after_ms,
  };
  snprintf(error->reason, sizeof error->reason, "%s", reason_text);
  snprintf(error->parameter, sizeof error->parameter, "%s", status.parameter);
  snprintf(error->message, sizeof error->message, "%s", status.message);
  return false;
}

bool error_invites_retry(const aclnn_error *error) {
  // A connection that ends in the middle of a call shows as either.
  bool lost = error->code == RPC_CODE_UNAVAILABLE || error->code == RPC_CODE_CANCELLED;
  bool transport_failed = lost && error->reason[0] == '\0';
  return error->retry_after_ms > 0 || transport_failed;
}

void error_remember(aclnn_error *told, const aclnn_error *error) {
  if (error->reason[0] != '\0') {
    *told = *error;
  }
}

void error_prefer_told(aclnn_error *error, const aclnn_error *told) {
  if (error->code == RPC_CODE_UNAVAILABLE && error->reason[0] == '\0' && told->reason[0] != '\0') {
    *error = *told;
  }
}

bool error_is_unknown_executor(const aclnn_error *error) {
  return error_has_reason(error, REASON_EXECUTOR_EXPIRED) || error_has_reason(error, REASON_EXECUTOR_INVALID);
}

bool error_has_reason(const aclnn_error *error, enum reason reason) {
  return strcmp(error->reason, reason_name(reason)) == 0;
}
