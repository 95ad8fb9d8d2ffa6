#include "server/machine_npu.h"

#include "server/clocks.h"
#include "server/npu/pool/npu_discovery.h"
#include "server/npu/pool/npu_pool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORKER_FOLDER "npu/worker"
#define WORKER_NAME "aclnn-npu-worker"
#define EMULATOR_FOLDER "npu/emulator"
#define EMULATOR_NAME "libaclnn_emulated.so"

// How long workers may take to close their devices at the end.
#define STOP_NS_MAX (INT64_C(10) * 1000000000)

static size_t count_devices(const struct config *config) {
  switch (config->npu) {
  case CONFIG_NPU_AUTO:
    return npu_discovery_count("", getenv("ASCEND_RT_VISIBLE_DEVICES"), BACKEND_DEVICES_MAX);
  case CONFIG_NPU_EMULATED:
    return (size_t)config->npu_emulated;
  case CONFIG_NPU_OFF:
    break;
  }
  return 0;
}

static bool find_executable(char path[PATH_MAX], struct status *status) {
  ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (length < 0) {
    return status_fail(status, REASON_INTERNAL, NULL, "/proc/self/exe can't be read: %s", strerror(errno));
  }
  path[length] = '\0';
  return true;
}

// The path that a flag gives, or the place where the file belongs.
static bool find_file(const char *flag, const char *given, int access_mode, const char *folder,
                      const char *name, char path[PATH_MAX], struct status *status) {
  char executable[PATH_MAX];
  if (given == NULL) {
    return find_executable(executable, status) &&
           npu_discovery_find_file(executable, folder, name, path, status);
  }
  struct stat found;
  if (strlen(given) >= PATH_MAX || access(given, access_mode) != 0 || stat(given, &found) != 0) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "%s: \"%s\" can't be used: %s", flag, given,
                       strlen(given) >= PATH_MAX ? "the path is too long" : strerror(errno));
  }
  if (!S_ISREG(found.st_mode)) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "%s: \"%s\" isn't a file", flag, given);
  }
  strcpy(path, given);
  return true;
}

// CANN's own libraries are the worker's to find.
static bool find_library(const struct config *config, char path[PATH_MAX], const char **library,
                         struct status *status) {
  *library = NULL;
  if (config->npu_library == NULL && config->npu != CONFIG_NPU_EMULATED) {
    return true;
  }
  *library = path;
  return find_file("--npu-library", config->npu_library, R_OK, EMULATOR_FOLDER, EMULATOR_NAME, path, status);
}

bool machine_npu_create(const struct machine_npu_options *options, struct backend **backend,
                        struct status *status) {
  const struct config *config = options->config;
  char worker[PATH_MAX], library_path[PATH_MAX];
  const char *library = NULL;
  size_t count = count_devices(config);
  *backend = NULL;
  if (count == 0) {
    if (config->npu == CONFIG_NPU_AUTO) {
      log_event(options->log, LOG_INFO,
                "no NPU was found: there is no /dev/davinciN that this process may use");
    }
    return true;
  }
  if (!find_file("--npu-worker", config->npu_worker, X_OK, WORKER_FOLDER, WORKER_NAME, worker, status) ||
      !find_library(config, library_path, &library, status)) {
    return false;
  }
  size_t deterministic = (size_t)config->npu_deterministic;
  if (deterministic > count) {
    log_event(options->log, LOG_WARNING, "there are fewer NPUs than shall be deterministic",
              LOG_INTEGER("devices", (int64_t)count), LOG_INTEGER("deterministic", (int64_t)deterministic));
    deterministic = count;
  }
  struct npu_pool_options pool = {
      .loop = options->loop,
      .log = options->log,
      .arena = options->arena,
      .device_count = count,
      .deterministic_count = deterministic,
      .emulated = config->npu == CONFIG_NPU_EMULATED,
      .worker_file = worker,
      .library_file = library,
      .affinity = config->npu_affinity,
      .queue_max = (size_t)config->npu_queue_max,
      .queue_time_max_ns = config->queue_time_ms * 1000000,
      .stop_time_max_ns = STOP_NS_MAX,
      .limits = npu_pool_limits(config->npu_heartbeat_ms * 1000000, config->npu_job_ms * 1000000),
      .clock_ns = clock_steady_ns,
  };
  return npu_pool_create(&pool, backend, status);
}
