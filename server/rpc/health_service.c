// grpc.health.v1.Health: Check, for the server and for its NPUs. A client that asks for Watch learns that it
// isn't there and polls.
#include "server/rpc/service.h"
#include "server/rpc/target_report.h"

#include <string.h>

static const char *const known_services[] = {"", "aclnn.v1.OperatorService"};

static bool is_own(const char *service) {
  for (size_t i = 0; i < sizeof known_services / sizeof known_services[0]; ++i) {
    if (strcmp(service, known_services[i]) == 0) {
      return true;
    }
  }
  return false;
}

// UNKNOWN: there is no such service.
static enum health_status health_of(const struct service_context *context, const char *service) {
  enum target_health health =
      is_own(service) ? TARGET_HEALTH_GOOD : target_report_health(context->dispatcher, service);
  if (health == TARGET_HEALTH_UNKNOWN) {
    return HEALTH_UNKNOWN;
  }
  bool serves = health == TARGET_HEALTH_GOOD && !atomic_load(&context->draining);
  return serves ? HEALTH_SERVING : HEALTH_NOT_SERVING;
}

static void check(struct service_context *context, struct unary_call *call) {
  size_t size = 0;
  const uint8_t *data = unary_call_request(call, &size);
  struct status status;
  struct wire_buffer service = {0};
  struct wire_buffer response = {0};
  if (!wire_read_health_request(data, size, &service, &status)) {
    unary_call_fail_plain(call, reason_to_rpc_code(status.reason), status.message);
    return;
  }
  enum health_status health = health_of(context, (const char *)service.data);
  wire_buffer_free(&service);
  if (health == HEALTH_UNKNOWN) {
    unary_call_fail_plain(call, RPC_CODE_NOT_FOUND, "unknown service");
  } else if (wire_write_health_response(health, &response, &status)) {
    unary_call_respond(call, &response);
  } else {
    unary_call_fail_plain(call, reason_to_rpc_code(status.reason), status.message);
  }
}

static const struct service_method methods[] = {
    {"/grpc.health.v1.Health/Check", METHOD_UNARY, check},
};

const struct service health_service = {methods, sizeof methods / sizeof methods[0]};
