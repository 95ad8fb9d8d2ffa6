#include "server/dispatch/dispatch_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

atomic_llong fake_clock_ns;

int64_t read_fake_clock(void *context) {
  (void)context;
  return atomic_load(&fake_clock_ns);
}

static void answer_plan(struct fake_backend *fake, struct backend_plan_task *task, bool ok) {
  task->plan->workspace_bytes = fake->plan_workspace_bytes;
  if (!ok) {
    enum reason reason = fake->plan_reason == REASON_NONE ? REASON_DEVICE_LOST : fake->plan_reason;
    status_fail(&task->status, reason, NULL, "no device is left");
  }
  task->done(task, ok);
}

static void fake_plan(struct backend *backend, struct backend_plan_task *task) {
  struct fake_backend *fake = (struct fake_backend *)backend;
  fake->plans++;
  assert_int_equal(task->plan->target, backend->target);
  if (fake->plan_behaviour == FAKE_KEEPS) {
    fake->kept_plan = task;
  } else {
    answer_plan(fake, task, fake->plan_behaviour == FAKE_SUCCEEDS);
  }
}

void fake_answer_plan(struct fake_backend *fake, bool ok) {
  struct backend_plan_task *task = fake->kept_plan;
  assert_non_null(task);
  fake->kept_plan = NULL;
  answer_plan(fake, task, ok);
}

// Takes 10 ns.
static void answer_run(struct fake_backend *fake, struct backend_run_task *task, bool ok) {
  task->finished_ns = task->started_ns + 10;
  if (ok) {
    const struct plan *plan = task->run.plan;
    for (size_t i = 0; i < plan->tensor_count; i++) {
      const struct plan_tensor *tensor = &plan->tensors[i];
      if (tensor->direction == DIRECTION_OUTPUT) {
        memset(task->run.storages[tensor->parameter], 0x5a, (size_t)tensor->storage_bytes);
      }
    }
  } else {
    task->failure = fake->failure;
    status_fail(&task->status, REASON_DEVICE_LOST, NULL, "the device was lost");
  }
  task->done(task, ok);
}

static void fake_run(struct backend *backend, struct backend_run_task *task) {
  struct fake_backend *fake = (struct fake_backend *)backend;
  fake->runs++;
  assert_int_equal(task->run.plan->target, backend->target);
  task->started_ns = read_fake_clock(NULL);
  if (fake->run_behaviour == FAKE_KEEPS) {
    fake->kept_run = task;
  } else {
    answer_run(fake, task, fake->run_behaviour == FAKE_SUCCEEDS);
  }
}

void fake_answer_run(struct fake_backend *fake, bool ok) {
  struct backend_run_task *task = fake->kept_run;
  assert_non_null(task);
  fake->kept_run = NULL;
  answer_run(fake, task, ok);
}

static void fake_cancelled(struct backend *backend) {
  ((struct fake_backend *)backend)->cancellations++;
}

static void fake_destroy(struct backend *backend) {
  struct fake_backend *fake = (struct fake_backend *)backend;
  assert_null(fake->kept_plan);
  assert_null(fake->kept_run);
  if (fake->destroyed != NULL) {
    *fake->destroyed = true;
  }
  free(fake);
}

struct fake_backend *fake_backend_create(enum target target, uint32_t numerics) {
  struct fake_backend *fake = calloc(1, sizeof *fake);
  fake->backend = (struct backend){.target = target,
                                   .numerics = numerics,
                                   .plan = fake_plan,
                                   .run = fake_run,
                                   .cancelled = fake_cancelled,
                                   .destroy = fake_destroy};
  return fake;
}

static struct dispatcher *make_limited_dispatcher(struct dispatcher_options *options, uint64_t limit_bytes,
                                                  uint64_t arena_bytes, size_t queue_max,
                                                  struct backend **backends) {
  struct budget_options budget_options = {
      .limit_bytes = limit_bytes, .queue_max = queue_max, .queue_time_max_ns = QUEUE_TIME_NS};
  struct dispatcher *dispatcher;
  struct status status;
  options->clock_ns = read_fake_clock;
  atomic_store(&fake_clock_ns, 100);
  assert_true(budget_create(&budget_options, &options->budget, &status));
  assert_true(arena_create(arena_bytes, &options->arena, &status));
  while (backends[options->backend_count] != NULL) {
    options->backends[options->backend_count] = backends[options->backend_count];
    options->backend_count++;
  }
  assert_true(dispatcher_create(options, &dispatcher, &status));
  return dispatcher;
}

static struct dispatcher *make_dispatcher(struct dispatcher_options *options, uint64_t arena_bytes,
                                          size_t queue_max, struct backend **backends) {
  return make_limited_dispatcher(options, LIMIT_BYTES, arena_bytes, queue_max, backends);
}

struct dispatcher *make_large_dispatcher(uint64_t limit_bytes) {
  struct dispatcher_options options = {0};
  struct backend *backends[] = {&fake_backend_create(TARGET_CPU, 1u << NUMERICS_EXACT)->backend, NULL};
  return make_limited_dispatcher(&options, limit_bytes, 4 * limit_bytes, QUEUE_MAX, backends);
}

struct dispatcher *make_dispatcher_over(uint64_t arena_bytes, size_t queue_max, struct backend **backends) {
  struct dispatcher_options options = {0};
  return make_dispatcher(&options, arena_bytes, queue_max, backends);
}

struct dispatcher *make_verifying_dispatcher(double fraction, const char *capsule_directory,
                                             struct backend **backends) {
  struct dispatcher_options options = {
      .verify_fraction = fraction, .capsule_directory = capsule_directory, .server_version = "test"};
  return make_dispatcher(&options, 8 * LIMIT_BYTES, QUEUE_MAX, backends);
}

struct dispatcher *make_cpu_dispatcher(struct fake_backend **fake) {
  *fake = fake_backend_create(TARGET_CPU, 1u << NUMERICS_EXACT);
  struct backend *backends[] = {&(*fake)->backend, NULL};
  return make_dispatcher_over(8 * LIMIT_BYTES, QUEUE_MAX, backends);
}

struct dispatcher *make_npu_dispatcher(struct fake_backend **cpu, struct fake_backend **npu) {
  *cpu = fake_backend_create(TARGET_CPU, 1u << NUMERICS_EXACT);
  *npu = fake_backend_create(TARGET_NPU, 1u << NUMERICS_DEVICE | 1u << NUMERICS_DETERMINISTIC);
  struct backend *backends[] = {&(*cpu)->backend, &(*npu)->backend, NULL};
  return make_dispatcher_over(8 * LIMIT_BYTES, QUEUE_MAX, backends);
}

const struct operator_definition *fake_operator(bool on_devices) {
  static const char binding;
  static const struct operator_definition host_only = {.name = "aclnnHostOnly"};
  static const struct operator_definition anywhere = {.name = "aclnnAnywhere", .npu = (const void *)&binding};
  return on_devices ? &anywhere : &host_only;
}

struct plan make_plan(int64_t input_bytes, int64_t output_bytes, uint64_t workspace_bytes) {
  struct plan plan = {
      .definition = fake_operator(false),
      .target = TARGET_CPU,
      .numerics = NUMERICS_EXACT,
      .tensor_count = 3,
      .workspace_bytes = workspace_bytes,
  };
  plan.tensors[0] = (struct plan_tensor){
      .parameter = 2, .direction = DIRECTION_INPUT, .transferred = true, .storage_bytes = input_bytes};
  plan.tensors[1] =
      (struct plan_tensor){.parameter = 0, .direction = DIRECTION_INPUT, .storage_bytes = INT64_MAX};
  plan.tensors[2] = (struct plan_tensor){
      .parameter = 1, .direction = DIRECTION_OUTPUT, .transferred = true, .storage_bytes = output_bytes};
  return plan;
}

void check_balance(struct dispatcher *dispatcher, uint64_t reserved_bytes, uint64_t used_bytes) {
  struct budget_state budget;
  struct arena_state arena;
  budget_get_state(dispatcher_budget(dispatcher), &budget);
  arena_get_state(dispatcher_arena(dispatcher), &arena);
  assert_int_equal(budget.reserved_bytes, reserved_bytes);
  assert_int_equal(arena.used_bytes, used_bytes);
}
