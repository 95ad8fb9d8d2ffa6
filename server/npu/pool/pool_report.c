// What others are told of the devices: the log, and whoever asks on another thread.
#include "server/npu/pool/pool_internal.h"

#include <inttypes.h>
#include <stdio.h>

static void log_state(const struct pool_device *device) {
  const struct log *log = device->pool->options.log;
  const struct device_policy *policy = &device->policy;
  struct log_field number = LOG_INTEGER("device", device->number);
  switch (policy->state) {
  case DEVICE_STARTING:
    log_event(log, LOG_INFO, "an NPU worker was started", number,
              LOG_INTEGER("process", worker_process_id(device->process)));
    break;
  case DEVICE_UP:
    log_event(log, LOG_INFO, "an NPU is up", number, LOG_TEXT("soc", device->ready.soc_name),
              LOG_TEXT("product", npu_product_name(device->ready.product)),
              LOG_TEXT("cann", device->ready.cann_version), LOG_INTEGER("restarts", policy->restarts));
    break;
  case DEVICE_ENDING:
    break; // the reason may come with its end
  case DEVICE_DOWN:
    log_event(log, LOG_WARNING, "an NPU was lost", number, LOG_TEXT("why", device->why),
              LOG_INTEGER("deaths", policy->deaths));
    break;
  case DEVICE_GIVEN_UP:
    log_event(log, LOG_ERROR, "an NPU is given up", number, LOG_TEXT("why", device->why),
              LOG_INTEGER("deaths", policy->deaths));
    break;
  case DEVICE_QUARANTINED:
    log_event(log, LOG_ERROR, "an NPU is quarantined", number, LOG_TEXT("why", device->why));
    break;
  }
}

static void describe_up(const struct pool_device *device, struct backend_device *report) {
  const struct control_ready *ready = &device->ready;
  snprintf(report->detail, sizeof report->detail, "%s (%s), CANN %s, %" PRIu64 " MiB%s, %u restarts",
           ready->soc_name, npu_product_name(ready->product), ready->cann_version, ready->memory_bytes >> 20,
           ready->deterministic ? ", deterministic" : "", device->policy.restarts);
}

static void describe_down(const struct pool_device *device, struct backend_device *report) {
  const struct device_policy *policy = &device->policy;
  const char *what = "down";
  if (policy->state == DEVICE_STARTING || policy->state == DEVICE_DOWN || policy->state == DEVICE_ENDING) {
    what = device->settled ? "restarting" : "starting";
  }
  if (device_policy_is_quarantined(policy)) {
    what = "quarantined";
  } else if (!device_policy_has_hope(policy)) {
    what = "given up";
  }
  int length = snprintf(report->detail, sizeof report->detail, "%s, %u restarts: ", what, policy->restarts);
  snprintf(report->detail + length, sizeof report->detail - (size_t)length, "%s", device->why);
}

static uint32_t numerics_now(const struct npu_pool *pool) {
  uint32_t numerics = 0;
  for (size_t i = 0; i < pool->options.device_count; i++) {
    const struct pool_device *device = &pool->devices[i];
    numerics |= device->policy.state == DEVICE_UP ? device_offer_numerics(&device->offer) : 0;
  }
  return numerics;
}

void pool_report(struct pool_device *device) {
  struct npu_pool *pool = device->pool;
  struct backend_device report = {.healthy = device->policy.state == DEVICE_UP &&
                                             device->offer.product != NPU_PRODUCT_UNKNOWN};
  snprintf(report.name, sizeof report.name, "npu:%u", device->number);
  if (device->policy.state == DEVICE_UP) {
    describe_up(device, &report);
  } else {
    describe_down(device, &report);
  }
  uint32_t numerics = numerics_now(pool);
  pthread_mutex_lock(&pool->mutex);
  pool->reports[device->number] = report;
  pool->offers[device->number] = device->offer;
  pool->numerics = numerics;
  pthread_mutex_unlock(&pool->mutex);
  log_state(device);
}

size_t pool_describe_devices(struct backend *backend, struct backend_device *devices, size_t devices_max) {
  struct npu_pool *pool = pool_from_backend(backend);
  size_t count = pool->options.device_count < devices_max ? pool->options.device_count : devices_max;
  pthread_mutex_lock(&pool->mutex);
  for (size_t i = 0; i < count; i++) {
    devices[i] = pool->reports[i];
  }
  pthread_mutex_unlock(&pool->mutex);
  return count;
}

uint32_t pool_current_numerics(struct backend *backend) {
  struct npu_pool *pool = pool_from_backend(backend);
  pthread_mutex_lock(&pool->mutex);
  uint32_t numerics = pool->numerics;
  pthread_mutex_unlock(&pool->mutex);
  return numerics;
}

bool pool_is_comparable(struct backend *backend, const struct backend_run_task *task, bool *exactly) {
  struct npu_pool *pool = pool_from_backend(backend);
  const struct plan *plan = task->run.plan;
  const struct npu_binding *binding = plan->definition->npu;
  pthread_mutex_lock(&pool->mutex);
  enum npu_product product = pool->offers[task->device].product;
  pthread_mutex_unlock(&pool->mutex);
  *exactly = plan->numerics == NUMERICS_EXACT || binding->is_exact(plan, product);
  // Whoever vouches for the bits is judged by them, whatever the inputs.
  return *exactly || binding->is_comparable == NULL || binding->is_comparable(&task->run, product);
}
