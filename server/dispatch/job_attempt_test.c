// What happens to a job whose run fails: again, elsewhere, or the end.
#include "server/dispatch/dispatch_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HOST_WORKSPACE 500
#define DEVICE_WORKSPACE (1 << 24)

struct setting {
  struct dispatcher *dispatcher;
  struct fake_backend *cpu, *npu;
  struct plan plan;
  struct job *job;
  int finished_calls;
  bool ok;
};

static void on_finished(void *context, bool ok) {
  struct setting *setting = context;
  setting->finished_calls++;
  setting->ok = ok;
}

// A plan for the NPU, asked for as AUTO or not.
static void set_up(struct setting *setting, bool automatic) {
  *setting = (struct setting){0};
  setting->dispatcher = make_npu_dispatcher(&setting->cpu, &setting->npu);
  setting->plan = make_plan(100, 1000, DEVICE_WORKSPACE);
  setting->plan.definition = fake_operator(true);
  setting->plan.target = TARGET_NPU;
  setting->plan.numerics = NUMERICS_DEVICE;
  setting->plan.automatic = automatic;
  setting->plan.host_workspace_bytes = HOST_WORKSPACE;
}

static void reserve(struct setting *setting) {
  struct job_callbacks callbacks = {.finished = on_finished, .context = setting};
  setting->job = job_create(setting->dispatcher, &setting->plan, setting, &callbacks);
  assert_non_null(setting->job);
  assert_int_equal(job_reserve(setting->job), JOB_READY);
  memset(job_tensor_data(setting->job, 0), 1, 100);
}

static void tear_down(struct setting *setting) {
  job_destroy(setting->job);
  check_balance(setting->dispatcher, 0, 0);
  dispatcher_destroy(setting->dispatcher);
}

static void check_summary(const struct setting *setting, enum target target, enum numerics numerics,
                          int attempts) {
  struct job_summary summary;
  job_get_summary(setting->job, &summary);
  assert_int_equal(summary.target, target);
  assert_int_equal(summary.numerics, numerics);
  assert_int_equal(summary.attempts, attempts);
}

static void check_runs(const struct setting *setting, int npu, int cpu) {
  assert_int_equal(setting->npu->runs, npu);
  assert_int_equal(setting->cpu->runs, cpu);
}

static void job_that_ends_well_runs_once(void **state) {
  (void)state;
  for (int automatic = 0; automatic < 2; automatic++) {
    struct setting setting;
    set_up(&setting, automatic);
    reserve(&setting);
    setting.npu->run_behaviour = FAKE_KEEPS;
    assert_int_equal(job_submit(setting.job), JOB_WAITING);
    const struct backend_run_task *task = setting.npu->kept_run;
    assert_int_equal(task->may_move, automatic);
    assert_int_equal(task->attempt, 1);
    assert_ptr_equal(task->stream, &setting);
    fake_answer_run(setting.npu, true);
    assert_int_equal(setting.finished_calls, 1);
    check_runs(&setting, 1, 0);
    check_summary(&setting, TARGET_NPU, NUMERICS_DEVICE, 1);
    tear_down(&setting);
  }
}

static void job_that_may_move_goes_to_the_cpu_at_once(void **state) {
  (void)state;
  static const struct {
    enum backend_failure failure;
    int attempts;
  } cases[] = {{BACKEND_FAILURE_DEVICE, 2}, {BACKEND_FAILURE_RESOURCES, 2}, {BACKEND_FAILURE_NO_DEVICE, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct setting setting;
    set_up(&setting, true);
    reserve(&setting);
    setting.npu->run_behaviour = FAKE_FAILS;
    setting.npu->failure = cases[i].failure;
    setting.cpu->run_behaviour = FAKE_KEEPS;
    assert_int_equal(job_submit(setting.job), JOB_WAITING);
    const struct backend_run_task *task = setting.cpu->kept_run;
    assert_int_equal(task->attempt, cases[i].attempts);
    assert_int_equal(task->failure, BACKEND_FAILURE_JOB);
    assert_false(task->may_move);
    assert_int_equal(task->run.plan->target, TARGET_CPU);
    assert_int_equal(task->run.plan->numerics, NUMERICS_EXACT);
    assert_int_equal(task->run.plan->workspace_bytes, HOST_WORKSPACE);
    memset(task->run.workspace, 2, HOST_WORKSPACE);
    assert_int_equal(((const uint8_t *)task->run.storages[2])[99], 1); // the inputs are still there
    assert_int_equal(job_plan(setting.job)->target, TARGET_NPU);       // what phase 1 said stays so
    fake_answer_run(setting.cpu, true);
    assert_int_equal(setting.finished_calls, 1);
    assert_true(setting.ok);
    check_runs(&setting, 1, 1);
    check_summary(&setting, TARGET_CPU, NUMERICS_EXACT, cases[i].attempts);
    assert_int_equal(job_tensor_data(setting.job, 2)[999], 0x5a);
    tear_down(&setting);
  }
}

static void failure_on_the_cpu_after_a_move_is_final(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, true);
  reserve(&setting);
  setting.npu->run_behaviour = setting.cpu->run_behaviour = FAKE_FAILS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  assert_int_equal(job_submit(setting.job), JOB_FAILED);
  assert_int_equal(setting.finished_calls, 0);
  check_runs(&setting, 1, 1);
  tear_down(&setting);
}

static void requested_device_is_tried_three_times(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, false);
  reserve(&setting);
  setting.npu->run_behaviour = FAKE_KEEPS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  for (int attempt = 1; attempt <= 3; attempt++) {
    assert_int_equal(setting.finished_calls, 0);
    assert_int_equal(setting.npu->kept_run->attempt, attempt);
    check_balance(setting.dispatcher, 128 + 1024, 128 + 1024);
    fake_answer_run(setting.npu, false);
  }
  assert_int_equal(setting.finished_calls, 1);
  assert_false(setting.ok);
  check_runs(&setting, 3, 0);
  const struct status *status = job_status(setting.job);
  assert_int_equal(status->reason, REASON_DEVICE_LOST);
  assert_int_equal(status->aclnn_status, 361001);
  assert_int_equal(status->retry_after_ms, 0);
  assert_non_null(strstr(status->message, "3 attempts"));
  assert_non_null(strstr(status->message, "the device was lost"));
  check_balance(setting.dispatcher, 0, 0);
  tear_down(&setting);
}

static void last_attempt_may_end_well(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, false);
  reserve(&setting);
  setting.npu->run_behaviour = FAKE_KEEPS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  fake_answer_run(setting.npu, false);
  fake_answer_run(setting.npu, false);
  fake_answer_run(setting.npu, true);
  assert_int_equal(setting.finished_calls, 1);
  assert_true(setting.ok);
  check_summary(&setting, TARGET_NPU, NUMERICS_DEVICE, 3);
  tear_down(&setting);
}

static void other_failures_of_a_requested_device_are_final(void **state) {
  (void)state;
  static const enum backend_failure failures[] = {BACKEND_FAILURE_JOB, BACKEND_FAILURE_RESOURCES,
                                                  BACKEND_FAILURE_NO_DEVICE};
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    struct setting setting;
    set_up(&setting, false);
    reserve(&setting);
    setting.npu->run_behaviour = FAKE_FAILS;
    setting.npu->failure = failures[i];
    assert_int_equal(job_submit(setting.job), JOB_FAILED);
    assert_string_equal(job_status(setting.job)->message, "the device was lost");
    check_runs(&setting, 1, 0);
    tear_down(&setting);
  }
}

static void failure_of_the_job_itself_does_not_move(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, true);
  reserve(&setting);
  setting.npu->run_behaviour = FAKE_FAILS;
  setting.npu->failure = BACKEND_FAILURE_JOB;
  assert_int_equal(job_submit(setting.job), JOB_FAILED);
  check_runs(&setting, 1, 0);
  tear_down(&setting);
}

static void deterministic_job_keeps_its_target(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, true);
  setting.plan.numerics = NUMERICS_DETERMINISTIC;
  reserve(&setting);
  check_balance(setting.dispatcher, 128 + 1024, 128 + 1024); // and needs no workspace here
  setting.npu->run_behaviour = FAKE_KEEPS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  assert_false(setting.npu->kept_run->may_move);
  fake_answer_run(setting.npu, false);
  fake_answer_run(setting.npu, true);
  check_runs(&setting, 2, 0);
  check_summary(&setting, TARGET_NPU, NUMERICS_DETERMINISTIC, 2);
  tear_down(&setting);
}

static void job_that_may_move_reserves_the_workspace_of_the_cpu(void **state) {
  (void)state;
  for (int automatic = 0; automatic < 2; automatic++) {
    struct setting setting;
    set_up(&setting, automatic);
    reserve(&setting);
    uint64_t bytes = 128 + (automatic ? 512 : 0) + 1024;
    check_balance(setting.dispatcher, bytes, bytes);
    assert_int_equal(plan_job_bytes(&setting.plan), bytes); // what phase 1 counts
    tear_down(&setting);
  }
}

static void cancelled_job_is_not_tried_again(void **state) {
  (void)state;
  for (int automatic = 0; automatic < 2; automatic++) {
    struct setting setting;
    set_up(&setting, automatic);
    reserve(&setting);
    setting.npu->run_behaviour = FAKE_KEEPS;
    setting.npu->failure = BACKEND_FAILURE_DEVICE;
    assert_int_equal(job_submit(setting.job), JOB_WAITING);
    job_cancel(setting.job);
    assert_int_equal(setting.npu->cancellations, 1);
    fake_answer_run(setting.npu, false);
    assert_int_equal(setting.finished_calls, 1);
    assert_false(setting.ok);
    assert_int_equal(job_status(setting.job)->reason, REASON_CANCELLED);
    check_runs(&setting, 1, 0);
    tear_down(&setting);
  }
}

static void job_can_be_cancelled_after_it_moved(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, true);
  reserve(&setting);
  setting.npu->run_behaviour = FAKE_FAILS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  setting.cpu->run_behaviour = FAKE_KEEPS;
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  job_cancel(setting.job);
  assert_int_equal(setting.cpu->cancellations, 1);
  assert_true(atomic_load(setting.cpu->kept_run->run.cancelled));
  fake_answer_run(setting.cpu, true);
  assert_false(setting.ok);
  assert_int_equal(job_status(setting.job)->reason, REASON_CANCELLED);
  tear_down(&setting);
}

static void backends_hear_nothing_of_jobs_that_they_do_not_have(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, true);
  reserve(&setting);
  job_cancel(setting.job);
  assert_int_equal(job_submit(setting.job), JOB_FAILED);
  assert_int_equal(setting.npu->cancellations + setting.cpu->cancellations, 0);
  check_runs(&setting, 0, 0);
  tear_down(&setting);
}

static void lost_attempts_count_as_waiting(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, false);
  reserve(&setting);
  setting.npu->run_behaviour = FAKE_KEEPS;
  setting.npu->failure = BACKEND_FAILURE_DEVICE;
  assert_int_equal(job_submit(setting.job), JOB_WAITING);
  atomic_fetch_add(&fake_clock_ns, 700);
  fake_answer_run(setting.npu, false);
  fake_answer_run(setting.npu, true);
  struct job_summary summary;
  job_get_summary(setting.job, &summary);
  assert_int_equal(summary.queue_ns, 700);
  assert_int_equal(summary.compute_ns, 10);
  tear_down(&setting);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(job_that_ends_well_runs_once),
      cmocka_unit_test(job_that_may_move_goes_to_the_cpu_at_once),
      cmocka_unit_test(failure_on_the_cpu_after_a_move_is_final),
      cmocka_unit_test(requested_device_is_tried_three_times),
      cmocka_unit_test(last_attempt_may_end_well),
      cmocka_unit_test(other_failures_of_a_requested_device_are_final),
      cmocka_unit_test(failure_of_the_job_itself_does_not_move),
      cmocka_unit_test(deterministic_job_keeps_its_target),
      cmocka_unit_test(job_that_may_move_reserves_the_workspace_of_the_cpu),
      cmocka_unit_test(cancelled_job_is_not_tried_again),
      cmocka_unit_test(job_can_be_cancelled_after_it_moved),
      cmocka_unit_test(backends_hear_nothing_of_jobs_that_they_do_not_have),
      cmocka_unit_test(lost_attempts_count_as_waiting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
