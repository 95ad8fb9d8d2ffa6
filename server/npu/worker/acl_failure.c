#include "server/npu/worker/acl_failure.h"

#include <stdio.h>
#include <string.h>

bool acl_failure_is_device_fault(int32_t number) {
  // 107019 to 107023: a wait or a task timed out, a stream was aborted; 107021 is an option that isn't set.
  // 500000 to 507999: the runtime, its tasks and the driver.
  return number == ACL_STATUS_RUNTIME_ERROR || number == 107019 || number == 107020 || number == 107022 ||
         number == 107023 || (number >= 500000 && number <= 507999);
}

bool acl_failure_is_memory(int32_t number) {
  return number == ACL_STATUS_RT_MEMORY_ALLOCATION || number == ACL_STATUS_BAD_ALLOC;
}

static enum reason reason_of(int32_t number) {
  if (acl_failure_is_memory(number)) {
    return REASON_DEVICE_MEMORY;
  }
  if (acl_failure_is_device_fault(number)) {
    return REASON_DEVICE_LOST;
  }
  for (enum reason reason = REASON_NONE + 1; reason < REASON_COUNT; reason++) {
    if (reason_aclnn_status(reason) == number && strncmp(reason_name(reason), "ACLNN_", 6) == 0) {
      return reason;
    }
  }
  return number / 1000 == ACL_STATUS_INNER / 1000 ? REASON_ACLNN_ERR_INNER : REASON_INTERNAL;
}

// CANN's texts have several lines; a message of ours has one.
static void copy_in_one_line(char *to, size_t bytes, const char *text) {
  size_t used = 0;
  for (; *text != '\0' && used + 1 < bytes; text++) {
    bool blank = (unsigned char)*text <= ' ';
    if (!blank || (used > 0 && to[used - 1] != ' ')) {
      to[used++] = blank ? ' ' : *text;
    }
  }
  while (used > 0 && to[used - 1] == ' ') {
    used--;
  }
  to[used] = '\0';
}

bool acl_failure(const struct acl_functions *functions, const char *call, int32_t number,
                 struct status *status) {
  const char *said = functions->aclGetRecentErrMsg();
  char text[STATUS_MESSAGE_BYTES_MAX];
  copy_in_one_line(text, sizeof text, said != NULL ? said : "");
  status_fail(status, reason_of(number), NULL, "%s returned %d%s%s", call, (int)number,
              text[0] != '\0' ? ": " : "", text);
  status->aclnn_status = number;
  return false;
}
