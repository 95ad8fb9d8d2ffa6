// The worker's command line: read once, then constant.
#ifndef ACLNN_SERVER_NPU_WORKER_OPTIONS_H
#define ACLNN_SERVER_NPU_WORKER_OPTIONS_H

#include "server/npu/worker/transfer.h"

#include <stdio.h>

struct options {
  bool help;
  bool version;
  bool self_test;
  int64_t device;
  const char *library; // NULL: CANN's own
  bool deterministic;
  bool affinity;
  int64_t parent; // process id of the server; 0: not given
  int64_t sync_timeout_ms;
  enum transfer_way copies;
};

// Fills *options from arguments[1..]. Fails with CONFIGURATION and a line that can be shown as it is.
MUST_CHECK bool options_parse(int argument_count, char **arguments, struct options *options,
                              struct status *status);

void options_print_help(FILE *stream);

#endif
