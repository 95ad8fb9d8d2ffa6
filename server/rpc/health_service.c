// grpc.health.v1.Health: Check. A client that asks for Watch learns that it isn't there and polls.
#include "server/rpc/service.h"

#include <string.h>

static const char *const known_services[] = {"", "aclnn.v1.OperatorService"};

static bool is_known(const char *service) {
  for (size_t i = 0; i < sizeof known_services / sizeof known_services[0]; ++i) {
    if (strcmp(service, known_services[i]) == 0) {
      return true;
    }
  }
  return false;
}

static void check(struct service_context *context, struct unary_call *call) {
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  struct status status;
  struct wire_buffer service = {0};
  struct wire_buffer response = {0};
  if (!wire_read_health_request(data, size, &service, &status)) {
    unary_call_fail_plain(call, reason_to_rpc_code(status.reason), status.message);
  } else if (!is_known((const char *)service.data)) {
    unary_call_fail_plain(call, RPC_CODE_NOT_FOUND, "unknown service");
  } else {
    enum health_status health = atomic_load(&context->draining) ? HEALTH_NOT_SERVING : HEALTH_SERVING;
    if (wire_write_health_response(health, &response, &status)) {
      unary_call_respond(call, &response);
    } else {
      unary_call_fail_plain(call, reason_to_rpc_code(status.reason), status.message);
    }
  }
  wire_buffer_free(&service);
}

static const struct service_method methods[] = {
    {"/grpc.health.v1.Health/Check", METHOD_UNARY, check},
};

const struct service health_service = {methods, sizeof methods / sizeof methods[0]};
