// From the configuration to the backend of target NPU: how many devices, which files, which limits.
#ifndef ACLNN_SERVER_MACHINE_NPU_H
#define ACLNN_SERVER_MACHINE_NPU_H

#include "server/config.h"
#include "server/dispatch/backend.h"
#include "server/memory/arena.h"
#include "server/observe/log.h"

#include <uv.h>

struct machine_npu_options {
  const struct config *config;
  uv_loop_t *loop;
  const struct log *log;
  const struct arena *arena;
};

// Main thread, before there are others. *backend is NULL if there are no NPUs. Fails with CONFIGURATION where
// a file is missing, or INTERNAL.
MUST_CHECK bool machine_npu_create(const struct machine_npu_options *options, struct backend **backend,
                                   struct status *status);

#endif
