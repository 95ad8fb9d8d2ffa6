// What the environment says about the emulated devices. Read once, at aclInit; plain values.
//
//   ACLNN_EMULATED_DEVICES=N             how many there are, 1 if not given
//   ACLNN_EMULATED_PROFILE=exact|a2|950  whose bits they compute, exact if not given
//   ACLNN_EMULATED_MEMORY=BYTES          of each device, 4 GiB if not given
//   ACLNN_EMULATED_REPEATABLE=on|off     off: no executor can be made repeatable (561000)
//   ACLNN_EMULATED_FAULT=...             faults.h
//   ACLNN_CACHE_LIMIT=N                  executors that a thread's cache holds; CANN's own variable
#ifndef ACLNN_SERVER_NPU_EMULATOR_SETTINGS_H
#define ACLNN_SERVER_NPU_EMULATOR_SETTINGS_H

#include "kernels/emulated_device.h"
#include "server/npu/emulator/faults.h"

// As many as a server takes (BACKEND_DEVICES_MAX).
#define SETTINGS_DEVICES_MAX 64
#define SETTINGS_MEMORY_BYTES_MAX ((int64_t)1 << 40)
#define SETTINGS_CACHE_LIMIT 10000

struct settings {
  int32_t devices;
  enum emulated_profile profile;
  uint64_t memory_bytes;
  bool repeatable;
  size_t cache_limit;
  struct faults faults;
};

// Fails with CONFIGURATION, naming the variable.
MUST_CHECK bool settings_read(struct settings *settings, struct status *status);

#endif
