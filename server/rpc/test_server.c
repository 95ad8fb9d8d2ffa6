#include "server/rpc/test_server.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Generous: what takes longer hangs.
#define PATIENCE_SECONDS 60

struct held_backend {
  struct backend base;
  pthread_mutex_t mutex;
  bool holds;
  size_t runs_before; // it holds
  struct backend_run_task *held;
  size_t held_count;
  void (*runs)(void *context); // NULL: nobody watches
  void *runs_context;
};

struct losing_backend {
  struct backend base;
  atomic_int runs_to_lose;
};

struct test_server {
  struct service_context context;
  struct log log;
  struct held_backend backend;
  struct losing_backend npu;
  struct server *rpc;
  atomic_int_fast64_t clock_ns;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool stopping, stopped;
};

static int64_t read_clock_ns(void *context) {
  struct test_server *server = context;
  return atomic_load(&server->clock_ns);
}

static int64_t read_clock_ms(void *context) {
  return read_clock_ns(context) / 1000000;
}

// ---- The backend

static void run_now(struct backend_run_task *task) {
  task->started_ns = task->finished_ns = 0;
  const struct operator_definition *definition = task->run.plan->definition;
  task->done(task, definition->run(&task->run, &task->status));
}

static void backend_run(struct backend *base, struct backend_run_task *task) {
  struct held_backend *backend = (struct held_backend *)base;
  pthread_mutex_lock(&backend->mutex);
  bool holds = backend->holds && backend->runs_before == 0;
  backend->runs_before -= backend->runs_before > 0 ? 1 : 0;
  if (holds) {
    task->_next = backend->held;
    backend->held = task;
    ++backend->held_count;
  }
  void (*runs)(void *context) = backend->runs;
  pthread_mutex_unlock(&backend->mutex);
  if (runs != NULL) {
    runs(backend->runs_context);
  }
  if (!holds) {
    run_now(task);
  }
}

static void backend_destroy(struct backend *base) {
  struct held_backend *backend = (struct held_backend *)base;
  assert(backend->held == NULL);
  pthread_mutex_destroy(&backend->mutex);
}

void test_server_hold_jobs(struct test_server *server, size_t but) {
  pthread_mutex_lock(&server->backend.mutex);
  server->backend.holds = true;
  server->backend.runs_before = but;
  pthread_mutex_unlock(&server->backend.mutex);
}

void test_server_release_jobs(struct test_server *server) {
  pthread_mutex_lock(&server->backend.mutex);
  struct backend_run_task *held = server->backend.held;
  server->backend.holds = false;
  server->backend.held = NULL;
  server->backend.held_count = 0;
  pthread_mutex_unlock(&server->backend.mutex);
  while (held != NULL) {
    struct backend_run_task *task = held;
    held = held->_next;
    run_now(task);
  }
}

void test_server_watch_runs(struct test_server *server, void (*runs)(void *context), void *context) {
  pthread_mutex_lock(&server->backend.mutex);
  server->backend.runs = runs;
  server->backend.runs_context = context;
  pthread_mutex_unlock(&server->backend.mutex);
}

static void npu_run(struct backend *base, struct backend_run_task *task) {
  struct losing_backend *npu = (struct losing_backend *)base;
  if (atomic_fetch_sub(&npu->runs_to_lose, 1) > 0) {
    task->failure = BACKEND_FAILURE_DEVICE;
    task->done(task, status_fail(&task->status, REASON_DEVICE_LOST, NULL, "the device was lost"));
  } else {
    run_now(task);
  }
}

static void npu_destroy(struct backend *base) {
  (void)base;
}

void test_server_lose_device(struct test_server *server, int runs) {
  atomic_store(&server->npu.runs_to_lose, runs);
}

// ---- Waiting for what happens on other threads

static void await(struct test_server *server, size_t (*count)(struct test_server *server), size_t wanted,
                  const char *what) {
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int64_t pauses = 0; count(server) != wanted; ++pauses) {
    if (pauses > PATIENCE_SECONDS * 1000) {
      fprintf(stderr, "still %zu %s, not %zu\n", count(server), what, wanted);
      abort();
    }
    nanosleep(&pause, NULL);
  }
}

static size_t count_held(struct test_server *server) {
  pthread_mutex_lock(&server->backend.mutex);
  size_t count = server->backend.held_count;
  pthread_mutex_unlock(&server->backend.mutex);
  return count;
}

static size_t count_queued(struct test_server *server) {
  struct budget_state state;
  budget_get_state(dispatcher_budget(server->context.dispatcher), &state);
  return state.waiting;
}

static size_t count_calls(struct test_server *server) {
  return server_open_calls(server->rpc);
}

void test_server_await_held(struct test_server *server, size_t jobs) {
  await(server, count_held, jobs, "jobs are held");
}

void test_server_await_queued(struct test_server *server, size_t jobs) {
  await(server, count_queued, jobs, "jobs wait for memory");
}

void test_server_await_calls(struct test_server *server, size_t calls) {
  await(server, count_calls, calls, "calls are open");
}

// ---- Beginning and end

static int identify_nobody(void *context, const char *peer, char identity[SESSION_IDENTITY_BYTES_MAX + 1]) {
  (void)context;
  (void)peer;
  identity[0] = '\0';
  return 0;
}

static void on_stopped(void *context) {
  struct test_server *server = context;
  pthread_mutex_lock(&server->mutex);
  server->stopped = true;
  pthread_cond_signal(&server->changed);
  pthread_mutex_unlock(&server->mutex);
}

static void must(bool ok, const struct status *status) {
  if (!ok) {
    fprintf(stderr, "%s\n", status->message);
    abort();
  }
}

static void create_machine(struct test_server *server) {
  struct status status;
  server->backend.base = (struct backend){
      .target = TARGET_CPU, .numerics = 1u << NUMERICS_EXACT, .run = backend_run, .destroy = backend_destroy};
  pthread_mutex_init(&server->backend.mutex, NULL);
  server->npu.base = (struct backend){
      .target = TARGET_NPU, .numerics = 1u << NUMERICS_DEVICE, .run = npu_run, .destroy = npu_destroy};
  struct budget_options budget = {.limit_bytes = TEST_SERVER_MEMORY_BYTES,
                                  .queue_max = 8,
                                  .queue_time_max_ns = INT64_C(3600) * 1000000000};
  struct dispatcher_options options = {.backends = {&server->backend.base, &server->npu.base},
                                       .backend_count = 2,
                                       .clock_ns = read_clock_ns,
                                       .clock_context = server};
  must(budget_create(&budget, &options.budget, &status), &status);
  must(arena_create(4 * TEST_SERVER_MEMORY_BYTES, &options.arena, &status), &status);
  must(dispatcher_create(&options, &server->context.dispatcher, &status), &status);
  struct session_options sessions = {.executors_max = 100,
                                     .ttl_default_ms = 60000,
                                     .ttl_max_ms = 3600000,
                                     .steady_ms = read_clock_ms,
                                     .unix_ms = read_clock_ms,
                                     .clock_context = server};
  must(session_table_create(&sessions, &server->context.sessions, &status), &status);
}

struct test_server *test_server_start(void) {
  static const struct service *const services[] = {&operator_service, &health_service};
  struct test_server *server = calloc(1, sizeof *server);
  assert(server != NULL);
  pthread_mutex_init(&server->mutex, NULL);
  pthread_cond_init(&server->changed, NULL);
  atomic_init(&server->clock_ns, INT64_C(1000000000000));
  server->log = (struct log){.descriptor = STDERR_FILENO, .level = LOG_INFO};
  server->context.log = &server->log;
  server->context.drain_retry_ms = 1000;
  atomic_init(&server->context.draining, false);
  create_machine(server);
  // One queue: whatever happens on it lets it look at its timers.
  struct server_options options = {.context = &server->context,
                                   .services = services,
                                   .service_count = sizeof services / sizeof services[0],
                                   .queue_count = 1,
                                   .idle_timeout_ns = TEST_SERVER_IDLE_NS,
                                   .clock_ns = read_clock_ns,
                                   .coarse_clock_ns = read_clock_ns,
                                   .clock_context = server,
                                   .identify = identify_nobody,
                                   .stopped = on_stopped,
                                   .stopped_context = server};
  struct status status;
  must(server_create(&options, &server->rpc, &status), &status);
  server_start(server->rpc);
  return server;
}

static void check_balances(struct test_server *server, size_t executors) {
  struct budget_state budget;
  budget_get_state(dispatcher_budget(server->context.dispatcher), &budget);
  assert(budget.reserved_bytes == 0 && budget.waiting == 0);
  struct arena_state arena;
  arena_get_state(dispatcher_arena(server->context.dispatcher), &arena);
  assert(arena.used_bytes == 0);
  struct session_state sessions;
  session_table_get_state(server->context.sessions, &sessions);
  assert(sessions.executors == executors);
  assert(server_open_calls(server->rpc) == 0);
}

void test_server_begin_to_stop(struct test_server *server) {
  if (!server->stopping) {
    server->stopping = true;
    server_stop(server->rpc);
  }
}

void test_server_stop(struct test_server *server, size_t executors) {
  test_server_begin_to_stop(server);
  pthread_mutex_lock(&server->mutex);
  while (!server->stopped) {
    pthread_cond_wait(&server->changed, &server->mutex);
  }
  pthread_mutex_unlock(&server->mutex);
  check_balances(server, executors);
  dispatcher_destroy(server->context.dispatcher);
  server_destroy(server->rpc);
  session_table_destroy(server->context.sessions);
  pthread_cond_destroy(&server->changed);
  pthread_mutex_destroy(&server->mutex);
  free(server);
}

int test_server_connect(struct test_server *server) {
  int ends[2];
  int result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
  assert(result == 0);
  server_add_connection(server->rpc, ends[0], false);
  return ends[1];
}

struct service_context *test_server_context(struct test_server *server) {
  return &server->context;
}

void test_server_get_traffic(struct test_server *server, struct server_traffic *traffic) {
  server_get_traffic(server->rpc, traffic);
}

void test_server_turn_clock(struct test_server *server, int64_t by_ns) {
  atomic_fetch_add(&server->clock_ns, by_ns);
}
