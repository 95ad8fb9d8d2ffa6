// Faults on demand: what ACLNN_EMULATED_FAULT asks for.
//
// The text is a list of faults with commas between them, each
// "KIND[@N][:device=D][:count=C][:every=E][:ms=M][:elements=L]":
//   crash       the process dies (SIGKILL) while job N runs
//   hang        job N never ends
//   slow        job N takes M milliseconds longer (1000 if ms isn't given)
//   ecc         job N ends with 507054, said at synchronise
//   flip        one bit of job N's result is wrong
//   memory      allocation N of device memory answers 207018
//   refuse-init aclrtSetDevice answers 507899
//   stub        aclInit answers 100039, as a stub library does
// Jobs are the phase-2 calls that were accepted and allocations the calls of aclrtMalloc, both counted from 1
// in the whole process; the last two kinds have no N. Without @N each one is meant, with @N just that one;
// every=E means N, N + E, N + 2E and so on (E, 2E, ... without @N); count=C limits how many are, or from @N
// on without `every` how many one after the other. device=D: only those of device D. elements=L: only jobs
// with an output of that many elements, whatever their numbers: a job that is poison to each device.
//
// A worker runs one job of its own before it says that it is ready, so the first job of a caller is number 2;
// and each new worker counts anew.
//
// Plain values, usable from any thread.
#ifndef ACLNN_SERVER_NPU_EMULATOR_FAULTS_H
#define ACLNN_SERVER_NPU_EMULATOR_FAULTS_H

#include "kernels/status.h"

enum fault_kind {
  FAULT_CRASH,
  FAULT_HANG,
  FAULT_SLOW,
  FAULT_ECC,
  FAULT_FLIP,
  FAULT_MEMORY,
  FAULT_REFUSE_INIT,
  FAULT_STUB,
  FAULT_KINDS
};

#define FAULTS_MAX 16

struct fault {
  enum fault_kind kind;
  uint64_t first, every;
  uint64_t count; // 0: no limit
  int32_t device; // -1: any
  int64_t milliseconds;
  int64_t elements; // -1: any
};

// One occasion for a fault.
struct fault_occasion {
  int32_t device;
  uint64_t number;         // from 1
  const int64_t *elements; // of the job's outputs, if it is a job
  size_t element_count;
};

struct faults {
  struct fault list[FAULTS_MAX];
  size_t count;
};

// text may be NULL or empty: no faults. Fails with CONFIGURATION.
MUST_CHECK bool faults_parse(const char *text, struct faults *faults, struct status *status);

// The first fault of the kind that is meant for the occasion, or NULL.
const struct fault *faults_find(const struct faults *faults, enum fault_kind kind,
                                const struct fault_occasion *occasion);

#endif
