// The names of the contract's numbers.

#include "client/c/aclnn_client.h"
#include "kernels/argument.h"
#include "proto/wire/error_details.h"

const char *aclnn_data_type_name(aclnn_data_type data_type) {
  return data_type_name((enum data_type)data_type);
}

aclnn_data_type aclnn_data_type_from_name(const char *name) {
  return (aclnn_data_type)data_type_from_name(name);
}

size_t aclnn_data_type_bytes(aclnn_data_type data_type) {
  return data_type_bytes((enum data_type)data_type);
}

const char *aclnn_target_name(aclnn_target target) {
  return target_name((enum target)target);
}

const char *aclnn_numerics_name(aclnn_numerics numerics) {
  return numerics_name((enum numerics)numerics);
}

const char *aclnn_code_name(int code) {
  return rpc_code_name(code);
}
