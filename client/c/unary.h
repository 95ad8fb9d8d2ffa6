// The calls with one request and one response, as plain values. Any thread.
#ifndef ACLNN_CLIENT_C_UNARY_H
#define ACLNN_CLIENT_C_UNARY_H

#include "client/c/client.h"

// Each makes one try.
MUST_CHECK bool unary_get_workspace_size(aclnn_client *client, const struct call_scope *scope,
                                         const struct operator_request *request,
                                         struct workspace_size_response *response, aclnn_error *error);
MUST_CHECK bool unary_destroy_executor(aclnn_client *client, const struct call_scope *scope,
                                       struct wire_handle executor, aclnn_error *error);
MUST_CHECK bool unary_list_operators(aclnn_client *client, const struct call_scope *scope,
                                     struct operator_info **operators, size_t *count, aclnn_error *error);
MUST_CHECK bool unary_get_server_info(aclnn_client *client, const struct call_scope *scope,
                                      struct server_info *info, aclnn_error *error);
MUST_CHECK bool unary_check_health(aclnn_client *client, const struct call_scope *scope, const char *service,
                                   enum health_status *health, aclnn_error *error);

#endif
