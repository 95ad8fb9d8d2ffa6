// Phase 2 and both phases in one: what the public functions do with jobs and streams.

#include "client/c/error.h"
#include "client/c/operators.h"
#include "client/c/output_memory.h"
#include "client/c/plan.h"
#include "client/c/request.h"
#include "client/c/retry.h"
#include "client/c/stream.h"

#include <stdlib.h>

// Inputs up to this size together are sent with the begin, in one message each way; larger ones wait until
// the server has taken the job, so that a refusal doesn't cost an upload.
#define SEND_AHEAD_BYTES_MAX ((int64_t)262144)

static struct job *create_job(aclnn_client *client, aclnn_tensor *tensors, size_t tensor_count,
                              aclnn_error *error) {
  struct job *job = malloc(sizeof *job);
  if (job == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a job");
    return NULL;
  }
  struct job_options options = client_job_options(client);
  job_init(job, &options, tensors, tensor_count);
  return job;
}

static bool drop_job(struct job *job, const struct status *status, aclnn_error *error) {
  job_finish(job, false, NULL);
  free(job);
  return error_from_status(error, status);
}

static struct job *create_plan_job(aclnn_client *client, const aclnn_plan *plan, aclnn_tensor *tensors,
                                   size_t tensor_count, aclnn_error *error) {
  struct status status;
  struct job *job = create_job(client, tensors, tensor_count, error);
  if (job != NULL && !job_use_plan(job, &plan->response, &status)) {
    (void)drop_job(job, &status, error);
    return NULL;
  }
  return job;
}

// Runs the job, which is freed, on a call of its own.
static bool run_alone(aclnn_client *client, const struct call_scope *scope, struct job *job,
                      aclnn_summary *summary, aclnn_error *error) {
  aclnn_stream *stream;
  if (!stream_open(client, scope, true, &stream, error)) {
    job_finish(job, false, NULL);
    free(job);
    return false;
  }
  bool ok =
      stream_submit(stream, job, NULL, true, scope, error) && stream_wait(stream, scope, summary, error);
  stream_close(stream);
  return ok;
}

// ---- aclnn_execute

struct execution {
  aclnn_client *client;
  aclnn_plan *plan;
  aclnn_tensor *tensors;
  size_t tensor_count;
  aclnn_summary *summary;
  bool planned_anew; // because the server no longer knew the executor: once
  bool tried;
};

static bool execute_plan(struct execution *execution, const struct call_scope *scope, aclnn_error *error) {
  aclnn_plan *plan = execution->plan;
  if (plan->stale && !plan_renew(execution->client, scope, plan, error)) {
    return false;
  }
  struct job *job =
      create_plan_job(execution->client, plan, execution->tensors, execution->tensor_count, error);
  if (job == NULL || !run_alone(execution->client, scope, job, execution->summary, error)) {
    // Whether a one-shot was consumed is unknown if the server's word on it got lost.
    plan->stale = !plan->request.repeatable && error->code != 0 && error->reason[0] == '\0';
    return false;
  }
  plan->consumed = !plan->request.repeatable;
  return true;
}

static bool is_unknown_to_server(const struct execution *execution, const aclnn_error *error) {
  // A one-shot that a refused try had given back can be consumed by now only through that try.
  return error_is_unknown_executor(error) ||
         (execution->tried && error_has_reason(error, REASON_EXECUTOR_CONSUMED));
}

static bool try_to_execute(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct execution *execution = context;
  bool ok = execute_plan(execution, scope, error);
  if (!ok && !execution->planned_anew && is_unknown_to_server(execution, error)) {
    execution->planned_anew = true;
    execution->plan->stale = true;
    ok = execute_plan(execution, scope, error);
  }
  execution->tried = true;
  return ok;
}

aclnn_result aclnn_execute(aclnn_client *client, aclnn_plan *plan, aclnn_tensor *tensors, size_t tensor_count,
                           aclnn_summary *summary, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  struct execution execution = {client, plan, tensors, tensor_count, summary, false, false};
  return client_try(client, &scope, try_to_execute, &execution, error) ? ACLNN_OK : ACLNN_FAILED;
}

// ---- aclnn_call

struct one_call {
  aclnn_client *client;
  const aclnn_call_arguments *arguments;
  struct operator_request request;
  aclnn_summary *summary;
};

static int64_t bytes_to_send(const struct tensor_plan *plans, size_t count) {
  int64_t total = 0;
  for (size_t i = 0; i < count && total <= SEND_AHEAD_BYTES_MAX; i++) {
    if (plans[i].direction == DIRECTION_INPUT && plans[i].transferred) {
      total +=
          plans[i].storage_bytes < SEND_AHEAD_BYTES_MAX ? plans[i].storage_bytes : SEND_AHEAD_BYTES_MAX + 1;
    }
  }
  return total;
}

// Whether the inputs can go with the begin: their sizes and which of them travel are known, and they are
// small.
static bool foresee(struct one_call *call, const struct call_scope *scope,
                    struct tensor_plan plans[WIRE_TENSORS_MAX], size_t *count) {
  size_t callers_bytes = 0;
  for (size_t i = 0; i < call->arguments->tensor_count; i++) {
    const aclnn_tensor *tensor = &call->arguments->tensors[i];
    callers_bytes += tensor->output || tensor->data == NULL ? 0 : tensor->data_bytes;
  }
  if (callers_bytes > (size_t)SEND_AHEAD_BYTES_MAX) {
    return false;
  }
  struct operator_info info;
  return operators_find(call->client, scope, call->request.operator_name, &info) &&
         request_foresee(&call->request, &info, plans, count) &&
         bytes_to_send(plans, *count) <= SEND_AHEAD_BYTES_MAX;
}

static bool try_to_call(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct one_call *call = context;
  struct job *job = create_job(call->client, call->arguments->tensors, call->arguments->tensor_count, error);
  if (job == NULL) {
    return false;
  }
  struct status status;
  struct tensor_plan plans[WIRE_TENSORS_MAX];
  size_t count = 0;
  const struct tensor_plan *foreseen = foresee(call, scope, plans, &count) ? plans : NULL;
  if (!job_use_request(job, &call->request, foreseen, count, &status)) {
    return drop_job(job, &status, error);
  }
  if (!run_alone(call->client, scope, job, call->summary, error)) {
    if (error_invites_retry(error)) {
      // Another server, or another version of it, may answer next time.
      operators_forget(call->client);
    }
    return false;
  }
  return true;
}

aclnn_result aclnn_call(aclnn_client *client, const aclnn_call_arguments *arguments, aclnn_summary *summary,
                        aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  struct one_call call = {.client = client, .arguments = arguments, .summary = summary};
  struct status status;
  if (!request_build(arguments, client->options.target, client->options.numerics, &call.request, &status)) {
    (void)error_from_status(error, &status);
    return ACLNN_FAILED;
  }
  return client_try(client, &scope, try_to_call, &call, error) ? ACLNN_OK : ACLNN_FAILED;
}

// ---- Streams

aclnn_result aclnn_stream_open(aclnn_client *client, aclnn_stream **stream, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  if (!stream_open(client, &scope, false, stream, error)) {
    return ACLNN_FAILED;
  }
  stream_retry(*stream, retry_limit(&client->options));
  return ACLNN_OK;
}

aclnn_result aclnn_stream_submit(aclnn_stream *stream, aclnn_plan *plan, aclnn_tensor *tensors,
                                 size_t tensor_count, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  aclnn_client *client = stream_client(stream);
  struct job *job = create_plan_job(client, plan, tensors, tensor_count, error);
  if (job == NULL) {
    return ACLNN_FAILED;
  }
  struct call_scope scope = client_scope(client);
  return stream_submit(stream, job, plan, false, &scope, error) ? ACLNN_OK : ACLNN_FAILED;
}

aclnn_result aclnn_stream_wait(aclnn_stream *stream, aclnn_summary *summary, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(stream_client(stream));
  return stream_wait(stream, &scope, summary, error) ? ACLNN_OK : ACLNN_FAILED;
}

void aclnn_stream_close(aclnn_stream *stream) {
  if (stream != NULL) {
    stream_close(stream);
  }
}

void aclnn_free(void *data) {
  // Lists that the library returns come from malloc as outputs do.
  output_memory_free(data);
}
