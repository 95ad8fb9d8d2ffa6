// The refusals that operators share, for their validate functions: each names the parameter, what was given
// and what is allowed, and fails with ACLNN_ERR_PARAM_INVALID. Pure functions, usable from any thread.
#ifndef ACLNN_KERNELS_OPERATOR_CHECKS_H
#define ACLNN_KERNELS_OPERATOR_CHECKS_H

#include "kernels/operator.h"

#define DATA_TYPE_BIT(name) (UINT64_C(1) << DATA_TYPE_##name)
#define RANK_BIT(rank) (UINT32_C(1) << (rank))

// A tensor together with what it is called.
struct named_tensor {
  const struct operator_parameter *parameter;
  const struct tensor_desc *desc;
};

struct named_tensor operator_checks_tensor(const struct operator_parameter *parameters,
                                           const struct operator_arguments *arguments, size_t position);

// The tensor's data type is one of its parameter's.
MUST_CHECK bool operator_checks_data_type(struct named_tensor tensor, struct status *status);
// The tensor's rank is one of its parameter's.
MUST_CHECK bool operator_checks_rank(struct named_tensor tensor, struct status *status);

// The tensor is in that respect like `model`, which is not the one to blame.
MUST_CHECK bool operator_checks_same_data_type(struct named_tensor tensor, struct named_tensor model,
                                               struct status *status);
MUST_CHECK bool operator_checks_same_rank(struct named_tensor tensor, struct named_tensor model,
                                          struct status *status);
MUST_CHECK bool operator_checks_same_shape(struct named_tensor tensor, struct named_tensor model,
                                           struct status *status);
MUST_CHECK bool operator_checks_same_format(struct named_tensor tensor, struct named_tensor model,
                                            struct status *status);

#endif
