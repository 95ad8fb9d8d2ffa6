// The runs of a job: on the target that phase 1 chose, again when its device was lost, and on the CPU when it
// may move there.
#include "server/dispatch/job_internal.h"
#include "server/dispatch/verification.h"

#include <assert.h>

// A job that has seen so many devices go down is taken for the cause.
#define ATTEMPTS_MAX 3

static void end(struct job *job, bool ok) {
  struct job_callbacks callbacks = job->callbacks;
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_RUNNING);
  job->state = STATE_ENDING;
  bool cancelled = job_is_cancelled(job);
  pthread_mutex_unlock(&job->mutex);

  ok = ok && !cancelled;
  if (cancelled) {
    job_fail_cancelled(&job->run_task.status);
  }
  if (!ok) {
    job_give_back_outputs(job);
  }
  job_give_back_private(job);

  pthread_mutex_lock(&job->mutex);
  if (!ok) {
    job->status = job->run_task.status;
  }
  job->state = ok ? STATE_SUCCEEDED : STATE_FAILED;
  bool waited = job->waited;
  pthread_mutex_unlock(&job->mutex);
  // If nobody waits, job_submit is still under way and returns this; the job may be gone by now.
  if (waited) {
    callbacks.finished(callbacks.context, ok);
  }
}

static void fail_lost(struct job *job) {
  struct status last = job->run_task.status;
  struct status *status = &job->run_task.status;
  status_fail(status, REASON_DEVICE_LOST, NULL,
              "each of %d attempts was lost with its device; the last one: %s", (int)job->attempts,
              last.message);
  if (last.aclnn_status != 0) {
    status->aclnn_status = last.aclnn_status;
  }
}

static void move_to_cpu(struct job *job) {
  job->backend = dispatcher_find_backend(job->dispatcher, TARGET_CPU);
  job->run_task.run.plan = job->cpu_plan;
  job->run_task.may_move = false;
}

// Whether the failed attempt is followed by another one, which is made ready then.
static bool prepare_next(struct job *job) {
  struct backend_run_task *task = &job->run_task;
  switch (task->failure) {
  case BACKEND_FAILURE_JOB:
    return false;
  case BACKEND_FAILURE_NO_DEVICE:
    job->attempts--; // it never began
    break;
  case BACKEND_FAILURE_RESOURCES:
    break;
  case BACKEND_FAILURE_DEVICE:
    if (task->may_move) {
      break;
    }
    if (job->attempts < ATTEMPTS_MAX) {
      return true;
    }
    fail_lost(job);
    return false;
  }
  if (task->may_move) {
    move_to_cpu(job);
    return true;
  }
  return false;
}

// The job may be gone when this returns.
static void begin(struct job *job) {
  job->run_task.attempt = ++job->attempts;
  job->run_task.failure = BACKEND_FAILURE_JOB;
  job->backend->run(job->backend, &job->run_task);
}

void job_attempt_settle(struct job *job, bool ok) {
  if (!ok && !job_is_cancelled(job) && prepare_next(job)) {
    begin(job);
  } else {
    end(job, ok);
  }
}

static void on_run_done(struct backend_run_task *task, bool ok) {
  struct job *job = (struct job *)((char *)task - offsetof(struct job, run_task));
  job->ended_ns = task->finished_ns;
  if (ok && job->verified && job->backend->target == TARGET_NPU && !job_is_cancelled(job)) {
    verification_begin(job);
  } else {
    job_attempt_settle(job, ok);
  }
}

enum job_progress job_submit(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_RESERVED);
  bool cancelled = job_is_cancelled(job);
  if (!cancelled) {
    job->state = STATE_RUNNING;
    job->submitted_ns = job_now_ns(job);
  }
  pthread_mutex_unlock(&job->mutex);
  if (cancelled) {
    job_give_back_outputs(job);
    job_give_back_private(job);
    job_fail_cancelled(&job->status);
    job->state = STATE_FAILED;
    return JOB_FAILED;
  }

  struct backend_run_task *task = &job->run_task;
  task->run.plan = &job->plan;
  task->run.cancelled = &job->cancelled;
  task->may_move = job->may_move;
  task->inputs = &job->inputs;
  task->outputs = &job->outputs->block;
  task->done = on_run_done;
  job->backend = dispatcher_find_backend(job->dispatcher, job->plan.target);
  begin(job);

  pthread_mutex_lock(&job->mutex);
  enum job_state state = job->state;
  job->waited = state != STATE_SUCCEEDED && state != STATE_FAILED;
  pthread_mutex_unlock(&job->mutex);
  if (state == STATE_SUCCEEDED) {
    return JOB_READY;
  }
  return state == STATE_FAILED ? JOB_FAILED : JOB_WAITING;
}
