#include "server/rpc/library.h"

#include "server/observe/log.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <unistd.h>

// gRPC's own lines become lines of ours. It gives the function no context: they go to stderr.
static void write_line(gpr_log_func_args *line) {
  static const struct log log = {.descriptor = STDERR_FILENO, .level = LOG_INFO};
  log_event(&log, line->severity == GPR_LOG_SEVERITY_ERROR ? LOG_ERROR : LOG_INFO, line->message,
            LOG_TEXT("source", line->file), LOG_INTEGER("line", line->line));
}

void rpc_library_start(void) {
  gpr_set_log_function(write_line);
  grpc_init();
}

void rpc_library_stop(void) {
  grpc_shutdown_blocking();
}
