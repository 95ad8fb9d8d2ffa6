// The pool with workers that behave.
#include "server/npu/pool/pool_test_support.h"

static void a_job_runs_on_a_worker(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  pool_test_run(&job);
  test.now_ns += 5 * MS;
  pool_test_expect_success(&job, 0);
  // The fake worker's clock stands at 0: its times are kept within ours.
  assert_true(job.task.started_ns <= job.task.finished_ns && job.task.finished_ns <= test.now_ns);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void phase_one_gives_the_devices_workspace(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  pool_test_plan(&job);
  pool_test_finish(&job);
  assert_true(job.ok);
  assert_int_equal(job.plan.workspace_bytes, FAKE_WORKSPACE_BYTES);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_large_job_is_checked_and_runs(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init_large(&test, &job, BEHAVIOUR_GOOD);
  pool_test_run(&job);
  pool_test_expect_success(&job, 0);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

// Whatever a worker would do with them.
static void bad_indices_never_reach_a_device(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  for (int large = 0; large < 2; large++) {
    struct pool_test_job job;
    (large ? pool_test_job_init_large : pool_test_job_init)(&test, &job, BEHAVIOUR_DIES);
    job.indices[5] = -1;
    job.task.may_move = true;
    pool_test_run(&job);
    pool_test_expect_failure(&job, BACKEND_FAILURE_JOB, REASON_ACLNN_ERR_PARAM_INVALID, "-1");
    pool_test_job_free(&job);
  }
  assert_int_equal(pool_test_state(&test, 0), DEVICE_UP);
  pool_test_end(&test);
}

static bool each_has(const struct pool_test *test, size_t jobs) {
  for (size_t i = 0; i < test->pool->options.device_count; i++) {
    if (test->pool->devices[i].job_count != jobs) {
      return false;
    }
  }
  return true;
}

static void jobs_go_to_the_least_loaded_device(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 3});
  struct pool_test_job jobs[6];
  for (size_t i = 0; i < 6; i++) {
    pool_test_job_init(&test, &jobs[i], i < 3 ? BEHAVIOUR_HANGS : BEHAVIOUR_GOOD);
    pool_test_run(&jobs[i]);
    if (i == 2) {
      pool_test_await(&test, each_has(&test, 1));
    }
  }
  pool_test_await(&test, each_has(&test, 2));
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(jobs[i].task.device, (int)i);
    assert_int_equal(kill(pool_test_process(&test, i), SIGKILL), 0);
  }
  for (size_t i = 0; i < 3; i++) {
    pool_test_expect_failure(&jobs[i], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "signal 9");
  }
  for (size_t i = 0; i < 3; i++) {
    pool_test_revive(&test, i);
  }
  for (size_t i = 3; i < 6; i++) {
    pool_test_expect_success(&jobs[i], -1);
  }
  for (size_t i = 0; i < 6; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void a_late_answer_is_an_answer(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_HOLDS);
  pool_test_run(&job);
  pool_test_await(&test, test.pool->devices[0].job_count == 1);
  pool_test_ping(&test);
  pool_test_expect_success(&job, 0);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_stream_is_run_in_order(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  struct pool_test_job first, second, other;
  pool_test_job_init(&test, &first, BEHAVIOUR_HOLDS);
  pool_test_job_init(&test, &second, BEHAVIOUR_GOOD);
  pool_test_job_init(&test, &other, BEHAVIOUR_GOOD);
  first.task.stream = second.task.stream = &first;
  pool_test_run(&first);
  pool_test_run(&second);
  pool_test_run(&other);
  pool_test_expect_success(&other, 1);
  assert_false(first.done || second.done);
  pool_test_ping(&test);
  pool_test_expect_success(&second, -1);
  assert_true(first.done);
  pool_test_expect_success(&first, 0);
  pool_test_job_free(&first);
  pool_test_job_free(&second);
  pool_test_job_free(&other);
  pool_test_end(&test);
}

static void a_large_job_keeps_its_place_in_the_stream(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  struct pool_test_job large, small;
  pool_test_job_init_large(&test, &large, BEHAVIOUR_HOLDS);
  pool_test_job_init(&test, &small, BEHAVIOUR_GOOD);
  large.task.stream = small.task.stream = &large;
  pool_test_run(&large);
  pool_test_run(&small);
  pool_test_await(&test, test.pool->devices[0].job_count == 1);
  assert_int_equal(test.pool->queue.count, 1);
  pool_test_ping(&test);
  pool_test_expect_success(&large, 0);
  pool_test_expect_success(&small, -1);
  pool_test_job_free(&large);
  pool_test_job_free(&small);
  pool_test_end(&test);
}

static void a_full_queue_refuses_with_advice(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[2 + TEST_QUEUE_MAX + 1];
  size_t count = sizeof jobs / sizeof jobs[0];
  for (size_t i = 0; i < count; i++) {
    pool_test_job_init(&test, &jobs[i], i == 0 ? BEHAVIOUR_HANGS : BEHAVIOUR_GOOD);
  }
  // Two on the device, the others wait.
  pool_test_run(&jobs[0]);
  pool_test_run(&jobs[1]);
  pool_test_await(&test, test.pool->devices[0].job_count == 2);
  for (size_t i = 2; i < count; i++) {
    pool_test_run(&jobs[i]);
  }
  struct pool_test_job *last = &jobs[count - 1];
  pool_test_expect_failure(last, BACKEND_FAILURE_NO_DEVICE, REASON_QUEUE_FULL, "3 jobs wait");
  assert_true(last->task.status.retry_after_ms > 0);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "signal 9");
  pool_test_revive(&test, 0);
  for (size_t i = 1; i < count - 1; i++) {
    pool_test_expect_success(&jobs[i], 0);
  }
  for (size_t i = 0; i < count; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void a_job_waits_no_longer_than_it_may(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[3];
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_init(&test, &jobs[i], i == 0 ? BEHAVIOUR_HANGS : BEHAVIOUR_GOOD);
    pool_test_run(&jobs[i]);
  }
  pool_test_await(&test, test.pool->queue.count == 1);
  for (int i = 0; i < 29; i++) {
    pool_test_ping(&test);
  }
  assert_false(jobs[2].done);
  pool_test_ping(&test);
  pool_test_expect_failure(&jobs[2], BACKEND_FAILURE_NO_DEVICE, REASON_QUEUE_TIMEOUT, "too long");
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "");
  pool_test_revive(&test, 0);
  pool_test_expect_success(&jobs[1], 0);
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void a_cancelled_job_stops_waiting(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[3];
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_init(&test, &jobs[i], BEHAVIOUR_HOLDS);
    pool_test_run(&jobs[i]);
  }
  pool_test_await(&test, test.pool->queue.count == 1);
  atomic_store(&jobs[2].cancelled, true);
  test.backend->cancelled(test.backend);
  pool_test_expect_failure(&jobs[2], BACKEND_FAILURE_JOB, REASON_CANCELLED, "cancelled");
  assert_false(jobs[0].done || jobs[1].done);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "");
  // The one that waited in the worker is cancelled, too: it is not begun again.
  atomic_store(&jobs[1].cancelled, true);
  test.backend->cancelled(test.backend);
  pool_test_expect_failure(&jobs[1], BACKEND_FAILURE_JOB, REASON_CANCELLED, "cancelled");
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void nobody_waits_for_devices_that_are_abandoned(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[3];
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_init(&test, &jobs[i], BEHAVIOUR_HOLDS);
    pool_test_run(&jobs[i]);
  }
  pool_test_await(&test, test.pool->queue.count == 1);
  test.backend->abandon(test.backend);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "the server ends");
  for (size_t i = 1; i < 3; i++) {
    pool_test_expect_failure(&jobs[i], BACKEND_FAILURE_NO_DEVICE, REASON_DEVICE_LOST, "");
  }
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void expect_plan_refused(struct pool_test *test, enum numerics numerics, const char *says) {
  struct pool_test_job job;
  pool_test_job_init(test, &job, BEHAVIOUR_GOOD);
  job.plan.numerics = numerics;
  pool_test_plan(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_JOB, REASON_TARGET_UNAVAILABLE, says);
  pool_test_job_free(&job);
}

static void exact_is_refused_where_no_device_gives_it(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "a2"});
  expect_plan_refused(&test, NUMERICS_EXACT, "EXACT");
  assert_int_equal(test.backend->current_numerics(test.backend), 1u << NUMERICS_DEVICE);
  pool_test_end(&test);
}

static void exact_goes_to_the_device_that_gives_it(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "0:a2", .devices = 2});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  job.plan.numerics = NUMERICS_EXACT;
  for (int i = 0; i < 3; i++) {
    pool_test_run(&job);
    pool_test_expect_success(&job, 1);
  }
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void deterministic_goes_to_a_deterministic_device(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 3, .deterministic = 1});
  assert_true((test.backend->numerics & 1u << NUMERICS_DETERMINISTIC) != 0);
  assert_true((test.backend->current_numerics(test.backend) & 1u << NUMERICS_DETERMINISTIC) != 0);
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  job.plan.numerics = NUMERICS_DETERMINISTIC;
  for (int i = 0; i < 3; i++) {
    pool_test_run(&job);
    pool_test_expect_success(&job, 2);
  }
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void deterministic_is_refused_without_such_a_device(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  assert_true((test.backend->numerics & 1u << NUMERICS_DETERMINISTIC) == 0);
  expect_plan_refused(&test, NUMERICS_DETERMINISTIC, "deterministic");
  pool_test_end(&test);
}

static void a_library_without_the_operator_serves_nobody(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "empty"});
  expect_plan_refused(&test, NUMERICS_DEVICE, "has no aclnnAdaptiveMaxPool2dBackward");
  pool_test_end(&test);
}

static void an_unknown_product_is_not_healthy(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "unknown"});
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_non_null(strstr(report.detail, "FakeSoc (unknown)"));
  expect_plan_refused(&test, NUMERICS_DEVICE, "unknown");
  assert_int_equal(test.backend->current_numerics(test.backend), 0);
  pool_test_end(&test);
}

static void devices_are_described(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2, .deterministic = 1});
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_true(report.healthy);
  assert_string_equal(report.name, "npu:0");
  assert_string_equal(report.detail, "FakeSoc (emulated), CANN 8.1.2, 1024 MiB, 0 restarts");
  pool_test_detail(&test, 1, &report);
  assert_string_equal(report.name, "npu:1");
  assert_non_null(strstr(report.detail, ", deterministic, "));
  pool_test_end(&test);
}

static void results_are_judged_by_who_vouches(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "0:a2", .devices = 2});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  bool exactly = false;
  job.task.device = 1;
  assert_true(test.backend->is_comparable(test.backend, &job.task, &exactly));
  assert_true(exactly);
  // All indices are 0, out of most windows: an A2 drops them.
  job.task.device = 0;
  assert_false(test.backend->is_comparable(test.backend, &job.task, &exactly));
  assert_false(exactly);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

// ---- From many threads

#define THREADS 4
#define JOBS_OF_THREAD 40

struct crowd {
  struct pool_test *test;
  struct pool_test_job jobs[JOBS_OF_THREAD];
  atomic_size_t *done;
  atomic_size_t *refused;
};

struct crowd_task {
  struct backend_run_task task;
  struct crowd *crowd;
};

static void on_crowd_done(struct backend_run_task *task, bool ok) {
  struct crowd *crowd = ((struct crowd_task *)task)->crowd;
  // More come than may wait, and some are cancelled: both are answers.
  if (!ok) {
    assert(task->status.reason == REASON_QUEUE_FULL || task->status.reason == REASON_CANCELLED);
    atomic_fetch_add(crowd->refused, 1);
  }
  atomic_fetch_add(crowd->done, 1);
  free(task);
}

static void bring_jobs(void *argument) {
  struct crowd *crowd = argument;
  struct backend *backend = crowd->test->backend;
  for (size_t i = 0; i < JOBS_OF_THREAD; i++) {
    struct crowd_task *brought = malloc(sizeof *brought);
    assert(brought != NULL);
    brought->crowd = crowd;
    brought->task = crowd->jobs[i].task;
    brought->task.done = on_crowd_done;
    brought->task.stream = i % 2 == 0 ? crowd : NULL;
    backend->run(backend, &brought->task);
    if (i % 8 == 0) {
      atomic_store(&crowd->jobs[i].cancelled, true);
      backend->cancelled(backend);
    }
    struct backend_device reports[BACKEND_DEVICES_MAX];
    assert(backend->describe_devices(backend, reports, BACKEND_DEVICES_MAX) == 2);
    assert(backend->current_numerics(backend) != 0);
  }
}

static void jobs_come_from_many_threads(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  atomic_size_t done = 0, refused = 0;
  struct crowd *crowds = calloc(THREADS, sizeof *crowds);
  assert_non_null(crowds);
  uv_thread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    crowds[i].test = &test;
    crowds[i].done = &done;
    crowds[i].refused = &refused;
    for (size_t j = 0; j < JOBS_OF_THREAD; j++) {
      pool_test_job_init(&test, &crowds[i].jobs[j], BEHAVIOUR_GOOD);
    }
  }
  for (size_t i = 0; i < THREADS; i++) {
    assert_int_equal(uv_thread_create(&threads[i], bring_jobs, &crowds[i]), 0);
  }
  pool_test_await(&test, atomic_load(&done) == THREADS * JOBS_OF_THREAD);
  assert_true(atomic_load(&refused) < THREADS * JOBS_OF_THREAD);
  for (size_t i = 0; i < THREADS; i++) {
    uv_thread_join(&threads[i]);
    for (size_t j = 0; j < JOBS_OF_THREAD; j++) {
      pool_test_job_free(&crowds[i].jobs[j]);
    }
  }
  free(crowds);
  pool_test_end(&test);
}

int main(int count, char **arguments) {
  assert(count == 2);
  pool_test_worker = arguments[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_job_runs_on_a_worker),
      cmocka_unit_test(phase_one_gives_the_devices_workspace),
      cmocka_unit_test(a_large_job_is_checked_and_runs),
      cmocka_unit_test(bad_indices_never_reach_a_device),
      cmocka_unit_test(jobs_go_to_the_least_loaded_device),
      cmocka_unit_test(a_late_answer_is_an_answer),
      cmocka_unit_test(a_stream_is_run_in_order),
      cmocka_unit_test(a_large_job_keeps_its_place_in_the_stream),
      cmocka_unit_test(a_full_queue_refuses_with_advice),
      cmocka_unit_test(a_job_waits_no_longer_than_it_may),
      cmocka_unit_test(a_cancelled_job_stops_waiting),
      cmocka_unit_test(nobody_waits_for_devices_that_are_abandoned),
      cmocka_unit_test(exact_is_refused_where_no_device_gives_it),
      cmocka_unit_test(exact_goes_to_the_device_that_gives_it),
      cmocka_unit_test(deterministic_goes_to_a_deterministic_device),
      cmocka_unit_test(deterministic_is_refused_without_such_a_device),
      cmocka_unit_test(a_library_without_the_operator_serves_nobody),
      cmocka_unit_test(an_unknown_product_is_not_healthy),
      cmocka_unit_test(devices_are_described),
      cmocka_unit_test(results_are_judged_by_who_vouches),
      cmocka_unit_test(jobs_come_from_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
