// Executors of plans, kept for the next run of the same plan: phase 1 is the slow part of small jobs.
//
// A prepared plan is what phase 1 said about it, and where CANN allows it (aclSetAclOpExecutorRepeatable) an
// executor that is given other addresses for each run. Where CANN answers that it can't, each run has a phase
// 1 of its own. The cache belongs to the device's thread: CANN keeps state per thread, too.
#ifndef ACLNN_SERVER_NPU_WORKER_EXECUTORS_H
#define ACLNN_SERVER_NPU_WORKER_EXECUTORS_H

#include "server/npu/acl/acl_library.h"

#define EXECUTORS_MAX 64

// What tells one plan from another, as bytes: for each parameter its kind and, at most, a tensor's fields.
#define EXECUTORS_KEY_BYTES_MAX (8 + OPERATOR_PARAMETERS_MAX * (8 + 8 * (4 + 2 * TENSOR_RANK_MAX)))

struct prepared_plan {
  uint8_t key[EXECUTORS_KEY_BYTES_MAX];
  size_t key_bytes; // 0: this place is free
  uint64_t last_used;
  uint64_t workspace_bytes;
  // NULL: not repeatable. The arguments live as long as it does.
  struct aclOpExecutor *executor;
  union npu_argument arguments[OPERATOR_PARAMETERS_MAX];
  struct plan plan; // owns nothing
};

struct executors {
  const struct acl_library *library;
  void *placeholder; // an address on the device for tensors whose data nobody looks at yet
  uint64_t uses;
  struct prepared_plan prepared[EXECUTORS_MAX];
};

// An executor that is ready to be run once, by executors_run.
struct executor_run {
  struct prepared_plan *prepared;
  struct aclOpExecutor *executor;
  bool one_shot;
  union npu_argument arguments[OPERATOR_PARAMETERS_MAX]; // the one-shot's
  uint64_t workspace_bytes;
};

void executors_init(struct executors *executors, const struct acl_library *library, void *placeholder);
void executors_close(struct executors *executors);

// Phase 1 alone: the workspace that a run will need. Fails as CANN does.
MUST_CHECK bool executors_plan(struct executors *executors, const struct plan *plan,
                               uint64_t *workspace_bytes, struct status *status);

// Phase 1 for a run on these addresses (by parameter position, NULL for what isn't transferred). What
// succeeds must be followed by executors_run or executors_abandon, before anything else is asked.
MUST_CHECK bool executors_begin(struct executors *executors, const struct plan *plan,
                                void *const addresses[OPERATOR_PARAMETERS_MAX], struct executor_run *run,
                                struct status *status);

// Phase 2: queues the work on the stream. The tensors' and the workspace's memory must stay until the stream
// was synchronised; then, or after a failure, executors_end.
MUST_CHECK bool executors_run(struct executors *executors, struct executor_run *run, void *workspace,
                              aclrtStream stream, struct status *status);
void executors_end(struct executors *executors, struct executor_run *run);

// In place of executors_run and executors_end, where there is no workspace to be had.
void executors_abandon(struct executors *executors, struct executor_run *run);

#endif
