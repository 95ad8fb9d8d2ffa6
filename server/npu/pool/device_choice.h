// Which device takes a plan, and which of several: pure functions of what devices are and have to do.
#ifndef ACLNN_SERVER_NPU_POOL_DEVICE_CHOICE_H
#define ACLNN_SERVER_NPU_POOL_DEVICE_CHOICE_H

#include "kernels/npu_binding.h"
#include "kernels/operator.h"
#include "kernels/status.h"

// What a device can do.
struct device_offer {
  enum npu_product product;
  uint32_t operators; // bit 1 << position in the registry
  bool deterministic;
};

// Whether plans of target NPU run there, as they are. The status says why not: ACLNN_ERR_PARAM_INVALID for
// what lies beyond the product's documented limits, else TARGET_UNAVAILABLE.
MUST_CHECK bool device_offer_serves(const struct device_offer *offer, const struct plan *plan,
                                    struct status *status);

// Numerics (bit 1 << enum numerics) that such a device gives whatever the plan.
uint32_t device_offer_numerics(const struct device_offer *offer);

// What a device has been given and has not answered yet.
struct device_load {
  size_t jobs;
  uint64_t work;      // elements
  uint64_t last_turn; // when it was last given a job, as a running number
};
// Whether to give the next job to `one` rather than to `other`.
bool device_load_is_less(const struct device_load *one, const struct device_load *other);

#endif
