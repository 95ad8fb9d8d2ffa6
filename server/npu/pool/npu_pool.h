// The backend of target NPU: worker processes, one for each device, and the jobs that they are given.
//
// Lives on the main thread's loop: it starts the workers, listens to them, kills and restarts them. Other
// threads leave their tasks in an inbox. A job is answered when nothing writes to its memory any more: after
// its worker's answer, or after that worker was reaped. What a death does to whom: pool_device.c.
#ifndef ACLNN_SERVER_NPU_POOL_NPU_POOL_H
#define ACLNN_SERVER_NPU_POOL_NPU_POOL_H

#include "kernels/status.h"
#include "server/dispatch/backend.h"
#include "server/memory/arena.h"
#include "server/npu/pool/device_policy.h"
#include "server/observe/log.h"

#include <uv.h>

struct npu_pool_options {
  uv_loop_t *loop;            // the main thread's
  const struct log *log;      // borrowed
  const struct arena *arena;  // borrowed, outlives the pool
  size_t device_count;        // 1 to BACKEND_DEVICES_MAX
  size_t deterministic_count; // of the last devices: they run in CANN's deterministic mode
  bool emulated;              // the library is the emulator: it is told how many devices there are
  const char *worker_file;    // copied, as the next
  const char *library_file;   // NULL: the worker looks for CANN
  bool affinity;              // workers choose processors near their device
  size_t queue_max;           // jobs that may wait, for each device
  int64_t queue_time_max_ns;
  int64_t stop_time_max_ns; // for workers to end by themselves
  struct device_policy_limits limits;
  int64_t (*clock_ns)(void *context); // steady
  void *clock_context;
};

// Starts the workers. To be called on the main thread before there are others. The loop isn't kept alive by
// the pool. destroy runs it until the last worker is gone.
MUST_CHECK bool npu_pool_create(const struct npu_pool_options *options, struct backend **backend,
                                struct status *status);

// The limits that a server uses but for the two that are configured.
struct device_policy_limits npu_pool_limits(int64_t heartbeat_ns, int64_t job_ns);

// Whether each device has come up, or failed to, at least once. Main thread.
bool npu_pool_is_settled(const struct backend *backend);

#endif
