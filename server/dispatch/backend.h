// What a backend is: a place where plans are run.
//
// The dispatcher calls; the backend answers each call exactly once, through the task's callback, from any
// thread, perhaps before the call returned.
#ifndef ACLNN_SERVER_DISPATCH_BACKEND_H
#define ACLNN_SERVER_DISPATCH_BACKEND_H

#include "kernels/operator.h"
#include "kernels/status.h"
#include "server/memory/arena.h"

#include <stdatomic.h>

// Phase 1 on a backend: whether it takes the plan and what its workspace is.
struct backend_plan_task {
  struct plan *plan; // target is this backend's; the backend may change workspace_bytes
  struct status status;
  void (*done)(struct backend_plan_task *task, bool ok); // status says why not
};

// Phase 2. Everything here stays valid until done was called.
struct backend_run_task {
  struct operator_run run;           // plan, storages, workspace, cancelled; parallel is the backend's to set
  const struct arena_block *inputs;  // where the storages of inputs (and the host workspace) lie
  const struct arena_block *outputs; // where the storages of outputs lie
  int64_t started_ns;                // set by the backend when the computation begins
  int64_t finished_ns;               // set by the backend when it ended
  struct status status;
  void (*done)(struct backend_run_task *task, bool ok);
  void *_backend_data; // the backend's own, while it has the task
  struct backend_run_task *_next;
};

struct backend {
  enum target target;
  uint32_t numerics; // bit 1 << enum numerics for each that this backend gives

  // May be NULL: every plan is taken as it is.
  void (*plan)(struct backend *backend, struct backend_plan_task *task);

  // Runs the task. Cancellation is a flag in the run that the backend looks at; it ends the task with
  // CANCELLED.
  void (*run)(struct backend *backend, struct backend_run_task *task);

  // Waits until no task is left, ends the threads and frees the backend. Main thread only.
  void (*destroy)(struct backend *backend);
};

#endif
