#include "server/cpu/cpu_backend.h"

#include "kernels/parallel.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

// The work of a job in bytes that it touches decides where it runs. Below the first limit a run takes some
// microseconds, less than it costs to wake a thread up; above the second it is worth to wake all of them.
#define TINY_BYTES_MAX ((uint64_t)64 << 10)
#define SMALL_BYTES_MAX ((uint64_t)2 << 20)

// Tasks in the order in which they came, chained through _next.
struct task_queue {
  struct backend_run_task *first, *last;
  pthread_cond_t filled;
};

struct cpu_backend {
  struct backend backend;
  struct cpu_backend_options options;
  struct parallel *parallel; // used by the one thread that runs large jobs

  pthread_mutex_t mutex; // guards the queues and stopping
  struct task_queue small, large;
  bool stopping;

  size_t runner_count; // runners that were started
  bool large_runner_started;
  pthread_t large_runner;
  pthread_t runners[]; // as many as the pool has threads
};

static struct cpu_backend *from_backend(struct backend *backend) {
  return (struct cpu_backend *)((char *)backend - offsetof(struct cpu_backend, backend));
}

static void run_task(struct cpu_backend *cpu, struct backend_run_task *task, struct parallel *parallel) {
  struct operator_run *run = &task->run;
  run->parallel = parallel;
  run->cpu = &cpu->options.cpu;
  task->started_ns = cpu->options.clock_ns(cpu->options.clock_context);
  bool ok;
  if (run->cancelled != NULL && atomic_load(run->cancelled)) {
    ok = status_fail(&task->status, REASON_CANCELLED, NULL, "the job was cancelled before it began");
  } else {
    ok = run->plan->definition->run(run, &task->status);
  }
  task->finished_ns = cpu->options.clock_ns(cpu->options.clock_context);
  task->done(task, ok);
}

static void chain(struct task_queue *queue, struct backend_run_task *task) {
  task->_next = NULL;
  *(queue->last != NULL ? &queue->last->_next : &queue->first) = task;
  queue->last = task;
}

static void queue_append(struct cpu_backend *cpu, struct task_queue *queue, struct backend_run_task *task) {
  pthread_mutex_lock(&cpu->mutex);
  assert(!cpu->stopping);
  chain(queue, task);
  pthread_cond_signal(&queue->filled);
  pthread_mutex_unlock(&cpu->mutex);
}

// Waits for a task; NULL when there is none and none will come.
static struct backend_run_task *queue_take(struct cpu_backend *cpu, struct task_queue *queue) {
  pthread_mutex_lock(&cpu->mutex);
  while (queue->first == NULL && !cpu->stopping) {
    pthread_cond_wait(&queue->filled, &cpu->mutex);
  }
  struct backend_run_task *task = queue->first;
  if (task != NULL) {
    queue->first = task->_next;
    if (queue->first == NULL) {
      queue->last = NULL;
    }
  }
  pthread_mutex_unlock(&cpu->mutex);
  return task;
}

// Moves the tasks whose jobs were cancelled to another queue. Under the lock.
static void queue_sort_out(struct task_queue *queue, struct task_queue *cancelled) {
  struct backend_run_task *task = queue->first;
  queue->first = queue->last = NULL;
  while (task != NULL) {
    struct backend_run_task *next = task->_next;
    bool out = task->run.cancelled != NULL && atomic_load(task->run.cancelled);
    chain(out ? cancelled : queue, task);
    task = next;
  }
}

// What waits behind a long run gives its memory back now, and not when that has ended.
static void cpu_cancelled(struct backend *backend) {
  struct cpu_backend *cpu = from_backend(backend);
  struct task_queue cancelled = {.first = NULL, .last = NULL};
  pthread_mutex_lock(&cpu->mutex);
  queue_sort_out(&cpu->small, &cancelled);
  queue_sort_out(&cpu->large, &cancelled);
  pthread_mutex_unlock(&cpu->mutex);
  while (cancelled.first != NULL) {
    struct backend_run_task *task = cancelled.first;
    cancelled.first = task->_next;
    run_task(cpu, task, NULL); // ends it
  }
}

static void *run_small(void *argument) {
  struct cpu_backend *cpu = argument;
  struct backend_run_task *task;
  while ((task = queue_take(cpu, &cpu->small)) != NULL) {
    run_task(cpu, task, NULL);
  }
  return NULL;
}

static void *run_large(void *argument) {
  struct cpu_backend *cpu = argument;
  struct backend_run_task *task;
  while ((task = queue_take(cpu, &cpu->large)) != NULL) {
    run_task(cpu, task, cpu->parallel);
  }
  return NULL;
}

// By its elements a tensor may be far larger than its storage: strides of 0 repeat what is stored once.
static uint64_t tensor_work_bytes(const struct plan *plan, size_t index) {
  const struct tensor_desc *desc = plan_tensor_desc(plan, index);
  uint64_t view_bytes = (uint64_t)tensor_desc_elements(desc) * data_type_bytes(desc->data_type);
  uint64_t storage_bytes = (uint64_t)plan->tensors[index].storage_bytes;
  return view_bytes > storage_bytes ? view_bytes : storage_bytes;
}

static uint64_t work_bytes(const struct plan *plan) {
  uint64_t bytes = plan->workspace_bytes;
  for (size_t i = 0; i < plan->tensor_count; i++) {
    if (plan->tensors[i].transferred && __builtin_add_overflow(bytes, tensor_work_bytes(plan, i), &bytes)) {
      return UINT64_MAX;
    }
  }
  return bytes;
}

static void cpu_run(struct backend *backend, struct backend_run_task *task) {
  struct cpu_backend *cpu = from_backend(backend);
  uint64_t bytes = work_bytes(task->run.plan);
  if (bytes <= TINY_BYTES_MAX) {
    run_task(cpu, task, NULL);
  } else if (bytes <= SMALL_BYTES_MAX) {
    queue_append(cpu, &cpu->small, task);
  } else {
    queue_append(cpu, &cpu->large, task);
  }
}

static void cpu_destroy(struct backend *backend) {
  struct cpu_backend *cpu = from_backend(backend);
  pthread_mutex_lock(&cpu->mutex);
  cpu->stopping = true;
  pthread_cond_broadcast(&cpu->small.filled);
  pthread_cond_broadcast(&cpu->large.filled);
  pthread_mutex_unlock(&cpu->mutex);
  for (size_t i = 0; i < cpu->runner_count; i++) {
    pthread_join(cpu->runners[i], NULL);
  }
  if (cpu->large_runner_started) {
    pthread_join(cpu->large_runner, NULL);
  }
  parallel_destroy(cpu->parallel);
  pthread_cond_destroy(&cpu->small.filled);
  pthread_cond_destroy(&cpu->large.filled);
  pthread_mutex_destroy(&cpu->mutex);
  free(cpu);
}

static bool start_threads(struct cpu_backend *cpu, size_t runners, struct status *status) {
  int error = 0;
  while (error == 0 && cpu->runner_count < runners) {
    error = pthread_create(&cpu->runners[cpu->runner_count], NULL, run_small, cpu);
    cpu->runner_count += error == 0;
  }
  if (error == 0) {
    error = pthread_create(&cpu->large_runner, NULL, run_large, cpu);
    cpu->large_runner_started = error == 0;
  }
  return error == 0 || status_fail(status, REASON_INTERNAL, NULL, "a compute thread cannot be started: %s",
                                   strerror(error));
}

// Takes the pool over, on failure too.
static bool create_with_pool(const struct cpu_backend_options *options, struct parallel *parallel,
                             struct backend **backend, struct status *status) {
  size_t threads = parallel_threads(parallel);
  struct cpu_backend *cpu = calloc(1, sizeof *cpu + threads * sizeof cpu->runners[0]);
  if (cpu == NULL) {
    parallel_destroy(parallel);
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for %zu compute threads", threads);
  }
  cpu->backend = (struct backend){
      .target = TARGET_CPU,
      .numerics = 1u << NUMERICS_EXACT,
      .run = cpu_run,
      .cancelled = cpu_cancelled,
      .destroy = cpu_destroy,
  };
  cpu->options = *options;
  cpu->parallel = parallel;
  pthread_mutex_init(&cpu->mutex, NULL);
  pthread_cond_init(&cpu->small.filled, NULL);
  pthread_cond_init(&cpu->large.filled, NULL);
  if (!start_threads(cpu, threads, status)) {
    cpu_destroy(&cpu->backend);
    return false;
  }
  *backend = &cpu->backend;
  return true;
}

bool cpu_backend_create(const struct cpu_backend_options *options, struct backend **backend,
                        struct status *status) {
  // Signals are the main thread's business: the threads that start here, the pool's too, inherit this mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct parallel *parallel;
  bool ok = parallel_create(options->threads, &parallel, status) &&
            create_with_pool(options, parallel, backend, status);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}
