// Items on their way: from the inbox into the queue, to a device, and to their answer.
#include "server/npu/pool/pool_internal.h"

#include <assert.h>
#include <stdlib.h>

// Up to so many elements a job's inputs are checked on the thread that brings it: some ten microseconds.
#define CHECK_AT_ONCE_MAX ((uint64_t)1 << 15)
// Advice when to try again after the queue refused a job: about the time of a large one.
#define QUEUE_RETRY_MS 250

// ---- Beginning and end

static struct pool_item *create(struct npu_pool *pool, const struct plan *plan) {
  assert(!plan->empty && plan->target == TARGET_NPU);
  struct pool_item *item = calloc(1, sizeof *item);
  if (item != NULL) {
    item->pool = pool;
    item->plan = plan;
    item->check.data = item;
  }
  return item;
}

struct pool_item *pool_item_of_plan(struct npu_pool *pool, struct backend_plan_task *task) {
  struct pool_item *item = create(pool, task->plan);
  if (item != NULL) {
    item->plan_task = task;
    item->may_move = task->plan->automatic;
    item->attempt = 1;
    item->last_device = -1;
    item->check_state = CHECK_DONE;
    item->check_ok = true;
  }
  return item;
}

struct pool_item *pool_item_of_run(struct npu_pool *pool, struct backend_run_task *task) {
  struct pool_item *item = create(pool, task->run.plan);
  if (item != NULL) {
    item->run_task = task;
    item->may_move = task->may_move;
    item->attempt = task->attempt;
    item->last_device = task->attempt == 2 ? task->device : -1;
    item->entry.stream = task->stream;
  }
  return item;
}

struct status *pool_item_status(struct pool_item *item) {
  return item->run_task != NULL ? &item->run_task->status : &item->plan_task->status;
}

// Tells the owner, who may come with the next task at once.
static void answer(struct pool_item *item, bool ok) {
  struct backend_plan_task *plan_task = item->plan_task;
  struct backend_run_task *run_task = item->run_task;
  free(item);
  if (run_task != NULL) {
    run_task->done(run_task, ok);
  } else {
    plan_task->done(plan_task, ok);
  }
}

static void leave(struct pool_item *item, bool ok) {
  waiting_queue_finish(&item->pool->queue, &item->entry);
  item->pool->item_total--;
  answer(item, ok);
}

static void set_failure(struct pool_item *item, enum backend_failure failure, const struct status *status) {
  struct status *told = pool_item_status(item);
  if (told != status) {
    *told = *status;
  }
  if (item->run_task != NULL) {
    item->run_task->failure = failure;
  }
}

void pool_item_succeed(struct pool_item *item) {
  leave(item, true);
}

void pool_item_fail(struct pool_item *item, enum backend_failure failure, const struct status *status) {
  set_failure(item, failure, status);
  leave(item, false);
}

void pool_item_lost(struct pool_item *item, const struct status *status) {
  if (item->plan_task != NULL && !item->may_move && item->attempt < PLAN_ATTEMPTS_MAX) {
    item->attempt++;
    pool_item_put_back(item);
  } else {
    pool_item_fail(item, BACKEND_FAILURE_DEVICE, status);
  }
}

void pool_item_put_back(struct pool_item *item) {
  // It had got its place; that it waits again isn't its fault.
  item->entry.deadline_ns = pool_now_ns(item->pool) + item->pool->options.queue_time_max_ns;
  waiting_queue_put_back(&item->pool->queue, &item->entry);
}

static bool is_cancelled(const struct pool_item *item) {
  return item->run_task != NULL && item->run_task->run.cancelled != NULL &&
         atomic_load(item->run_task->run.cancelled);
}

// ---- The check of the inputs

static void check_inputs(struct pool_item *item) {
  struct backend_run_task *task = item->run_task;
  item->check_ok = item->plan->definition->check_inputs(&task->run, &task->status);
}

bool pool_item_check_at_once(struct pool_item *item) {
  if (item->plan->work_elements > CHECK_AT_ONCE_MAX) {
    return true;
  }
  check_inputs(item);
  item->check_state = CHECK_DONE;
  if (!item->check_ok) {
    set_failure(item, BACKEND_FAILURE_JOB, pool_item_status(item));
    answer(item, false);
    return false;
  }
  return true;
}

static void check_elsewhere(uv_work_t *work) {
  check_inputs(work->data);
}

// ---- What becomes of an item as things stand

enum outlook {
  OUTLOOK_NOW,   // a device that is up serves it
  OUTLOOK_LATER, // one that will be up again would
  OUTLOOK_NEVER,
};

static bool would_serve(const struct pool_device *device, const struct plan *plan, struct status *status) {
  if (device->known) {
    return device_offer_serves(&device->offer, plan, status);
  }
  return plan->numerics != NUMERICS_DETERMINISTIC || device->deterministic ||
         status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                     "no NPU of this server runs in deterministic mode");
}

// The status says why not now.
static enum outlook look_out(const struct npu_pool *pool, const struct plan *plan, struct status *status) {
  bool is_refused = false, is_hope = false;
  for (size_t i = 0; i < pool->options.device_count; i++) {
    const struct pool_device *device = &pool->devices[i];
    if (!device_policy_has_hope(&device->policy)) {
      continue;
    }
    if (!would_serve(device, plan, status)) {
      is_refused = true;
    } else if (device->policy.state == DEVICE_UP) {
      return OUTLOOK_NOW;
    } else {
      is_hope = true;
    }
  }
  if (is_hope) {
    (void)status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "no NPU that serves %s is up at the moment",
                      plan->definition->name);
    return OUTLOOK_LATER;
  }
  if (!is_refused) {
    (void)status_fail(status, REASON_DEVICE_LOST, NULL,
                      "every NPU of this server was given up or quarantined");
  }
  return OUTLOOK_NEVER;
}

// Answers an item that need not or can't wait. False: it is gone.
static bool may_wait(struct pool_item *item) {
  struct status status;
  if (is_cancelled(item)) {
    (void)status_fail(&status, REASON_CANCELLED, NULL, "the job was cancelled before it began");
    pool_item_fail(item, BACKEND_FAILURE_JOB, &status);
    return false;
  }
  enum outlook outlook = look_out(item->pool, item->plan, &status);
  if (outlook == OUTLOOK_NEVER || (outlook == OUTLOOK_LATER && item->may_move)) {
    pool_item_fail(item, BACKEND_FAILURE_NO_DEVICE, &status);
    return false;
  }
  return true;
}

static void expire(struct pool_item *item) {
  struct status status;
  if (look_out(item->pool, item->plan, &status) == OUTLOOK_LATER) {
    (void)status_fail(&status, REASON_QUEUE_TIMEOUT, NULL, "no NPU came up while the job waited for one");
  } else {
    (void)status_fail(&status, REASON_QUEUE_TIMEOUT, NULL, "the job waited too long for an NPU");
  }
  status.retry_after_ms = QUEUE_RETRY_MS;
  pool_item_fail(item, BACKEND_FAILURE_NO_DEVICE, &status);
}

// ---- The queue

static void after_check(uv_work_t *work, int error) {
  assert(error == 0); // nobody cancels it
  struct pool_item *item = work->data;
  struct npu_pool *pool = item->pool;
  item->check_state = CHECK_DONE;
  if (!item->check_ok) {
    pool_item_fail(item, BACKEND_FAILURE_JOB, pool_item_status(item));
  } else if (may_wait(item)) {
    pool_send_waiting(pool);
  }
  pool_tick(pool);
}

static void refuse_full(struct pool_item *item) {
  struct status status;
  (void)status_fail(&status, REASON_QUEUE_FULL, NULL, "%zu jobs wait for an NPU already",
                    item->pool->queue.limit);
  status.retry_after_ms = QUEUE_RETRY_MS;
  set_failure(item, BACKEND_FAILURE_NO_DEVICE, &status);
  answer(item, false);
}

void pool_item_arrive(struct pool_item *item) {
  struct npu_pool *pool = item->pool;
  item->entry.deadline_ns = pool_now_ns(pool) + pool->options.queue_time_max_ns;
  if (item->attempt > 1) {
    // A job that was lost with its device had been taken. Coming before what never ran, a poisonous one has
    // soon had its attempts, and the devices that it cost are not given up together for many of its kind.
    waiting_queue_push_again(&pool->queue, &item->entry);
  } else if (!waiting_queue_push(&pool->queue, &item->entry)) {
    refuse_full(item);
    return;
  }
  pool->item_total++;
  if (may_wait(item) && item->check_state == CHECK_DUE) {
    item->check_state = CHECK_RUNS;
    int error = uv_queue_work(pool->options.loop, &item->check, check_elsewhere, after_check);
    assert(error == 0);
  }
}

static struct pool_device *choose_device(struct npu_pool *pool, const struct pool_item *item) {
  struct pool_device *chosen = NULL;
  for (size_t i = 0; i < pool->options.device_count; i++) {
    struct pool_device *device = &pool->devices[i];
    struct status status;
    if (pool_device_has_room(device, item) &&
        (chosen == NULL || device_load_is_less(&device->load, &chosen->load)) &&
        device_offer_serves(&device->offer, item->plan, &status)) {
      chosen = device;
    }
  }
  return chosen;
}

void pool_send_waiting(struct npu_pool *pool) {
  struct waiting_entry *next;
  for (struct waiting_entry *entry = pool->queue.first; entry != NULL; entry = next) {
    next = waiting_entry_next(entry);
    struct pool_item *item = pool_item_from_entry(entry);
    if (item->check_state != CHECK_DONE || !waiting_entry_is_due(entry)) {
      continue;
    }
    struct pool_device *device = choose_device(pool, item);
    if (device != NULL) {
      waiting_queue_take(&pool->queue, entry);
      pool_device_send(device, item);
    }
  }
}

// Calls `look` for each item that waits and isn't being checked: those are looked at after their check. It
// may answer the item it is given, and no other.
static void for_each_waiting(struct npu_pool *pool, void (*look)(struct pool_item *item)) {
  struct waiting_entry *next;
  for (struct waiting_entry *entry = pool->queue.first; entry != NULL; entry = next) {
    next = waiting_entry_next(entry);
    struct pool_item *item = pool_item_from_entry(entry);
    if (item->check_state != CHECK_RUNS) {
      look(item);
    }
  }
}

static void reconsider(struct pool_item *item) {
  (void)may_wait(item);
}

void pool_reconsider_waiting(struct npu_pool *pool) {
  for_each_waiting(pool, reconsider);
}

static void drop_if_cancelled(struct pool_item *item) {
  if (is_cancelled(item)) {
    (void)may_wait(item);
  }
}

void pool_drop_cancelled(struct npu_pool *pool) {
  for_each_waiting(pool, drop_if_cancelled);
}

static void drop_if_expired(struct pool_item *item) {
  if (pool_now_ns(item->pool) >= item->entry.deadline_ns) {
    expire(item);
  }
}

void pool_drop_expired(struct npu_pool *pool) {
  for_each_waiting(pool, drop_if_expired);
}
