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

// Sends the job, which is freed at the latest by finish_alone, on a call of its own. NULL: it failed.
static aclnn_stream *begin_alone(aclnn_client *client, const struct call_scope *scope, struct job *job,
                                 aclnn_error *error) {
  aclnn_stream *stream;
  if (!stream_open(client, scope, true, &stream, error)) {
    job_finish(job, false, NULL);
    free(job);
    return NULL;
  }
  if (!stream_submit(stream, job, NULL, true, scope, error)) {
    stream_close(stream);
    return NULL;
  }
  return stream;
}

// Awaits the job's end; NULL as begin_alone gave it.
static bool finish_alone(aclnn_stream *stream, const struct call_scope *scope, aclnn_summary *summary,
                         aclnn_error *error) {
  if (stream == NULL) {
    return false;
  }
  bool ok = stream_wait(stream, scope, summary, error);
  stream_close(stream);
  return ok;
}

// ---- aclnn_execute, whole or in two halves

struct aclnn_execution {
  aclnn_client *client;
  aclnn_plan *plan;
  aclnn_tensor *tensors;
  size_t tensor_count;
  struct call_scope scope;
  aclnn_stream *begun;   // the first try, if that is under way
  aclnn_summary summary; // of the try that went well
  bool planned_anew;     // because the server no longer knew the executor: once
  bool tried;
};

static void begin_execution(aclnn_execution *execution, aclnn_client *client, aclnn_plan *plan,
                            aclnn_tensor *tensors, size_t tensor_count) {
  *execution = (aclnn_execution){.client = client,
                                 .plan = plan,
                                 .tensors = tensors,
                                 .tensor_count = tensor_count,
                                 .scope = client_scope(client)};
}

// Whether a one-shot was consumed is unknown if the server's word on it got lost.
static void mark_doubt(const aclnn_execution *execution, const aclnn_error *error) {
  execution->plan->stale =
      !execution->plan->request.repeatable && error->code != 0 && error->reason[0] == '\0';
}

static bool execute_plan(aclnn_execution *execution, const struct call_scope *scope, aclnn_error *error) {
  aclnn_plan *plan = execution->plan;
  aclnn_stream *stream = execution->begun;
  execution->begun = NULL;
  if (stream == NULL) {
    if (plan->stale && !plan_renew(execution->client, scope, plan, error)) {
      return false;
    }
    struct job *job =
        create_plan_job(execution->client, plan, execution->tensors, execution->tensor_count, error);
    stream = job == NULL ? NULL : begin_alone(execution->client, scope, job, error);
  }
  if (!finish_alone(stream, scope, &execution->summary, error)) {
    mark_doubt(execution, error);
    return false;
  }
  plan->consumed = !plan->request.repeatable;
  return true;
}

static bool is_unknown_to_server(const aclnn_execution *execution, const aclnn_error *error) {
  // A one-shot that a refused try had given back can be consumed by now only through that try.
  return error_is_unknown_executor(error) ||
         (execution->tried && error_has_reason(error, REASON_EXECUTOR_CONSUMED));
}

static bool try_to_execute(void *context, const struct call_scope *scope, aclnn_error *error) {
  aclnn_execution *execution = context;
  bool ok = execute_plan(execution, scope, error);
  if (!ok && !execution->planned_anew && is_unknown_to_server(execution, error)) {
    execution->planned_anew = true;
    execution->plan->stale = true;
    ok = execute_plan(execution, scope, error);
  }
  execution->tried = true;
  return ok;
}

static aclnn_result finish_execution(aclnn_execution *execution, aclnn_summary *summary, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  if (!client_try(execution->client, &execution->scope, try_to_execute, execution, error)) {
    return ACLNN_FAILED;
  }
  if (summary != NULL) {
    *summary = execution->summary;
  }
  return ACLNN_OK;
}

aclnn_result aclnn_execute(aclnn_client *client, aclnn_plan *plan, aclnn_tensor *tensors, size_t tensor_count,
                           aclnn_summary *summary, aclnn_error *error) {
  aclnn_execution execution;
  begin_execution(&execution, client, plan, tensors, tensor_count);
  return finish_execution(&execution, summary, error);
}

aclnn_result aclnn_execution_begin(aclnn_client *client, aclnn_plan *plan, aclnn_tensor *tensors,
                                   size_t tensor_count, aclnn_execution **execution, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  aclnn_execution *begun = malloc(sizeof *begun);
  if (begun == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for an execution");
    return ACLNN_FAILED;
  }
  begin_execution(begun, client, plan, tensors, tensor_count);
  // A plan that has to be made anew is left to the wait, as are all failures that another try may mend.
  if (!plan->stale) {
    struct job *job = create_plan_job(client, plan, tensors, tensor_count, error);
    if (job == NULL) {
      free(begun);
      return ACLNN_FAILED;
    }
    begun->begun = begin_alone(client, &begun->scope, job, error);
    if (begun->begun == NULL) {
      mark_doubt(begun, error);
    }
  }
  *execution = begun;
  return ACLNN_OK;
}

aclnn_result aclnn_execution_wait(aclnn_execution *execution, aclnn_summary *summary, aclnn_error *error) {
  aclnn_result result = finish_execution(execution, summary, error);
  free(execution);
  return result;
}

void aclnn_execution_cancel(aclnn_execution *execution) {
  if (execution == NULL) {
    return;
  }
  if (execution->begun != NULL) {
    stream_close(execution->begun);
    execution->plan->stale = !execution->plan->request.repeatable;
  }
  free(execution);
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
  if (!finish_alone(begin_alone(call->client, scope, job, error), scope, call->summary, error)) {
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
