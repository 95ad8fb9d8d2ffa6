// The one thread of a worker that talks to CANN: opens the device, runs jobs in the order in which they come,
// closes it.
//
// submit and finish are for the main thread; answers are given on the device's thread, so the callback only
// passes them on.
#ifndef ACLNN_SERVER_NPU_WORKER_DEVICE_THREAD_H
#define ACLNN_SERVER_NPU_WORKER_DEVICE_THREAD_H

#include "server/npu/control/message.h"
#include "server/npu/worker/device.h"
#include "server/observe/log.h"

// Jobs that wait. The server sends two runs at a time, and plans as they come; more than these is madness.
#define DEVICE_THREAD_JOBS_MAX 16384

struct device_thread_settings {
  const char *library_file; // NULL: CANN's own
  const char *home;         // ASCEND_HOME_PATH or NULL
  struct device_settings device;
  uint8_t *arena; // mapped
  uint64_t arena_bytes;
  struct log log;
  // READY or UNUSABLE first, then an answer for each job.
  void (*answer)(void *context, const struct control_message *message);
  // The last call. ok: the device was opened, and closed without complaint.
  void (*ended)(void *context, bool ok);
  void *context;
};

struct device_thread;

// NULL if there is no memory or no thread to be had. The settings are copied.
struct device_thread *device_thread_start(const struct device_thread_settings *settings);

// PLAN or RUN. False if too many wait.
MUST_CHECK bool device_thread_submit(struct device_thread *thread, const struct control_message *message);

// Jobs that were submitted are still run, then the device is closed and `ended` called.
void device_thread_finish(struct device_thread *thread);

// After `ended`.
void device_thread_destroy(struct device_thread *thread);

#endif
