// What the server says of its operators, kept by the client. Any thread.
#ifndef ACLNN_CLIENT_C_OPERATORS_H
#define ACLNN_CLIENT_C_OPERATORS_H

#include "client/c/client.h"

// Copies the description of an operator. The server is asked once for all of them. False if that fails or
// there is no such operator.
MUST_CHECK bool operators_find(aclnn_client *client, const struct call_scope *scope, const char *name,
                               struct operator_info *info);

// The next operators_find asks again.
void operators_forget(aclnn_client *client);

#endif
