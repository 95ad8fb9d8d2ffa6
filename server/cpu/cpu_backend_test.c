#include "server/cpu/cpu_backend.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define THREADS 3

static int64_t read_clock(void *context) {
  return atomic_fetch_add((atomic_llong *)context, 1);
}

static atomic_llong clock_ns;

static struct backend *make_backend(size_t threads) {
  struct cpu_backend_options options = {
      .threads = threads, .clock_ns = read_clock, .clock_context = &clock_ns};
  struct backend *backend;
  struct status status;
  atomic_store(&clock_ns, 1);
  assert_true(cpu_backend_create(&options, &backend, &status));
  return backend;
}

// A probe is a plan whose operator writes down where it was run, and waits there if so asked.
struct probe {
  struct plan plan;
  struct backend_run_task task;
  bool waits, fails;
  sem_t entered, may_leave, answered;
  pthread_t thread;
  bool parallel, signals_blocked, ok;
  int answers;
};

static bool run_probe(const struct operator_run *run, struct status *status) {
  struct probe *probe;
  memcpy(&probe, run->plan->private_data, sizeof probe);
  probe->thread = pthread_self();
  probe->parallel = run->parallel != NULL;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  probe->signals_blocked = sigismember(&mask, SIGTERM) == 1;
  sem_post(&probe->entered);
  if (probe->waits) {
    while (sem_wait(&probe->may_leave) != 0) {
    }
  }
  return !probe->fails ||
         status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "indices", "one of them is wrong");
}

static const struct operator_definition probe_operator = {.name = "aclnnProbe", .run = run_probe};

static void on_probe_done(struct backend_run_task *task, bool ok) {
  struct probe *probe = (struct probe *)((char *)task - offsetof(struct probe, task));
  probe->ok = ok;
  probe->answers++;
  sem_post(&probe->answered);
}

// A probe with one input of that many bytes.
static void probe_init(struct probe *probe, int64_t bytes) {
  *probe = (struct probe){.plan = {.definition = &probe_operator, .target = TARGET_CPU, .tensor_count = 1},
                          .task = {.done = on_probe_done}};
  probe->plan.arguments.values[0] = (struct argument_value){
      .kind = PARAMETER_KIND_TENSOR,
      .tensor = {
          .data_type = DATA_TYPE_UINT8, .rank = 1, .stride_count = 1, .shape = {bytes}, .strides = {1}}};
  probe->plan.tensors[0] =
      (struct plan_tensor){.direction = DIRECTION_INPUT, .transferred = true, .storage_bytes = bytes};
  memcpy(probe->plan.private_data, &probe, sizeof probe);
  probe->task.run.plan = &probe->plan;
  sem_init(&probe->entered, 0, 0);
  sem_init(&probe->may_leave, 0, 0);
  sem_init(&probe->answered, 0, 0);
}

static void await(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

static bool has_happened(sem_t *semaphore) {
  return sem_trywait(semaphore) == 0;
}

static void probe_end(struct probe *probe) {
  assert_int_equal(probe->answers, 1);
  sem_destroy(&probe->entered);
  sem_destroy(&probe->may_leave);
  sem_destroy(&probe->answered);
}

#define TINY_BYTES 1000
#define SMALL_BYTES 500000
#define LARGE_BYTES 50000000

static void tiny_job_runs_on_the_thread_that_submits_it(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe probe;
  probe_init(&probe, TINY_BYTES);
  backend->run(backend, &probe.task);
  assert_true(has_happened(&probe.answered));
  assert_true(probe.ok);
  assert_true(pthread_equal(probe.thread, pthread_self()));
  assert_false(probe.parallel);
  assert_int_equal(probe.task.started_ns, 1);
  assert_int_equal(probe.task.finished_ns, 2);
  probe_end(&probe);
  backend->destroy(backend);
}

static void larger_jobs_run_on_other_threads(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  const int64_t sizes[] = {SMALL_BYTES, LARGE_BYTES};
  for (size_t i = 0; i < 2; i++) {
    struct probe probe;
    probe_init(&probe, sizes[i]);
    backend->run(backend, &probe.task);
    await(&probe.answered);
    assert_true(probe.ok);
    assert_false(pthread_equal(probe.thread, pthread_self()));
    assert_int_equal(probe.parallel, sizes[i] == LARGE_BYTES);
    assert_true(probe.signals_blocked); // they are the main thread's
    assert_true(probe.task.finished_ns > probe.task.started_ns);
    probe_end(&probe);
  }
  backend->destroy(backend);
}

static void repeated_elements_count_as_work(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe probe;
  probe_init(&probe, 1);
  struct tensor_desc *desc = &probe.plan.arguments.values[0].tensor;
  desc->shape[0] = (int64_t)1 << 40;
  desc->strides[0] = 0; // one byte, again and again
  backend->run(backend, &probe.task);
  await(&probe.answered);
  assert_true(probe.parallel);
  probe_end(&probe);
  backend->destroy(backend);
}

static void workspace_counts_as_work(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe probe;
  probe_init(&probe, 1);
  probe.plan.workspace_bytes = UINT64_MAX;
  backend->run(backend, &probe.task);
  await(&probe.answered);
  assert_true(probe.parallel);
  probe_end(&probe);
  backend->destroy(backend);
}

static void small_job_does_not_wait_behind_a_large_one(void **state) {
  (void)state;
  struct backend *backend = make_backend(1);
  struct probe large, small;
  probe_init(&large, LARGE_BYTES);
  probe_init(&small, SMALL_BYTES);
  large.waits = true;
  backend->run(backend, &large.task);
  await(&large.entered);
  backend->run(backend, &small.task);
  await(&small.answered); // while the large one is still at it
  sem_post(&large.may_leave);
  await(&large.answered);
  probe_end(&small);
  probe_end(&large);
  backend->destroy(backend);
}

static void large_jobs_run_one_after_the_other(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe first, second;
  probe_init(&first, LARGE_BYTES);
  probe_init(&second, LARGE_BYTES);
  first.waits = true;
  backend->run(backend, &first.task);
  await(&first.entered);
  backend->run(backend, &second.task);
  // A small job that comes after it goes by: the second had its chance.
  struct probe small;
  probe_init(&small, SMALL_BYTES);
  backend->run(backend, &small.task);
  await(&small.answered);
  assert_false(has_happened(&second.entered));
  sem_post(&first.may_leave);
  await(&second.answered);
  assert_true(has_happened(&first.answered)); // and before it
  probe_end(&first);
  probe_end(&second);
  probe_end(&small);
  backend->destroy(backend);
}

static void small_jobs_run_at_once_on_all_runners(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe probes[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    probe_init(&probes[i], SMALL_BYTES);
    probes[i].waits = true;
    backend->run(backend, &probes[i].task);
  }
  for (size_t i = 0; i < THREADS; i++) {
    await(&probes[i].entered); // none of them has left
  }
  for (size_t i = 0; i < THREADS; i++) {
    sem_post(&probes[i].may_leave);
    await(&probes[i].answered);
    probe_end(&probes[i]);
  }
  backend->destroy(backend);
}

static void failure_of_the_operator_is_the_tasks(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  const int64_t sizes[] = {TINY_BYTES, SMALL_BYTES, LARGE_BYTES};
  for (size_t i = 0; i < 3; i++) {
    struct probe probe;
    probe_init(&probe, sizes[i]);
    probe.fails = true;
    backend->run(backend, &probe.task);
    await(&probe.answered);
    assert_false(probe.ok);
    assert_int_equal(probe.task.status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
    assert_string_equal(probe.task.status.parameter, "indices");
    probe_end(&probe);
  }
  backend->destroy(backend);
}

static void cancelled_job_does_not_begin(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  const int64_t sizes[] = {TINY_BYTES, SMALL_BYTES, LARGE_BYTES};
  for (size_t i = 0; i < 3; i++) {
    atomic_bool cancelled = true;
    struct probe probe;
    probe_init(&probe, sizes[i]);
    probe.task.run.cancelled = &cancelled;
    backend->run(backend, &probe.task);
    await(&probe.answered);
    assert_false(probe.ok);
    assert_int_equal(probe.task.status.reason, REASON_CANCELLED);
    assert_false(has_happened(&probe.entered));
    probe_end(&probe);
  }
  backend->destroy(backend);
}

static void job_cancelled_behind_a_long_one_is_answered_at_once(void **state) {
  (void)state;
  struct backend *backend = make_backend(THREADS);
  struct probe running, cancelled, waiting;
  atomic_bool flag = false;
  probe_init(&running, LARGE_BYTES);
  probe_init(&cancelled, LARGE_BYTES);
  probe_init(&waiting, LARGE_BYTES);
  running.waits = true;
  cancelled.task.run.cancelled = &flag;
  backend->run(backend, &running.task);
  await(&running.entered);
  backend->run(backend, &cancelled.task);
  backend->run(backend, &waiting.task);
  atomic_store(&flag, true);
  backend->cancelled(backend);
  assert_true(has_happened(&cancelled.answered));
  assert_int_equal(cancelled.task.status.reason, REASON_CANCELLED);
  assert_false(has_happened(&cancelled.entered));
  assert_false(has_happened(&waiting.answered));
  sem_post(&running.may_leave);
  await(&running.answered);
  await(&waiting.answered);
  assert_true(running.ok && waiting.ok);
  probe_end(&running);
  probe_end(&cancelled);
  probe_end(&waiting);
  backend->destroy(backend);
}

static void destroy_waits_for_all_jobs(void **state) {
  (void)state;
  enum { COUNT = 40 };
  struct backend *backend = make_backend(2);
  struct probe probes[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    probe_init(&probes[i], i % 4 == 0 ? LARGE_BYTES : SMALL_BYTES);
    backend->run(backend, &probes[i].task);
  }
  backend->destroy(backend);
  for (size_t i = 0; i < COUNT; i++) {
    assert_true(probes[i].ok);
    probe_end(&probes[i]);
  }
}

static void backend_tells_what_it_is(void **state) {
  (void)state;
  struct backend *backend = make_backend(0); // as many threads as the machine has
  assert_int_equal(backend->target, TARGET_CPU);
  assert_int_equal(backend->numerics, 1u << NUMERICS_EXACT);
  backend->destroy(backend);
}

static void threads_that_cannot_be_started_are_an_error(void **state) {
  (void)state;
  struct cpu_backend_options options = {
      .threads = SIZE_MAX, .clock_ns = read_clock, .clock_context = &clock_ns};
  struct backend *backend;
  struct status status;
  assert_false(cpu_backend_create(&options, &backend, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  assert_int_equal(sigismember(&mask, SIGTERM), 0); // the caller's signals are as they were
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiny_job_runs_on_the_thread_that_submits_it),
      cmocka_unit_test(larger_jobs_run_on_other_threads),
      cmocka_unit_test(repeated_elements_count_as_work),
      cmocka_unit_test(workspace_counts_as_work),
      cmocka_unit_test(small_job_does_not_wait_behind_a_large_one),
      cmocka_unit_test(large_jobs_run_one_after_the_other),
      cmocka_unit_test(small_jobs_run_at_once_on_all_runners),
      cmocka_unit_test(failure_of_the_operator_is_the_tasks),
      cmocka_unit_test(cancelled_job_does_not_begin),
      cmocka_unit_test(job_cancelled_behind_a_long_one_is_answered_at_once),
      cmocka_unit_test(destroy_waits_for_all_jobs),
      cmocka_unit_test(backend_tells_what_it_is),
      cmocka_unit_test(threads_that_cannot_be_started_are_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
