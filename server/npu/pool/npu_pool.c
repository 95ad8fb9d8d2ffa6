#include "server/npu/pool/npu_pool.h"

#include "server/npu/pool/pool_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

// A device may take long to be opened for the first time, and the probe needs its kernels.
#define START_NS (120 * SECOND_NS)
#define BACKOFF_FIRST_NS (SECOND_NS / 10)
#define BACKOFF_MAX_NS (5 * SECOND_NS)
#define DEATHS_MAX 8
#define REVIVAL_NS (60 * SECOND_NS)

#define EMULATED_DEVICES "ACLNN_EMULATED_DEVICES="

struct device_policy_limits npu_pool_limits(int64_t heartbeat_ns, int64_t job_ns) {
  return (struct device_policy_limits){.start_ns = START_NS,
                                       .heartbeat_ns = heartbeat_ns,
                                       .job_ns = job_ns,
                                       .backoff_first_ns = BACKOFF_FIRST_NS,
                                       .backoff_max_ns = BACKOFF_MAX_NS,
                                       .deaths_max = DEATHS_MAX,
                                       .revival_ns = REVIVAL_NS};
}

int64_t pool_now_ns(const struct npu_pool *pool) {
  return pool->options.clock_ns(pool->options.clock_context);
}

// ---- The clock

static void on_timer(uv_timer_t *timer) {
  pool_tick(timer->data);
}

// Of those that can be answered: what is being checked is looked at afterwards.
static int64_t first_deadline_ns(const struct npu_pool *pool) {
  int64_t first_ns = INT64_MAX;
  for (struct waiting_entry *entry = pool->queue.first; entry != NULL; entry = waiting_entry_next(entry)) {
    if (pool_item_from_entry(entry)->check_state != CHECK_RUNS && entry->deadline_ns < first_ns) {
      first_ns = entry->deadline_ns;
    }
  }
  return first_ns;
}

static void set_timer(struct npu_pool *pool) {
  int64_t next_ns = first_deadline_ns(pool);
  for (size_t i = 0; i < pool->options.device_count; i++) {
    int64_t device_ns = device_policy_next_ns(&pool->devices[i].policy);
    next_ns = device_ns < next_ns ? device_ns : next_ns;
  }
  if (next_ns == INT64_MAX) {
    uv_timer_stop(&pool->timer);
    return;
  }
  // Rounded up, so that what it wakes for is due then.
  int64_t delay_ms = (next_ns - pool_now_ns(pool)) / 1000000 + 1;
  uv_update_time(pool->options.loop);
  uv_timer_start(&pool->timer, on_timer, delay_ms < 1 ? 1 : (uint64_t)delay_ms, 0);
}

void pool_tick(struct npu_pool *pool) {
  if (pool->stopping) {
    return;
  }
  for (size_t i = 0; i < pool->options.device_count; i++) {
    pool_device_tick(&pool->devices[i]);
  }
  pool_drop_expired(pool);
  set_timer(pool);
}

// ---- From other threads

// What is only done when somebody asked for it.
static void obey_quarantine(struct npu_pool *pool) {
  for (size_t i = 0; i < pool->options.device_count; i++) {
    char why[DEVICE_WHY_BYTES_MAX + 1];
    pthread_mutex_lock(&pool->mutex);
    bool asked = pool->quarantine_asked[i];
    pool->quarantine_asked[i] = false;
    memcpy(why, pool->quarantine_why[i], sizeof why);
    pthread_mutex_unlock(&pool->mutex);
    if (asked) {
      pool_device_quarantine(&pool->devices[i], why);
    }
  }
}

static void on_wake(uv_async_t *async) {
  struct npu_pool *pool = async->data;
  pthread_mutex_lock(&pool->mutex);
  struct pool_item *item = pool->inbox_first;
  bool look_for_cancelled = pool->look_for_cancelled;
  pool->inbox_first = pool->inbox_last = NULL;
  pool->look_for_cancelled = false;
  pthread_mutex_unlock(&pool->mutex);
  // After the items were taken: a job that a lying device had isn't sent to it again.
  obey_quarantine(pool);
  while (item != NULL) {
    struct pool_item *next = item->next_in_inbox;
    pool_item_arrive(item);
    pool_send_waiting(pool); // one at a time: only what must wait counts for the queue's limit
    item = next;
  }
  if (look_for_cancelled) {
    pool_drop_cancelled(pool);
    pool_send_waiting(pool);
  }
  pool_tick(pool);
}

static void post(struct npu_pool *pool, struct pool_item *item) {
  item->next_in_inbox = NULL;
  pthread_mutex_lock(&pool->mutex);
  *(pool->inbox_last != NULL ? &pool->inbox_last->next_in_inbox : &pool->inbox_first) = item;
  pool->inbox_last = item;
  pthread_mutex_unlock(&pool->mutex);
  uv_async_send(&pool->wake);
}

static void pool_plan(struct backend *backend, struct backend_plan_task *task) {
  struct npu_pool *pool = pool_from_backend(backend);
  struct pool_item *item = pool_item_of_plan(pool, task);
  if (item == NULL) {
    (void)status_fail(&task->status, REASON_INTERNAL, NULL, "no memory for a plan");
    task->done(task, false);
    return;
  }
  post(pool, item);
}

static void pool_run(struct backend *backend, struct backend_run_task *task) {
  struct npu_pool *pool = pool_from_backend(backend);
  struct pool_item *item = pool_item_of_run(pool, task);
  if (item == NULL) {
    task->failure = BACKEND_FAILURE_JOB;
    (void)status_fail(&task->status, REASON_INTERNAL, NULL, "no memory for a job");
    task->done(task, false);
    return;
  }
  task->device = -1;
  task->started_ns = task->finished_ns = pool_now_ns(pool);
  if (pool_item_check_at_once(item)) {
    post(pool, item);
  }
}

static void pool_cancelled(struct backend *backend) {
  struct npu_pool *pool = pool_from_backend(backend);
  pthread_mutex_lock(&pool->mutex);
  pool->look_for_cancelled = true;
  pthread_mutex_unlock(&pool->mutex);
  uv_async_send(&pool->wake);
}

static void pool_quarantine(struct backend *backend, int32_t device, const char *why) {
  struct npu_pool *pool = pool_from_backend(backend);
  assert(device >= 0 && (size_t)device < pool->options.device_count);
  pthread_mutex_lock(&pool->mutex);
  pool->quarantine_asked[device] = true;
  snprintf(pool->quarantine_why[device], sizeof pool->quarantine_why[device], "%s", why);
  pthread_mutex_unlock(&pool->mutex);
  uv_async_send(&pool->wake);
}

// ---- The end

static bool has_processes(const struct npu_pool *pool) {
  for (size_t i = 0; i < pool->options.device_count; i++) {
    if (pool->devices[i].process != NULL) {
      return true;
    }
  }
  return false;
}

static void on_stop_limit(uv_timer_t *timer) {
  struct npu_pool *pool = timer->data;
  for (size_t i = 0; i < pool->options.device_count; i++) {
    pool_device_kill(&pool->devices[i]);
  }
}

static void on_closed(uv_handle_t *handle) {
  struct npu_pool *pool = handle->data;
  pool->handles--;
}

static void free_pool(struct npu_pool *pool) {
  for (size_t i = 0; pool->environment != NULL && pool->environment[i] != NULL; i++) {
    free(pool->environment[i]);
  }
  free(pool->environment);
  free(pool->worker_file);
  free(pool->library_file);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}

static void pool_abandon(struct backend *backend) {
  struct npu_pool *pool = pool_from_backend(backend);
  for (size_t i = 0; i < pool->options.device_count; i++) {
    pool_device_quarantine(&pool->devices[i], "the server ends and doesn't wait for it");
  }
}

static void pool_destroy(struct backend *backend) {
  struct npu_pool *pool = pool_from_backend(backend);
  uv_loop_t *loop = pool->options.loop;
  assert(pool->item_total == 0 && pool->inbox_first == NULL);
  pool->stopping = true;
  for (size_t i = 0; i < pool->options.device_count; i++) {
    pool_device_stop(&pool->devices[i]);
  }
  uv_timer_start(&pool->timer, on_stop_limit, (uint64_t)(pool->options.stop_time_max_ns / 1000000), 0);
  uv_ref((uv_handle_t *)&pool->wake); // the loop waits while there is something that it must keep alive
  while (has_processes(pool)) {
    uv_run(loop, UV_RUN_ONCE);
  }
  uv_close((uv_handle_t *)&pool->timer, on_closed);
  uv_close((uv_handle_t *)&pool->wake, on_closed);
  while (pool->handles > 0) {
    uv_run(loop, UV_RUN_ONCE);
  }
  free_pool(pool);
}

// ---- The beginning

static char *copy_text(const char *text, bool *ok) {
  char *copy = text == NULL ? NULL : strdup(text);
  *ok = *ok && (copy != NULL || text == NULL);
  return copy;
}

// The server's environment, in which the emulator is told how many devices there are.
static bool copy_environment(struct npu_pool *pool) {
  size_t count = 0;
  while (environ[count] != NULL) {
    count++;
  }
  pool->environment = calloc(count + 2, sizeof *pool->environment);
  bool ok = pool->environment != NULL;
  size_t kept = 0;
  for (size_t i = 0; ok && i < count; i++) {
    if (!pool->options.emulated || strncmp(environ[i], EMULATED_DEVICES, strlen(EMULATED_DEVICES)) != 0) {
      pool->environment[kept++] = copy_text(environ[i], &ok);
    }
  }
  if (ok && pool->options.emulated) {
    char text[sizeof EMULATED_DEVICES + 24];
    snprintf(text, sizeof text, EMULATED_DEVICES "%zu", pool->options.device_count);
    pool->environment[kept] = copy_text(text, &ok);
  }
  return ok;
}

static void fill_backend(struct npu_pool *pool) {
  pool->backend = (struct backend){.target = TARGET_NPU,
                                   .numerics = 1u << NUMERICS_DEVICE | 1u << NUMERICS_EXACT,
                                   .plan = pool_plan,
                                   .run = pool_run,
                                   .cancelled = pool_cancelled,
                                   .describe_devices = pool_describe_devices,
                                   .current_numerics = pool_current_numerics,
                                   .quarantine = pool_quarantine,
                                   .is_comparable = pool_is_comparable,
                                   .abandon = pool_abandon,
                                   .destroy = pool_destroy};
  if (pool->options.deterministic_count > 0) {
    pool->backend.numerics |= 1u << NUMERICS_DETERMINISTIC;
  }
}

static void open_handles(struct npu_pool *pool) {
  int error = uv_timer_init(pool->options.loop, &pool->timer);
  error = error != 0 ? error : uv_async_init(pool->options.loop, &pool->wake, on_wake);
  assert(error == 0); // fails only where a process can't have a handful of descriptors
  pool->timer.data = pool->wake.data = pool;
  pool->handles = 2;
  uv_unref((uv_handle_t *)&pool->timer);
  uv_unref((uv_handle_t *)&pool->wake);
}

bool npu_pool_create(const struct npu_pool_options *options, struct backend **backend,
                     struct status *status) {
  assert(options->device_count >= 1 && options->device_count <= BACKEND_DEVICES_MAX);
  struct npu_pool *pool = calloc(1, sizeof *pool + options->device_count * sizeof pool->devices[0]);
  if (pool == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the pool of NPUs");
  }
  pthread_mutex_init(&pool->mutex, NULL);
  pool->options = *options;
  bool ok = true;
  pool->worker_file = copy_text(options->worker_file, &ok);
  pool->library_file = copy_text(options->library_file, &ok);
  if (!ok || !copy_environment(pool)) {
    free_pool(pool);
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the pool of NPUs");
  }
  pool->queue.limit = options->queue_max * options->device_count;
  fill_backend(pool);
  open_handles(pool);
  for (size_t i = 0; i < options->device_count; i++) {
    pool_device_init(&pool->devices[i], pool, (uint32_t)i);
  }
  pool_tick(pool);
  *backend = &pool->backend;
  return true;
}

bool npu_pool_is_settled(const struct backend *backend) {
  const struct npu_pool *pool = pool_from_backend(backend);
  for (size_t i = 0; i < pool->options.device_count; i++) {
    if (!pool->devices[i].settled) {
      return false;
    }
  }
  return true;
}
