// One run of an operator's kernel on a stream, with the faults that were asked for.
#ifndef ACLNN_SERVER_NPU_EMULATOR_LAUNCH_H
#define ACLNN_SERVER_NPU_EMULATOR_LAUNCH_H

#include "server/npu/emulator/bound_call.h"

// What every kernel needs besides its own part of the workspace.
#define LAUNCH_SYSTEM_WORKSPACE_BYTES ((uint64_t)16 << 20)

struct launch_request {
  struct bound_call *bound; // held on its own by the launch
  uint64_t addresses[EMULATED_ARGUMENTS_MAX];
  uint64_t workspace, workspace_bytes; // as phase 1 asked for
  uint64_t job;                        // number of the phase-2 call, from 1
};

// Under the emulator's lock. False if there is no memory.
MUST_CHECK bool launch_submit(struct emulator *emulator, const struct launch_request *request,
                              struct stream *stream);

#endif
