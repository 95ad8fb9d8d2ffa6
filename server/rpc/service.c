#include "server/rpc/service.h"

bool service_fail_draining(const struct service_context *context, struct status *status) {
  (void)status_fail(status, REASON_DRAINING, NULL, "the server is about to stop and takes no new jobs");
  status->retry_after_ms = context->drain_retry_ms;
  return false;
}

void service_log_failure(const struct service_context *context, const struct status *failed) {
  if (failed->reason == REASON_INTERNAL) {
    log_event(context->log, LOG_ERROR, failed->message, LOG_TEXT("reason", reason_name(failed->reason)));
  }
}
