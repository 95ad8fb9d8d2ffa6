#include "server/npu/worker/device.h"

#include "server/npu/worker/acl_failure.h"
#include "server/npu/worker/device_memory.h"
#include "server/npu/worker/executors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device {
  const struct acl_library *library;
  const struct acl_functions *functions;
  int32_t number;
  struct device_description description;
  bool lost;
  // How far device_open came.
  bool initialised, set, memory_open, transfer_open;
  aclrtContext context;
  aclrtStream stream;
  struct device_memory memory;
  // Never read or written: the address of tensors of which only the shape matters.
  struct device_block placeholder;
  struct transfer transfer;
  struct executors executors;
};

static const struct {
  const char *prefix;
  enum npu_product product;
} products[] = {
    {"Ascend910B", NPU_PRODUCT_A2},
    {"Ascend910_93", NPU_PRODUCT_A3},
    {"Ascend950", NPU_PRODUCT_950},
    {"AclnnEmulated", NPU_PRODUCT_EMULATED},
};

enum npu_product device_product_of(const char *soc_name) {
  for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
    if (strncmp(soc_name, products[i].prefix, strlen(products[i].prefix)) == 0) {
      return products[i].product;
    }
  }
  return NPU_PRODUCT_UNKNOWN;
}

// ---- Opening and closing

static bool check(struct device *device, const char *call, int32_t number, struct status *status) {
  return number == ACL_STATUS_SUCCESS || acl_failure(device->functions, call, number, status);
}

static bool initialise(struct device *device, struct status *status) {
  int32_t number = device->functions->aclInit(NULL);
  if (number == ACL_STATUS_STUB_LIBRARY) {
    acl_failure(device->functions, "aclInit", number, status);
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                       "aclInit returned %d: these are CANN's stub libraries, there is no driver: is "
                       "/usr/local/Ascend/driver there, and in LD_LIBRARY_PATH?",
                       (int)number);
  }
  // Somebody else in this process may have been first.
  device->initialised = number == ACL_STATUS_SUCCESS || number == ACL_STATUS_REPEATED_INITIALIZE;
  return device->initialised || check(device, "aclInit", number, status);
}

static bool select_device(struct device *device, struct status *status) {
  uint32_t count = 0;
  if (!check(device, "aclrtGetDeviceCount", device->functions->aclrtGetDeviceCount(&count), status)) {
    return false;
  }
  if (device->number < 0 || (uint32_t)device->number >= count) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                       "there is no device %d: %u are visible (ASCEND_RT_VISIBLE_DEVICES chooses which)",
                       (int)device->number, (unsigned)count);
  }
  device->set = check(device, "aclrtSetDevice", device->functions->aclrtSetDevice(device->number), status);
  return device->set;
}

static void describe_version(struct device *device) {
  int32_t major = 0, minor = 0, patch = 0;
  char *text = device->description.cann_version;
  size_t bytes = sizeof device->description.cann_version;
  if (device->functions->aclrtGetVersion != NULL &&
      device->functions->aclrtGetVersion(&major, &minor, &patch) == ACL_STATUS_SUCCESS) {
    snprintf(text, bytes, "%d.%d.%d", (int)major, (int)minor, (int)patch);
  } else {
    snprintf(text, bytes, "unknown");
  }
}

static bool describe(struct device *device, struct status *status) {
  struct device_description *description = &device->description;
  const char *soc_name = device->functions->aclrtGetSocName();
  snprintf(description->soc_name, sizeof description->soc_name, "%s", soc_name != NULL ? soc_name : "");
  description->product = device_product_of(description->soc_name);
  if (description->product == NPU_PRODUCT_UNKNOWN) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                       "the device is a \"%s\", which is none of the products that are served: Ascend910B "
                       "(A2), Ascend910_93 (A3), Ascend950",
                       description->soc_name);
  }
  describe_version(device);
  size_t free_bytes = 0, total_bytes = 0;
  if (device->functions->aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes) == ACL_STATUS_SUCCESS) {
    description->memory_bytes = total_bytes;
  }
  return true;
}

// The option is the process's since CANN 8.5, before it was the context's: each is set where it is there.
static bool make_deterministic(struct device *device, struct status *status) {
  const struct acl_functions *functions = device->functions;
  if (functions->aclrtSetSysParamOpt == NULL && functions->aclrtCtxSetSysParamOpt == NULL) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                       "this CANN has no option for deterministic results");
  }
  return (functions->aclrtSetSysParamOpt == NULL ||
          check(device, "aclrtSetSysParamOpt", functions->aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1),
                status)) &&
         (functions->aclrtCtxSetSysParamOpt == NULL ||
          check(device, "aclrtCtxSetSysParamOpt", functions->aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1),
                status));
}

static bool open_parts(struct device *device, const struct device_settings *settings, struct status *status) {
  const struct acl_functions *functions = device->functions;
  if (!initialise(device, status) || !select_device(device, status) || !describe(device, status) ||
      !check(device, "aclrtCreateContext", functions->aclrtCreateContext(&device->context, device->number),
             status) ||
      (settings->deterministic && !make_deterministic(device, status)) ||
      !check(device, "aclrtCreateStream", functions->aclrtCreateStream(&device->stream), status)) {
    return false;
  }
  device_memory_init(&device->memory, functions);
  device->memory_open = true;
  if (!device_memory_allocate(&device->memory, 0, &device->placeholder, status) ||
      !transfer_open(functions, device->stream, settings->sync_timeout_ms, settings->transfer_way,
                     &device->transfer, status)) {
    return false;
  }
  device->transfer_open = true;
  device->description.transfer_way = device->transfer.way;
  executors_init(&device->executors, device->library, device->placeholder.address);
  return true;
}

bool device_open(const struct acl_library *library, const struct device_settings *settings,
                 struct device **device, struct status *status) {
  struct device *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a device");
  }
  opened->library = library;
  opened->functions = &library->functions;
  opened->number = settings->number;
  if (!open_parts(opened, settings, status)) {
    struct status ignored; // what failed first is what is told
    (void)!device_close(opened, &ignored);
    return false;
  }
  *device = opened;
  return true;
}

// In the order that CANN wants: what is on the stream, stream, context, device, CANN.
bool device_close(struct device *device, struct status *status) {
  const struct acl_functions *functions = device->functions;
  bool closed = true;
  if (device->transfer_open) {
    executors_close(&device->executors);
    transfer_close(&device->transfer);
  }
  if (device->memory_open) {
    device_memory_free(&device->memory, &device->placeholder);
    device_memory_close(&device->memory);
  }
  if (device->stream != NULL) {
    closed &= check(device, "aclrtDestroyStream", functions->aclrtDestroyStream(device->stream), status);
  }
  if (device->context != NULL) {
    closed &= check(device, "aclrtDestroyContext", functions->aclrtDestroyContext(device->context), status);
  }
  if (device->set) {
    closed &= check(device, "aclrtResetDevice", functions->aclrtResetDevice(device->number), status);
  }
  if (device->initialised) {
    closed &= check(device, "aclFinalize", functions->aclFinalize(), status);
  }
  free(device);
  return closed;
}

void device_abandon(struct device *device) {
  device_memory_abandon(&device->memory);
  free(device);
}

const struct device_description *device_describe(const struct device *device) {
  return &device->description;
}

bool device_is_lost(const struct device *device) {
  return device->lost;
}

// ---- Jobs

// Whether the plan is one for this device's library at all. The server asks for no other.
static bool check_served(const struct device *device, const struct plan *plan, struct status *status) {
  for (size_t i = 0; i < operator_count(); i++) {
    if (operator_at(i) == plan->definition && (device->library->operator_mask >> i & 1) != 0 &&
        (plan->definition->npu->products >> device->description.product & 1) != 0) {
      return !plan->empty ||
             status_fail(status, REASON_INTERNAL, NULL, "a job with an empty tensor came to a device");
    }
  }
  return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "%s is not served by this device",
                     plan->definition->name);
}

// Remembers a fault. Returns false, as what failed did.
static bool note_failure(struct device *device, const struct status *status) {
  device->lost = device->lost || acl_failure_is_device_fault(status->aclnn_status);
  return false;
}

bool device_plan(struct device *device, const struct plan *plan, uint64_t *workspace_bytes,
                 struct status *status) {
  assert(!device->lost);
  return check_served(device, plan, status) &&
         (executors_plan(&device->executors, plan, workspace_bytes, status) || note_failure(device, status));
}

// The memory of one job on the device.
struct job_memory {
  struct device_block tensors[OPERATOR_PARAMETERS_MAX];
  struct device_block workspace;
};

static bool allocate_tensors(struct device *device, const struct plan *plan, struct job_memory *memory,
                             struct status *status) {
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->transferred && !device_memory_allocate(&device->memory, (uint64_t)tensor->storage_bytes,
                                                       &memory->tensors[tensor->parameter], status)) {
      return false;
    }
  }
  return true;
}

static void free_memory(struct device *device, struct job_memory *memory) {
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    device_memory_free(&device->memory, &memory->tensors[i]);
  }
  device_memory_free(&device->memory, &memory->workspace);
}

// Inputs to the device; outputs that the operator doesn't write whole begin as zeros there.
static bool upload(struct device *device, const struct plan *plan, void *const *storages,
                   const struct job_memory *memory, struct status *status) {
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    uint8_t *address = memory->tensors[tensor->parameter].address;
    size_t bytes = (size_t)tensor->storage_bytes;
    if (!tensor->transferred) {
      continue;
    }
    if (tensor->direction == DIRECTION_INPUT) {
      struct transfer_piece piece = {storages[tensor->parameter], address, bytes};
      if (!transfer_upload(&device->transfer, &piece, status)) {
        return false;
      }
    } else if (!tensor_desc_fills_storage(plan_tensor_desc(plan, i)) &&
               !check(device, "aclrtMemsetAsync",
                      device->functions->aclrtMemsetAsync(address, bytes, 0, bytes, device->stream),
                      status)) {
      return false;
    }
  }
  return true;
}

static bool download(struct device *device, const struct plan *plan, void *const *storages,
                     const struct job_memory *memory, struct status *status) {
  struct transfer_piece pieces[OPERATOR_PARAMETERS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT) {
      pieces[count++] =
          (struct transfer_piece){storages[tensor->parameter], memory->tensors[tensor->parameter].address,
                                  (size_t)tensor->storage_bytes};
    }
  }
  return transfer_download(&device->transfer, pieces, count, status);
}

// Phase 1, workspace, phase 2, and the results once all of that is done.
static bool compute(struct device *device, const struct plan *plan, void *const *storages,
                    struct job_memory *memory, struct status *status) {
  void *addresses[OPERATOR_PARAMETERS_MAX];
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    addresses[i] = memory->tensors[i].address;
  }
  struct executor_run run;
  if (!executors_begin(&device->executors, plan, addresses, &run, status)) {
    return false;
  }
  if (run.workspace_bytes > 0 &&
      !device_memory_allocate(&device->memory, run.workspace_bytes, &memory->workspace, status)) {
    executors_abandon(&device->executors, &run);
    return false;
  }
  bool done = executors_run(&device->executors, &run, memory->workspace.address, device->stream, status) &&
              download(device, plan, storages, memory, status);
  executors_end(&device->executors, &run);
  return done;
}

bool device_run(struct device *device, const struct plan *plan, void *const storages[OPERATOR_PARAMETERS_MAX],
                struct status *status) {
  assert(!device->lost);
  if (!check_served(device, plan, status)) {
    return false;
  }
  struct job_memory memory = {0};
  bool done = allocate_tensors(device, plan, &memory, status) &&
              upload(device, plan, storages, &memory, status) &&
              compute(device, plan, storages, &memory, status);
  if (!done) {
    note_failure(device, status);
    // What was queued may still use the memory, and its faults come to light here.
    struct status late;
    if (!device->lost && !transfer_synchronise(&device->transfer, &late)) {
      device->lost = true;
      *status = late;
    }
  }
  // A lost device's memory may still be written to: nobody may get it before the process is replaced.
  if (!device->lost) {
    free_memory(device, &memory);
  }
  return done;
}
