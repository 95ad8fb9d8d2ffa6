#include "server/dispatch/dispatch_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EXACT (1u << NUMERICS_EXACT)
#define DEVICE (1u << NUMERICS_DEVICE)
#define DETERMINISTIC (1u << NUMERICS_DETERMINISTIC)

#define CPU_WORKSPACE 1000
#define NPU_WORKSPACE 7000

struct answer {
  struct dispatch_plan_task task;
  int answers;
  bool ok;
};

static void on_planned(struct dispatch_plan_task *task, bool ok) {
  struct answer *answer = (struct answer *)task;
  answer->answers++;
  answer->ok = ok;
}

// A dispatcher with a CPU and, unless npu_numerics is 0, an NPU.
struct setting {
  struct dispatcher *dispatcher;
  struct fake_backend *cpu, *npu;
  struct plan plan;
  struct answer answer;
};

static void set_up(struct setting *setting, uint32_t npu_numerics) {
  *setting = (struct setting){.cpu = fake_backend_create(TARGET_CPU, EXACT)};
  setting->cpu->plan_workspace_bytes = CPU_WORKSPACE;
  struct backend *backends[3] = {&setting->cpu->backend, NULL};
  if (npu_numerics != 0) {
    setting->npu = fake_backend_create(TARGET_NPU, npu_numerics);
    setting->npu->plan_workspace_bytes = NPU_WORKSPACE;
    backends[1] = &setting->npu->backend;
  }
  setting->dispatcher = make_dispatcher_over(8 * LIMIT_BYTES, QUEUE_MAX, backends);
  setting->plan = make_plan(1, 1, 0);
  setting->plan.definition = fake_operator(true);
}

static void plan(struct setting *setting, enum target target, enum numerics numerics) {
  setting->plan.target = target;
  setting->plan.numerics = numerics;
  setting->answer = (struct answer){.task = {.plan = &setting->plan, .done = on_planned}};
  dispatcher_plan(setting->dispatcher, &setting->answer.task);
}

static void check_planned(const struct setting *setting, enum target target, enum numerics numerics) {
  assert_int_equal(setting->answer.answers, 1);
  assert_true(setting->answer.ok);
  assert_int_equal(setting->plan.target, target);
  assert_int_equal(setting->plan.numerics, numerics);
  assert_int_equal(setting->plan.workspace_bytes, target == TARGET_CPU ? CPU_WORKSPACE : NPU_WORKSPACE);
}

static void check_plan_refused(const struct setting *setting, enum reason reason) {
  assert_int_equal(setting->answer.answers, 1);
  assert_false(setting->answer.ok);
  assert_int_equal(setting->answer.task.status.reason, reason);
}

static void tear_down(struct setting *setting) {
  dispatcher_destroy(setting->dispatcher);
}

static void auto_without_npu_means_cpu(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 0);
  for (enum numerics numerics = NUMERICS_DEVICE; numerics <= NUMERICS_EXACT; numerics++) {
    plan(&setting, TARGET_AUTO, numerics);
    check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
    plan(&setting, TARGET_CPU, numerics);
    check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  }
  tear_down(&setting);
}

static void auto_means_npu_where_one_serves(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE | DETERMINISTIC);
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_NPU, NUMERICS_DEVICE);
  plan(&setting, TARGET_AUTO, NUMERICS_DETERMINISTIC);
  check_planned(&setting, TARGET_NPU, NUMERICS_DETERMINISTIC);
  plan(&setting, TARGET_AUTO, NUMERICS_EXACT); // it doesn't give that
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  setting.plan.definition = fake_operator(false); // it doesn't have that
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  assert_int_equal(setting.npu->plans, 2);
  tear_down(&setting);
}

static void stronger_numerics_serve_weaker_wishes(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, EXACT | DETERMINISTIC);
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_NPU, NUMERICS_DETERMINISTIC);
  plan(&setting, TARGET_NPU, NUMERICS_EXACT);
  check_planned(&setting, TARGET_NPU, NUMERICS_EXACT);
  tear_down(&setting);
}

static void deterministic_is_a_mode_of_the_device(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE | EXACT);
  plan(&setting, TARGET_AUTO, NUMERICS_DETERMINISTIC);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  plan(&setting, TARGET_NPU, NUMERICS_DETERMINISTIC);
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  assert_int_equal(setting.npu->plans, 0);
  tear_down(&setting);
}

static void empty_tensors_never_go_to_a_device(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.plan.empty = true;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  assert_int_equal(setting.npu->plans, 0);
  plan(&setting, TARGET_NPU, NUMERICS_EXACT); // a wish that can't be met is refused all the same
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  tear_down(&setting);
}

static void auto_moves_to_the_cpu_when_the_device_refuses(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.npu->plan_behaviour = FAKE_FAILS;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  assert_int_equal(setting.npu->plans, 1);
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE); // who asked for the device hears of it
  check_plan_refused(&setting, REASON_DEVICE_LOST);
  setting.cpu->plan_behaviour = FAKE_FAILS;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE); // the CPU isn't asked twice
  check_plan_refused(&setting, REASON_DEVICE_LOST);
  assert_int_equal(setting.cpu->plans, 2);
  tear_down(&setting);
}

static void refusal_of_the_device_leaves_no_trace_in_the_plan(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, EXACT); // more than is asked for
  setting.npu->plan_behaviour = FAKE_FAILS;
  setting.cpu->backend.plan = NULL;
  setting.cpu->backend.numerics = DEVICE | EXACT;
  setting.plan.workspace_bytes = CPU_WORKSPACE;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  assert_int_equal(setting.npu->plans, 1);
  check_planned(&setting, TARGET_CPU, NUMERICS_DEVICE);
  tear_down(&setting);
}

// The backend's numerics are what its devices may give; its plan knows what they give now.
static void numerics_that_no_device_gives_now_are_refused_or_moved(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE | DETERMINISTIC | EXACT);
  setting.npu->plan_behaviour = FAKE_FAILS;
  setting.npu->plan_reason = REASON_TARGET_UNAVAILABLE;
  setting.plan.automatic = true;
  for (enum numerics numerics = NUMERICS_DEVICE; numerics <= NUMERICS_EXACT; numerics++) {
    plan(&setting, TARGET_AUTO, numerics);
    check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
    plan(&setting, TARGET_NPU, numerics);
    check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
    assert_string_equal(setting.answer.task.status.message, "no device is left");
  }
  tear_down(&setting);
}

// A foreign handle: the target is chosen, only its jobs may move.
static void chosen_target_is_kept_in_phase_one(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.plan.automatic = true;
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_NPU, NUMERICS_DEVICE);
  assert_true(setting.plan.automatic);
  setting.npu->plan_behaviour = FAKE_FAILS;
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_plan_refused(&setting, REASON_DEVICE_LOST);
  assert_int_equal(setting.cpu->plans, 0);
  tear_down(&setting);
}

static void unavailable_npu_is_refused(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 0); // there is none
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  assert_null(dispatcher_backend(setting.dispatcher, TARGET_NPU));
  assert_ptr_equal(dispatcher_backend(setting.dispatcher, TARGET_CPU), &setting.cpu->backend);
  tear_down(&setting);

  set_up(&setting, DEVICE);
  plan(&setting, TARGET_NPU, NUMERICS_DETERMINISTIC); // not these numerics
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  assert_non_null(strstr(setting.answer.task.status.message, "DETERMINISTIC"));
  setting.plan.definition = fake_operator(false); // not this operator
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  assert_non_null(strstr(setting.answer.task.status.message, "aclnnHostOnly"));
  assert_int_equal(setting.npu->plans, 0);
  tear_down(&setting);
}

static void unavailable_cpu_is_refused(void **state) {
  (void)state;
  struct fake_backend *npu = fake_backend_create(TARGET_NPU, DEVICE);
  struct backend *backends[] = {&npu->backend, NULL};
  struct setting setting = {.dispatcher = make_dispatcher_over(8 * LIMIT_BYTES, QUEUE_MAX, backends)};
  setting.plan = make_plan(1, 1, 0);
  plan(&setting, TARGET_CPU, NUMERICS_DEVICE);
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE); // the operator runs on no device
  check_plan_refused(&setting, REASON_TARGET_UNAVAILABLE);
  tear_down(&setting);
}

static void backend_may_answer_later_or_have_nothing_to_say(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.npu->plan_behaviour = FAKE_KEEPS;
  setting.cpu->plan_behaviour = FAKE_KEEPS;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  assert_int_equal(setting.answer.answers, 0);
  fake_answer_plan(setting.npu, false);
  assert_int_equal(setting.answer.answers, 0);
  fake_answer_plan(setting.cpu, true);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);

  setting.cpu->backend.plan = NULL; // takes every plan as it is
  setting.plan.workspace_bytes = CPU_WORKSPACE;
  plan(&setting, TARGET_CPU, NUMERICS_DEVICE);
  check_planned(&setting, TARGET_CPU, NUMERICS_EXACT);
  tear_down(&setting);
}

static void job_bytes_count_each_piece_aligned(void **state) {
  (void)state;
  struct plan one = make_plan(1, 65, 3);
  assert_int_equal(plan_job_bytes(&one), 64 + 128 + 64);
  one.target = TARGET_NPU; // whose workspace isn't the host's
  one.host_workspace_bytes = 200;
  assert_int_equal(plan_job_bytes(&one), 64 + 128);
  one.automatic = true; // but the CPU's is, if it may come to run the job
  assert_int_equal(plan_job_bytes(&one), 64 + 128 + 256);
  one.numerics = NUMERICS_DETERMINISTIC;
  assert_int_equal(plan_job_bytes(&one), 64 + 128);
  struct plan none = make_plan(0, 0, 0);
  assert_int_equal(plan_job_bytes(&none), 0);
  struct plan huge = make_plan(INT64_MAX, INT64_MAX, UINT64_MAX);
  assert_true(plan_job_bytes(&huge) == UINT64_MAX);
  struct plan large = make_plan(INT64_MAX, INT64_MAX, 0);
  assert_true(plan_job_bytes(&large) == UINT64_MAX);
}

static const char *metadata(const struct status *status, const char *key) {
  for (size_t i = 0; i < status->metadata_count; i++) {
    if (strcmp(status->metadata[i].key, key) == 0) {
      return status->metadata[i].value;
    }
  }
  return "";
}

static void job_beyond_the_budget_is_refused_with_both_numbers(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, 0);
  setting.cpu->plan_workspace_bytes = 0;
  setting.plan = make_plan(LIMIT_BYTES / 2, LIMIT_BYTES / 2, 0);
  plan(&setting, TARGET_CPU, NUMERICS_EXACT);
  assert_true(setting.answer.ok);
  setting.cpu->plan_workspace_bytes = 1; // that doesn't fit any more
  plan(&setting, TARGET_CPU, NUMERICS_EXACT);
  check_plan_refused(&setting, REASON_JOB_TOO_LARGE);
  assert_string_equal(metadata(&setting.answer.task.status, "job_bytes"), "1048640");
  assert_string_equal(metadata(&setting.answer.task.status, "limit_bytes"), "1048576");
  tear_down(&setting);
}

static void job_that_may_move_must_fit_with_the_workspace_of_the_cpu(void **state) {
  (void)state;
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.npu->plan_workspace_bytes = 1 << 30; // the device's own memory
  setting.plan = make_plan(LIMIT_BYTES / 2, LIMIT_BYTES / 2, 0);
  setting.plan.definition = fake_operator(true);
  setting.plan.host_workspace_bytes = 1;
  plan(&setting, TARGET_NPU, NUMERICS_DEVICE);
  assert_true(setting.answer.ok);
  assert_int_equal(setting.plan.workspace_bytes, 1 << 30);
  setting.plan.automatic = true;
  plan(&setting, TARGET_AUTO, NUMERICS_DEVICE);
  check_plan_refused(&setting, REASON_JOB_TOO_LARGE);
  assert_string_equal(metadata(&setting.answer.task.status, "job_bytes"), "1048640");
  tear_down(&setting);
}

static void backends_are_destroyed_with_the_dispatcher(void **state) {
  (void)state;
  bool destroyed[2] = {false, false};
  struct setting setting;
  set_up(&setting, DEVICE);
  setting.cpu->destroyed = &destroyed[0];
  setting.npu->destroyed = &destroyed[1];
  tear_down(&setting);
  assert_true(destroyed[0] && destroyed[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(auto_without_npu_means_cpu),
      cmocka_unit_test(auto_means_npu_where_one_serves),
      cmocka_unit_test(stronger_numerics_serve_weaker_wishes),
      cmocka_unit_test(deterministic_is_a_mode_of_the_device),
      cmocka_unit_test(empty_tensors_never_go_to_a_device),
      cmocka_unit_test(auto_moves_to_the_cpu_when_the_device_refuses),
      cmocka_unit_test(refusal_of_the_device_leaves_no_trace_in_the_plan),
      cmocka_unit_test(numerics_that_no_device_gives_now_are_refused_or_moved),
      cmocka_unit_test(chosen_target_is_kept_in_phase_one),
      cmocka_unit_test(unavailable_npu_is_refused),
      cmocka_unit_test(unavailable_cpu_is_refused),
      cmocka_unit_test(backend_may_answer_later_or_have_nothing_to_say),
      cmocka_unit_test(job_bytes_count_each_piece_aligned),
      cmocka_unit_test(job_beyond_the_budget_is_refused_with_both_numbers),
      cmocka_unit_test(job_that_may_move_must_fit_with_the_workspace_of_the_cpu),
      cmocka_unit_test(backends_are_destroyed_with_the_dispatcher),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
