#include "kernels/cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// What most server processors of the last ten years have at least.
#define L1_BYTES_USUAL (32 << 10)
#define L2_BYTES_USUAL (512 << 10)
#define L3_BYTES_USUAL (16 << 20)
// Some virtual machines tell only the sum over a whole package, of which a core reaches the part of its own
// complex. No complex so far has more than this.
#define L3_BYTES_REACHED_MAX (32 << 20)

static const char *const names[CPU_PATH_COUNT] = {
    [CPU_PATH_SCALAR] = "scalar",
    [CPU_PATH_NEON] = "neon",
    [CPU_PATH_AVX2] = "avx2",
    [CPU_PATH_AVX512] = "avx512",
};

bool cpu_path_is_available(enum cpu_path path) {
  switch (path) {
  case CPU_PATH_SCALAR:
    return true;
#if defined(__x86_64__)
  // These ask whether the system saves the registers, too.
  case CPU_PATH_AVX2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case CPU_PATH_AVX512:
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  case CPU_PATH_NEON:
    return true;
#endif
  default:
    return false;
  }
}

const char *cpu_path_name(enum cpu_path path) {
  return path < CPU_PATH_COUNT ? names[path] : "unknown";
}

bool cpu_path_parse(const char *name, enum cpu_path *path, struct status *status) {
  char available[64] = "";
  for (enum cpu_path i = 0; i < CPU_PATH_COUNT; i++) {
    if (!cpu_path_is_available(i)) {
      continue;
    }
    if (strcmp(name, names[i]) == 0) {
      *path = i;
      return true;
    }
    size_t used = strlen(available);
    snprintf(available + used, sizeof available - used, "%s%s", used == 0 ? "" : ", ", names[i]);
  }
  return status_fail(status, REASON_CONFIGURATION, NULL,
                     "\"%s\" is no code path of this processor, which can run %s", name, available);
}

static int64_t cache_bytes(int name, int64_t usual) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : usual;
}

// The third level's size as the processor describes the cache that this core reaches; 0 if it doesn't.
static int64_t described_l3_bytes(void) {
#if defined(__x86_64__)
  static const unsigned leaves[] = {0x8000001d, 4}; // AMD's, Intel's
  for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
    unsigned type_and_level, ways_and_lines, sets_less_one, flags;
    for (unsigned cache = 0; cache < 8; cache++) {
      if (!__get_cpuid_count(leaves[i], cache, &type_and_level, &ways_and_lines, &sets_less_one, &flags) ||
          (type_and_level & 0x1f) == 0) {
        break;
      }
      if ((type_and_level >> 5 & 7) == 3) {
        int64_t ways = (ways_and_lines >> 22) + 1, partitions = (ways_and_lines >> 12 & 0x3ff) + 1;
        int64_t line_bytes = (ways_and_lines & 0xfff) + 1;
        return ways * partitions * line_bytes * ((int64_t)sets_less_one + 1);
      }
    }
  }
#endif
  return 0;
}

static int64_t find_l3_bytes(void) {
  int64_t described = described_l3_bytes();
  if (described > 0) {
    return described;
  }
  int64_t bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, L3_BYTES_USUAL);
  return bytes < L3_BYTES_REACHED_MAX ? bytes : L3_BYTES_REACHED_MAX;
}

void cpu_detect(struct cpu *cpu) {
  *cpu = (struct cpu){
      .path = CPU_PATH_SCALAR,
      .l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, L1_BYTES_USUAL),
      .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, L2_BYTES_USUAL),
      .l3_bytes = find_l3_bytes(),
  };
  for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
    if (cpu_path_is_available(path)) {
      cpu->path = path;
    }
  }
}
