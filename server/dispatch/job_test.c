#include "server/dispatch/dispatch_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Who made a job, and what was told to it.
struct owner {
  struct job *job;
  int reserved_calls, finished_calls;
  bool ok;
};

static void on_reserved(void *context, bool ok) {
  struct owner *owner = context;
  owner->reserved_calls++;
  owner->ok = ok;
}

static void on_finished(void *context, bool ok) {
  struct owner *owner = context;
  owner->finished_calls++;
  owner->ok = ok;
}

static void create(struct owner *owner, struct dispatcher *dispatcher, const struct plan *plan) {
  struct job_callbacks callbacks = {.reserved = on_reserved, .finished = on_finished, .context = owner};
  *owner = (struct owner){.job = job_create(dispatcher, plan, NULL, &callbacks)};
  assert_non_null(owner->job);
}

static void check_calls(const struct owner *owner, int reserved_calls, int finished_calls) {
  assert_int_equal(owner->reserved_calls, reserved_calls);
  assert_int_equal(owner->finished_calls, finished_calls);
}

static void check_failed(const struct owner *owner, enum reason reason) {
  assert_int_equal(job_status(owner->job)->reason, reason);
}

// A job that has all memory there is, to make others wait.
static void take_everything(struct owner *owner, struct dispatcher *dispatcher) {
  struct plan plan = make_plan(0, (int64_t)LIMIT_BYTES, 0);
  create(owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner->job), JOB_READY);
}

static void finish(struct dispatcher *dispatcher) {
  check_balance(dispatcher, 0, 0);
  dispatcher_destroy(dispatcher);
}

static void job_goes_from_plan_to_outputs(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 1000, 50);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_plan(owner.job)->workspace_bytes, 50);
  check_balance(dispatcher, 0, 0);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  check_balance(dispatcher, 128 + 64 + 1024, 128 + 64 + 1024);
  uint8_t *input = job_tensor_data(owner.job, 0), *output = job_tensor_data(owner.job, 2);
  assert_int_equal((uintptr_t)input % TENSOR_ALIGNMENT, 0);
  assert_int_equal((uintptr_t)output % TENSOR_ALIGNMENT, 0);
  assert_null(job_tensor_data(owner.job, 1)); // doesn't travel
  memset(input, 1, 100);

  fake->run_behaviour = FAKE_KEEPS;
  assert_int_equal(job_submit(owner.job), JOB_WAITING);
  const struct backend_run_task *task = fake->kept_run;
  assert_ptr_equal(task->run.storages[2], input);
  assert_ptr_equal(task->run.storages[1], output);
  assert_null(task->run.storages[0]);
  assert_int_equal((uintptr_t)task->run.workspace % TENSOR_ALIGNMENT, 0);
  assert_ptr_equal(task->run.workspace, input + 128);
  assert_ptr_equal(task->inputs->data, input);
  assert_ptr_equal(task->outputs->data, output);
  assert_int_equal(task->run.plan->workspace_bytes, 50);
  memset(task->run.workspace, 2, 50);
  fake_answer_run(fake, true);
  check_calls(&owner, 0, 1);
  assert_true(owner.ok);
  check_balance(dispatcher, 1024, 1024); // inputs and workspace are given back already
  assert_int_equal(output[0], 0x5a);
  assert_int_equal(output[999], 0x5a);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void end_before_submit_returns_is_told_by_it(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  for (int fails = 0; fails < 2; fails++) {
    struct owner owner;
    fake->run_behaviour = fails ? FAKE_FAILS : FAKE_SUCCEEDS;
    create(&owner, dispatcher, &plan);
    assert_int_equal(job_reserve(owner.job), JOB_READY);
    assert_int_equal(job_submit(owner.job), fails ? JOB_FAILED : JOB_READY);
    check_calls(&owner, 0, 0);
    check_balance(dispatcher, fails ? 0 : 128, fails ? 0 : 128);
    if (fails) {
      check_failed(&owner, REASON_DEVICE_LOST);
    }
    job_destroy(owner.job);
    check_balance(dispatcher, 0, 0);
  }
  finish(dispatcher);
}

static void failure_told_later_gives_all_memory_back(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner owner;
  fake->run_behaviour = FAKE_KEEPS;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  assert_int_equal(job_submit(owner.job), JOB_WAITING);
  fake_answer_run(fake, false);
  check_calls(&owner, 0, 1);
  assert_false(owner.ok);
  check_failed(&owner, REASON_DEVICE_LOST);
  check_balance(dispatcher, 0, 0);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void summary_tells_the_phases_apart(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owner;
  take_everything(&holder, dispatcher);
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_WAITING);
  atomic_fetch_add(&fake_clock_ns, 5);
  job_destroy(holder.job);
  atomic_fetch_add(&fake_clock_ns, 300); // upload
  assert_int_equal(job_submit(owner.job), JOB_READY);
  struct job_summary summary;
  job_get_summary(owner.job, &summary);
  assert_int_equal(summary.queue_ns, 5);
  assert_int_equal(summary.upload_ns, 300);
  assert_int_equal(summary.compute_ns, 10);
  assert_int_equal(summary.attempts, 1);
  assert_int_equal(summary.ended_ns, 100 + 5 + 300 + 10);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void job_without_bytes_needs_no_memory(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(0, 0, 0);
  struct owner holder, owner;
  take_everything(&holder, dispatcher); // isn't in its way
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  assert_non_null(job_tensor_data(owner.job, 0)); // there, if only to be copied nothing to
  assert_non_null(job_tensor_data(owner.job, 2));
  assert_null(job_tensor_data(owner.job, 1));
  assert_int_equal(job_submit(owner.job), JOB_READY);
  struct job_outputs *outputs = job_outputs_hold(owner.job);
  job_destroy(owner.job);
  job_outputs_release(outputs);
  job_destroy(holder.job);
  finish(dispatcher);
}

static void outputs_stay_while_they_are_held(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 1000, 0);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  assert_int_equal(job_submit(owner.job), JOB_READY);
  const uint8_t *output = job_tensor_data(owner.job, 2);
  struct job_outputs *first = job_outputs_hold(owner.job), *second = job_outputs_hold(owner.job);
  job_destroy(owner.job);
  check_balance(dispatcher, 1024, 1024);
  job_outputs_release(first);
  assert_int_equal(output[999], 0x5a);
  check_balance(dispatcher, 1024, 1024);
  job_outputs_release(second);
  finish(dispatcher);
}

static void job_waits_for_memory(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owner;
  take_everything(&holder, dispatcher);
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_WAITING);
  check_calls(&owner, 0, 0);
  job_destroy(holder.job);
  check_calls(&owner, 1, 0);
  assert_true(owner.ok);
  assert_non_null(job_tensor_data(owner.job, 0));
  check_balance(dispatcher, 256, 256);
  job_destroy(owner.job); // given up without having run
  check_calls(&owner, 1, 0);
  finish(dispatcher);
}

static void full_queue_refuses_with_advice(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, waiting[QUEUE_MAX], refused;
  take_everything(&holder, dispatcher);
  for (size_t i = 0; i < QUEUE_MAX; i++) {
    create(&waiting[i], dispatcher, &plan);
    assert_int_equal(job_reserve(waiting[i].job), JOB_WAITING);
  }
  create(&refused, dispatcher, &plan);
  assert_int_equal(job_reserve(refused.job), JOB_FAILED);
  check_failed(&refused, REASON_QUEUE_FULL);
  assert_true(job_status(refused.job)->retry_after_ms > 0);
  check_calls(&refused, 0, 0);
  job_destroy(refused.job);
  job_destroy(holder.job);
  for (size_t i = 0; i < QUEUE_MAX; i++) {
    check_calls(&waiting[i], 1, 0);
    job_destroy(waiting[i].job);
  }
  finish(dispatcher);
}

static void wait_that_is_too_long_ends_with_advice(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owner;
  take_everything(&holder, dispatcher);
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_WAITING);
  budget_expire(dispatcher_budget(dispatcher), 100 + QUEUE_TIME_NS - 1);
  check_calls(&owner, 0, 0);
  budget_expire(dispatcher_budget(dispatcher), 100 + QUEUE_TIME_NS);
  check_calls(&owner, 1, 0);
  assert_false(owner.ok);
  check_failed(&owner, REASON_QUEUE_TIMEOUT);
  assert_true(job_status(owner.job)->retry_after_ms > 0);
  job_destroy(owner.job);
  job_destroy(holder.job);
  finish(dispatcher);
}

static void job_beyond_the_budget_is_refused(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan((int64_t)LIMIT_BYTES, 1, 0);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_FAILED);
  check_failed(&owner, REASON_JOB_TOO_LARGE);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void memory_that_is_not_there_fails_the_job(void **state) {
  (void)state;
  // Another block fills the arena, or leaves just room for the inputs.
  for (size_t room_bytes = 0; room_bytes <= 6400; room_bytes += 6400) {
    const size_t arena_bytes = 2 << 20;
    struct fake_backend *fake = fake_backend_create(TARGET_CPU, 1u << NUMERICS_EXACT);
    struct backend *backends[] = {&fake->backend, NULL};
    struct dispatcher *dispatcher = make_dispatcher_over(arena_bytes, QUEUE_MAX, backends);
    struct plan plan = make_plan(6400, 6400, 0);
    struct budget_request everything = {.bytes = LIMIT_BYTES};
    struct arena_block wall;
    struct status status;
    struct owner owner;
    assert_true(arena_allocate(dispatcher_arena(dispatcher), arena_bytes - room_bytes, &wall, &status));

    create(&owner, dispatcher, &plan);
    assert_int_equal(job_reserve(owner.job), JOB_FAILED);
    check_failed(&owner, REASON_INTERNAL);
    check_balance(dispatcher, 0, arena_bytes - room_bytes);
    job_destroy(owner.job);

    create(&owner, dispatcher, &plan); // the same after a wait
    assert_int_equal(budget_reserve(dispatcher_budget(dispatcher), &everything, 0), BUDGET_GRANTED);
    assert_int_equal(job_reserve(owner.job), JOB_WAITING);
    budget_release(dispatcher_budget(dispatcher), LIMIT_BYTES);
    check_calls(&owner, 1, 0);
    assert_false(owner.ok);
    check_failed(&owner, REASON_INTERNAL);
    check_balance(dispatcher, 0, arena_bytes - room_bytes);
    job_destroy(owner.job);
    arena_free(dispatcher_arena(dispatcher), &wall);
    finish(dispatcher);
  }
}

static void job_cancelled_before_it_asks_is_refused(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  job_cancel(owner.job);
  job_cancel(owner.job);
  assert_int_equal(job_reserve(owner.job), JOB_FAILED);
  check_failed(&owner, REASON_CANCELLED);
  check_calls(&owner, 0, 0);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void job_cancelled_while_it_waits_is_told_so(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owner;
  take_everything(&holder, dispatcher);
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_WAITING);
  job_cancel(owner.job);
  check_calls(&owner, 1, 0);
  assert_false(owner.ok);
  check_failed(&owner, REASON_CANCELLED);
  job_cancel(owner.job); // nothing more is called
  job_destroy(holder.job);
  check_calls(&owner, 1, 0);
  check_balance(dispatcher, 0, 0);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void on_reserved_destroy(void *context, bool ok) {
  struct owner *owner = context;
  owner->reserved_calls++;
  owner->ok = ok;
  job_destroy(owner->job);
}

static void job_may_be_destroyed_in_the_answer_to_its_cancellation(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owner = {0};
  struct job_callbacks callbacks = {.reserved = on_reserved_destroy, .context = &owner};
  take_everything(&holder, dispatcher);
  owner.job = job_create(dispatcher, &plan, NULL, &callbacks);
  assert_int_equal(job_reserve(owner.job), JOB_WAITING);
  job_cancel(owner.job);
  check_calls(&owner, 1, 0);
  assert_false(owner.ok);
  job_destroy(holder.job);
  finish(dispatcher);
}

static void on_reserved_cancel_another(void *context, bool ok) {
  struct owner *owners = context;
  on_reserved(&owners[0], ok);
  job_cancel(owners[1].job);
}

static void job_cancelled_after_the_grant_and_before_the_answer_fails(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner holder, owners[2] = {{0}};
  take_everything(&holder, dispatcher);
  struct job_callbacks callbacks = {.reserved = on_reserved_cancel_another, .context = owners};
  owners[0].job = job_create(dispatcher, &plan, NULL, &callbacks);
  create(&owners[1], dispatcher, &plan);
  assert_int_equal(job_reserve(owners[0].job), JOB_WAITING);
  assert_int_equal(job_reserve(owners[1].job), JOB_WAITING);
  job_destroy(holder.job); // grants both, and tells the first first
  assert_true(owners[0].ok);
  check_calls(&owners[1], 1, 0);
  assert_false(owners[1].ok);
  check_failed(&owners[1], REASON_CANCELLED);
  check_balance(dispatcher, 256, 256); // the first one's
  job_destroy(owners[0].job);
  job_destroy(owners[1].job);
  finish(dispatcher);
}

static void job_cancelled_while_it_uploads_does_not_run(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  uint8_t *data = job_tensor_data(owner.job, 0);
  job_cancel(owner.job);
  memset(data, 1, 100); // who is writing may go on: it is still the job's
  check_balance(dispatcher, 256, 256);
  assert_int_equal(job_submit(owner.job), JOB_FAILED);
  check_failed(&owner, REASON_CANCELLED);
  check_calls(&owner, 0, 0);
  assert_int_equal(fake->runs, 0);
  check_balance(dispatcher, 0, 0);
  job_destroy(owner.job);

  create(&owner, dispatcher, &plan); // or is destroyed without having been submitted
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  job_cancel(owner.job);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void job_cancelled_while_it_runs_is_told_so_at_its_end(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  for (int ok = 0; ok < 2; ok++) { // also if the backend came to a good end all the same
    struct owner owner;
    fake->run_behaviour = FAKE_KEEPS;
    create(&owner, dispatcher, &plan);
    assert_int_equal(job_reserve(owner.job), JOB_READY);
    assert_int_equal(job_submit(owner.job), JOB_WAITING);
    assert_false(atomic_load(fake->kept_run->run.cancelled));
    job_cancel(owner.job);
    assert_true(atomic_load(fake->kept_run->run.cancelled));
    check_calls(&owner, 0, 0); // the backend still uses the memory
    check_balance(dispatcher, 256, 256);
    fake_answer_run(fake, ok);
    check_calls(&owner, 0, 1);
    assert_false(owner.ok);
    check_failed(&owner, REASON_CANCELLED);
    check_balance(dispatcher, 0, 0);
    job_destroy(owner.job);
  }
  finish(dispatcher);
}

static void cancelling_a_job_that_ended_changes_nothing(void **state) {
  (void)state;
  struct fake_backend *fake;
  struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
  struct plan plan = make_plan(100, 100, 0);
  struct owner owner;
  create(&owner, dispatcher, &plan);
  assert_int_equal(job_reserve(owner.job), JOB_READY);
  assert_int_equal(job_submit(owner.job), JOB_READY);
  job_cancel(owner.job);
  check_calls(&owner, 0, 0);
  const uint8_t *output = job_tensor_data(owner.job, 2);
  assert_int_equal(output[0], 0x5a);
  job_destroy(owner.job);
  finish(dispatcher);
}

static void on_reserved_run_to_the_end(void *context, bool ok) {
  struct owner *owner = context;
  owner->reserved_calls++;
  owner->ok = ok && job_submit(owner->job) == JOB_READY;
  job_destroy(owner->job);
}

static void waiting_jobs_run_one_after_the_other_from_their_callbacks(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  struct fake_backend *fake = fake_backend_create(TARGET_CPU, 1u << NUMERICS_EXACT);
  struct backend *backends[] = {&fake->backend, NULL};
  struct dispatcher *dispatcher = make_dispatcher_over(8 * LIMIT_BYTES, COUNT, backends);
  struct plan plan = make_plan((int64_t)LIMIT_BYTES - 64, 64, 0);
  struct owner holder, *owners = calloc(COUNT, sizeof *owners);
  take_everything(&holder, dispatcher);
  for (size_t i = 0; i < COUNT; i++) {
    struct job_callbacks callbacks = {.reserved = on_reserved_run_to_the_end, .context = &owners[i]};
    owners[i].job = job_create(dispatcher, &plan, NULL, &callbacks);
    assert_int_equal(job_reserve(owners[i].job), JOB_WAITING);
  }
  job_destroy(holder.job);
  for (size_t i = 0; i < COUNT; i++) {
    check_calls(&owners[i], 1, 0);
    assert_true(owners[i].ok);
  }
  free(owners);
  finish(dispatcher);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(job_goes_from_plan_to_outputs),
      cmocka_unit_test(end_before_submit_returns_is_told_by_it),
      cmocka_unit_test(failure_told_later_gives_all_memory_back),
      cmocka_unit_test(summary_tells_the_phases_apart),
      cmocka_unit_test(job_without_bytes_needs_no_memory),
      cmocka_unit_test(outputs_stay_while_they_are_held),
      cmocka_unit_test(job_waits_for_memory),
      cmocka_unit_test(full_queue_refuses_with_advice),
      cmocka_unit_test(wait_that_is_too_long_ends_with_advice),
      cmocka_unit_test(job_beyond_the_budget_is_refused),
      cmocka_unit_test(memory_that_is_not_there_fails_the_job),
      cmocka_unit_test(job_cancelled_before_it_asks_is_refused),
      cmocka_unit_test(job_cancelled_while_it_waits_is_told_so),
      cmocka_unit_test(job_may_be_destroyed_in_the_answer_to_its_cancellation),
      cmocka_unit_test(job_cancelled_after_the_grant_and_before_the_answer_fails),
      cmocka_unit_test(job_cancelled_while_it_uploads_does_not_run),
      cmocka_unit_test(job_cancelled_while_it_runs_is_told_so_at_its_end),
      cmocka_unit_test(cancelling_a_job_that_ended_changes_nothing),
      cmocka_unit_test(waiting_jobs_run_one_after_the_other_from_their_callbacks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
