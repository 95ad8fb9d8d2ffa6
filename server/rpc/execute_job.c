#include "server/rpc/execute_job.h"

#include "proto/wire/codec.h"
#include "server/rpc/plan_reply.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

// The dispatcher may answer before dispatcher_plan has returned, or later on another thread.
enum planning_race { PLANNING_CALLED, PLANNING_RETURNED, PLANNING_ANSWERED };

struct execute_planning {
  struct execute_job *job;
  struct execute_begin begin;
  struct session_foreign foreign; // the handle's request, when another replica sealed it
  bool is_foreign;
  struct plan plan;
  struct dispatch_plan_task task;
  bool ok;
  atomic_int race;
};

static void free_planning(struct execute_job *job) {
  if (job->planning != NULL) {
    execute_begin_free(&job->planning->begin);
    free(job->planning);
    job->planning = NULL;
  }
}

static void on_reserved_or_finished(void *context, bool ok) {
  struct execute_job *job = context;
  job->answered(job, ok);
}

void execute_job_init(struct execute_job *job, struct service_context *context, const char *identity,
                      const void *stream, void (*answered)(struct execute_job *job, bool ok)) {
  *job =
      (struct execute_job){.context = context, .identity = identity, .stream = stream, .answered = answered};
}

static bool check_begin(const struct execute_begin *begin, struct status *status) {
  if (begin->max_chunk_bytes != 0 && begin->max_chunk_bytes < WIRE_CHUNK_BYTES_MIN) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "maxChunkBytes",
                       "max_chunk_bytes is %" PRId64 ", allowed are 0 (%" PRId64 ") and %" PRId64 " or more",
                       begin->max_chunk_bytes, WIRE_CHUNK_BYTES_DEFAULT, WIRE_CHUNK_BYTES_MIN);
  }
  if (begin->has_request && begin->request.repeatable) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "repeatable",
                       "repeatable is true in the request of an ExecuteBegin, which keeps no executor");
  }
  return true;
}

// From a plan to a job that can ask for its memory.
static bool create_job(struct execute_job *job, const struct plan *plan, struct status *status) {
  const struct execute_begin *begin = &job->planning->begin;
  if (!begin->has_request && begin->workspace_size < plan->workspace_bytes) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "workspaceSize",
                       "workspace_size is %" PRIu64 ", phase 1 returned %" PRIu64, begin->workspace_size,
                       plan->workspace_bytes);
  }
  struct job_callbacks callbacks = {
      .reserved = on_reserved_or_finished, .finished = on_reserved_or_finished, .context = job};
  job->job = job_create(job->context->dispatcher, plan, job->stream, &callbacks);
  if (job->job == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a job");
  }
  int64_t chunk_bytes = begin->max_chunk_bytes == 0 ? WIRE_CHUNK_BYTES_DEFAULT : begin->max_chunk_bytes;
  if (chunk_bytes > WIRE_CHUNK_BYTES_MAX) {
    chunk_bytes = WIRE_CHUNK_BYTES_MAX;
  }
  job->reply_codecs = begin->accept_codecs & SERVER_CODECS;
  job->plan_in_reply = begin->has_request;
  execute_upload_init(&job->upload, job_plan(job->job));
  execute_download_init(&job->download, job_plan(job->job), chunk_bytes);
  free_planning(job);
  return true;
}

static void on_planned(struct dispatch_plan_task *task, bool ok) {
  struct execute_planning *planning =
      (struct execute_planning *)((char *)task - offsetof(struct execute_planning, task));
  struct execute_job *job = planning->job;
  planning->ok = ok;
  if (atomic_exchange(&planning->race, PLANNING_ANSWERED) == PLANNING_RETURNED) {
    job->answered(job, ok);
  }
}

// What a handle says can be out of date here: then its client plans anew and learns more.
static bool expire_foreign(struct status *status) {
  if (status->reason == REASON_INTERNAL) {
    return false;
  }
  struct status inner = *status;
  return status_fail(status, REASON_EXECUTOR_EXPIRED, NULL,
                     "the executor of another server can't be planned on this one: %s", inner.message);
}

bool execute_job_finish_planning(struct execute_job *job, bool ok, struct status *status) {
  struct execute_planning *planning = job->planning;
  if (!ok) {
    *status = planning->task.status;
    return planning->is_foreign ? expire_foreign(status) : false;
  }
  if (!planning->is_foreign) {
    return create_job(job, &planning->plan, status);
  }
  const struct wire_buffer *handle = &planning->begin.executor;
  return session_adopt(job->context->sessions, handle->data, handle->size, job->identity, &planning->plan,
                       &job->executor, status) &&
         create_job(job, executor_plan(job->executor), status);
}

// Plans a request: the begin's own, or the one inside a foreign handle.
static enum job_progress plan_request(struct execute_job *job, const struct operator_request *request,
                                      struct status *status) {
  struct execute_planning *planning = job->planning;
  if (!plan_create(request, &planning->plan, status)) {
    if (planning->is_foreign) {
      (void)expire_foreign(status);
    }
    return JOB_FAILED;
  }
  if (planning->is_foreign) {
    planning->plan.automatic = planning->foreign.automatic;
  }
  planning->task = (struct dispatch_plan_task){.plan = &planning->plan, .done = on_planned};
  atomic_init(&planning->race, PLANNING_CALLED);
  dispatcher_plan(job->context->dispatcher, &planning->task);
  int called = PLANNING_CALLED;
  if (atomic_compare_exchange_strong(&planning->race, &called, PLANNING_RETURNED)) {
    return JOB_WAITING;
  }
  return execute_job_finish_planning(job, planning->ok, status) ? JOB_READY : JOB_FAILED;
}

static enum job_progress begin_with_executor(struct execute_job *job, struct status *status) {
  struct execute_planning *planning = job->planning;
  const struct wire_buffer *handle = &planning->begin.executor;
  switch (session_hold(job->context->sessions, handle->data, handle->size, job->identity, &job->executor,
                       &planning->foreign, status)) {
  case SESSION_HELD:
    return create_job(job, executor_plan(job->executor), status) ? JOB_READY : JOB_FAILED;
  case SESSION_FOREIGN:
    planning->is_foreign = true;
    if (!wire_read_operator_request(planning->foreign.request, planning->foreign.request_bytes,
                                    &planning->begin.request, status)) {
      (void)expire_foreign(status);
      return JOB_FAILED;
    }
    planning->begin.request.target = planning->foreign.target;
    return plan_request(job, &planning->begin.request, status);
  case SESSION_REFUSED:
    break;
  }
  return JOB_FAILED;
}

enum job_progress execute_job_begin(struct execute_job *job, const uint8_t *begin, size_t size,
                                    struct status *status) {
  assert(job->planning == NULL && job->job == NULL && job->executor == NULL);
  struct execute_planning *planning = calloc(1, sizeof *planning);
  if (planning == NULL) {
    (void)status_fail(status, REASON_INTERNAL, NULL, "no memory for a plan");
    return JOB_FAILED;
  }
  planning->job = job;
  job->planning = planning;
  if (!wire_read_execute_begin(begin, size, &planning->begin, status) ||
      !check_begin(&planning->begin, status)) {
    return JOB_FAILED;
  }
  if (atomic_load(&job->context->draining)) {
    (void)service_fail_draining(job->context, status);
    return JOB_FAILED;
  }
  return planning->begin.has_request ? plan_request(job, &planning->begin.request, status)
                                     : begin_with_executor(job, status);
}

enum job_progress execute_job_reserve(struct execute_job *job) {
  return job_reserve(job->job);
}

enum job_progress execute_job_submit(struct execute_job *job) {
  return job_submit(job->job);
}

bool execute_job_take(struct execute_job *job, const struct tensor_chunk *chunk, uint8_t *scratch,
                      size_t scratch_bytes, struct status *status) {
  if (!execute_upload_check(&job->upload, chunk, SERVER_CHUNK_BYTES_MAX, status)) {
    return false;
  }
  int64_t storage_bytes = job->upload.plan->tensors[chunk->tensor_index].storage_bytes;
  uint8_t *destination = job_tensor_data(job->job, chunk->tensor_index) + chunk->offset;
  size_t decoded_bytes = 0;
  if (!codec_decode(chunk, destination, (size_t)(storage_bytes - chunk->offset), scratch, scratch_bytes,
                    &decoded_bytes, status)) {
    return false;
  }
  execute_upload_advance(&job->upload, chunk->tensor_index, decoded_bytes);
  return true;
}

void execute_job_consume(struct execute_job *job) {
  if (job->executor != NULL) {
    session_consume(job->context->sessions, job->executor);
  }
}

void execute_job_give_up(struct execute_job *job, bool waiting) {
  if (job->executor != NULL) {
    session_release(job->context->sessions, job->executor);
    job->executor = NULL;
  }
  if (waiting) {
    if (job->job != NULL && !job->given_up) {
      job->given_up = true;
      job_cancel(job->job);
    }
    return;
  }
  free_planning(job);
  if (job->job != NULL) {
    job_destroy(job->job);
  }
  execute_job_init(job, job->context, job->identity, job->stream, job->answered);
}
