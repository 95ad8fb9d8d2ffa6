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

// Why a run failed, as far as it matters to what is done next.
enum backend_failure {
  BACKEND_FAILURE_JOB,       // the job's own: it would fail again
  BACKEND_FAILURE_DEVICE,    // its device was lost or quarantined while it ran; what ran there writes no more
  BACKEND_FAILURE_RESOURCES, // the device hasn't enough memory for it
  BACKEND_FAILURE_NO_DEVICE, // it may move and no device is up: it never began
};

// Phase 2. Everything here stays valid until done was called.
struct backend_run_task {
  struct operator_run run;           // plan, storages, workspace, cancelled; parallel is the backend's to set
  bool may_move;                     // another backend can run it: it need not wait for a device to come back
  int32_t attempt;                   // 1 for a job's first run, one more for each that lost its device
  const void *stream;                // tasks of one stream, if not NULL, are run in the order of their calls
  const struct arena_block *inputs;  // where the storages of inputs (and the host workspace) lie
  const struct arena_block *outputs; // where the storages of outputs lie
  int64_t started_ns;                // set by the backend when the computation begins
  int64_t finished_ns;               // set by the backend when it ended
  int32_t device;                    // set by the backend: which of its devices ran it
  enum backend_failure failure;      // set by the backend on failure
  struct status status;
  void (*done)(struct backend_run_task *task, bool ok);
  void *_backend_data; // the backend's own, while it has the task
  struct backend_run_task *_next;
};

#define BACKEND_DEVICES_MAX 64
#define BACKEND_DEVICE_NAME_BYTES_MAX 63
#define BACKEND_DEVICE_DETAIL_BYTES_MAX 255

struct backend_device {
  char name[BACKEND_DEVICE_NAME_BYTES_MAX + 1];
  bool healthy;
  char detail[BACKEND_DEVICE_DETAIL_BYTES_MAX + 1]; // what it is, or why it isn't healthy
};

struct backend {
  enum target target;
  uint32_t numerics; // bit 1 << enum numerics for each that this backend gives

  // May be NULL: every plan is taken as it is.
  void (*plan)(struct backend *backend, struct backend_plan_task *task);

  // Runs the task. Cancellation is a flag in the run that the backend looks at; it ends the task with
  // CANCELLED.
  void (*run)(struct backend *backend, struct backend_run_task *task);

  // May be NULL. Some run was cancelled: tasks that wait for a device look at their flag now. Any thread.
  void (*cancelled)(struct backend *backend);

  // May be NULL: there are no devices to tell of. Fills at most devices_max and returns how many. Any thread.
  size_t (*describe_devices)(struct backend *backend, struct backend_device *devices, size_t devices_max);

  // May be NULL: always all of `numerics`. Those that its devices give now, at least for some plans. Any
  // thread.
  uint32_t (*current_numerics)(struct backend *backend);

  // May be NULL. A device gave a result that is wrong: it gets no more jobs. Any thread.
  void (*quarantine)(struct backend *backend, int32_t device, const char *why);

  // May be NULL. The server ends and waits no longer: what runs or waits on a device is answered as soon as
  // its device has been stopped. Main thread.
  void (*abandon)(struct backend *backend);

  // NULL where runs need no judge. Whether the result of this run, on the device that ran it, must agree with
  // the CPU's: bit by bit (*exactly) or within CANN's tolerance. Any thread.
  bool (*is_comparable)(struct backend *backend, const struct backend_run_task *task, bool *exactly);

  // Waits until no task is left, ends the threads and frees the backend. Main thread only.
  void (*destroy)(struct backend *backend);
};

#endif
