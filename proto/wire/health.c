// grpc.health.v1. The protocol isn't ours: unknown fields are skipped on both sides.
#include "grpc/health/v1/health.pb-c.h"
#include "proto/wire/message_io.h"
#include "proto/wire/messages.h"

#include <stdlib.h>
#include <string.h>

static const struct message_rules lenient_rules = {.strict = false};

bool wire_read_health_request(const uint8_t *data, size_t size, struct wire_buffer *service,
                              struct status *status) {
  struct message_memory memory;
  const Grpc__Health__V1__HealthCheckRequest *message =
      (const Grpc__Health__V1__HealthCheckRequest *)message_unpack(
          &grpc__health__v1__health_check_request__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL;
  if (ok) {
    char *text = strdup(message->service);
    ok = text != NULL || message_out_of_memory(status);
    if (ok) {
      *service = (struct wire_buffer){.data = (uint8_t *)text, .size = strlen(text)};
    }
  }
  message_memory_free(&memory);
  return ok;
}

bool wire_write_health_request(const char *service, struct wire_buffer *out, struct status *status) {
  Grpc__Health__V1__HealthCheckRequest message = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
  message.service = (char *)service;
  return message_pack(&message.base, out, status);
}

bool wire_write_health_response(enum health_status health, struct wire_buffer *out, struct status *status) {
  Grpc__Health__V1__HealthCheckResponse message = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
  message.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)health;
  return message_pack(&message.base, out, status);
}

bool wire_read_health_response(const uint8_t *data, size_t size, enum health_status *health,
                               struct status *status) {
  struct message_memory memory;
  const Grpc__Health__V1__HealthCheckResponse *message =
      (const Grpc__Health__V1__HealthCheckResponse *)message_unpack(
          &grpc__health__v1__health_check_response__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL;
  if (ok) {
    int value = (int)message->status;
    *health = value >= HEALTH_UNKNOWN && value <= HEALTH_SERVICE_UNKNOWN ? (enum health_status)value
                                                                         : HEALTH_UNKNOWN;
  }
  message_memory_free(&memory);
  return ok;
}
