#include "server/dispatch/dispatch_test_support.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Backends with threads of their own that copy the input over the output. The CPU fails some of the jobs; the
// NPU loses some of the runs, hasn't enough memory or no device for others, and lies in some.

#define WORKERS 4
#define OWNERS 32
#ifdef ACLNN_SANITIZED
#define ROUNDS 100
#else
#define ROUNDS 1000
#endif

#define TENSOR_BYTES 60000

struct copying_backend {
  struct backend backend;
  pthread_mutex_t mutex;
  pthread_cond_t filled;
  struct backend_run_task *first;
  bool stopping;
  pthread_t workers[WORKERS];
  bool reliable;
  atomic_uint_fast64_t random;
  atomic_long quarantines, cancellations;
};

static void copy(const struct copying_backend *copying, struct backend_run_task *task) {
  const uint8_t *input = task->run.storages[2];
  uint8_t *output = task->run.storages[1];
  bool ok = copying->reliable || input[0] % 8 != 0;
  if (atomic_load(task->run.cancelled)) {
    ok = status_fail(&task->status, REASON_CANCELLED, NULL, "cancelled");
  } else if (!ok) {
    status_fail(&task->status, REASON_DEVICE_LOST, NULL, "as it was told to");
  } else {
    memcpy(output, input, TENSOR_BYTES);
  }
  task->done(task, ok);
}

static bool lose(struct backend_run_task *task, enum backend_failure failure) {
  task->failure = failure;
  return status_fail(&task->status, REASON_DEVICE_LOST, NULL, "the device is gone");
}

static void copy_on_device(struct copying_backend *copying, struct backend_run_task *task) {
  const uint64_t golden_ratio = UINT64_C(0x9E3779B97F4A7C15);
  uint8_t *output = task->run.storages[1];
  bool ok = true;
  memcpy(output, task->run.storages[2], TENSOR_BYTES);
  switch (atomic_fetch_add(&copying->random, golden_ratio) >> 60) {
  case 0:
  case 1:
  case 2:
    ok = lose(task, BACKEND_FAILURE_DEVICE);
    break;
  case 3:
    ok = lose(task, BACKEND_FAILURE_RESOURCES);
    break;
  case 4:
    ok = task->may_move ? lose(task, BACKEND_FAILURE_NO_DEVICE) : true;
    break;
  case 5:
    output[TENSOR_BYTES - 1] ^= 1;
    break;
  }
  task->done(task, ok);
}

static void copy_somewhere(struct copying_backend *copying, struct backend_run_task *task) {
  if (copying->backend.target == TARGET_NPU) {
    copy_on_device(copying, task);
  } else {
    copy(copying, task);
  }
}

static void *work(void *argument) {
  struct copying_backend *copying = argument;
  pthread_mutex_lock(&copying->mutex);
  for (;;) {
    while (copying->first == NULL && !copying->stopping) {
      pthread_cond_wait(&copying->filled, &copying->mutex);
    }
    struct backend_run_task *task = copying->first;
    if (task == NULL) {
      break;
    }
    copying->first = task->_next;
    pthread_mutex_unlock(&copying->mutex);
    copy_somewhere(copying, task);
    pthread_mutex_lock(&copying->mutex);
  }
  pthread_mutex_unlock(&copying->mutex);
  return NULL;
}

static void copying_run(struct backend *backend, struct backend_run_task *task) {
  struct copying_backend *copying = (struct copying_backend *)backend;
  const uint8_t *input = task->run.storages[2];
  if (input[0] % 3 == 0) {
    copy_somewhere(copying, task); // before the call returns
    return;
  }
  pthread_mutex_lock(&copying->mutex);
  task->_next = copying->first;
  copying->first = task;
  pthread_cond_signal(&copying->filled);
  pthread_mutex_unlock(&copying->mutex);
}

static void copying_destroy(struct backend *backend) {
  struct copying_backend *copying = (struct copying_backend *)backend;
  pthread_mutex_lock(&copying->mutex);
  copying->stopping = true;
  pthread_cond_broadcast(&copying->filled);
  pthread_mutex_unlock(&copying->mutex);
  for (size_t i = 0; i < WORKERS; i++) {
    pthread_join(copying->workers[i], NULL);
  }
  pthread_cond_destroy(&copying->filled);
  pthread_mutex_destroy(&copying->mutex);
  free(copying);
}

static void copying_quarantine(struct backend *backend, int32_t device, const char *why) {
  (void)device, (void)why;
  atomic_fetch_add(&((struct copying_backend *)backend)->quarantines, 1);
}

static void copying_cancelled(struct backend *backend) {
  atomic_fetch_add(&((struct copying_backend *)backend)->cancellations, 1);
}

static struct copying_backend *copying_create(enum target target) {
  struct copying_backend *copying = calloc(1, sizeof *copying);
  copying->backend = (struct backend){.target = target,
                                      .numerics = 1u << NUMERICS_EXACT,
                                      .run = copying_run,
                                      .quarantine = copying_quarantine,
                                      .cancelled = copying_cancelled,
                                      .destroy = copying_destroy};
  pthread_mutex_init(&copying->mutex, NULL);
  pthread_cond_init(&copying->filled, NULL);
  for (size_t i = 0; i < WORKERS; i++) {
    assert_int_equal(pthread_create(&copying->workers[i], NULL, work, copying), 0);
  }
  return copying;
}

struct tally {
  atomic_long succeeded, cancelled, failed, refused, wrong;
};

struct owner {
  struct dispatcher *dispatcher;
  const struct plan *plan;
  struct tally *tally;
  pthread_t thread;
  uint64_t random;
  sem_t answered;
  atomic_int due; // answers that are awaited; more come than awaited: wrong
  bool ok;
};

static void on_answer(void *context, bool ok) {
  struct owner *owner = context;
  if (atomic_fetch_sub(&owner->due, 1) != 1) {
    atomic_fetch_add(&owner->tally->wrong, 1);
  }
  owner->ok = ok;
  sem_post(&owner->answered);
}

static uint64_t random_next(struct owner *owner) {
  owner->random = owner->random * 6364136223846793005u + 1442695040888963407u;
  return owner->random >> 33;
}

// Waits for the answer to a call that returned `progress`, perhaps cancelling the job meanwhile.
static bool wait_for_answer(struct owner *owner, struct job *job, enum job_progress progress) {
  if (progress != JOB_WAITING) {
    atomic_fetch_sub(&owner->due, 1);
    return progress == JOB_READY;
  }
  if (random_next(owner) % 4 == 0) {
    job_cancel(job);
  }
  while (sem_wait(&owner->answered) != 0) {
  }
  return owner->ok;
}

static bool run_to_the_end(struct owner *owner, struct job *job, uint8_t mark) {
  atomic_fetch_add(&owner->due, 1);
  if (!wait_for_answer(owner, job, job_reserve(job))) {
    return false;
  }
  memset(job_tensor_data(job, 0), mark, TENSOR_BYTES);
  if (random_next(owner) % 16 == 0) {
    job_cancel(job);
  }
  atomic_fetch_add(&owner->due, 1);
  return wait_for_answer(owner, job, job_submit(job));
}

static void count_failure(struct owner *owner, const struct job *job, uint8_t mark) {
  struct tally *tally = owner->tally;
  switch (job_status(job)->reason) {
  case REASON_CANCELLED:
    atomic_fetch_add(&tally->cancelled, 1);
    break;
  case REASON_DEVICE_LOST:
    // The CPU's own failure, or a requested device that was lost too often.
    bool expected = (mark % 8 == 0 && job_plan(job)->target == TARGET_CPU) ||
                    (job_plan(job)->target == TARGET_NPU && !job_plan(job)->automatic);
    atomic_fetch_add(expected ? &tally->failed : &tally->wrong, 1);
    break;
  case REASON_QUEUE_FULL:
  case REASON_QUEUE_TIMEOUT:
    atomic_fetch_add(&tally->refused, 1);
    break;
  default:
    atomic_fetch_add(&tally->wrong, 1);
  }
}

static void *own_jobs(void *argument) {
  struct owner *owner = argument;
  struct job_callbacks callbacks = {.reserved = on_answer, .finished = on_answer, .context = owner};
  for (int round = 0; round < ROUNDS; round++) {
    uint8_t mark = (uint8_t)random_next(owner);
    struct job *job = job_create(owner->dispatcher, owner->plan, owner, &callbacks);
    if (run_to_the_end(owner, job, mark)) {
      const uint8_t *output = job_tensor_data(job, 2);
      struct job_outputs *outputs = job_outputs_hold(job);
      job_destroy(job);
      bool right = output[0] == mark && output[TENSOR_BYTES - 1] == mark;
      atomic_fetch_add(right ? &owner->tally->succeeded : &owner->tally->wrong, 1);
      job_outputs_release(outputs);
    } else {
      count_failure(owner, job, mark);
      job_destroy(job);
    }
  }
  return NULL;
}

// Owners take the two plans in turns.
static void race(struct dispatcher *dispatcher, const struct plan plans[2]) {
  struct tally tally = {0};
  struct owner owners[OWNERS] = {{0}};
  for (size_t i = 0; i < OWNERS; i++) {
    owners[i].dispatcher = dispatcher;
    owners[i].plan = &plans[i % 2];
    owners[i].tally = &tally;
    owners[i].random = i + 1;
    sem_init(&owners[i].answered, 0, 0);
    assert_int_equal(pthread_create(&owners[i].thread, NULL, own_jobs, &owners[i]), 0);
  }
  for (size_t i = 0; i < OWNERS; i++) {
    pthread_join(owners[i].thread, NULL);
    assert_int_equal(owners[i].due, 0);
    sem_destroy(&owners[i].answered);
  }
  assert_int_equal(tally.wrong, 0);
  assert_int_equal(tally.succeeded + tally.cancelled + tally.failed + tally.refused, OWNERS * ROUNDS);
  assert_true(tally.succeeded > 0 && tally.cancelled > 0 && tally.failed > 0);
  check_balance(dispatcher, 0, 0);
}

static void *release_outputs(void *outputs) {
  job_outputs_release(outputs);
  return NULL;
}

// As a transport does that was cut off: nobody waits for its thread.
static void the_end_waits_for_outputs_that_are_still_held(void **state) {
  (void)state;
  struct plan plan = make_plan(64, 64, 0);
  for (int round = 0; round < ROUNDS; round++) {
    struct fake_backend *fake;
    struct dispatcher *dispatcher = make_cpu_dispatcher(&fake);
    struct job *job = job_create(dispatcher, &plan, NULL, &(struct job_callbacks){0});
    assert_int_equal(job_reserve(job), JOB_READY);
    assert_int_equal(job_submit(job), JOB_READY);
    struct job_outputs *outputs = job_outputs_hold(job);
    job_destroy(job);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_outputs, outputs), 0);
    dispatcher_destroy(dispatcher);
    pthread_join(thread, NULL);
  }
}

static void racing_owners_get_one_answer_for_each_wait(void **state) {
  (void)state;
  struct backend *backends[] = {&copying_create(TARGET_CPU)->backend, NULL};
  struct dispatcher *dispatcher = make_dispatcher_over(64 * LIMIT_BYTES, OWNERS * 3 / 4, backends);
  struct plan plan = make_plan(TENSOR_BYTES, TENSOR_BYTES, 1000);
  race(dispatcher, (struct plan[]){plan, plan});
  dispatcher_destroy(dispatcher);
}

// For an NPU, with tensors that can be compared.
static struct plan plan_on_device(bool automatic) {
  static const struct operator_parameter parameters[] = {{.name = "in"}, {.name = "out"}, {.name = "shape"}};
  static const struct operator_definition definition = {
      .name = "aclnnCopy", .parameters = parameters, .parameter_count = 3};
  struct plan plan = make_plan(TENSOR_BYTES, TENSOR_BYTES, 1 << 24);
  struct tensor_desc desc = {.data_type = DATA_TYPE_UINT8, .rank = 1, .shape = {TENSOR_BYTES}};
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "out", &status));
  plan.definition = &definition;
  plan.arguments.values[1] = (struct argument_value){.kind = PARAMETER_KIND_TENSOR, .tensor = desc};
  plan.target = TARGET_NPU;
  plan.automatic = automatic;
  plan.host_workspace_bytes = 1000;
  return plan;
}

static void racing_jobs_survive_devices_that_are_lost_or_lie(void **state) {
  (void)state;
  struct copying_backend *npu = copying_create(TARGET_NPU);
  struct copying_backend *cpu = copying_create(TARGET_CPU);
  cpu->reliable = true;
  struct backend *backends[] = {&cpu->backend, &npu->backend, NULL};
  struct dispatcher *dispatcher = make_verifying_dispatcher(1, NULL, backends);
  race(dispatcher, (struct plan[]){plan_on_device(true), plan_on_device(false)});
  struct verification_counts counts;
  dispatcher_get_verification(dispatcher, &counts);
  assert_true(counts.agreed > 0 && counts.differed > 0);
  assert_int_equal(npu->quarantines, counts.differed);
  assert_true(npu->cancellations > 0);
  dispatcher_destroy(dispatcher);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_end_waits_for_outputs_that_are_still_held),
      cmocka_unit_test(racing_owners_get_one_answer_for_each_wait),
      cmocka_unit_test(racing_jobs_survive_devices_that_are_lost_or_lie),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
