#include "server/rpc/target_report.h"

#include <string.h>

_Static_assert(WIRE_DEVICES_MAX >= BACKEND_DEVICES_MAX, "all devices are told of");
_Static_assert(sizeof((struct device_info *)0)->name > BACKEND_DEVICE_NAME_BYTES_MAX, "names fit");
_Static_assert(sizeof((struct device_info *)0)->detail > BACKEND_DEVICE_DETAIL_BYTES_MAX, "details fit");

static size_t describe_devices(const struct backend *backend, struct backend_device *devices) {
  if (backend->describe_devices == NULL) {
    return 0;
  }
  // A backend's functions take what the dispatcher lends out as constant.
  return backend->describe_devices((struct backend *)backend, devices, BACKEND_DEVICES_MAX);
}

static bool any_healthy(const struct backend_device *devices, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (devices[i].healthy) {
      return true;
    }
  }
  return false;
}

static void fill_target(const struct backend *backend, struct target_info *info) {
  struct backend_device devices[BACKEND_DEVICES_MAX];
  size_t count = describe_devices(backend, devices);
  info->available = backend->describe_devices == NULL || any_healthy(devices, count);
  info->numerics = backend->current_numerics == NULL ? backend->numerics
                                                     : backend->current_numerics((struct backend *)backend);
  info->device_count = count;
  for (size_t i = 0; i < count; ++i) {
    struct device_info *device = &info->devices[i];
    device->healthy = devices[i].healthy;
    memcpy(device->name, devices[i].name, sizeof devices[i].name);
    memcpy(device->detail, devices[i].detail, sizeof devices[i].detail);
  }
}

void target_report_fill(const struct dispatcher *dispatcher, struct server_info *info) {
  static const enum target targets[] = {TARGET_CPU, TARGET_NPU};
  info->target_count = sizeof targets / sizeof targets[0];
  for (size_t i = 0; i < info->target_count; ++i) {
    const struct backend *backend = dispatcher_backend(dispatcher, targets[i]);
    info->targets[i] = (struct target_info){.target = targets[i]};
    if (backend != NULL) {
      fill_target(backend, &info->targets[i]);
    }
  }
}

enum target_health target_report_health(const struct dispatcher *dispatcher, const char *service) {
  const struct backend *backend = dispatcher_backend(dispatcher, TARGET_NPU);
  if (backend == NULL) {
    return TARGET_HEALTH_UNKNOWN;
  }
  struct backend_device devices[BACKEND_DEVICES_MAX];
  size_t count = describe_devices(backend, devices);
  if (strcmp(service, "npu") == 0) {
    return any_healthy(devices, count) ? TARGET_HEALTH_GOOD : TARGET_HEALTH_BAD;
  }
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(service, devices[i].name) == 0) {
      return devices[i].healthy ? TARGET_HEALTH_GOOD : TARGET_HEALTH_BAD;
    }
  }
  return TARGET_HEALTH_UNKNOWN;
}
