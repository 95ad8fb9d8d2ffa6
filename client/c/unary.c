#include "client/c/unary.h"

#include "client/c/error.h"
#include "client/c/reply_breach.h"

#include <stdlib.h>

#define HEALTH_METHOD "/grpc.health.v1.Health/Check"

static bool fail_reply(struct status *status, aclnn_error *error) {
  (void)reply_breach(status);
  return error_from_status(error, status);
}

bool unary_get_workspace_size(aclnn_client *client, const struct call_scope *scope,
                              const struct operator_request *request,
                              struct workspace_size_response *response, aclnn_error *error) {
  struct status status;
  struct wire_buffer sent = {0};
  struct wire_buffer received = {0};
  if (!wire_write_operator_request(request, &sent, &status)) {
    return error_from_status(error, &status);
  }
  bool ok =
      channel_unary(client->channel, scope, SERVICE_METHOD("GetWorkspaceSize"), &sent, &received, error);
  if (ok && !wire_read_workspace_size_response(received.data, received.size, response, &status)) {
    ok = fail_reply(&status, error);
  }
  wire_buffer_free(&sent);
  wire_buffer_free(&received);
  return ok;
}

bool unary_destroy_executor(aclnn_client *client, const struct call_scope *scope, struct wire_handle executor,
                            aclnn_error *error) {
  struct status status;
  struct wire_buffer sent = {0};
  struct wire_buffer received = {0};
  if (!wire_write_destroy_request(executor, &sent, &status)) {
    return error_from_status(error, &status);
  }
  bool ok = channel_unary(client->channel, scope, SERVICE_METHOD("DestroyExecutor"), &sent, &received, error);
  wire_buffer_free(&sent);
  wire_buffer_free(&received);
  return ok;
}

bool unary_list_operators(aclnn_client *client, const struct call_scope *scope,
                          struct operator_info **operators, size_t *count, aclnn_error *error) {
  struct status status;
  const struct wire_buffer sent = {0};
  struct wire_buffer received = {0};
  if (!channel_unary(client->channel, scope, SERVICE_METHOD("ListOperators"), &sent, &received, error)) {
    return false;
  }
  bool ok = wire_read_operator_list(received.data, received.size, operators, count, &status) ||
            fail_reply(&status, error);
  wire_buffer_free(&received);
  return ok;
}

bool unary_get_server_info(aclnn_client *client, const struct call_scope *scope, struct server_info *info,
                           aclnn_error *error) {
  struct status status;
  const struct wire_buffer sent = {0};
  struct wire_buffer received = {0};
  if (!channel_unary(client->channel, scope, SERVICE_METHOD("GetServerInfo"), &sent, &received, error)) {
    return false;
  }
  bool ok = wire_read_server_info(received.data, received.size, info, &status) || fail_reply(&status, error);
  wire_buffer_free(&received);
  return ok;
}

bool unary_check_health(aclnn_client *client, const struct call_scope *scope, const char *service,
                        enum health_status *health, aclnn_error *error) {
  struct status status;
  struct wire_buffer sent = {0};
  struct wire_buffer received = {0};
  if (!wire_write_health_request(service, &sent, &status)) {
    return error_from_status(error, &status);
  }
  bool ok = channel_unary(client->channel, scope, HEALTH_METHOD, &sent, &received, error);
  if (ok && !wire_read_health_response(received.data, received.size, health, &status)) {
    ok = fail_reply(&status, error);
  }
  wire_buffer_free(&sent);
  wire_buffer_free(&received);
  return ok;
}
