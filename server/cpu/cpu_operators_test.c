// The CPU backend with the operators themselves: planned, run, and looked at from many threads at once.
#include "server/cpu/cpu_backend.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t read_clock(void *context) {
  return atomic_fetch_add((atomic_llong *)context, 1);
}

static atomic_llong clock_ns;

// One backward: `planes` planes of 2 * side by 2 * side, each element of the side by side gradOutput going to
// the first element of its 2 by 2 window.
struct job {
  struct plan plan;
  struct backend_run_task task;
  int64_t planes, side;
  float *gradients, *result;
  int64_t *indices;
  void *workspace;
  sem_t answered;
  bool ok;
};

static struct argument tensor_argument(const char *name, enum data_type type, int64_t planes, int64_t side) {
  struct argument argument = {
      .value = {.kind = PARAMETER_KIND_TENSOR,
                .tensor = {.data_type = type, .rank = 4, .shape = {1, planes, side, side}}}};
  snprintf(argument.name, sizeof argument.name, "%s", name);
  return argument;
}

static void on_done(struct backend_run_task *task, bool ok) {
  struct job *job = (struct job *)((char *)task - offsetof(struct job, task));
  job->ok = ok;
  sem_post(&job->answered);
}

static void *allocate(int64_t bytes) {
  size_t rounded = ((size_t)bytes + TENSOR_ALIGNMENT) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  void *memory = aligned_alloc(TENSOR_ALIGNMENT, rounded);
  memset(memory, 0xcd, rounded);
  return memory;
}

// The value of gradient number i.
static float gradient(int64_t i) {
  return (float)(i % 1000 + 1);
}

static bool job_prepare(struct job *job, int64_t planes, int64_t side) {
  struct operator_request *request = calloc(1, sizeof *request);
  snprintf(request->operator_name, sizeof request->operator_name, "aclnnAdaptiveMaxPool2dBackward");
  request->arguments[0] = tensor_argument("gradOutput", DATA_TYPE_FLOAT, planes, side);
  request->arguments[1] = tensor_argument("self", DATA_TYPE_FLOAT, planes, 2 * side);
  request->arguments[2] = tensor_argument("indices", DATA_TYPE_INT64, planes, side);
  request->arguments[3] = tensor_argument("gradInput", DATA_TYPE_FLOAT, planes, 2 * side);
  request->argument_count = 4;
  struct status status;
  *job = (struct job){.planes = planes, .side = side, .task = {.done = on_done}};
  bool ok = plan_create(request, &job->plan, &status);
  free(request);
  if (!ok) {
    return false;
  }
  const struct plan_tensor *tensors = job->plan.tensors;
  job->gradients = allocate(tensors[0].storage_bytes);
  job->indices = allocate(tensors[2].storage_bytes);
  job->result = allocate(tensors[3].storage_bytes);
  job->workspace = allocate((int64_t)job->plan.workspace_bytes);
  for (int64_t i = 0; i < planes * side * side; i++) {
    job->gradients[i] = gradient(i);
    job->indices[i] = i / side % side * 2 * (2 * side) + i % side * 2;
  }
  struct operator_run *run = &job->task.run;
  run->plan = &job->plan;
  run->storages[tensors[0].parameter] = job->gradients;
  run->storages[tensors[2].parameter] = job->indices;
  run->storages[tensors[3].parameter] = job->result;
  run->workspace = job->workspace;
  sem_init(&job->answered, 0, 0);
  return true;
}

static void job_await(struct job *job) {
  while (sem_wait(&job->answered) != 0) {
  }
}

static bool job_is_right(const struct job *job) {
  int64_t width = 2 * job->side;
  for (int64_t i = 0; i < job->planes * width * width; i++) {
    int64_t plane = i / (width * width), row = i / width % width, column = i % width;
    float expected = 0;
    if (row % 2 == 0 && column % 2 == 0) {
      expected = gradient((plane * job->side + row / 2) * job->side + column / 2);
    }
    if (job->result[i] != expected) {
      return false;
    }
  }
  return true;
}

static void job_end(struct job *job) {
  free(job->gradients);
  free(job->indices);
  free(job->result);
  free(job->workspace);
  sem_destroy(&job->answered);
}

static struct backend *make_backend(void) {
  struct cpu_backend_options options = {.threads = 2, .clock_ns = read_clock, .clock_context = &clock_ns};
  struct backend *backend;
  struct status status;
  assert_true(cpu_backend_create(&options, &backend, &status));
  return backend;
}

// Tiny, small and large ones.
static const int64_t sides[] = {1, 10, 50, 200};
#define SIDES (sizeof sides / sizeof sides[0])

static void results_are_the_operators(void **state) {
  (void)state;
  struct backend *backend = make_backend();
  for (size_t i = 0; i < SIDES; i++) {
    struct job job;
    assert_true(job_prepare(&job, 4, sides[i]));
    backend->run(backend, &job.task);
    job_await(&job);
    assert_true(job.ok);
    assert_true(job_is_right(&job));
    job_end(&job);
  }
  backend->destroy(backend);
}

static void wrong_index_fails_the_job(void **state) {
  (void)state;
  struct backend *backend = make_backend();
  for (size_t i = 0; i < SIDES; i++) {
    struct job job;
    assert_true(job_prepare(&job, 4, sides[i]));
    job.indices[2] = 4 * sides[i] * sides[i];
    backend->run(backend, &job.task);
    job_await(&job);
    assert_false(job.ok);
    assert_int_equal(job.task.status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
    assert_string_equal(job.task.status.parameter, "indices");
    assert_true(job.task.status.metadata_count > 0);
    job_end(&job);
  }
  backend->destroy(backend);
}

// An operator that announces its run.
static struct operator_definition announced;
static sem_t running;

static bool announce_and_run(const struct operator_run *run, struct status *status) {
  sem_post(&running);
  return operator_find(announced.name)->run(run, status);
}

static void endless_job_stops_when_cancelled(void **state) {
  (void)state;
  // A gradOutput of one element that is repeated 2^40 times, all of them added to one place.
  struct operator_request *request = calloc(1, sizeof *request);
  snprintf(request->operator_name, sizeof request->operator_name, "aclnnAdaptiveMaxPool2dBackward");
  request->arguments[0] = tensor_argument("gradOutput", DATA_TYPE_FLOAT, 1, 1 << 20);
  request->arguments[1] = tensor_argument("self", DATA_TYPE_FLOAT, 1, 1);
  request->arguments[2] = tensor_argument("indices", DATA_TYPE_INT64, 1, 1 << 20);
  request->arguments[3] = tensor_argument("gradInput", DATA_TYPE_FLOAT, 1, 1);
  request->arguments[0].value.tensor.stride_count = 4; // all strides 0
  request->arguments[2].value.tensor.stride_count = 4;
  request->argument_count = 4;
  struct job job = {.task = {.done = on_done}};
  struct status status;
  assert_true(plan_create(request, &job.plan, &status));
  free(request);
  announced = *job.plan.definition;
  announced.run = announce_and_run;
  job.plan.definition = &announced;
  sem_init(&running, 0, 0);
  float gradient_stored = 1, result = 0;
  int64_t index_stored = 0;
  atomic_bool cancelled = false;
  job.workspace = allocate((int64_t)job.plan.workspace_bytes);
  job.task.run.plan = &job.plan;
  job.task.run.storages[job.plan.tensors[0].parameter] = &gradient_stored;
  job.task.run.storages[job.plan.tensors[2].parameter] = &index_stored;
  job.task.run.storages[job.plan.tensors[3].parameter] = &result;
  job.task.run.workspace = job.workspace;
  job.task.run.cancelled = &cancelled;
  sem_init(&job.answered, 0, 0);
  struct backend *backend = make_backend();
  backend->run(backend, &job.task); // returns: that is no tiny job
  while (sem_wait(&running) != 0) {
  }
  atomic_store(&cancelled, true);
  job_await(&job);
  assert_false(job.ok);
  assert_int_equal(job.task.status.reason, REASON_CANCELLED);
  job_end(&job);
  sem_destroy(&running);
  backend->destroy(backend);
}

#define SUBMITTERS 16
#ifdef ACLNN_SANITIZED
#define SUBMITTER_ROUNDS 6
#else
#define SUBMITTER_ROUNDS 60
#endif

struct submitter {
  struct backend *backend;
  pthread_t thread;
  size_t number;
  int wrong;
};

// Has two jobs under way at a time.
static void *submit_jobs(void *argument) {
  struct submitter *submitter = argument;
  for (size_t round = 0; round < SUBMITTER_ROUNDS; round++) {
    struct job jobs[2];
    for (size_t i = 0; i < 2; i++) {
      submitter->wrong += !job_prepare(&jobs[i], 3, sides[(submitter->number + round + i) % SIDES]);
      submitter->backend->run(submitter->backend, &jobs[i].task);
    }
    for (size_t i = 0; i < 2; i++) {
      job_await(&jobs[i]);
      submitter->wrong += !jobs[i].ok || !job_is_right(&jobs[i]);
      job_end(&jobs[i]);
    }
  }
  return NULL;
}

static void many_threads_get_their_own_results(void **state) {
  (void)state;
  struct backend *backend = make_backend();
  struct submitter submitters[SUBMITTERS];
  for (size_t i = 0; i < SUBMITTERS; i++) {
    submitters[i] = (struct submitter){.backend = backend, .number = i};
    assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_jobs, &submitters[i]), 0);
  }
  for (size_t i = 0; i < SUBMITTERS; i++) {
    pthread_join(submitters[i].thread, NULL);
    assert_int_equal(submitters[i].wrong, 0);
  }
  backend->destroy(backend);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_are_the_operators),
      cmocka_unit_test(wrong_index_fails_the_job),
      cmocka_unit_test(endless_job_stops_when_cancelled),
      cmocka_unit_test(many_threads_get_their_own_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
