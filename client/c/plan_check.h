// Whether a server's plan can be trusted: all later reading of a plan relies on it.
//
// Pure, any thread.
#ifndef ACLNN_CLIENT_C_PLAN_CHECK_H
#define ACLNN_CLIENT_C_PLAN_CHECK_H

#include "kernels/argument.h"
#include "proto/wire/messages.h"

// The plan has the request's tensors in their order, each with a direction and a description whose storage
// has exactly storage_bytes. A tensor that the request describes is planned as described; one that was left
// to the operator lies in row-major order and fills its storage. Every output is transferred. Fails with
// INTERNAL.
MUST_CHECK bool plan_check(const struct operator_request *request, const struct workspace_size_response *plan,
                           struct status *status);

#endif
