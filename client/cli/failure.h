// Why something went wrong, as a line for the user. A value, any thread.
#ifndef ACLNN_CLIENT_CLI_FAILURE_H
#define ACLNN_CLIENT_CLI_FAILURE_H

#include <stdbool.h>

#define MUST_CHECK __attribute__((warn_unused_result))

struct failure {
  char text[1024];
};

// Writes the text; returns false, so that callers can `return failure_set(...)`.
bool failure_set(struct failure *failure, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

#endif
