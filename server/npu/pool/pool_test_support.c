#include "server/npu/pool/pool_test_support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

// Generous, also where qemu runs the workers on a busy machine: what takes longer hangs.
#define PATIENCE_MS 180000
#define ARENA_BYTES ((uint64_t)64 << 20)

const char *pool_test_worker;

static int64_t read_clock(void *context) {
  return ((struct pool_test *)context)->now_ns;
}

static void on_watchdog(uv_timer_t *timer) {
  (void)timer;
  fprintf(stderr, "the test hangs\n");
  abort();
}

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  int count = 0;
  while (readdir(folder) != NULL) {
    count++;
  }
  closedir(folder);
  return count;
}

// Threads and descriptors that live on after the first loop come into being here.
static void on_nothing(uv_work_t *work) {
  (void)work;
}

static void warm_up(void) {
  uv_loop_t loop;
  uv_work_t work;
  assert_int_equal(uv_loop_init(&loop), 0);
  assert_int_equal(uv_queue_work(&loop, &work, on_nothing, NULL), 0);
  uv_signal_t signal;
  uv_signal_init(&loop, &signal);
  uv_close((uv_handle_t *)&signal, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
}

static bool is_decided(const struct pool_test *test) {
  for (size_t i = 0; i < test->pool->options.device_count; i++) {
    if (pool_test_state(test, i) == DEVICE_ENDING) {
      return false;
    }
  }
  return npu_pool_is_settled(test->backend);
}

void pool_test_begin(struct pool_test *test, const struct pool_test_options *options) {
  memset(test, 0, sizeof *test);
  warm_up();
  test->descriptors = count_descriptors();
  test->now_ns = 1000 * SECOND;
  test->log = (struct log){.descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC), .level = LOG_DEBUG};
  uv_loop_init(&test->loop);
  uv_timer_init(&test->loop, &test->watchdog);
  uv_timer_start(&test->watchdog, on_watchdog, PATIENCE_MS, 0);
  struct status status;
  assert_true(arena_create(ARENA_BYTES, &test->arena, &status));
  struct npu_pool_options created = {
      .loop = &test->loop,
      .log = &test->log,
      .arena = test->arena,
      .device_count = options->devices == 0 ? 1 : options->devices,
      .deterministic_count = options->deterministic,
      .emulated = true,
      .worker_file = pool_test_worker,
      .library_file = options->script == NULL ? "good" : options->script,
      .affinity = true,
      .queue_max = TEST_QUEUE_MAX,
      .queue_time_max_ns = TEST_QUEUE_TIME,
      .stop_time_max_ns = options->stop_time_ns == 0 ? 60 * SECOND : options->stop_time_ns,
      .limits = npu_pool_limits(4 * SECOND, 60 * SECOND),
      .clock_ns = read_clock,
      .clock_context = test,
  };
  assert_true(npu_pool_create(&created, &test->backend, &status));
  test->pool = pool_from_backend(test->backend);
  pool_test_await(test, is_decided(test));
}

void pool_test_end(struct pool_test *test) {
  test->backend->destroy(test->backend);
  arena_destroy(test->arena); // asserts that no block is left
  uv_close((uv_handle_t *)&test->watchdog, NULL);
  uv_run(&test->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&test->loop), 0);
  close(test->log.descriptor);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
  assert_int_equal(count_descriptors(), test->descriptors);
}

void pool_test_turn(struct pool_test *test, int64_t by_ns) {
  test->now_ns += by_ns;
  pool_tick(test->pool);
}

static bool has_silent_device(const struct pool_test *test) {
  for (size_t i = 0; i < test->pool->options.device_count; i++) {
    const struct device_policy *policy = &test->pool->devices[i].policy;
    if (policy->state == DEVICE_UP && policy->_pings_answered < policy->_pings_sent) {
      return true;
    }
  }
  return false;
}

void pool_test_ping(struct pool_test *test) {
  pool_test_turn(test, SECOND);
  pool_test_await(test, !has_silent_device(test));
}

enum device_state pool_test_state(const struct pool_test *test, size_t device) {
  return test->pool->devices[device].policy.state;
}

void pool_test_revive(struct pool_test *test, size_t device) {
  struct device_policy *policy = &test->pool->devices[device].policy;
  while (policy->state != DEVICE_UP) {
    if (policy->state == DEVICE_DOWN || policy->state == DEVICE_GIVEN_UP) {
      int64_t delay_ns = device_policy_next_ns(policy) - test->now_ns;
      pool_test_turn(test, delay_ns < 0 ? 0 : delay_ns);
    } else {
      uv_run(&test->loop, UV_RUN_ONCE);
    }
  }
}

int pool_test_process(const struct pool_test *test, size_t device) {
  assert_non_null(test->pool->devices[device].process);
  return worker_process_id(test->pool->devices[device].process);
}

// ---- Jobs

static void make_plan(struct plan *plan, int64_t planes, int64_t side) {
  static const char *const names[] = {"gradOutput", "self", "indices", "gradInput"};
  struct operator_request request = {
      .operator_name = "aclnnAdaptiveMaxPool2dBackward", .argument_count = 4, .target = TARGET_NPU};
  for (size_t i = 0; i < 4; i++) {
    int64_t own_side = i % 2 == 0 ? side : 2 * side;
    strcpy(request.arguments[i].name, names[i]);
    request.arguments[i].value =
        (struct argument_value){.kind = PARAMETER_KIND_TENSOR,
                                .tensor = {.data_type = i == 2 ? DATA_TYPE_INT64 : DATA_TYPE_FLOAT,
                                           .rank = 3,
                                           .shape = {planes, own_side, own_side}}};
  }
  struct status status;
  if (!plan_create(&request, plan, &status)) {
    fail_msg("%s", status.message);
  }
}

static void on_run_done(struct backend_run_task *task, bool ok) {
  struct pool_test_job *job = (struct pool_test_job *)((char *)task - offsetof(struct pool_test_job, task));
  assert_false(job->done);
  job->done = true;
  job->ok = ok;
}

static void on_plan_done(struct backend_plan_task *task, bool ok) {
  struct pool_test_job *job =
      (struct pool_test_job *)((char *)task - offsetof(struct pool_test_job, plan_task));
  assert_false(job->done);
  job->done = true;
  job->ok = ok;
  job->task.status = task->status;
}

static void init_job(struct pool_test *test, struct pool_test_job *job, enum behaviour behaviour,
                     int64_t side) {
  memset(job, 0, sizeof *job);
  job->test = test;
  make_plan(&job->plan, behaviour, side);
  size_t pooled = (size_t)(behaviour * side * side);
  struct status status;
  size_t indices_at = (pooled * 4 + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  assert_true(arena_allocate(test->arena, indices_at + pooled * 8, &job->inputs, &status));
  assert_true(arena_allocate(test->arena, pooled * 16, &job->outputs, &status));
  memset(job->inputs.data, 0, job->inputs.size);
  memset(job->outputs.data, 0x11, job->outputs.size);
  job->indices = (int64_t *)(job->inputs.data + indices_at);
  atomic_init(&job->cancelled, false);
  job->task = (struct backend_run_task){
      .run = {.plan = &job->plan,
              .storages = {job->inputs.data, NULL, job->indices, job->outputs.data},
              .cancelled = &job->cancelled},
      .attempt = 1,
      .inputs = &job->inputs,
      .outputs = &job->outputs,
      .done = on_run_done,
  };
  job->plan_task = (struct backend_plan_task){.plan = &job->plan, .done = on_plan_done};
}

void pool_test_job_init(struct pool_test *test, struct pool_test_job *job, enum behaviour behaviour) {
  init_job(test, job, behaviour, 4);
}

void pool_test_job_init_large(struct pool_test *test, struct pool_test_job *job, enum behaviour behaviour) {
  init_job(test, job, behaviour, 256);
}

void pool_test_run(struct pool_test_job *job) {
  job->done = false;
  job->test->backend->run(job->test->backend, &job->task);
}

void pool_test_plan(struct pool_test_job *job) {
  job->done = false;
  job->test->backend->plan(job->test->backend, &job->plan_task);
}

void pool_test_finish(struct pool_test_job *job) {
  pool_test_await(job->test, job->done);
}

void pool_test_job_free(struct pool_test_job *job) {
  arena_free(job->test->arena, &job->inputs);
  arena_free(job->test->arena, &job->outputs);
}

void pool_test_expect_failure(struct pool_test_job *job, enum backend_failure failure, enum reason reason,
                              const char *says) {
  pool_test_finish(job);
  assert_false(job->ok);
  if (job->task.status.reason != reason || strstr(job->task.status.message, says) == NULL) {
    fail_msg("%s, \"%s\", not %s with \"%s\"", reason_name(job->task.status.reason), job->task.status.message,
             reason_name(reason), says);
  }
  assert_int_equal(job->task.failure, failure);
}

void pool_test_expect_success(struct pool_test_job *job, int device) {
  pool_test_finish(job);
  if (!job->ok) {
    fail_msg("%s", job->task.status.message);
  }
  if (device >= 0) {
    assert_int_equal(job->task.device, device);
  }
  for (size_t i = 0; i < job->outputs.size; i++) {
    assert_int_equal(job->outputs.data[i], 0xa0 + job->task.device);
  }
}

void pool_test_run_good_job(struct pool_test *test) {
  struct pool_test_job job;
  pool_test_job_init(test, &job, BEHAVIOUR_GOOD);
  pool_test_run(&job);
  pool_test_expect_success(&job, -1);
  pool_test_job_free(&job);
}

void pool_test_detail(const struct pool_test *test, size_t device, struct backend_device *report) {
  struct backend_device reports[BACKEND_DEVICES_MAX];
  size_t count = test->backend->describe_devices(test->backend, reports, BACKEND_DEVICES_MAX);
  assert_int_equal(count, test->pool->options.device_count);
  *report = reports[device];
}
