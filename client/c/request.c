#include "client/c/request.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert((int)ACLNN_BOOL == (int)DATA_TYPE_BOOL && (int)ACLNN_FLOAT == (int)DATA_TYPE_FLOAT,
              "the public numbers are the contract's");
static_assert((int)ACLNN_TARGET_NPU == (int)TARGET_NPU, "the public numbers are the contract's");
static_assert((int)ACLNN_NUMERICS_EXACT == (int)NUMERICS_EXACT, "the public numbers are the contract's");
static_assert(ACLNN_RANK_MAX == TENSOR_RANK_MAX && ACLNN_TENSORS_MAX == REQUEST_ARGUMENTS_MAX,
              "the public limits are the contract's");

static bool copy_name(const char *name, const char *what, char out[ARGUMENT_TEXT_BYTES_MAX + 1],
                      struct status *status) {
  if (name == NULL || name[0] == '\0') {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, NULL, "%s is missing", what);
  }
  if (strlen(name) > ARGUMENT_TEXT_BYTES_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                       "%s '%.32s...' is %zu bytes long; at most %d are allowed", what, name, strlen(name),
                       ARGUMENT_TEXT_BYTES_MAX);
  }
  strcpy(out, name);
  return true;
}

void request_tensor_desc(const aclnn_tensor *tensor, struct tensor_desc *desc) {
  *desc = (struct tensor_desc){
      .data_type = (enum data_type)tensor->data_type,
      .rank = tensor->rank,
      .storage_offset = tensor->storage_offset,
      .storage_elements = tensor->storage_elements,
  };
  size_t kept = tensor->rank < TENSOR_RANK_MAX ? tensor->rank : TENSOR_RANK_MAX;
  memcpy(desc->shape, tensor->shape, kept * sizeof desc->shape[0]);
  if (tensor->has_strides) {
    desc->stride_count = tensor->rank;
    memcpy(desc->strides, tensor->strides, kept * sizeof desc->strides[0]);
  }
}

static bool add_tensor(const aclnn_tensor *tensor, struct argument *argument, struct status *status) {
  if (!copy_name(tensor->name, "a tensor's name", argument->name, status)) {
    return false;
  }
  if (tensor->rank > ACLNN_RANK_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor->name,
                       "%s: rank %zu is above %d, the most that a tensor can have", tensor->name,
                       tensor->rank, ACLNN_RANK_MAX);
  }
  argument->value.kind = PARAMETER_KIND_TENSOR;
  request_tensor_desc(tensor, &argument->value.tensor);
  return true;
}

static bool add_int_array(const aclnn_attribute *attribute, struct argument_value *value,
                          struct status *status) {
  if (attribute->values == NULL && attribute->value_count > 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, attribute->name, "%s: values is NULL",
                       attribute->name);
  }
  if (attribute->value_count > ARGUMENT_INT_ARRAY_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, attribute->name,
                       "%s: %zu values are given; at most %d are allowed", attribute->name,
                       attribute->value_count, ARGUMENT_INT_ARRAY_MAX);
  }
  value->kind = PARAMETER_KIND_INT_ARRAY;
  value->int_array.count = attribute->value_count;
  if (attribute->value_count > 0) {
    memcpy(value->int_array.values, attribute->values, attribute->value_count * sizeof(int64_t));
  }
  return true;
}

static bool add_attribute(const aclnn_attribute *attribute, struct argument *argument,
                          struct status *status) {
  if (!copy_name(attribute->name, "an attribute's name", argument->name, status)) {
    return false;
  }
  struct argument_value *value = &argument->value;
  switch (attribute->kind) {
  case ACLNN_INT_ARRAY:
    return add_int_array(attribute, value, status);
  case ACLNN_INTEGER:
    value->kind = PARAMETER_KIND_INTEGER;
    value->integer = attribute->integer;
    return true;
  case ACLNN_REAL:
    value->kind = PARAMETER_KIND_REAL;
    value->real = attribute->real;
    return true;
  case ACLNN_BOOLEAN:
    value->kind = PARAMETER_KIND_BOOLEAN;
    value->boolean = attribute->integer != 0;
    return true;
  case ACLNN_TEXT:
    value->kind = PARAMETER_KIND_TEXT;
    return copy_name(attribute->text, "a text attribute's value", value->text, status);
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, attribute->name,
                     "%s: %d is no kind of attribute", attribute->name, (int)attribute->kind);
}

bool request_build(const aclnn_call_arguments *arguments, aclnn_target target, aclnn_numerics numerics,
                   struct operator_request *request, struct status *status) {
  memset(request, 0, sizeof *request);
  if (arguments == NULL) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, NULL, "the arguments are missing");
  }
  if (!copy_name(arguments->operator_name, "operator_name", request->operator_name, status)) {
    return false;
  }
  if (arguments->tensor_count > REQUEST_ARGUMENTS_MAX ||
      arguments->attribute_count > REQUEST_ARGUMENTS_MAX - arguments->tensor_count) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                       "%zu tensors and %zu attributes are given; at most %d arguments are allowed",
                       arguments->tensor_count, arguments->attribute_count, REQUEST_ARGUMENTS_MAX);
  }
  if ((arguments->tensors == NULL && arguments->tensor_count > 0) ||
      (arguments->attributes == NULL && arguments->attribute_count > 0)) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, NULL, "tensors or attributes is NULL");
  }
  request->target = (enum target)target;
  request->numerics = (enum numerics)numerics;
  for (size_t i = 0; i < arguments->tensor_count; i++) {
    if (!add_tensor(&arguments->tensors[i], &request->arguments[request->argument_count++], status)) {
      return false;
    }
  }
  for (size_t i = 0; i < arguments->attribute_count; i++) {
    if (!add_attribute(&arguments->attributes[i], &request->arguments[request->argument_count++], status)) {
      return false;
    }
  }
  return true;
}

static void describe(const struct tensor_desc *desc, aclnn_tensor *tensor) {
  tensor->data_type = (aclnn_data_type)desc->data_type;
  tensor->rank = desc->rank < ACLNN_RANK_MAX ? desc->rank : ACLNN_RANK_MAX;
  memcpy(tensor->shape, desc->shape, tensor->rank * sizeof tensor->shape[0]);
  tensor->storage_offset = desc->storage_offset;
  tensor->storage_elements = 0;
}

void request_write_back(const struct tensor_plan *plans, size_t count, aclnn_tensor *tensors) {
  for (size_t i = 0; i < count; i++) {
    struct tensor_desc given;
    request_tensor_desc(&tensors[i], &given);
    if (tensors[i].output && tensor_desc_is_unspecified(&given)) {
      describe(&plans[i].desc, &tensors[i]);
    }
  }
}

static const struct parameter_info *find_parameter(const struct operator_info *info, const char *name) {
  for (size_t i = 0; info != NULL && i < info->parameter_count; i++) {
    if (strcmp(info->parameters[i].name, name) == 0) {
      return &info->parameters[i];
    }
  }
  return NULL;
}

bool request_foresee(const struct operator_request *request, const struct operator_info *info,
                     struct tensor_plan plans[WIRE_TENSORS_MAX], size_t *count) {
  bool complete = true;
  *count = 0;
  for (size_t i = 0; i < request->argument_count; i++) {
    const struct argument *argument = &request->arguments[i];
    if (argument->value.kind != PARAMETER_KIND_TENSOR) {
      continue;
    }
    struct tensor_plan *plan = &plans[(*count)++];
    *plan = (struct tensor_plan){.desc = argument->value.tensor};
    memcpy(plan->name, argument->name, sizeof plan->name);
    const struct parameter_info *parameter = find_parameter(info, argument->name);
    if (parameter == NULL) {
      complete = false;
      continue;
    }
    plan->direction = parameter->direction;
    plan->transferred = parameter->direction == DIRECTION_OUTPUT || !parameter->shape_only;
    struct status ignored;
    if (tensor_desc_is_unspecified(&plan->desc) ||
        !tensor_desc_normalise(&plan->desc, plan->direction, plan->name, &ignored)) {
      complete = complete && plan->direction == DIRECTION_OUTPUT;
      continue;
    }
    plan->storage_bytes = tensor_desc_storage_bytes(&plan->desc);
  }
  return complete;
}
