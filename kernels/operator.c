#include "kernels/operator.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool fail_unknown_argument(const struct operator_definition *definition, const char *name,
                                  struct status *status) {
  char known[256];
  size_t used = 0;
  known[0] = '\0';
  for (size_t i = 0; i < definition->parameter_count && used < sizeof known; i++) {
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                             definition->parameters[i].name);
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name, "%s has no parameter \"%s\", it takes %s",
                     definition->name, name, known);
}

// The position of the parameter of that name, or parameter_count.
static size_t find_parameter(const struct operator_definition *definition, const char *name) {
  size_t position = 0;
  while (position < definition->parameter_count && strcmp(definition->parameters[position].name, name) != 0) {
    position++;
  }
  return position;
}

static bool bind_argument(struct plan *plan, const struct argument *argument, struct status *status) {
  const struct operator_definition *definition = plan->definition;
  size_t position = find_parameter(definition, argument->name);
  if (position == definition->parameter_count) {
    return fail_unknown_argument(definition, argument->name, status);
  }
  const struct operator_parameter *parameter = &definition->parameters[position];
  if (plan->arguments.values[position].kind != PARAMETER_KIND_UNSPECIFIED) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, parameter->name, "%s is given more than once",
                       parameter->name);
  }
  if (argument->value.kind != parameter->kind) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, parameter->name,
                       "%s is given as %s, it must be %s", parameter->name,
                       parameter_kind_name(argument->value.kind), parameter_kind_name(parameter->kind));
  }
  plan->arguments.values[position] = argument->value;
  if (parameter->kind == PARAMETER_KIND_TENSOR) {
    plan->tensors[plan->tensor_count++] = (struct plan_tensor){
        .parameter = position,
        .direction = parameter->direction,
        .transferred = parameter->direction == DIRECTION_OUTPUT || !parameter->shape_only,
    };
  }
  return true;
}

static bool check_all_given(const struct plan *plan, struct status *status) {
  const struct operator_definition *definition = plan->definition;
  for (size_t i = 0; i < definition->parameter_count; i++) {
    if (!definition->parameters[i].optional && plan->arguments.values[i].kind == PARAMETER_KIND_UNSPECIFIED) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, definition->parameters[i].name,
                         "%s is missing: %s can't do without it", definition->parameters[i].name,
                         definition->name);
    }
  }
  return true;
}

// Brings the tensors into the form that operators rely on, in the order of CANN's parameters.
static bool normalise_tensors(struct plan *plan, struct status *status) {
  const struct operator_definition *definition = plan->definition;
  for (size_t i = 0; i < definition->parameter_count; i++) {
    struct argument_value *value = &plan->arguments.values[i];
    const struct operator_parameter *parameter = &definition->parameters[i];
    if (value->kind != PARAMETER_KIND_TENSOR) {
      continue;
    }
    if (!tensor_desc_normalise(&value->tensor, parameter->direction, parameter->name, status)) {
      return false;
    }
    plan->empty = plan->empty || tensor_desc_elements(&value->tensor) == 0;
  }
  return true;
}

bool plan_create(const struct operator_request *request, struct plan *plan, struct status *status) {
  assert(request->argument_count <= REQUEST_ARGUMENTS_MAX);
  const struct operator_definition *definition = operator_find(request->operator_name);
  if (definition == NULL) {
    return status_fail(status, REASON_OPERATOR_UNKNOWN, NULL, "there is no operator \"%s\"",
                       request->operator_name);
  }
  assert(definition->parameter_count <= OPERATOR_PARAMETERS_MAX);
  struct plan created = {
      .definition = definition,
      .target = request->target == TARGET_UNSPECIFIED ? TARGET_AUTO : request->target,
      .numerics = request->numerics == NUMERICS_UNSPECIFIED ? NUMERICS_DEVICE : request->numerics,
  };
  created.automatic = created.target == TARGET_AUTO;
  for (size_t i = 0; i < request->argument_count; i++) {
    if (!bind_argument(&created, &request->arguments[i], status)) {
      return false;
    }
  }
  if (!check_all_given(&created, status) || !definition->infer(&created.arguments, status) ||
      !normalise_tensors(&created, status) || !definition->validate(&created.arguments, status) ||
      !definition->plan(&created, status)) {
    return false;
  }
  for (size_t i = 0; i < created.tensor_count; i++) {
    created.tensors[i].storage_bytes = tensor_desc_storage_bytes(plan_tensor_desc(&created, i));
  }
  created.host_workspace_bytes = created.workspace_bytes;
  *plan = created;
  return true;
}

const struct tensor_desc *plan_tensor_desc(const struct plan *plan, size_t index) {
  assert(index < plan->tensor_count);
  return &plan->arguments.values[plan->tensors[index].parameter].tensor;
}

static void add_argument(const struct plan *plan, size_t position, struct operator_request *request) {
  struct argument *argument = &request->arguments[request->argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", plan->definition->parameters[position].name);
  argument->value = plan->arguments.values[position];
}

void plan_to_request(const struct plan *plan, struct operator_request *request) {
  const struct operator_definition *definition = plan->definition;
  *request = (struct operator_request){.target = plan->target, .numerics = plan->numerics};
  snprintf(request->operator_name, sizeof request->operator_name, "%s", definition->name);
  // Tensors first, in the order of the request that was planned: it is what their indices are counted by.
  for (size_t i = 0; i < plan->tensor_count; i++) {
    add_argument(plan, plan->tensors[i].parameter, request);
  }
  for (size_t i = 0; i < definition->parameter_count; i++) {
    enum parameter_kind kind = plan->arguments.values[i].kind;
    if (kind != PARAMETER_KIND_UNSPECIFIED && kind != PARAMETER_KIND_TENSOR) {
      add_argument(plan, i, request);
    }
  }
}
