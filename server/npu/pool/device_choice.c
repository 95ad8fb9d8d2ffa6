#include "server/npu/pool/device_choice.h"

static bool has_operator(const struct device_offer *offer, const struct operator_definition *definition) {
  for (size_t i = 0; i < operator_count(); i++) {
    if (operator_at(i) == definition) {
      return (offer->operators & 1u << i) != 0;
    }
  }
  return false;
}

static bool check_numerics(const struct device_offer *offer, const struct plan *plan, struct status *status) {
  const struct npu_binding *binding = plan->definition->npu;
  switch (plan->numerics) {
  case NUMERICS_EXACT:
    return binding->is_exact(plan, offer->product) ||
           status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                       "an NPU (%s) does not give the bits of numerics EXACT for this plan of %s",
                       npu_product_name(offer->product), plan->definition->name);
  case NUMERICS_DETERMINISTIC:
    return offer->deterministic || status_fail(status, REASON_TARGET_UNAVAILABLE, NULL,
                                               "no NPU of this server runs in deterministic mode now");
  case NUMERICS_UNSPECIFIED:
  case NUMERICS_DEVICE:
    break;
  }
  return true;
}

bool device_offer_serves(const struct device_offer *offer, const struct plan *plan, struct status *status) {
  const struct operator_definition *definition = plan->definition;
  const struct npu_binding *binding = definition->npu;
  if (binding == NULL) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "%s does not run on target NPU",
                       definition->name);
  }
  if (!has_operator(offer, definition)) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "the CANN of this server's NPUs has no %s",
                       definition->name);
  }
  if ((binding->products & 1u << offer->product) == 0) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "%s is not for NPUs of product %s",
                       definition->name, npu_product_name(offer->product));
  }
  if (binding->check_plan != NULL && !binding->check_plan(plan, offer->product, status)) {
    return false;
  }
  return check_numerics(offer, plan, status);
}

uint32_t device_offer_numerics(const struct device_offer *offer) {
  if (offer->product == NPU_PRODUCT_UNKNOWN) {
    return 0;
  }
  uint32_t numerics = 1u << NUMERICS_DEVICE;
  if (offer->deterministic) {
    numerics |= 1u << NUMERICS_DETERMINISTIC;
  }
  // Of the others only the plan tells.
  if (offer->product == NPU_PRODUCT_EMULATED) {
    numerics |= 1u << NUMERICS_EXACT;
  }
  return numerics;
}

bool device_load_is_less(const struct device_load *one, const struct device_load *other) {
  if (one->jobs != other->jobs) {
    return one->jobs < other->jobs;
  }
  if (one->work != other->work) {
    return one->work < other->work;
  }
  return one->last_turn < other->last_turn;
}
