// What the server says of itself and of its health.

#include "client/c/client.h"
#include "client/c/error.h"
#include "client/c/text_list.h"
#include "client/c/unary.h"
#include "proto/wire/codec.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert(ACLNN_INFO_DEVICES_MAX == WIRE_DEVICES_MAX, "as many devices as the contract's");
static_assert(sizeof((aclnn_server_info){0}.targets) / sizeof((aclnn_server_info){0}.targets[0]) ==
                  WIRE_TARGETS_MAX,
              "as many targets as the contract's");

static void describe_targets(const struct server_info *from, aclnn_server_info *to) {
  to->target_count = from->target_count;
  for (size_t i = 0; i < from->target_count; i++) {
    const struct target_info *target = &from->targets[i];
    to->targets[i].target = (aclnn_target)target->target;
    to->targets[i].available = target->available;
    for (int numerics = NUMERICS_DEVICE; numerics <= NUMERICS_EXACT; numerics++) {
      if ((target->numerics & (1U << numerics)) != 0) {
        text_list_add(to->targets[i].numerics, sizeof to->targets[i].numerics,
                      numerics_name((enum numerics)numerics));
      }
    }
    to->targets[i].device_count = target->device_count;
    for (size_t j = 0; j < target->device_count; j++) {
      const struct device_info *device = &target->devices[j];
      snprintf(to->targets[i].devices[j].name, sizeof to->targets[i].devices[j].name, "%s", device->name);
      snprintf(to->targets[i].devices[j].detail, sizeof to->targets[i].devices[j].detail, "%s",
               device->detail);
      to->targets[i].devices[j].healthy = device->healthy;
    }
  }
}

static void describe_server(const struct server_info *from, aclnn_server_info *to) {
  memset(to, 0, sizeof *to);
  snprintf(to->server_version, sizeof to->server_version, "%s", from->server_version);
  snprintf(to->cpu_path, sizeof to->cpu_path, "%s", from->cpu_path);
  to->contract_revision = from->contract_revision;
  to->max_chunk_bytes = from->limits.max_chunk_bytes;
  to->max_message_bytes = from->limits.max_message_bytes;
  to->memory_budget_bytes = from->limits.memory_budget_bytes;
  to->max_executors = from->limits.max_executors;
  to->default_ttl_ms = from->limits.default_ttl_ms;
  to->max_ttl_ms = from->limits.max_ttl_ms;
  to->max_queue = from->limits.max_queue;
  to->max_queue_time_ms = from->limits.max_queue_time_ms;
  to->idle_timeout_ms = from->limits.idle_timeout_ms;
  to->max_connections = from->limits.max_connections;
  for (int codec = 0; codec < CODEC_END; codec++) {
    if ((from->codecs & (1U << codec)) != 0) {
      text_list_add(to->codecs, sizeof to->codecs, codec_name((enum codec)codec));
    }
  }
  for (size_t i = 0; i < from->feature_count; i++) {
    text_list_add(to->features, sizeof to->features, from->features[i]);
  }
  describe_targets(from, to);
}

struct inquiry {
  aclnn_client *client;
  struct server_info info;
  const char *service;
  enum health_status health;
};

static bool try_to_get_info(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct inquiry *inquiry = context;
  return unary_get_server_info(inquiry->client, scope, &inquiry->info, error);
}

aclnn_result aclnn_get_server_info(aclnn_client *client, aclnn_server_info *info, aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  struct inquiry inquiry = {.client = client};
  if (!client_try(client, &scope, try_to_get_info, &inquiry, error)) {
    return ACLNN_FAILED;
  }
  describe_server(&inquiry.info, info);
  return ACLNN_OK;
}

static bool try_to_check_health(void *context, const struct call_scope *scope, aclnn_error *error) {
  struct inquiry *inquiry = context;
  return unary_check_health(inquiry->client, scope, inquiry->service, &inquiry->health, error);
}

aclnn_result aclnn_check_health(aclnn_client *client, const char *service, bool *serving,
                                aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  struct call_scope scope = client_scope(client);
  struct inquiry inquiry = {.client = client, .service = service == NULL ? "" : service};
  if (!client_try(client, &scope, try_to_check_health, &inquiry, error)) {
    return ACLNN_FAILED;
  }
  *serving = inquiry.health == HEALTH_SERVING;
  return ACLNN_OK;
}
