#include "client/c/reply_breach.h"

bool reply_breach(struct status *status) {
  if (status->reason == REASON_INTERNAL) {
    return false;
  }
  struct status found = *status;
  return status_fail(status, REASON_INTERNAL, NULL, REPLY_BREACH "%s", found.message);
}
