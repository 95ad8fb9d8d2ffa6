#include "client/c/plan.h"

#include "client/c/error.h"
#include "client/c/plan_check.h"
#include "client/c/request.h"
#include "client/c/unary.h"

#include <stdlib.h>
#include <string.h>

bool plan_renew(aclnn_client *client, const struct call_scope *scope, aclnn_plan *plan, aclnn_error *error) {
  struct workspace_size_response response = {0};
  if (!unary_get_workspace_size(client, scope, &plan->request, &response, error)) {
    return false;
  }
  struct status status;
  if (!plan_check(&plan->request, &response, &status)) {
    workspace_size_response_free(&response);
    return error_from_status(error, &status);
  }
  workspace_size_response_free(&plan->response);
  plan->response = response;
  plan->stale = false;
  plan->consumed = false;
  return true;
}

struct planning {
  aclnn_client *client;
  aclnn_plan *plan;
};

static bool try_to_plan(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct planning *planning = context;
  return plan_renew(planning->client, scope, planning->plan, error);
}

aclnn_result aclnn_get_workspace_size(aclnn_client *client, const aclnn_call_arguments *arguments,
                                      bool repeatable, int64_t ttl_ms, aclnn_plan **plan,
                                      aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct status status;
  aclnn_plan *made = calloc(1, sizeof *made);
  if (made == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a plan");
    return ACLNN_FAILED;
  }
  if (!request_build(arguments, client->options.target, client->options.numerics, &made->request, &status)) {
    (void)error_from_status(error, &status);
    free(made);
    return ACLNN_FAILED;
  }
  made->request.repeatable = repeatable;
  made->request.ttl_ms = ttl_ms;
  struct call_scope scope = client_scope(client);
  struct planning planning = {client, made};
  if (!client_try(client, &scope, try_to_plan, &planning, error)) {
    free(made);
    return ACLNN_FAILED;
  }
  request_write_back(made->response.tensors, made->response.tensor_count, arguments->tensors);
  *plan = made;
  return ACLNN_OK;
}

uint64_t aclnn_plan_workspace_size(const aclnn_plan *plan) {
  return plan->response.workspace_size;
}

aclnn_target aclnn_plan_target(const aclnn_plan *plan) {
  return (aclnn_target)plan->response.target;
}

aclnn_numerics aclnn_plan_numerics(const aclnn_plan *plan) {
  return (aclnn_numerics)plan->response.numerics;
}

const void *aclnn_plan_executor(const aclnn_plan *plan, size_t *bytes) {
  *bytes = plan->response.executor.size;
  return plan->response.executor.data;
}

int64_t aclnn_plan_storage_bytes(const aclnn_plan *plan, const char *name, bool *transferred) {
  for (size_t i = 0; i < plan->response.tensor_count; i++) {
    if (strcmp(plan->response.tensors[i].name, name) == 0) {
      if (transferred != NULL) {
        *transferred = plan->response.tensors[i].transferred;
      }
      return plan->response.tensors[i].storage_bytes;
    }
  }
  return -1;
}

static bool try_to_destroy(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct planning *planning = context;
  const struct wire_buffer *executor = &planning->plan->response.executor;
  return unary_destroy_executor(planning->client, scope, (struct wire_handle){executor->data, executor->size},
                                error);
}

aclnn_result aclnn_destroy(aclnn_client *client, aclnn_plan *plan, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  if (plan == NULL) {
    return ACLNN_OK;
  }
  bool ok = true;
  if (client != NULL && !plan->consumed) {
    struct call_scope scope = client_scope(client);
    struct planning planning = {client, plan};
    ok = client_try(client, &scope, try_to_destroy, &planning, error);
  }
  workspace_size_response_free(&plan->response);
  free(plan);
  return ok ? ACLNN_OK : ACLNN_FAILED;
}
