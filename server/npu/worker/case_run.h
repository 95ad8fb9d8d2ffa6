// Runs the small jobs with known answers that lie in the operators' folders (npu_binding.h) on a device, and
// judges what it gives. For the device's thread.
#ifndef ACLNN_SERVER_NPU_WORKER_CASE_RUN_H
#define ACLNN_SERVER_NPU_WORKER_CASE_RUN_H

#include "server/npu/worker/device.h"

enum case_outcome {
  CASE_RIGHT,
  CASE_WRONG,      // another result, though this product should give the expected one
  CASE_NOT_JUDGED, // it ran; what this product gives is another thing by design
  CASE_NOT_SERVED, // this product doesn't take such jobs, nor does it have to
  CASE_FAILED,     // a call failed
};

struct case_result {
  enum case_outcome outcome;
  bool same_bits; // it ran, and gave the bits of numerics EXACT
  int64_t elapsed_ns;
  uint64_t workspace_bytes;
  struct status status; // WRONG, NOT_SERVED, FAILED: why
};

// "right", "WRONG", ...
const char *case_outcome_name(enum case_outcome outcome);

void case_run(struct device *device, const struct operator_definition *definition,
              const struct npu_case *npu_case, struct case_result *result);

// Runs all cases that are probes and whose operators the library has. Fails with what the device said, or
// that a result is wrong.
MUST_CHECK bool case_run_probes(struct device *device, const struct acl_library *library,
                                struct status *status);

#endif
