// The worker of one device: its process, what it is told and what it answers.
//
// However a worker is lost (it dies, falls silent, speaks nonsense, reports a fault of its device, works too
// long), it is killed and reaped first; only then the items that it had are dealt with: the oldest is the one
// that it worked on and has lost an attempt, the others go back to the queue.
#include "server/npu/pool/pool_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The worker's own limit for a job comes a little before ours: it knows more of what went wrong.
#define SYNC_TIMEOUT_SHARE 8

#define NUMBER_BYTES 24

static void on_message(void *context, const struct control_message *message);
static void on_broken(void *context, const char *why);
static void on_ended(void *context, int64_t exit_status, int signal_number);

void pool_device_init(struct pool_device *device, struct npu_pool *pool, uint32_t number) {
  device->pool = pool;
  device->number = number;
  device->deterministic = number + pool->options.deterministic_count >= pool->options.device_count;
  device_policy_init(&device->policy, &pool->options.limits, pool_now_ns(pool));
  snprintf(device->why, sizeof device->why, "it is being started");
}

// ---- The beginning of a process

static bool start_process(struct pool_device *device, struct status *status) {
  struct npu_pool *pool = device->pool;
  const struct npu_pool_options *options = &pool->options;
  int64_t sync_timeout_ms = (options->limits.job_ns - options->limits.job_ns / SYNC_TIMEOUT_SHARE) / 1000000;
  char number[NUMBER_BYTES], parent[NUMBER_BYTES], timeout[NUMBER_BYTES];
  snprintf(number, sizeof number, "%u", device->number);
  snprintf(parent, sizeof parent, "%d", (int)getpid());
  snprintf(timeout, sizeof timeout, "%" PRId64, sync_timeout_ms < 1 ? 1 : sync_timeout_ms);
  // Nobody changes them: uv_spawn's type is as old as execve's.
  const char *arguments[16] = {
      pool->worker_file, "--device", number,           "--affinity", options->affinity ? "auto" : "off",
      "--parent",        parent,     "--sync-timeout", timeout};
  size_t count = 9;
  if (device->deterministic) {
    arguments[count++] = "--deterministic";
  }
  if (pool->library_file != NULL) {
    arguments[count++] = "--library";
    arguments[count++] = pool->library_file;
  }
  struct worker_process_options spawned = {
      .loop = options->loop,
      .arguments = (char **)arguments,
      .environment = pool->environment,
      .arena_descriptor = arena_descriptor(options->arena),
      .callbacks = {.message = on_message, .broken = on_broken, .ended = on_ended, .context = device}};
  return worker_process_start(&spawned, &device->process, status);
}

static void start(struct pool_device *device) {
  struct npu_pool *pool = device->pool;
  struct status status;
  if (!start_process(device, &status)) {
    snprintf(device->why, sizeof device->why, "%.*s", DEVICE_WHY_BYTES_MAX, status.message);
    device->settled = true;
    device_policy_start_failed(&device->policy, pool_now_ns(pool));
    pool_report(device);
    pool_reconsider_waiting(pool);
    return;
  }
  device->has_fault = false;
  device_policy_started(&device->policy, pool_now_ns(pool));
  pool_report(device);
  struct control_message message = {
      .kind = CONTROL_START,
      .start = {.version = CONTROL_VERSION, .arena_bytes = arena_address_bytes(pool->options.arena)}};
  worker_process_send(device->process, &message);
}

// ---- The end of a process

// Why the worker is lost; the first reason is the one that is told. Text without an end of its own.
__attribute__((format(printf, 4, 5))) static void set_fault(struct pool_device *device, enum reason reason,
                                                            int32_t aclnn_status, const char *format, ...) {
  if (device->has_fault) {
    return;
  }
  char text[STATUS_MESSAGE_BYTES_MAX + 1];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  device->has_fault = true;
  (void)status_fail(&device->fault, reason, NULL, "npu:%u was lost: %s", device->number, text);
  if (aclnn_status != 0) {
    device->fault.aclnn_status = aclnn_status;
  }
  snprintf(device->why, sizeof device->why, "%.*s", DEVICE_WHY_BYTES_MAX, text);
}

// A job that has outlived another worker already is the likelier cause, of that one's end too.
static bool is_to_blame(struct pool_device *device) {
  struct npu_pool *pool = device->pool;
  struct pool_item *item = device->item_count == 0 ? NULL : device->items[0];
  if (item == NULL || item->attempt < 2) {
    return true;
  }
  if (item->last_device >= 0) {
    device_policy_forgive(&pool->devices[item->last_device].policy, pool_now_ns(pool));
    item->last_device = -1;
  }
  return false;
}

// From here on the process writes no more than it is writing now; the rest follows when it was reaped.
static void lose(struct pool_device *device) {
  if (device->policy.state == DEVICE_ENDING) {
    return;
  }
  if (!device->has_fault) {
    snprintf(device->why, sizeof device->why, "its pipe was closed");
  }
  device_policy_lost(&device->policy, is_to_blame(device));
  worker_process_kill(device->process);
  pool_report(device);
}

static void forget_items(struct pool_device *device) {
  struct pool_item *items[DEVICE_ITEMS_MAX];
  size_t count = device->item_count;
  memcpy(items, device->items, sizeof items);
  device->item_count = device->job_count = 0;
  device->load.jobs = 0;
  device->load.work = 0;
  for (size_t i = count; i > 1; i--) {
    pool_item_put_back(items[i - 1]);
  }
  if (count > 0) {
    if (items[0]->attempt == 1) {
      items[0]->last_device = (int32_t)device->number;
    }
    pool_item_lost(items[0], &device->fault);
  }
}

static void on_ended(void *context, int64_t exit_status, int signal_number) {
  struct pool_device *device = context;
  struct npu_pool *pool = device->pool;
  device->process = NULL;
  if (signal_number != 0) {
    set_fault(device, REASON_DEVICE_LOST, 0, "its worker was ended by signal %d", signal_number);
  } else {
    set_fault(device, REASON_DEVICE_LOST, 0, "its worker exited with %" PRId64, exit_status);
  }
  device->settled = true;
  if (pool->stopping) {
    if (device->policy.state == DEVICE_UP && (exit_status != 0 || signal_number != 0)) {
      log_event(pool->options.log, LOG_WARNING, "an NPU worker ended badly",
                LOG_INTEGER("device", device->number), LOG_INTEGER("exit_status", exit_status),
                LOG_INTEGER("signal", signal_number));
    }
    return;
  }
  if (device->policy.state != DEVICE_ENDING) {
    device_policy_lost(&device->policy, is_to_blame(device));
  }
  device_policy_reaped(&device->policy, pool_now_ns(pool));
  pool_report(device);
  forget_items(device);
  pool_reconsider_waiting(pool);
  pool_send_waiting(pool); // others may take what it had
  pool_tick(pool);
}

static void on_broken(void *context, const char *why) {
  struct pool_device *device = context;
  if (device->pool->stopping) {
    return; // it ends as it was told to
  }
  // A pipe that was closed is the sign of an end that will tell more of itself.
  if (why != NULL) {
    set_fault(device, REASON_DEVICE_LOST, 0, "%s", why);
  }
  lose(device);
}

void pool_device_quarantine(struct pool_device *device, const char *why) {
  if (device->policy.state == DEVICE_QUARANTINED || device->pool->stopping) {
    return;
  }
  device->has_fault = false; // whatever else happened to it, this is what counts
  set_fault(device, REASON_DEVICE_LOST, 0, "it is quarantined: %s", why);
  snprintf(device->why, sizeof device->why, "%s", why);
  device_policy_quarantine(&device->policy);
  if (device->process != NULL) {
    lose(device);
  } else {
    pool_report(device);
    pool_reconsider_waiting(device->pool);
  }
}

void pool_device_stop(struct pool_device *device) {
  assert(device->item_count == 0); // nobody stops a pool that has something to do
  if (device->process != NULL && device->policy.state == DEVICE_UP) {
    struct control_message message = {.kind = CONTROL_STOP};
    worker_process_send(device->process, &message);
  } else {
    pool_device_kill(device);
  }
}

void pool_device_kill(struct pool_device *device) {
  if (device->process != NULL) {
    worker_process_kill(device->process);
  }
}

// ---- Items

bool pool_device_has_room(const struct pool_device *device, const struct pool_item *item) {
  if (device->policy.state != DEVICE_UP || !worker_process_listens(device->process)) {
    return false;
  }
  return item->run_task != NULL ? device->job_count < DEVICE_JOBS_MAX
                                : device->item_count - device->job_count < DEVICE_PLANS_MAX;
}

static void place_storages(const struct backend_run_task *task, struct control_storage *storages) {
  const struct plan *plan = task->run.plan;
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->transferred) {
      const struct arena_block *block = tensor->direction == DIRECTION_INPUT ? task->inputs : task->outputs;
      const uint8_t *data = task->run.storages[tensor->parameter];
      storages[tensor->parameter] =
          (struct control_storage){.present = true,
                                   .offset = block->offset + (uint64_t)(data - block->data),
                                   .bytes = (uint64_t)tensor->storage_bytes};
    }
  }
}

static void fill_message(const struct pool_item *item, struct control_message *message) {
  memset(message, 0, sizeof *message);
  if (item->run_task == NULL) {
    message->kind = CONTROL_PLAN;
    message->plan.id = item->id;
    plan_to_request(item->plan, &message->plan.request);
    return;
  }
  message->kind = CONTROL_RUN;
  message->run.id = item->id;
  plan_to_request(item->plan, &message->run.request);
  place_storages(item->run_task, message->run.storages);
  struct status status;
  bool fits = control_check_storages(item->plan, message->run.storages,
                                     arena_address_bytes(item->pool->options.arena), &status);
  assert(fits); // the dispatcher's own layout
}

static void watch_oldest(struct pool_device *device) {
  if (device->item_count > 0) {
    device_policy_job_began(&device->policy, pool_now_ns(device->pool));
  } else {
    device_policy_job_ended(&device->policy);
  }
}

void pool_device_send(struct pool_device *device, struct pool_item *item) {
  struct npu_pool *pool = device->pool;
  assert(device->item_count < DEVICE_ITEMS_MAX);
  item->id = ++pool->last_id;
  item->sent_ns = pool_now_ns(pool);
  device->items[device->item_count++] = item;
  if (item->run_task != NULL) {
    // Plans don't count as turns: the run that follows goes where its plan went, to the executor kept there.
    device->load.last_turn = ++pool->last_turn;
    item->run_task->device = (int32_t)device->number;
    device->job_count++;
    device->load.jobs++;
    device->load.work += item->plan->work_elements;
  }
  if (device->item_count == 1) {
    watch_oldest(device);
  }
  struct control_message message;
  fill_message(item, &message);
  worker_process_send(device->process, &message);
}

// Takes the item of that id from the device, NULL if there is none of that kind.
static struct pool_item *take_item(struct pool_device *device, uint64_t id, bool is_job) {
  for (size_t i = 0; i < device->item_count; i++) {
    struct pool_item *item = device->items[i];
    if (item->id != id || (item->run_task != NULL) != is_job) {
      continue;
    }
    device->item_count--;
    memmove(&device->items[i], &device->items[i + 1], (device->item_count - i) * sizeof device->items[0]);
    if (is_job) {
      device->job_count--;
      device->load.jobs--;
      device->load.work -= item->plan->work_elements;
    }
    if (i == 0) {
      watch_oldest(device);
    }
    return item;
  }
  return NULL;
}

// The worker says that its device is at fault: the item, the oldest, waits for the worker's end.
static void report_fault(struct pool_device *device, uint64_t id, const struct status *status) {
  for (size_t i = 0; i < device->item_count; i++) {
    if (device->items[i]->id == id) {
      struct pool_item *item = device->items[i];
      memmove(&device->items[1], &device->items[0], i * sizeof device->items[0]);
      device->items[0] = item;
      set_fault(device, REASON_DEVICE_LOST, status->aclnn_status, "%s", status->message);
      lose(device);
      return;
    }
  }
  on_broken(device, "it answered something that it wasn't asked");
}

// ---- Messages

static void on_ready(struct pool_device *device, const struct control_ready *ready) {
  struct npu_pool *pool = device->pool;
  if (device->policy.state != DEVICE_STARTING) {
    on_broken(device, "it became ready twice");
    return;
  }
  device->known = device->settled = true;
  device->ready = *ready;
  device->offer = (struct device_offer){
      .product = ready->product, .operators = ready->operators, .deterministic = ready->deterministic};
  device_policy_ready(&device->policy, pool_now_ns(device->pool));
  pool_report(device);
  pool_reconsider_waiting(pool);
  pool_send_waiting(pool);
}

static void on_unusable(struct pool_device *device, const struct control_unusable *unusable) {
  set_fault(device, REASON_DEVICE_LOST, unusable->status.aclnn_status, "%s", unusable->status.message);
  lose(device);
}

static void on_planned(struct pool_device *device, const struct control_planned *planned) {
  if (!planned->ok && planned->device_fault) {
    report_fault(device, planned->id, &planned->status);
    return;
  }
  struct pool_item *item = take_item(device, planned->id, false);
  if (item == NULL) {
    on_broken(device, "it answered a plan that it wasn't asked for");
  } else if (planned->ok) {
    item->plan_task->plan->workspace_bytes = planned->workspace_bytes;
    pool_item_succeed(item);
  } else {
    pool_item_fail(item, BACKEND_FAILURE_JOB, &planned->status);
  }
}

static int64_t between(int64_t least, int64_t value, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

static void finish_job(struct pool_device *device, struct pool_item *item,
                       const struct control_finished *finished) {
  struct backend_run_task *task = item->run_task;
  int64_t now_ns = pool_now_ns(device->pool);
  task->finished_ns = between(item->sent_ns, finished->finished_ns, now_ns);
  task->started_ns = between(item->sent_ns, finished->started_ns, task->finished_ns);
  device_policy_job_finished(&device->policy);
  if (finished->ok) {
    pool_item_succeed(item);
  } else {
    bool is_memory = finished->status.reason == REASON_DEVICE_MEMORY;
    pool_item_fail(item, is_memory ? BACKEND_FAILURE_RESOURCES : BACKEND_FAILURE_JOB, &finished->status);
  }
}

static void on_finished(struct pool_device *device, const struct control_finished *finished) {
  if (!finished->ok && finished->device_fault) {
    report_fault(device, finished->id, &finished->status);
    return;
  }
  struct pool_item *item = take_item(device, finished->id, true);
  if (item == NULL) {
    on_broken(device, "it finished a job that it wasn't given");
    return;
  }
  finish_job(device, item, finished);
  if (finished->device_fault) {
    set_fault(device, REASON_DEVICE_LOST, 0, "its device wants to be opened anew");
    lose(device);
  }
}

static void on_pong(struct pool_device *device, const struct control_pong *pong) {
  if (!device_policy_pong(&device->policy, pong->sequence, pool_now_ns(device->pool))) {
    on_broken(device, "it answered a ping that wasn't sent");
  }
}

static void on_message(void *context, const struct control_message *message) {
  struct pool_device *device = context;
  if (device->pool->stopping) {
    return;
  }
  switch (message->kind) {
  case CONTROL_READY:
    on_ready(device, &message->ready);
    break;
  case CONTROL_UNUSABLE:
    on_unusable(device, &message->unusable);
    break;
  case CONTROL_PLANNED:
    on_planned(device, &message->planned);
    break;
  case CONTROL_FINISHED:
    on_finished(device, &message->finished);
    break;
  case CONTROL_PONG:
    on_pong(device, &message->pong);
    break;
  case CONTROL_START:
  case CONTROL_PLAN:
  case CONTROL_RUN:
  case CONTROL_PING:
  case CONTROL_STOP:
    on_broken(device, "it sent what only the server may send");
    break;
  }
  pool_send_waiting(device->pool);
  pool_tick(device->pool);
}

void pool_device_tick(struct pool_device *device) {
  for (;;) {
    const char *why = NULL;
    struct control_message ping = {.kind = CONTROL_PING};
    switch (device_policy_tick(&device->policy, pool_now_ns(device->pool), &why)) {
    case DEVICE_DEMAND_NOTHING:
      return;
    case DEVICE_DEMAND_START:
      start(device);
      break;
    case DEVICE_DEMAND_PING:
      ping.ping.sequence = device_policy_ping_sequence(&device->policy);
      worker_process_send(device->process, &ping);
      break;
    case DEVICE_DEMAND_KILL:
      set_fault(device, REASON_DEVICE_LOST, 0, "%s", why);
      lose(device);
      break;
    }
  }
}
