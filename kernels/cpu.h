// The processor as far as kernels care: which code path it can run and how large its caches are.
//
// A plain value that whoever runs operators makes once (cpu_detect asks the processor, which takes long in a
// virtual machine) and passes in every run. Results don't depend on it, not by a bit.
#ifndef ACLNN_KERNELS_CPU_H
#define ACLNN_KERNELS_CPU_H

#include "kernels/status.h"

#include <stdint.h>

// Code paths from the plainest to the widest. Those of other architectures are known by name too.
enum cpu_path {
  CPU_PATH_SCALAR, // plain C
  CPU_PATH_NEON,
  CPU_PATH_AVX2,
  CPU_PATH_AVX512, // F, BW, DQ and VL
  CPU_PATH_COUNT
};

struct cpu {
  enum cpu_path path;
  // Of one core's caches, and of the last one that cores share; where the system doesn't tell, what is usual.
  int64_t l1_bytes, l2_bytes, l3_bytes;
};

// The widest path that the processor and the system can run, and the caches.
void cpu_detect(struct cpu *cpu);

bool cpu_path_is_available(enum cpu_path path);

// "scalar", "neon", "avx2", "avx512".
const char *cpu_path_name(enum cpu_path path);

// The path of that name, if it is available here. Fails with CONFIGURATION, naming those that are.
MUST_CHECK bool cpu_path_parse(const char *name, enum cpu_path *path, struct status *status);

#endif
