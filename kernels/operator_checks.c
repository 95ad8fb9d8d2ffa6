#include "kernels/operator_checks.h"

#include <stdio.h>
#include <string.h>

// Long enough for the ranks and types that an operator allows, and for a shape of TENSOR_RANK_MAX dims.
#define LIST_BYTES 192

struct named_tensor operator_checks_tensor(const struct operator_parameter *parameters,
                                           const struct operator_arguments *arguments, size_t position) {
  return (struct named_tensor){&parameters[position], &arguments->values[position].tensor};
}

static void append(char *list, const char *text) {
  size_t used = strlen(list);
  snprintf(list + used, LIST_BYTES - used, "%s%s", used == 0 ? "" : ", ", text);
}

bool operator_checks_data_type(struct named_tensor tensor, struct status *status) {
  if ((tensor.parameter->data_types >> tensor.desc->data_type & 1) != 0) {
    return true;
  }
  char allowed[LIST_BYTES] = "";
  for (size_t i = 0; i < DATA_TYPE_COUNT; i++) {
    if ((tensor.parameter->data_types >> i & 1) != 0) {
      append(allowed, data_type_name((enum data_type)i));
    }
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "data type %s of %s is not supported, it must be one of: %s",
                     data_type_name(tensor.desc->data_type), tensor.parameter->name, allowed);
}

bool operator_checks_rank(struct named_tensor tensor, struct status *status) {
  if ((tensor.parameter->ranks >> tensor.desc->rank & 1) != 0) {
    return true;
  }
  char allowed[LIST_BYTES] = "";
  for (size_t rank = 0; rank <= TENSOR_RANK_MAX; rank++) {
    if ((tensor.parameter->ranks >> rank & 1) != 0) {
      char number[8];
      snprintf(number, sizeof number, "%zu", rank);
      append(allowed, number);
    }
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "%s has %zu dimensions, allowed are: %s", tensor.parameter->name, tensor.desc->rank,
                     allowed);
}

bool operator_checks_same_data_type(struct named_tensor tensor, struct named_tensor model,
                                    struct status *status) {
  if (tensor.desc->data_type == model.desc->data_type) {
    return true;
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "data type %s of %s must be that of %s, which is %s",
                     data_type_name(tensor.desc->data_type), tensor.parameter->name, model.parameter->name,
                     data_type_name(model.desc->data_type));
}

bool operator_checks_same_rank(struct named_tensor tensor, struct named_tensor model, struct status *status) {
  if (tensor.desc->rank == model.desc->rank) {
    return true;
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "%s has %zu dimensions, it must have as many as %s, which has %zu",
                     tensor.parameter->name, tensor.desc->rank, model.parameter->name, model.desc->rank);
}

bool operator_checks_same_shape(struct named_tensor tensor, struct named_tensor model,
                                struct status *status) {
  if (!operator_checks_same_rank(tensor, model, status)) {
    return false;
  }
  if (memcmp(tensor.desc->shape, model.desc->shape, tensor.desc->rank * sizeof tensor.desc->shape[0]) == 0) {
    return true;
  }
  char given[LIST_BYTES];
  char wanted[LIST_BYTES];
  tensor_desc_format_shape(tensor.desc, given, sizeof given);
  tensor_desc_format_shape(model.desc, wanted, sizeof wanted);
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "shape %s of %s must be that of %s, which is %s", given, tensor.parameter->name,
                     model.parameter->name, wanted);
}

bool operator_checks_same_format(struct named_tensor tensor, struct named_tensor model,
                                 struct status *status) {
  if (tensor.desc->format == model.desc->format) {
    return true;
  }
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                     "format %s of %s must be that of %s, which is %s", format_name(tensor.desc->format),
                     tensor.parameter->name, model.parameter->name, format_name(model.desc->format));
}
