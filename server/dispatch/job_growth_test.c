// Memory that takes long to come: nobody's thread waits for it, and it is what the budget says.
#include "server/dispatch/dispatch_test_support.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((int64_t)1 << 20)
// Far more than what is taken at once.
#define LARGE_BYTES (16 * MIB)
// Memory is taken in pages of 2 MiB, and each of a job's two blocks may begin and end within one.
#define PAGE_MARGIN_BYTES ((uint64_t)(2 * 2 * MIB))
// Linux keeps the last touched pages of each thread out of a process's count for a while.
#define COUNT_MARGIN_BYTES ((uint64_t)MIB)

struct waiter {
  struct job *job;
  sem_t answered;
  pthread_t thread;
  bool ok;
};

static void on_reserved(void *context, bool ok) {
  struct waiter *waiter = context;
  waiter->ok = ok;
  waiter->thread = pthread_self();
  sem_post(&waiter->answered);
}

static void on_finished(void *context, bool ok) {
  (void)context;
  (void)ok;
  fail_msg("no job is submitted here");
}

static enum job_progress reserve(struct waiter *waiter, struct dispatcher *dispatcher, int64_t input_bytes,
                                 int64_t output_bytes) {
  struct plan plan = make_plan(input_bytes, output_bytes, 0);
  struct job_callbacks callbacks = {.reserved = on_reserved, .finished = on_finished, .context = waiter};
  waiter->job = job_create(dispatcher, &plan, NULL, &callbacks);
  assert_non_null(waiter->job);
  sem_init(&waiter->answered, 0, 0);
  return job_reserve(waiter->job);
}

static void await(struct waiter *waiter) {
  while (sem_wait(&waiter->answered) != 0) {
  }
}

static void end(struct waiter *waiter) {
  assert_int_equal(sem_trywait(&waiter->answered), -1); // told once
  job_destroy(waiter->job);
  sem_destroy(&waiter->answered);
}

static void cold_memory_comes_on_another_thread_and_warm_at_once(void **state) {
  (void)state;
  struct dispatcher *dispatcher = make_large_dispatcher(4 * LARGE_BYTES);
  struct waiter waiter;
  assert_int_equal(reserve(&waiter, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_WAITING);
  await(&waiter);
  assert_true(waiter.ok);
  assert_false(pthread_equal(waiter.thread, pthread_self()));
  memset(job_tensor_data(waiter.job, 0), 1, LARGE_BYTES);
  memset(job_tensor_data(waiter.job, 2), 2, LARGE_BYTES);
  check_balance(dispatcher, 2 * LARGE_BYTES, 2 * LARGE_BYTES);
  end(&waiter);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(reserve(&waiter, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_READY);
    end(&waiter);
  }
  check_balance(dispatcher, 0, 0);
  dispatcher_destroy(dispatcher);
}

// While a large job waits for its memory a small one, cold too, has its own.
static void small_job_does_not_wait_for_growth(void **state) {
  (void)state;
  struct dispatcher *dispatcher = make_large_dispatcher(4 * LARGE_BYTES);
  struct waiter large, small;
  assert_int_equal(reserve(&large, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_WAITING);
  assert_int_equal(reserve(&small, dispatcher, 1000, 1000), JOB_READY);
  end(&small);
  await(&large);
  assert_true(large.ok);
  end(&large);
  dispatcher_destroy(dispatcher);
}

static void cancelled_while_its_memory_comes_is_told_so_once(void **state) {
  (void)state;
  struct dispatcher *dispatcher = make_large_dispatcher(8 * LARGE_BYTES);
  struct waiter first, second;
  assert_int_equal(reserve(&first, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_WAITING);
  assert_int_equal(reserve(&second, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_WAITING);
  job_cancel(second.job);
  await(&second);
  await(&first);
  assert_true(first.ok);
  if (!second.ok) { // else the answer was on its way already
    assert_int_equal(job_status(second.job)->reason, REASON_CANCELLED);
  }
  end(&first);
  end(&second);
  check_balance(dispatcher, 0, 0);
  dispatcher_destroy(dispatcher);
}

static void grant_after_a_wait_does_not_grow_on_the_thread_that_gave_back(void **state) {
  (void)state;
  struct dispatcher *dispatcher = make_large_dispatcher(2 * LARGE_BYTES);
  struct budget_request everything = {.bytes = 2 * LARGE_BYTES};
  struct waiter waiter;
  assert_int_equal(budget_reserve(dispatcher_budget(dispatcher), &everything, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(&waiter, dispatcher, LARGE_BYTES, LARGE_BYTES), JOB_WAITING);
  budget_release(dispatcher_budget(dispatcher), 2 * LARGE_BYTES);
  await(&waiter);
  assert_true(waiter.ok);
  assert_false(pthread_equal(waiter.thread, pthread_self()));
  end(&waiter);
  dispatcher_destroy(dispatcher);
}

// Bytes of shared memory that the process has touched.
static uint64_t shared_bytes(void) {
  char line[256];
  unsigned long long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL && sscanf(line, "RssShmem: %llu kB", &kib) != 1) {
  }
  fclose(file);
  return kib * 1024;
}

static void gauge_of_the_budget_agrees_with_the_process(void **state) {
  (void)state;
  enum { JOBS = 6 };
  struct dispatcher *dispatcher = make_large_dispatcher(256 * MIB);
  struct waiter waiters[JOBS];
  struct budget_state budget;
  uint64_t before = shared_bytes();
  for (int i = 0; i < JOBS; i++) {
    int64_t input_bytes = (i + 1) * 3 * MIB + 12345, output_bytes = (i + 2) * 2 * MIB + 777;
    if (reserve(&waiters[i], dispatcher, input_bytes, output_bytes) == JOB_WAITING) {
      await(&waiters[i]);
    }
    memset(job_tensor_data(waiters[i].job, 0), 1, (size_t)input_bytes);
    memset(job_tensor_data(waiters[i].job, 2), 2, (size_t)output_bytes);
    budget_get_state(dispatcher_budget(dispatcher), &budget);
    uint64_t taken = shared_bytes() - before;
    assert_true(budget.reserved_bytes <= taken + COUNT_MARGIN_BYTES);
    assert_true(taken <= budget.reserved_bytes + (uint64_t)(i + 1) * PAGE_MARGIN_BYTES);
  }
  for (int i = 0; i < JOBS; i++) {
    end(&waiters[i]);
  }
  budget_get_state(dispatcher_budget(dispatcher), &budget);
  assert_int_equal(budget.reserved_bytes, 0);
  arena_trim(dispatcher_arena(dispatcher), 0, 0);
  arena_trim(dispatcher_arena(dispatcher), 1, 0);
  assert_true(shared_bytes() <= before + COUNT_MARGIN_BYTES);
  dispatcher_destroy(dispatcher);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cold_memory_comes_on_another_thread_and_warm_at_once),
      cmocka_unit_test(small_job_does_not_wait_for_growth),
      cmocka_unit_test(cancelled_while_its_memory_comes_is_told_so_once),
      cmocka_unit_test(grant_after_a_wait_does_not_grow_on_the_thread_that_gave_back),
      cmocka_unit_test(gauge_of_the_budget_agrees_with_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
