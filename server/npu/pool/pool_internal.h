// What the parts of the pool share. Everything on the main thread but what is said to be guarded.
#ifndef ACLNN_SERVER_NPU_POOL_POOL_INTERNAL_H
#define ACLNN_SERVER_NPU_POOL_POOL_INTERNAL_H

#include "server/npu/control/message.h"
#include "server/npu/pool/device_choice.h"
#include "server/npu/pool/npu_pool.h"
#include "server/npu/pool/waiting_queue.h"
#include "server/npu/pool/worker_process.h"

#include <pthread.h>

// One runs, one waits: a worker never idles between two jobs, and little is lost with it.
#define DEVICE_JOBS_MAX 2
// Phase 1 doesn't wait behind the jobs that wait; it is short work.
#define DEVICE_PLANS_MAX 8
#define DEVICE_ITEMS_MAX (DEVICE_JOBS_MAX + DEVICE_PLANS_MAX)
// Phase 1 is asked again when a worker dies under it, as jobs are run again.
#define PLAN_ATTEMPTS_MAX 3

// Why a device is down; with what is said before it, it fits in a backend_device's detail.
#define DEVICE_WHY_BYTES_MAX 191

struct npu_pool;

// Either phase of somebody's call, from the backend's call to its answer.
struct pool_item {
  struct npu_pool *pool;
  struct waiting_entry entry;
  const struct plan *plan;
  struct backend_plan_task *plan_task; // one of the two
  struct backend_run_task *run_task;
  bool may_move; // somebody else can do it: it doesn't wait for a device to come back
  int32_t attempt;
  int32_t last_device; // that its first attempt was lost with; -1: none
  uint64_t id;
  int64_t sent_ns;
  // The check of the inputs, on another thread if it takes long.
  uv_work_t check;
  enum { CHECK_DUE, CHECK_RUNS, CHECK_DONE } check_state;
  bool check_ok;
  struct pool_item *next_in_inbox;
};

struct pool_device {
  struct npu_pool *pool;
  uint32_t number;
  bool deterministic; // as it was started
  bool settled;       // it was up once, or failed to come up
  struct device_policy policy;
  struct worker_process *process; // NULL: none
  bool known;                     // it was up before: offer and names are what it said then
  struct device_offer offer;
  struct control_ready ready;
  struct device_load load;
  struct pool_item *items[DEVICE_ITEMS_MAX]; // sent and not answered, the oldest first: that one runs
  size_t item_count, job_count;
  bool has_fault; // why the process is being killed, for the job that it worked on
  struct status fault;
  char why[DEVICE_WHY_BYTES_MAX + 1]; // it is down
};

struct npu_pool {
  struct backend backend;
  struct npu_pool_options options;
  char *worker_file, *library_file;
  char **environment; // of the workers
  uv_async_t wake;
  uv_timer_t timer;
  size_t handles; // that are not closed yet
  bool stopping;
  struct waiting_queue queue;
  size_t item_total; // items that were not answered yet
  uint64_t last_id, last_turn;

  pthread_mutex_t mutex; // guards the rest
  struct pool_item *inbox_first, *inbox_last;
  bool look_for_cancelled;
  bool quarantine_asked[BACKEND_DEVICES_MAX];
  char quarantine_why[BACKEND_DEVICES_MAX][DEVICE_WHY_BYTES_MAX + 1];
  struct backend_device reports[BACKEND_DEVICES_MAX];
  struct device_offer offers[BACKEND_DEVICES_MAX]; // of devices that were up
  uint32_t numerics;                               // that are given now

  struct pool_device devices[];
};

static inline struct npu_pool *pool_from_backend(const struct backend *backend) {
  return (struct npu_pool *)((char *)backend - offsetof(struct npu_pool, backend));
}

static inline struct pool_item *pool_item_from_entry(struct waiting_entry *entry) {
  return (struct pool_item *)((char *)entry - offsetof(struct pool_item, entry));
}

int64_t pool_now_ns(const struct npu_pool *pool);
// Does what is due and sets the timer for what is due next.
void pool_tick(struct npu_pool *pool);

// ---- pool_device.c: the worker of a device

void pool_device_init(struct pool_device *device, struct npu_pool *pool, uint32_t number);
// Does what its policy says is due.
void pool_device_tick(struct pool_device *device);
// Whether it is up and can be sent the item now; whether it would serve it is another question.
bool pool_device_has_room(const struct pool_device *device, const struct pool_item *item);
// The item was taken from the queue.
void pool_device_send(struct pool_device *device, struct pool_item *item);
void pool_device_quarantine(struct pool_device *device, const char *why);
// Tells the worker to end, or kills it. Nothing is restarted any more.
void pool_device_stop(struct pool_device *device);
void pool_device_kill(struct pool_device *device);

// ---- pool_report.c: what others are told

// The device's state has changed.
void pool_report(struct pool_device *device);
size_t pool_describe_devices(struct backend *backend, struct backend_device *devices, size_t devices_max);
uint32_t pool_current_numerics(struct backend *backend);
bool pool_is_comparable(struct backend *backend, const struct backend_run_task *task, bool *exactly);

// ---- pool_items.c: items on their way through the queue

// From any thread: makes an item of a task. NULL: no memory.
struct pool_item *pool_item_of_plan(struct npu_pool *pool, struct backend_plan_task *task);
struct pool_item *pool_item_of_run(struct npu_pool *pool, struct backend_run_task *task);
// Any thread; the inputs of a small job are checked at once. False: they are refused, the item is answered.
bool pool_item_check_at_once(struct pool_item *item);
// The item comes from the inbox.
void pool_item_arrive(struct pool_item *item);
// Sends what waits to devices that have room.
void pool_send_waiting(struct npu_pool *pool);
// Devices have changed: answers those that need not or can't wait any longer.
void pool_reconsider_waiting(struct npu_pool *pool);
void pool_drop_cancelled(struct npu_pool *pool);
void pool_drop_expired(struct npu_pool *pool);

// The answers; the item is gone afterwards. A task's status was filled on failure.
void pool_item_succeed(struct pool_item *item);
void pool_item_fail(struct pool_item *item, enum backend_failure failure, const struct status *status);
// The worker that worked on it was lost and is reaped.
void pool_item_lost(struct pool_item *item, const struct status *status);
// A worker that hadn't begun with it was lost.
void pool_item_put_back(struct pool_item *item);
struct status *pool_item_status(struct pool_item *item);

#endif
