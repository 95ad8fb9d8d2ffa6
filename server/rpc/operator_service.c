// aclnn.v1.OperatorService but for Execute.
#include "kernels/operator.h"
#include "server/rpc/plan_reply.h"
#include "server/rpc/service.h"
#include "server/rpc/target_report.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void answer(struct unary_call *call, bool ok, struct wire_buffer *response,
                   const struct status *status) {
  if (ok) {
    unary_call_respond(call, response);
  } else {
    unary_call_fail(call, status);
  }
}

// What doesn't change was filled in at the start, the targets are looked at now.
static bool write_info(const struct service_context *context, struct wire_buffer *response,
                       struct status *status) {
  struct server_info *info = malloc(sizeof *info);
  if (info == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the server's description");
  }
  *info = context->info;
  target_report_fill(context->dispatcher, info);
  bool ok = wire_write_server_info(info, response, status);
  free(info);
  return ok;
}

static void get_server_info(struct service_context *context, struct unary_call *call) {
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  struct status status;
  struct wire_buffer response = {0};
  bool ok = wire_read_empty_request(data, size, &status) && write_info(context, &response, &status);
  answer(call, ok, &response, &status);
}

static uint32_t operator_targets(const struct service_context *context,
                                 const struct operator_definition *definition) {
  uint32_t targets = 0;
  if (dispatcher_backend(context->dispatcher, TARGET_CPU) != NULL) {
    targets |= 1u << TARGET_CPU;
  }
  if (definition->npu != NULL && dispatcher_backend(context->dispatcher, TARGET_NPU) != NULL) {
    targets |= 1u << TARGET_NPU;
  }
  return targets;
}

static void describe(const struct service_context *context, const struct operator_definition *definition,
                     struct operator_info *info) {
  // Every operator is a pure function of its inputs: the dispatcher relies on it.
  *info = (struct operator_info){.parameter_count = definition->parameter_count, .effect = EFFECT_PURE};
  snprintf(info->name, sizeof info->name, "%s", definition->name);
  info->targets = operator_targets(context, definition);
  for (size_t i = 0; i < definition->parameter_count; ++i) {
    const struct operator_parameter *parameter = &definition->parameters[i];
    struct parameter_info *described = &info->parameters[i];
    *described = (struct parameter_info){.kind = parameter->kind,
                                         .direction = parameter->direction,
                                         .optional = parameter->optional,
                                         .shape_only = parameter->shape_only,
                                         .data_types = parameter->data_types,
                                         .ranks = parameter->ranks};
    snprintf(described->name, sizeof described->name, "%s", parameter->name);
  }
}

static bool list_all(const struct service_context *context, struct wire_buffer *response,
                     struct status *status) {
  size_t count = operator_count();
  struct operator_info *operators = calloc(count == 0 ? 1 : count, sizeof *operators);
  if (operators == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the list of operators");
  }
  for (size_t i = 0; i < count; ++i) {
    describe(context, operator_at(i), &operators[i]);
  }
  bool ok = wire_write_operator_list(operators, count, response, status);
  free(operators);
  return ok;
}

static void list_operators(struct service_context *context, struct unary_call *call) {
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  struct status status;
  struct wire_buffer response = {0};
  bool ok = wire_read_empty_request(data, size, &status) && list_all(context, &response, &status);
  answer(call, ok, &response, &status);
}

// Phase 1 on its way through the dispatcher, which may answer later.
struct planning {
  struct service_context *context;
  struct unary_call *call;
  struct dispatch_plan_task task;
  struct operator_request request;
  struct plan plan;
};

// Keeps the plan as an executor and writes the reply.
static bool keep(struct planning *planning, struct wire_buffer *response, struct status *status) {
  struct session_grant *grant = malloc(sizeof *grant);
  struct workspace_size_response *reply = malloc(sizeof *reply);
  struct wire_buffer normalised = {0};
  bool ok = false;
  if (grant == NULL || reply == NULL) {
    (void)status_fail(status, REASON_INTERNAL, NULL, "no memory for an executor");
    goto out;
  }
  bool repeatable = planning->request.repeatable;
  int64_t ttl_ms = planning->request.ttl_ms;
  plan_to_request(&planning->plan, &planning->request);
  planning->request.repeatable = repeatable;
  planning->request.ttl_ms = ttl_ms;
  if (!wire_write_operator_request(&planning->request, &normalised, status) ||
      !session_insert(planning->context->sessions, &planning->plan, repeatable, ttl_ms,
                      unary_call_identity(planning->call), normalised.data, normalised.size, grant, status)) {
    goto out;
  }
  plan_reply_fill(&planning->plan, reply);
  reply->executor = (struct wire_buffer){.data = grant->handle, .size = grant->handle_bytes};
  reply->ttl_ms = grant->ttl_ms;
  reply->expire_unix_ms = grant->expire_unix_ms;
  ok = wire_write_workspace_size_response(reply, response, status);
out:
  wire_buffer_free(&normalised);
  free(reply);
  free(grant);
  return ok;
}

static void planned(struct dispatch_plan_task *task, bool ok) {
  struct planning *planning = (struct planning *)((char *)task - offsetof(struct planning, task));
  struct status status = task->status;
  struct wire_buffer response = {0};
  ok = ok && keep(planning, &response, &status);
  answer(planning->call, ok, &response, &status);
  free(planning);
}

static void get_workspace_size(struct service_context *context, struct unary_call *call) {
  struct status status;
  struct planning *planning = calloc(1, sizeof *planning);
  if (planning == NULL) {
    (void)status_fail(&status, REASON_INTERNAL, NULL, "no memory for a plan");
    unary_call_fail(call, &status);
    return;
  }
  planning->context = context;
  planning->call = call;
  planning->task.plan = &planning->plan;
  planning->task.done = planned;
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  bool ok = wire_read_operator_request(data, size, &planning->request, &status);
  if (ok && atomic_load(&context->draining)) {
    ok = service_fail_draining(context, &status);
  }
  if (!ok || !plan_create(&planning->request, &planning->plan, &status)) {
    unary_call_fail(call, &status);
    free(planning);
    return;
  }
  dispatcher_plan(context->dispatcher, &planning->task);
}

static void destroy_executor(struct service_context *context, struct unary_call *call) {
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  struct status status;
  struct wire_buffer executor = {0};
  struct wire_buffer response = {0}; // DestroyExecutorResponse has no fields
  bool ok =
      wire_read_destroy_request(data, size, &executor, &status) &&
      session_destroy(context->sessions, executor.data, executor.size, unary_call_identity(call), &status);
  wire_buffer_free(&executor);
  answer(call, ok, &response, &status);
}

static const struct service_method methods[] = {
    {"/aclnn.v1.OperatorService/GetServerInfo", METHOD_UNARY, get_server_info},
    {"/aclnn.v1.OperatorService/ListOperators", METHOD_UNARY, list_operators},
    {"/aclnn.v1.OperatorService/GetWorkspaceSize", METHOD_UNARY, get_workspace_size},
    {"/aclnn.v1.OperatorService/Execute", METHOD_EXECUTE, NULL},
    {"/aclnn.v1.OperatorService/DestroyExecutor", METHOD_UNARY, destroy_executor},
};

const struct service operator_service = {methods, sizeof methods / sizeof methods[0]};
