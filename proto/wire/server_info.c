// GetServerInfoResponse.
#include "proto/wire/message_io.h"
#include "proto/wire/message_parts.h"
#include "proto/wire/messages.h"
#include "proto/wire/utf8.h"

#include <assert.h>

static const struct message_rules lenient_rules = {.strict = false};

static bool device_compose(const struct device_info *device, struct message_memory *memory,
                           Aclnn__V1__DeviceInfo *message) {
  aclnn__v1__device_info__init(message);
  message->name = text_compose(device->name, memory);
  message->healthy = device->healthy;
  message->detail = text_compose(device->detail, memory);
  return message->name != NULL && message->detail != NULL;
}

static bool target_compose(const struct target_info *target, struct message_memory *memory,
                           Aclnn__V1__TargetInfo *message) {
  assert(target->device_count <= WIRE_DEVICES_MAX);
  aclnn__v1__target_info__init(message);
  message->target = (Aclnn__V1__Target)target->target;
  message->available = target->available;
  Aclnn__V1__DeviceInfo *devices = message_memory_array(memory, target->device_count, sizeof *devices);
  Aclnn__V1__DeviceInfo **pointers = message_memory_array(memory, target->device_count, sizeof(void *));
  Aclnn__V1__Numerics *numerics = message_memory_array(memory, NUMERICS_EXACT + 1, sizeof *numerics);
  if (devices == NULL || pointers == NULL || numerics == NULL) {
    return false;
  }
  for (size_t i = 0; i < target->device_count; i++) {
    pointers[i] = &devices[i];
    if (!device_compose(&target->devices[i], memory, &devices[i])) {
      return false;
    }
  }
  message->n_devices = target->device_count;
  message->devices = pointers;
  message->numerics = numerics;
  for (int value = NUMERICS_DEVICE; value <= NUMERICS_EXACT; value++) {
    if ((target->numerics & 1u << value) != 0) {
      numerics[message->n_numerics++] = (Aclnn__V1__Numerics)value;
    }
  }
  return true;
}

static bool features_compose(const struct server_info *info, struct message_memory *memory,
                             Aclnn__V1__GetServerInfoResponse *message) {
  message->features = message_memory_array(memory, info->feature_count, sizeof(char *));
  if (message->features == NULL) {
    return false;
  }
  for (size_t i = 0; i < info->feature_count; i++) {
    message->features[i] = text_compose(info->features[i], memory);
    if (message->features[i] == NULL) {
      return false;
    }
  }
  message->n_features = info->feature_count;
  return true;
}

static bool targets_compose(const struct server_info *info, struct message_memory *memory,
                            Aclnn__V1__GetServerInfoResponse *message) {
  Aclnn__V1__TargetInfo *targets = message_memory_array(memory, info->target_count, sizeof *targets);
  message->targets = message_memory_array(memory, info->target_count, sizeof(void *));
  if (targets == NULL || message->targets == NULL) {
    return false;
  }
  for (size_t i = 0; i < info->target_count; i++) {
    message->targets[i] = &targets[i];
    if (!target_compose(&info->targets[i], memory, &targets[i])) {
      return false;
    }
  }
  message->n_targets = info->target_count;
  return true;
}

static void limits_compose(const struct server_limits *limits, Aclnn__V1__ServerLimits *message) {
  aclnn__v1__server_limits__init(message);
  message->max_chunk_bytes = limits->max_chunk_bytes;
  message->max_message_bytes = limits->max_message_bytes;
  message->memory_budget_bytes = limits->memory_budget_bytes;
  message->max_executors = limits->max_executors;
  message->default_ttl_ms = limits->default_ttl_ms;
  message->max_ttl_ms = limits->max_ttl_ms;
  message->max_queue = limits->max_queue;
  message->max_queue_time_ms = limits->max_queue_time_ms;
  message->idle_timeout_ms = limits->idle_timeout_ms;
  message->max_connections = limits->max_connections;
}

bool wire_write_server_info(const struct server_info *info, struct wire_buffer *out, struct status *status) {
  assert(info->feature_count <= WIRE_FEATURES_MAX && info->target_count <= WIRE_TARGETS_MAX);
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_RESPONSE_MEMORY_MAX);
  Aclnn__V1__ServerLimits limits;
  limits_compose(&info->limits, &limits);
  Aclnn__V1__GetServerInfoResponse message = ACLNN__V1__GET_SERVER_INFO_RESPONSE__INIT;
  message.contract_revision = info->contract_revision;
  message.limits = &limits;
  message.server_version = text_compose(info->server_version, &memory);
  message.cpu_path = text_compose(info->cpu_path, &memory);
  bool composed = message.server_version != NULL && message.cpu_path != NULL &&
                  features_compose(info, &memory, &message) && targets_compose(info, &memory, &message) &&
                  codec_set_compose(info->codecs, &memory, &message.n_codecs, &message.codecs);
  bool ok = composed ? message_pack(&message.base, out, status) : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

static size_t at_most(size_t count, size_t count_max) {
  return count < count_max ? count : count_max;
}

static void target_from_info(const Aclnn__V1__TargetInfo *message, struct target_info *target) {
  target->target = target_from_message(message->target);
  target->available = message->available != 0;
  target->device_count = at_most(message->n_devices, WIRE_DEVICES_MAX);
  for (size_t i = 0; i < target->device_count; i++) {
    struct device_info *device = &target->devices[i];
    utf8_copy_shortened(device->name, sizeof device->name, message->devices[i]->name);
    device->healthy = message->devices[i]->healthy != 0;
    utf8_copy_shortened(device->detail, sizeof device->detail, message->devices[i]->detail);
  }
  for (size_t i = 0; i < message->n_numerics; i++) {
    enum numerics numerics = numerics_from_message(message->numerics[i]);
    if (numerics != NUMERICS_UNSPECIFIED) {
      target->numerics |= 1u << numerics;
    }
  }
}

static struct server_limits limits_from_message(const Aclnn__V1__ServerLimits *message) {
  return (struct server_limits){.max_chunk_bytes = message->max_chunk_bytes,
                                .max_message_bytes = message->max_message_bytes,
                                .memory_budget_bytes = message->memory_budget_bytes,
                                .max_executors = message->max_executors,
                                .default_ttl_ms = message->default_ttl_ms,
                                .max_ttl_ms = message->max_ttl_ms,
                                .max_queue = message->max_queue,
                                .max_queue_time_ms = message->max_queue_time_ms,
                                .idle_timeout_ms = message->idle_timeout_ms,
                                .max_connections = message->max_connections};
}

static void info_from_message(const Aclnn__V1__GetServerInfoResponse *message, struct server_info *info) {
  *info = (struct server_info){.contract_revision = message->contract_revision,
                               .feature_count = at_most(message->n_features, WIRE_FEATURES_MAX),
                               .codecs = codec_set_from_message(message->codecs, message->n_codecs),
                               .target_count = at_most(message->n_targets, WIRE_TARGETS_MAX)};
  utf8_copy_shortened(info->server_version, sizeof info->server_version, message->server_version);
  utf8_copy_shortened(info->cpu_path, sizeof info->cpu_path, message->cpu_path);
  for (size_t i = 0; i < info->feature_count; i++) {
    utf8_copy_shortened(info->features[i], sizeof info->features[i], message->features[i]);
  }
  if (message->limits != NULL) {
    info->limits = limits_from_message(message->limits);
  }
  for (size_t i = 0; i < info->target_count; i++) {
    target_from_info(message->targets[i], &info->targets[i]);
  }
}

bool wire_read_server_info(const uint8_t *data, size_t size, struct server_info *info,
                           struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__GetServerInfoResponse *message = (const Aclnn__V1__GetServerInfoResponse *)message_unpack(
      &aclnn__v1__get_server_info_response__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL;
  if (ok) {
    info_from_message(message, info);
  }
  message_memory_free(&memory);
  return ok;
}
