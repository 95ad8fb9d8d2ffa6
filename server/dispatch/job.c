#include "server/dispatch/job_internal.h"
#include "server/dispatch/verification.h"

#include <assert.h>
#include <stdlib.h>

// Advice when to try again after the queue refused a job: about the time of a large one.
#define QUEUE_RETRY_MS 250

int64_t job_now_ns(const struct job *job) {
  return job->dispatcher->options.clock_ns(job->dispatcher->options.clock_context);
}

bool job_is_cancelled(const struct job *job) {
  return atomic_load(&job->cancelled);
}

// The plan as the CPU runs it, if it may come to that. False if there is no memory.
static bool plan_for_cpu(struct job *job) {
  const struct backend *cpu = dispatcher_find_backend(job->dispatcher, TARGET_CPU);
  if (cpu == NULL || job->plan.target != TARGET_NPU) {
    return true;
  }
  job->may_move = plan_may_move(&job->plan);
  job->verified = verification_chooses(job->dispatcher, &job->plan);
  if (!job->may_move && !job->verified) {
    return true;
  }
  job->cpu_plan = malloc(sizeof *job->cpu_plan);
  if (job->cpu_plan == NULL) {
    return false;
  }
  *job->cpu_plan = job->plan;
  job->cpu_plan->target = TARGET_CPU;
  job->cpu_plan->numerics = backend_numerics_given(cpu, job->plan.numerics);
  job->cpu_plan->workspace_bytes = job->plan.host_workspace_bytes;
  return true;
}

struct job *job_create(struct dispatcher *dispatcher, const struct plan *plan, const void *stream,
                       const struct job_callbacks *callbacks) {
  assert(dispatcher_find_backend(dispatcher, plan->target) != NULL);
  struct job *job = calloc(1, sizeof *job);
  struct job_outputs *outputs = calloc(1, sizeof *outputs);
  if (job == NULL || outputs == NULL) {
    goto no_memory;
  }
  job->dispatcher = dispatcher;
  job->plan = *plan;
  if (!plan_for_cpu(job)) {
    goto no_memory;
  }
  atomic_init(&outputs->holds, 1);
  outputs->dispatcher = dispatcher;
  dispatcher_outputs_made(dispatcher);
  job->outputs = outputs;
  job->callbacks = *callbacks;
  job->run_task.stream = stream;
  job->references = 1;
  pthread_mutex_init(&job->mutex, NULL);
  atomic_fetch_add(&dispatcher->jobs, 1);
  return job;
no_memory:
  free(job);
  free(outputs);
  return NULL;
}

static void unreference(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  bool last = --job->references == 0;
  pthread_mutex_unlock(&job->mutex);
  if (last) {
    struct dispatcher *dispatcher = job->dispatcher;
    pthread_mutex_destroy(&job->mutex);
    free(job->cpu_plan);
    free(job);
    atomic_fetch_sub(&dispatcher->jobs, 1);
  }
}

void job_fail_cancelled(struct status *status) {
  status_fail(status, REASON_CANCELLED, NULL, "the job was cancelled");
}

// The wait for memory.

static bool refuse_reservation(struct job *job, enum budget_outcome outcome, struct status *status) {
  const char *why =
      outcome == BUDGET_TIMED_OUT ? "the job waited too long for it" : "the queue for it is full";
  status_fail(status, outcome == BUDGET_TIMED_OUT ? REASON_QUEUE_TIMEOUT : REASON_QUEUE_FULL, NULL,
              "the server's memory for jobs, %llu bytes, is taken and %s",
              (unsigned long long)budget_limit(job->dispatcher->options.budget), why);
  status->retry_after_ms = QUEUE_RETRY_MS;
  return false;
}

// The job has its memory, or has failed: true if it goes on. A cancelled one fails here at the latest.
static bool end_allocating(struct job *job, bool ok, const struct status *why) {
  struct status status;
  if (!ok) {
    status = *why;
  }
  pthread_mutex_lock(&job->mutex);
  bool cancelled = job_is_cancelled(job);
  if (ok && !cancelled) {
    job->granted_ns = job_now_ns(job);
    job->state = STATE_RESERVED;
  }
  pthread_mutex_unlock(&job->mutex);
  if (ok && !cancelled) {
    return true;
  }

  job_give_back_outputs(job);
  job_give_back_private(job);
  if (cancelled) {
    job_fail_cancelled(&status);
  }
  pthread_mutex_lock(&job->mutex);
  job->status = status;
  job->state = STATE_FAILED;
  pthread_mutex_unlock(&job->mutex);
  return false;
}

// On the growth thread.
static void on_grow(struct growth_request *request) {
  struct job *job = (struct job *)((char *)request - offsetof(struct job, growth_request));
  struct job_callbacks callbacks = job->callbacks;
  struct status status;
  bool ok;
  if (job_is_cancelled(job)) {
    job_fail_cancelled(&status);
    ok = false;
  } else {
    ok = job_allocate(job, &status);
  }
  ok = end_allocating(job, ok, &status);
  callbacks.reserved(callbacks.context, ok);
}

// The budget has decided. JOB_WAITING: the memory comes later; the job may be gone already.
static enum job_progress settle_reservation(struct job *job, enum budget_outcome outcome) {
  struct status status;
  pthread_mutex_lock(&job->mutex);
  job->state = STATE_ALLOCATING;
  pthread_mutex_unlock(&job->mutex);
  bool ok = false;
  if (outcome == BUDGET_GRANTED) {
    enum arena_outcome allocated = job_allocate_quickly(job, &status);
    if (allocated == ARENA_SLOW) {
      job->growth_request.grow = on_grow;
      growth_add(job->dispatcher->growth, &job->growth_request);
      return JOB_WAITING;
    }
    ok = allocated == ARENA_ALLOCATED;
  } else {
    (void)refuse_reservation(job, outcome, &status);
  }
  return end_allocating(job, ok, &status) ? JOB_READY : JOB_FAILED;
}

static void on_decided(struct budget_request *request, enum budget_outcome outcome) {
  struct job *job = (struct job *)((char *)request - offsetof(struct job, budget_request));
  struct job_callbacks callbacks = job->callbacks;
  enum job_progress progress = settle_reservation(job, outcome);
  if (progress != JOB_WAITING) {
    callbacks.reserved(callbacks.context, progress == JOB_READY);
  }
}

enum job_progress job_reserve(struct job *job) {
  struct budget *budget = job->dispatcher->options.budget;
  pthread_mutex_lock(&job->mutex);
  bool ok = job->state == STATE_CREATED;
  assert(ok || job->state == STATE_FAILED);
  if (ok && !dispatcher_check_job_bytes(job->dispatcher, &job->plan, &job->status)) {
    job->state = STATE_FAILED;
    ok = false;
  } else if (ok) {
    job->state = STATE_AWAITING_MEMORY;
    job->asked_ns = job_now_ns(job);
  }
  pthread_mutex_unlock(&job->mutex);
  if (!ok) {
    return JOB_FAILED;
  }
  job->budget_request =
      (struct budget_request){.bytes = job_bytes(&job->plan, job->verified), .decided = on_decided};
  enum budget_outcome outcome = BUDGET_GRANTED;
  if (job->budget_request.bytes > 0) {
    outcome = budget_reserve(budget, &job->budget_request, job->asked_ns);
  }
  if (outcome == BUDGET_WAITING) {
    return JOB_WAITING; // the answer may have been given already, the job even be gone
  }
  return settle_reservation(job, outcome);
}

// For the owner.

uint8_t *job_tensor_data(struct job *job, size_t index) {
  assert(index < job->plan.tensor_count);
  return job->run_task.run.storages[job->plan.tensors[index].parameter];
}

const struct plan *job_plan(const struct job *job) {
  return &job->plan;
}

const struct status *job_status(const struct job *job) {
  return &job->status;
}

void job_get_summary(const struct job *job, struct job_summary *summary) {
  const struct backend_run_task *task = &job->run_task;
  int64_t compute_ns = task->finished_ns - task->started_ns;
  *summary = (struct job_summary){
      .target = task->run.plan->target,
      .numerics = task->run.plan->numerics,
      .attempts = job->attempts,
      .queue_ns = job->granted_ns - job->asked_ns + job->ended_ns - job->submitted_ns - compute_ns,
      .upload_ns = job->submitted_ns - job->granted_ns,
      .compute_ns = compute_ns,
      .ended_ns = job->ended_ns,
  };
}

// A wait for memory ends here and now, unless the answer is on its way already.
static void cancel_reservation(struct job *job) {
  if (budget_cancel(job->dispatcher->options.budget, &job->budget_request)) {
    job_fail_cancelled(&job->status);
    pthread_mutex_lock(&job->mutex);
    job->state = STATE_FAILED;
    pthread_mutex_unlock(&job->mutex);
    job->callbacks.reserved(job->callbacks.context, false);
  }
}

// Whichever backend has the job now: it may be on its way from one to another.
static void tell_backends(const struct dispatcher *dispatcher) {
  for (size_t i = 0; i < dispatcher->options.backend_count; i++) {
    struct backend *backend = dispatcher->options.backends[i];
    if (backend->cancelled != NULL) {
      backend->cancelled(backend);
    }
  }
}

void job_cancel(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  atomic_store(&job->cancelled, true);
  enum job_state state = job->state;
  job->references++; // the answer may come meanwhile, and the owner destroy the job
  if (state == STATE_CREATED) {
    job_fail_cancelled(&job->status);
    job->state = STATE_FAILED;
  }
  pthread_mutex_unlock(&job->mutex);
  if (state == STATE_AWAITING_MEMORY) {
    cancel_reservation(job);
  } else if (state == STATE_RUNNING) {
    tell_backends(job->dispatcher);
  }
  unreference(job);
}

void job_destroy(struct job *job) {
  if (job == NULL) {
    return;
  }
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_CREATED || job->state == STATE_RESERVED || job->state == STATE_SUCCEEDED ||
         job->state == STATE_FAILED);
  pthread_mutex_unlock(&job->mutex);
  job_give_back_outputs(job);
  job_give_back_private(job);
  unreference(job);
}
