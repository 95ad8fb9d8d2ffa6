// A job from the inside: what job.c (its life), job_memory.c (its blocks), job_attempt.c (its runs) and
// verification.c share. For these alone.
#ifndef ACLNN_SERVER_DISPATCH_JOB_INTERNAL_H
#define ACLNN_SERVER_DISPATCH_JOB_INTERNAL_H

#include "server/dispatch/dispatcher_internal.h"

#include <pthread.h>

// The way of a job. Failure includes being cancelled; every way down to FAILED gives all memory back first.
//
//   CREATED --job_reserve--> AWAITING_MEMORY --granted--> ALLOCATING --> RESERVED
//      |                            |                         |             |
//      | cancelled                  | refused, cancelled      | failed      | job_submit
//      v                            v                         v             v
//   FAILED <------------------------+-------------------------+          RUNNING (one attempt or more)
//      ^                                                                    | the last attempt is settled
//      |                                                                    v
//      +--------------------------- failed, cancelled ------------------ ENDING --> SUCCEEDED
//
// CREATED, RESERVED, SUCCEEDED and FAILED are the owner's; in the others an answer is due to it. A job whose
// memory takes long to come from the system is ALLOCATING on the dispatcher's growth thread.
enum job_state {
  STATE_CREATED,
  STATE_AWAITING_MEMORY,
  STATE_ALLOCATING,
  STATE_RESERVED,
  STATE_RUNNING,
  STATE_ENDING,
  STATE_SUCCEEDED,
  STATE_FAILED,
};

struct job_outputs {
  atomic_size_t holds;
  struct dispatcher *dispatcher;
  struct arena_block block;
  uint64_t bytes; // of the budget
};

struct job {
  struct dispatcher *dispatcher;
  struct plan plan;      // as phase 1 made it; never changes, so that the owner may read it at any time
  struct plan *cpu_plan; // the same for the CPU, if the job may move there or is verified; else NULL
  bool may_move;
  bool verified;
  struct job_callbacks callbacks;
  atomic_bool cancelled; // set under the mutex, read by the backend without

  pthread_mutex_t mutex; // guards state, waited and references
  enum job_state state;
  bool waited;       // job_submit has said JOB_WAITING: the end is told by callback
  size_t references; // the owner's, and job_cancel's while it is at work
  struct status status;

  struct budget_request budget_request;
  struct growth_request growth_request;
  uint64_t private_bytes;       // of the budget, while the job has them: all but the outputs
  struct arena_block inputs;    // and the host workspace
  struct arena_block reference; // where the CPU's outputs of a verified job lie
  struct job_outputs *outputs;  // NULL once the job has given them up

  // While the job is RUNNING these belong to the thread that the latest answer came on: there is never more
  // than one task under way.
  struct backend *backend; // that runs it
  struct backend_run_task run_task;
  struct backend_run_task reference_task; // the CPU's run of a verified job
  int32_t attempts;                       // runs that were begun
  int64_t asked_ns, granted_ns, submitted_ns, ended_ns;
};

int64_t job_now_ns(const struct job *job);
bool job_is_cancelled(const struct job *job);
void job_fail_cancelled(struct status *status);

// Memory.

// Whether a job of this plan may be run by the CPU although the plan is for a device. Who asked for
// DETERMINISTIC gets the same bits each time, so the target stays.
bool plan_may_move(const struct plan *plan);

// As plan_job_bytes, for a job that is verified or not.
uint64_t job_bytes(const struct plan *plan, bool verified);

// Takes the blocks for which the budget was granted and points the run's storages to them. On failure nothing
// is held, of the budget neither.
MUST_CHECK bool job_allocate(struct job *job, struct status *status);
// The same, but ARENA_SLOW if it would take long: then job_allocate goes on from there.
enum arena_outcome job_allocate_quickly(struct job *job, struct status *status);
// Give back what is held; can be called again.
void job_give_back_private(struct job *job);
void job_give_back_outputs(struct job *job);

// Attempts.

// The attempt that was verified has ended: well, or as run_task's failure and status say.
void job_attempt_settle(struct job *job, bool ok);

#endif
