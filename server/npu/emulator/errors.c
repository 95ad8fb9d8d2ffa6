#include "server/npu/emulator/errors.h"

#include "kernels/emulated_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Older texts are cut off at the end.
#define PENDING_BYTES 2048

static _Thread_local char pending[PENDING_BYTES];
static _Thread_local char taken[PENDING_BYTES];

int32_t emulated_refuse(int32_t status, const char *format, ...) {
  char text[PENDING_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = snprintf(text, sizeof text, "E%d: ", status);
  length += vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
  va_end(arguments);
  if (length > 0 && (size_t)length < sizeof text - 1 && pending[0] != '\0') {
    snprintf(text + length, sizeof text - (size_t)length, "\n%.*s", (int)(sizeof text - (size_t)length - 2),
             pending);
  }
  memcpy(pending, text, sizeof pending);
  return status;
}

const char *errors_take(void) {
  if (pending[0] == '\0') {
    return NULL;
  }
  memcpy(taken, pending, sizeof taken);
  pending[0] = '\0';
  return taken;
}

void errors_clear(void) {
  pending[0] = '\0';
}
