// The pool with workers that die, hang, lie and don't come up.
#include "server/npu/pool/pool_test_support.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

// A job under which its worker is lost, seen from the outside: what it did, and that the device comes back.
static void expect_lost(const char *script, enum behaviour behaviour, int64_t after_ns, const char *says) {
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = script});
  pool_test_ping(&test); // it is known to answer
  struct pool_test_job job;
  pool_test_job_init(&test, &job, behaviour);
  pool_test_run(&job);
  if (after_ns > 0) {
    pool_test_await(&test, test.pool->devices[0].job_count == 1);
    for (int64_t turned_ns = 0; turned_ns < after_ns; turned_ns += SECOND) {
      assert_int_equal(pool_test_state(&test, 0), DEVICE_UP);
      pool_test_turn(&test, SECOND);
    }
  }
  pool_test_expect_failure(&job, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, says);
  // It was reaped: nobody writes to the job's outputs any more.
  assert_null(test.pool->devices[0].process);
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_non_null(strstr(report.detail, says));
  pool_test_revive(&test, 0);
  pool_test_detail(&test, 0, &report);
  assert_true(report.healthy);
  assert_non_null(strstr(report.detail, "1 restarts"));
  pool_test_run_good_job(&test);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_worker_that_dies_is_restarted(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_DIES, 0, "ended by signal 9");
}

static void a_worker_that_exits_is_restarted(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_DIES_ON_DEVICE_0, 0, "exited with 3");
}

static void a_worker_that_falls_silent_is_restarted(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_GOES_MUTE, 5 * SECOND, "doesn't answer");
}

static void garbage_ends_a_worker(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_GARBAGE, 0, "control message");
}

static void an_answer_nobody_asked_for_ends_a_worker(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_FOREIGN_ID, 0, "wasn't given");
}

static void a_worker_that_closes_its_pipe_is_killed(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_CLOSES_PIPE, 0, "signal 9");
}

static void a_fault_of_the_device_ends_its_worker(void **unused) {
  (void)unused;
  expect_lost(NULL, BEHAVIOUR_FAULT, 0, "the fake says 507015");
}

static void a_device_fault_tells_canns_number(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_FAULT);
  pool_test_run(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "npu:0 was lost");
  assert_int_equal(job.task.status.aclnn_status, 507015);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_job_over_its_limit_ends_its_worker(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_HANGS);
  pool_test_run(&job);
  pool_test_await(&test, test.pool->devices[0].job_count == 1);
  for (int i = 0; i < 59; i++) {
    pool_test_ping(&test);
    assert_int_equal(pool_test_state(&test, 0), DEVICE_UP);
  }
  pool_test_turn(&test, SECOND);
  pool_test_expect_failure(&job, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "longer than jobs may");
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_stopped_worker_is_killed(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  pool_test_ping(&test);
  int process = pool_test_process(&test, 0);
  kill(process, SIGSTOP);
  for (int i = 0; i < 5; i++) {
    pool_test_turn(&test, SECOND);
  }
  assert_int_equal(pool_test_state(&test, 0), DEVICE_ENDING);
  pool_test_revive(&test, 0);
  assert_true(pool_test_process(&test, 0) != process);
  pool_test_run_good_job(&test);
  pool_test_end(&test);
}

static void jobs_own_failures_leave_the_device_up(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_MEMORY);
  pool_test_run(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_RESOURCES, REASON_DEVICE_MEMORY, "207018");
  assert_int_equal(job.task.status.aclnn_status, 207018);
  pool_test_job_free(&job);
  pool_test_job_init(&test, &job, BEHAVIOUR_REFUSES);
  pool_test_run(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_JOB, REASON_ACLNN_ERR_INNER_TILING_ERROR, "561002");
  pool_test_job_free(&job);
  assert_int_equal(pool_test_state(&test, 0), DEVICE_UP);
  pool_test_run_good_job(&test);
  pool_test_end(&test);
}

// Only the job that the worker worked on has lost an attempt.
static void jobs_that_waited_in_a_dead_worker_are_not_lost(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[4];
  for (size_t i = 0; i < 4; i++) {
    pool_test_job_init(&test, &jobs[i], i == 0 ? BEHAVIOUR_HANGS : BEHAVIOUR_GOOD);
    pool_test_run(&jobs[i]);
  }
  pool_test_await(&test, test.pool->devices[0].job_count == 2 && test.pool->queue.count == 2);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "");
  // The one that had been sent is the first again.
  assert_int_equal(test.pool->queue.count, 3);
  assert_ptr_equal(pool_item_from_entry(test.pool->queue.first)->run_task, &jobs[1].task);
  pool_test_revive(&test, 0);
  for (size_t i = 1; i < 4; i++) {
    pool_test_expect_success(&jobs[i], 0);
  }
  for (size_t i = 0; i < 4; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void another_device_takes_over_what_waited(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  struct pool_test_job hanging, waiting, other;
  pool_test_job_init(&test, &hanging, BEHAVIOUR_HANGS);
  pool_test_job_init(&test, &other, BEHAVIOUR_HOLDS);
  pool_test_job_init(&test, &waiting, BEHAVIOUR_GOOD);
  pool_test_run(&hanging);
  pool_test_run(&other);
  pool_test_await(&test, test.pool->devices[0].job_count == 1 && test.pool->devices[1].job_count == 1);
  pool_test_run(&waiting);
  pool_test_await(&test, test.pool->devices[0].job_count == 2);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&hanging, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "");
  pool_test_await(&test, test.pool->devices[1].job_count == 2);
  pool_test_ping(&test);
  pool_test_expect_success(&other, 1);
  pool_test_expect_success(&waiting, 1);
  pool_test_job_free(&hanging);
  pool_test_job_free(&waiting);
  pool_test_job_free(&other);
  pool_test_end(&test);
}

static void a_job_that_may_move_does_not_wait(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_DOWN);
  struct pool_test_job moving, staying;
  pool_test_job_init(&test, &moving, BEHAVIOUR_GOOD);
  pool_test_job_init(&test, &staying, BEHAVIOUR_GOOD);
  moving.task.may_move = true;
  pool_test_run(&staying);
  pool_test_run(&moving);
  pool_test_expect_failure(&moving, BACKEND_FAILURE_NO_DEVICE, REASON_TARGET_UNAVAILABLE, "is up");
  assert_false(staying.done);
  pool_test_revive(&test, 0);
  pool_test_expect_success(&staying, 0);
  pool_test_job_free(&moving);
  pool_test_job_free(&staying);
  pool_test_end(&test);
}

static void waiting_jobs_that_may_move_leave_when_the_last_device_dies(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[3];
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_init(&test, &jobs[i], BEHAVIOUR_HANGS);
    jobs[i].task.may_move = true;
    pool_test_run(&jobs[i]);
  }
  pool_test_await(&test, test.pool->queue.count == 1);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "");
  pool_test_expect_failure(&jobs[1], BACKEND_FAILURE_NO_DEVICE, REASON_TARGET_UNAVAILABLE, "is up");
  pool_test_expect_failure(&jobs[2], BACKEND_FAILURE_NO_DEVICE, REASON_TARGET_UNAVAILABLE, "is up");
  for (size_t i = 0; i < 3; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void a_job_waits_for_a_restart_no_longer_than_it_may(void **unused) {
  (void)unused;
  char path[] = "/tmp/npu_pool_test.XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  char script[64];
  snprintf(script, sizeof script, "exit=%s", path);
  unlink(path);
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = script});
  file = creat(path, 0600);
  assert_true(file >= 0);
  close(file);
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_DOWN);
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  pool_test_run(&job);
  pool_test_await(&test, test.pool->queue.count == 1);
  // One restart that fails, and the time is over.
  test.now_ns += TEST_QUEUE_TIME;
  pool_tick(test.pool);
  pool_test_expect_failure(&job, BACKEND_FAILURE_NO_DEVICE, REASON_QUEUE_TIMEOUT, "no NPU came up");
  assert_true(job.task.status.retry_after_ms > 0);
  unlink(path);
  pool_test_revive(&test, 0);
  pool_test_run(&job);
  pool_test_expect_success(&job, 0);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void die_until_given_up(struct pool_test *test) {
  while (pool_test_state(test, 0) != DEVICE_GIVEN_UP) {
    if (pool_test_state(test, 0) == DEVICE_DOWN) {
      pool_test_turn(test, device_policy_next_ns(&test->pool->devices[0].policy) - test->now_ns);
    } else {
      uv_run(&test->loop, UV_RUN_ONCE);
    }
  }
}

static void a_device_that_never_comes_up_is_given_up_and_revived(void **unused) {
  (void)unused;
  char path[] = "/tmp/npu_pool_test.XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  char script[64];
  snprintf(script, sizeof script, "exit=%s", path);
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = script});
  struct pool_test_job waiting, job;
  pool_test_job_init(&test, &waiting, BEHAVIOUR_GOOD);
  pool_test_job_init(&test, &job, BEHAVIOUR_GOOD);
  pool_test_run(&waiting);
  die_until_given_up(&test);
  assert_int_equal(test.pool->devices[0].policy.restarts, 7);
  pool_test_expect_failure(&waiting, BACKEND_FAILURE_NO_DEVICE, REASON_DEVICE_LOST, "given up");
  pool_test_run(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_NO_DEVICE, REASON_DEVICE_LOST, "given up");
  pool_test_plan(&job);
  pool_test_finish(&job);
  assert_false(job.ok);
  assert_int_equal(job.task.status.reason, REASON_DEVICE_LOST);
  assert_int_equal(job.task.status.aclnn_status, 361001);
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_string_equal(report.detail, "given up, 7 restarts: its worker exited with 5");
  unlink(path);
  pool_test_turn(&test, 60 * SECOND);
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_UP);
  pool_test_run(&job);
  pool_test_expect_success(&job, 0);
  pool_test_job_free(&waiting);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void an_unusable_device_says_why(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "0:unusable", .devices = 2});
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_non_null(strstr(report.detail, "the driver is in pieces"));
  pool_test_detail(&test, 1, &report);
  assert_true(report.healthy);
  pool_test_run_good_job(&test);
  die_until_given_up(&test);
  pool_test_run_good_job(&test);
  pool_test_end(&test);
}

static void a_worker_file_that_is_not_there_is_told(void **unused) {
  (void)unused;
  const char *worker = pool_test_worker;
  pool_test_worker = "/nowhere/aclnn-npu-worker";
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_non_null(strstr(report.detail, "/nowhere/aclnn-npu-worker"));
  pool_test_worker = worker;
  pool_test_end(&test);
}

static void a_worker_that_is_never_ready_is_killed(void **unused) {
  (void)unused;
  // It can't be begun as the others: nothing decides it but time.
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  free(test.pool->library_file);
  test.pool->library_file = strdup("silent");
  int process = pool_test_process(&test, 0);
  kill(process, SIGKILL);
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_DOWN);
  pool_test_turn(&test, SECOND);
  assert_int_equal(pool_test_state(&test, 0), DEVICE_STARTING);
  pool_test_turn(&test, 120 * SECOND);
  assert_int_equal(pool_test_state(&test, 0), DEVICE_ENDING);
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_DOWN);
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_non_null(strstr(report.detail, "ready in time"));
  pool_test_end(&test);
}

// Each of its attempts kills a worker; only the first is held against a device.
static void a_poisonous_job_does_not_take_the_pool_down(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  for (int round = 0; round < 12; round++) {
    struct pool_test_job job;
    pool_test_job_init(&test, &job, BEHAVIOUR_DIES);
    for (int32_t attempt = 1; attempt <= 3; attempt++) {
      job.task.attempt = attempt;
      pool_test_run(&job);
      pool_test_expect_failure(&job, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "signal 9");
      pool_test_run_good_job(&test); // the other one works on
      pool_test_revive(&test, 0);
      pool_test_revive(&test, 1);
    }
    pool_test_job_free(&job);
  }
  assert_true(test.pool->devices[0].policy.deaths < 8 && test.pool->devices[1].policy.deaths < 8);
  pool_test_end(&test);
}

// In a full queue, too: it had got its place.
static void a_lost_job_comes_before_what_waits(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){0});
  struct pool_test_job jobs[2 + TEST_QUEUE_MAX];
  size_t count = sizeof jobs / sizeof jobs[0];
  for (size_t i = 0; i < count; i++) {
    pool_test_job_init(&test, &jobs[i], i == 0 ? BEHAVIOUR_HANGS : BEHAVIOUR_GOOD);
    pool_test_run(&jobs[i]);
  }
  for (int32_t attempt = 2; attempt <= 3; attempt++) {
    pool_test_await(&test, test.pool->item_total == count && test.pool->devices[0].job_count == 2);
    assert_ptr_equal(test.pool->devices[0].items[0]->run_task, &jobs[0].task);
    kill(pool_test_process(&test, 0), SIGKILL);
    pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "signal 9");
    jobs[0].task.attempt = attempt;
    pool_test_run(&jobs[0]);
    pool_test_await(&test, test.pool->queue.count == count);
    pool_test_revive(&test, 0);
  }
  kill(pool_test_process(&test, 0), SIGKILL);
  pool_test_expect_failure(&jobs[0], BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "signal 9");
  pool_test_revive(&test, 0);
  for (size_t i = 1; i < count; i++) {
    pool_test_expect_success(&jobs[i], 0);
  }
  for (size_t i = 0; i < count; i++) {
    pool_test_job_free(&jobs[i]);
  }
  pool_test_end(&test);
}

static void a_quarantined_device_gets_no_more_jobs(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.devices = 2});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_HANGS);
  pool_test_run(&job);
  pool_test_await(&test, test.pool->devices[0].job_count == 1);
  test.backend->quarantine(test.backend, 0, "a bit was wrong");
  pool_test_expect_failure(&job, BACKEND_FAILURE_DEVICE, REASON_DEVICE_LOST, "a bit was wrong");
  pool_test_await(&test, pool_test_state(&test, 0) == DEVICE_QUARANTINED);
  pool_test_turn(&test, 3600 * SECOND);
  assert_int_equal(pool_test_state(&test, 0), DEVICE_QUARANTINED);
  struct backend_device report;
  pool_test_detail(&test, 0, &report);
  assert_false(report.healthy);
  assert_string_equal(report.detail, "quarantined, 0 restarts: a bit was wrong");
  for (int i = 0; i < 4; i++) {
    pool_test_run_good_job(&test);
  }
  // With the last one, nothing is left to hope for.
  test.backend->quarantine(test.backend, 1, "another bit");
  pool_test_await(&test, pool_test_state(&test, 1) == DEVICE_QUARANTINED);
  pool_test_run(&job);
  pool_test_expect_failure(&job, BACKEND_FAILURE_NO_DEVICE, REASON_DEVICE_LOST, "given up");
  assert_int_equal(test.backend->current_numerics(test.backend), 0);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void phase_one_is_asked_again_elsewhere(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "plans", .devices = 2});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_DIES_ON_DEVICE_0);
  pool_test_plan(&job);
  pool_test_finish(&job);
  assert_true(job.ok);
  assert_int_equal(job.plan.workspace_bytes, FAKE_WORKSPACE_BYTES);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void phase_one_gives_up_after_three_workers(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "plans", .devices = 2});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_DIES);
  pool_test_plan(&job);
  while (!job.done) {
    pool_test_revive(&test, 0);
    pool_test_revive(&test, 1);
    if (!job.done) {
      uv_run(&test.loop, UV_RUN_ONCE);
    }
  }
  assert_false(job.ok);
  assert_int_equal(job.task.status.reason, REASON_DEVICE_LOST);
  pool_test_revive(&test, 0);
  pool_test_revive(&test, 1);
  assert_int_equal(test.pool->devices[0].policy.restarts + test.pool->devices[1].policy.restarts, 3);
  assert_int_equal(test.pool->devices[0].policy.deaths + test.pool->devices[1].policy.deaths, 0);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void phase_one_that_may_move_does_not_wait(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "plans"});
  struct pool_test_job job;
  pool_test_job_init(&test, &job, BEHAVIOUR_DIES);
  job.plan.automatic = true;
  pool_test_plan(&job);
  pool_test_finish(&job);
  assert_false(job.ok);
  assert_int_equal(job.task.status.reason, REASON_DEVICE_LOST);
  assert_int_equal(pool_test_state(&test, 0), DEVICE_DOWN);
  pool_test_plan(&job);
  pool_test_finish(&job);
  assert_false(job.ok);
  assert_int_equal(job.task.status.reason, REASON_TARGET_UNAVAILABLE);
  pool_test_job_free(&job);
  pool_test_end(&test);
}

static void a_worker_that_does_not_stop_is_killed(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "stubborn", .stop_time_ns = 20 * MS});
  pool_test_end(&test);
}

static void a_worker_that_ends_badly_is_told(void **unused) {
  (void)unused;
  struct pool_test test;
  pool_test_begin(&test, &(struct pool_test_options){.script = "leaky"});
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  int quiet = test.log.descriptor;
  test.log.descriptor = ends[1];
  test.backend->destroy(test.backend);
  test.log.descriptor = quiet;
  char text[1024] = "";
  ssize_t got = read(ends[0], text, sizeof text - 1);
  assert_true(got > 0);
  assert_non_null(strstr(text, "an NPU worker ended badly"));
  assert_non_null(strstr(text, "7"));
  close(ends[0]);
  close(ends[1]);
  arena_destroy(test.arena);
  uv_close((uv_handle_t *)&test.watchdog, NULL);
  uv_run(&test.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&test.loop), 0);
  close(quiet);
}

int main(int count, char **arguments) {
  assert(count == 2);
  pool_test_worker = arguments[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_worker_that_dies_is_restarted),
      cmocka_unit_test(a_worker_that_exits_is_restarted),
      cmocka_unit_test(a_worker_that_falls_silent_is_restarted),
      cmocka_unit_test(garbage_ends_a_worker),
      cmocka_unit_test(an_answer_nobody_asked_for_ends_a_worker),
      cmocka_unit_test(a_worker_that_closes_its_pipe_is_killed),
      cmocka_unit_test(a_fault_of_the_device_ends_its_worker),
      cmocka_unit_test(a_device_fault_tells_canns_number),
      cmocka_unit_test(a_job_over_its_limit_ends_its_worker),
      cmocka_unit_test(a_stopped_worker_is_killed),
      cmocka_unit_test(jobs_own_failures_leave_the_device_up),
      cmocka_unit_test(jobs_that_waited_in_a_dead_worker_are_not_lost),
      cmocka_unit_test(another_device_takes_over_what_waited),
      cmocka_unit_test(a_job_that_may_move_does_not_wait),
      cmocka_unit_test(waiting_jobs_that_may_move_leave_when_the_last_device_dies),
      cmocka_unit_test(a_job_waits_for_a_restart_no_longer_than_it_may),
      cmocka_unit_test(a_device_that_never_comes_up_is_given_up_and_revived),
      cmocka_unit_test(an_unusable_device_says_why),
      cmocka_unit_test(a_worker_file_that_is_not_there_is_told),
      cmocka_unit_test(a_worker_that_is_never_ready_is_killed),
      cmocka_unit_test(a_poisonous_job_does_not_take_the_pool_down),
      cmocka_unit_test(a_lost_job_comes_before_what_waits),
      cmocka_unit_test(a_quarantined_device_gets_no_more_jobs),
      cmocka_unit_test(phase_one_is_asked_again_elsewhere),
      cmocka_unit_test(phase_one_gives_up_after_three_workers),
      cmocka_unit_test(phase_one_that_may_move_does_not_wait),
      cmocka_unit_test(a_worker_that_does_not_stop_is_killed),
      cmocka_unit_test(a_worker_that_ends_badly_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
