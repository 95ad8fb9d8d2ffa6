// The CPU backend: runs plans on threads of this process, always with numerics EXACT.
//
// Tiny jobs run on the thread that submits them, small ones single-threaded on runner threads, large ones one
// after the other through the compute pool, so that no small job waits behind a large one.
#ifndef ACLNN_SERVER_CPU_CPU_BACKEND_H
#define ACLNN_SERVER_CPU_CPU_BACKEND_H

#include "kernels/cpu.h"
#include "kernels/status.h"
#include "server/dispatch/backend.h"

struct cpu_backend_options {
  size_t threads; // 0: one for each processor of the process
  struct cpu cpu; // what kernels may use of the processor
  int64_t (*clock_ns)(void *context);
  void *clock_context;
};

// The backend is destroyed through its own destroy function.
MUST_CHECK bool cpu_backend_create(const struct cpu_backend_options *options, struct backend **backend,
                                   struct status *status);

#endif
