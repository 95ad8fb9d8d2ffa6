// Jobs: from a plan to its outputs.
//
// The dispatcher chooses the target in phase 1, gives each job its memory from the budget and the arena,
// hands it to a backend and gives the memory back. It owns budget, arena and backends, which main made for
// it. Functions may be called from any thread; a job is used by one owner at a time (the call that made it).
// Each of the two waits of a job (for memory, for its end) is answered exactly once: at once through the
// return value, or later through the callback, on any thread and never under a lock.
#ifndef ACLNN_SERVER_DISPATCH_DISPATCHER_H
#define ACLNN_SERVER_DISPATCH_DISPATCHER_H

#include "kernels/operator.h"
#include "kernels/status.h"
#include "server/dispatch/backend.h"
#include "server/memory/arena.h"
#include "server/memory/budget.h"
#include "server/observe/log.h"

struct dispatcher;
struct job;

#define DISPATCHER_BACKENDS_MAX 4

struct dispatcher_options {
  struct budget *budget;                             // owned by the dispatcher after success
  struct arena *arena;                               // likewise
  struct backend *backends[DISPATCHER_BACKENDS_MAX]; // likewise
  size_t backend_count;
  int64_t (*clock_ns)(void *context); // steady
  void *clock_context;
  double verify_fraction; // share of the jobs on devices that is run on the CPU too and compared; 0 to 1
  const char *capsule_directory; // borrowed; where differences are kept for replay. NULL: nowhere
  const char *server_version;    // borrowed; for capsules. May be NULL
  const struct log *log;         // borrowed; NULL: nothing is told
};

MUST_CHECK bool dispatcher_create(const struct dispatcher_options *options, struct dispatcher **dispatcher,
                                  struct status *status);
// Devices are stopped whatever they are doing; their jobs end. For a server that can't wait any longer, on
// the main thread.
void dispatcher_abandon_devices(struct dispatcher *dispatcher);
// No job may be left. Waits until the last outputs were released: a transport that cuts a call off may do
// that later, on a thread of its own.
void dispatcher_destroy(struct dispatcher *dispatcher);

struct budget *dispatcher_budget(struct dispatcher *dispatcher);
struct arena *dispatcher_arena(struct dispatcher *dispatcher);
// NULL if there is none for the target.
const struct backend *dispatcher_backend(const struct dispatcher *dispatcher, enum target target);

// What verification has found so far.
struct verification_counts {
  uint64_t agreed;
  uint64_t unjudged; // device and CPU differ by design there
  uint64_t differed; // the device was quarantined for it
};
void dispatcher_get_verification(struct dispatcher *dispatcher, struct verification_counts *counts);

// Phase 1's second half: chooses the target (AUTO: the rule stands here and nowhere else), asks the backend
// for its workspace and refuses what can never run: TARGET_UNAVAILABLE, JOB_TOO_LARGE (metadata job_bytes,
// limit_bytes). *plan is changed in place and stays the caller's. done is called exactly once, perhaps before
// this returns.
struct dispatch_plan_task {
  struct plan *plan;
  struct status status;
  void (*done)(struct dispatch_plan_task *task, bool ok);
  // private
  struct dispatcher *_dispatcher;
  struct backend_plan_task _backend_task;
  bool _undecided; // the target is ours to choose now: another may follow
  enum numerics _numerics;
  uint64_t _workspace_bytes;
};
void dispatcher_plan(struct dispatcher *dispatcher, struct dispatch_plan_task *task);

// Host bytes that a job of this plan reserves: transferred inputs, outputs and what the CPU, if it may come
// to run the job, needs as workspace; each aligned. A job that is verified reserves more, but none is refused
// for it.
uint64_t plan_job_bytes(const struct plan *plan);

enum job_progress { JOB_READY, JOB_WAITING, JOB_FAILED };

struct job_callbacks {
  void (*reserved)(void *context, bool ok); // answers job_reserve's JOB_WAITING
  void (*finished)(void *context, bool ok); // answers job_submit's JOB_WAITING
  void *context;
};

// What became of a job.
struct job_summary {
  enum target target; // that really ran it, and with which numerics: it may have moved
  enum numerics numerics;
  int32_t attempts; // runs that were begun
  int64_t queue_ns; // all that is neither upload nor compute: waits, lost attempts, verification
  int64_t upload_ns, compute_ns;
  int64_t ended_ns; // steady
};

// A job for a dispatched plan (copied). Jobs with the same stream, if it isn't NULL, run in the order in
// which they are submitted. Never fails but for memory (NULL).
struct job *job_create(struct dispatcher *dispatcher, const struct plan *plan, const void *stream,
                       const struct job_callbacks *callbacks);

// Asks for the job's memory. JOB_FAILED: job_status says QUEUE_FULL (with retry advice) or INTERNAL; later
// QUEUE_TIMEOUT through reserved(false).
enum job_progress job_reserve(struct job *job);

// Once reserved: where tensor number `index` of the request lies. NULL for one that isn't transferred.
uint8_t *job_tensor_data(struct job *job, size_t index);
const struct plan *job_plan(const struct job *job); // as phase 1 made it

// All inputs are in place: runs it, again and elsewhere if its device is lost. JOB_READY: it ended well
// already.
enum job_progress job_submit(struct job *job);

// Why the job failed; valid after a failure.
const struct status *job_status(const struct job *job);
void job_get_summary(const struct job *job, struct job_summary *summary); // after a good end

// The memory of the outputs outlives the job while somebody holds it: each slice on its way to the client
// does.
struct job_outputs;
struct job_outputs *job_outputs_hold(struct job *job); // after a good end
void job_outputs_release(struct job_outputs *outputs); // any thread

// Gives the job up wherever it is: waiting, uploading, running. A pending wait is still answered, once, with
// false (status CANCELLED) as soon as nothing uses the job's memory any more, perhaps before this returns;
// without one, nothing more is called. An answer that was on its way already stays what it is. Memory of a
// job that is uploading stays until job_destroy: somebody may be writing to it.
void job_cancel(struct job *job);

// Frees the job and gives back what it still has, outputs only when their last hold is released. No wait may
// be pending.
void job_destroy(struct job *job);

#endif
