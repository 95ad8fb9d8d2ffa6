// From the public structs to a request, and from a plan's descriptors back.
//
// Pure functions on values, any thread.
#ifndef ACLNN_CLIENT_C_REQUEST_H
#define ACLNN_CLIENT_C_REQUEST_H

#include "client/c/aclnn_client.h"
#include "kernels/argument.h"
#include "proto/wire/messages.h"

// The request of a call: the tensors first and in their order, so that a tensor's index on the wire is its
// position in arguments->tensors, then the attributes. What can't be put on the wire (too many, too long, no
// name) is refused here with ACLNN_ERR_PARAM_NULLPTR or _INVALID; all else is for the server to judge.
MUST_CHECK bool request_build(const aclnn_call_arguments *arguments, aclnn_target target,
                              aclnn_numerics numerics, struct operator_request *request,
                              struct status *status);

// Fills the outputs that were left to the operator from what the server planned. `plans` are in the order of
// `tensors`.
void request_write_back(const struct tensor_plan *plans, size_t count, aclnn_tensor *tensors);

// The description of one tensor, also where it can't be normalised.
void request_tensor_desc(const aclnn_tensor *tensor, struct tensor_desc *desc);

// What is known of the tensors without asking: storage sizes from the descriptors, and from `info` (NULL:
// not known) which inputs travel. Returns false if some input's size can't be told (its description is wrong,
// or the operator is unknown): the server has to speak first.
bool request_foresee(const struct operator_request *request, const struct operator_info *info,
                     struct tensor_plan plans[WIRE_TENSORS_MAX], size_t *count);

#endif
