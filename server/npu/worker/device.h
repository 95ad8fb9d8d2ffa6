// One device that is open, with everything that jobs on it share: stream, memory, executors, copies.
//
// All functions are for one and the same thread, since CANN keeps context, error texts and executors per
// thread. After a fault (device_is_lost) nothing more is tried: the process is to be replaced.
#ifndef ACLNN_SERVER_NPU_WORKER_DEVICE_H
#define ACLNN_SERVER_NPU_WORKER_DEVICE_H

#include "server/npu/acl/acl_library.h"
#include "server/npu/worker/transfer.h"

struct device_settings {
  int32_t number; // CANN's, counted among the devices that are visible to the process
  bool deterministic;
  int32_t sync_timeout_ms; // how long the device may take for one job
  enum transfer_way transfer_way;
};

#define DEVICE_TEXT_BYTES_MAX 63

struct device_description {
  enum npu_product product;
  char soc_name[DEVICE_TEXT_BYTES_MAX + 1];
  char cann_version[DEVICE_TEXT_BYTES_MAX + 1]; // "unknown" where CANN doesn't say
  uint64_t memory_bytes;                        // 0 where CANN doesn't say
  enum transfer_way transfer_way;
};

struct device;

// The library is borrowed. Fails with TARGET_UNAVAILABLE or as the failed call says; what was opened is
// closed again as far as it can be.
MUST_CHECK bool device_open(const struct acl_library *library, const struct device_settings *settings,
                            struct device **device, struct status *status);

// Closes everything, CANN too. False with the status if CANN reports that something was left.
MUST_CHECK bool device_close(struct device *device, struct status *status);

// In place of closing a lost device: nothing is asked of it any more, only the host's memory is freed.
void device_abandon(struct device *device);

const struct device_description *device_describe(const struct device *device);

// The product that a device of that name (aclrtGetSocName) is.
enum npu_product device_product_of(const char *soc_name);

// Phase 1: the workspace that the device asks for.
MUST_CHECK bool device_plan(struct device *device, const struct plan *plan, uint64_t *workspace_bytes,
                            struct status *status);

// Both phases, with copies: inputs are read and outputs written where storages (by parameter position, NULL
// for what isn't transferred) say. On failure the outputs hold anything.
MUST_CHECK bool device_run(struct device *device, const struct plan *plan,
                           void *const storages[OPERATOR_PARAMETERS_MAX], struct status *status);

// A call failed in a way after which the device cannot be trusted.
bool device_is_lost(const struct device *device);

#endif
