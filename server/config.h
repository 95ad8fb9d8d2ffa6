// The server's configuration: read from the command line once, then constant.
#ifndef ACLNN_SERVER_CONFIG_H
#define ACLNN_SERVER_CONFIG_H

#include "kernels/cpu.h"
#include "kernels/status.h"
#include "server/session/session_table.h"

#include <stdio.h>

#define CONFIG_LISTEN_MAX 16

enum config_npu { CONFIG_NPU_AUTO, CONFIG_NPU_OFF, CONFIG_NPU_EMULATED };

struct config {
  bool help;
  bool version;
  const char *listen[CONFIG_LISTEN_MAX]; // borrowed from the arguments
  size_t listen_count;
  enum config_npu npu;
  int64_t npu_emulated;    // devices, for CONFIG_NPU_EMULATED
  const char *npu_worker;  // NULL: the one that belongs to this server
  const char *npu_library; // NULL: CANN's own, or the emulator
  int64_t npu_deterministic;
  bool npu_affinity;
  int64_t npu_heartbeat_ms;
  int64_t npu_job_ms;
  int64_t npu_queue_max; // for each device
  double verify_fraction;
  const char *capsule_directory; // NULL: no capsules
  int64_t memory_limit_bytes;
  int64_t queue_max;
  int64_t queue_time_ms;
  int64_t executors_max;
  int64_t ttl_default_ms;
  int64_t ttl_max_ms;
  int64_t idle_timeout_ms;
  int64_t processors; // that the process may use
  int64_t threads;    // that compute
  struct cpu cpu;     // its path as chosen
  int64_t connections_max;
  int64_t far_round_trip_ms; // connections of this and more are far
  int64_t drain_grace_ms;
  int64_t drain_time_ms;
  const char *handle_key_file; // NULL: a random key
};

// Fills *config from arguments[1..]. Fails with CONFIGURATION and a line that can be shown as it is.
MUST_CHECK bool config_parse(int argument_count, char **arguments, struct config *config,
                             struct status *status);

void config_print_help(FILE *stream);

// Reads the key with which handles are sealed: 32 bytes, or 64 hexadecimal digits and perhaps a line end. A
// file that others than its owner can read or write is refused. Fails with CONFIGURATION.
MUST_CHECK bool config_read_key(const char *path, uint8_t key[SESSION_KEY_BYTES], struct status *status);

// Bytes of memory that the process may use: the machine's, or what its control groups leave it. `root` is "",
// or where a test keeps its own /proc and /sys.
int64_t config_memory_available(const char *root);
// Of so many processors those whose time the process gets: its control groups may leave it less than that of
// all. A part of one counts as one.
int64_t config_processors_available(const char *root, int64_t processors);

#endif
