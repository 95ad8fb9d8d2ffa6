#include "server/npu/emulator/emulator.h"

#include "server/npu/emulator/api.h"
#include "server/npu/emulator/errors.h"
#include "server/npu/emulator/executor_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// The version of the runtime whose interface this is.
#define VERSION_MAJOR 1
#define VERSION_MINOR 17
#define VERSION_PATCH 0

#define DETERMINISM_MAX 3

static struct {
  pthread_mutex_t mutex;
  struct emulator emulator;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local void *current_context; // its handle

struct emulator *emulator_lock(void) {
  pthread_mutex_lock(&state.mutex);
  return &state.emulator;
}

void emulator_unlock(void) {
  pthread_mutex_unlock(&state.mutex);
}

int32_t emulator_check_initialised(const struct emulator *emulator, const char *function) {
  return emulator->initialised
             ? 0
             : emulated_refuse(ACL_STATUS_UNINITIALIZED, "%s: aclInit wasn't called", function);
}

void *emulator_current_context_handle(void) {
  return current_context;
}

int32_t emulator_current_context(struct emulator *emulator, const char *function, struct context **context) {
  int32_t status = emulator_check_initialised(emulator, function);
  if (status != 0) {
    return status;
  }
  *context = handles_find(&emulator->handles, HANDLE_CONTEXT, current_context);
  if (*context == NULL) {
    return emulated_refuse(ACL_STATUS_RT_NO_CONTEXT, "%s: this thread has no context", function);
  }
  return 0;
}

aclError aclInit(const char *config_path) {
  struct emulator *emulator = emulator_lock();
  struct status problem;
  aclError status = 0;
  (void)config_path; // what could stand there has no meaning here
  if (emulator->initialised) {
    status = emulated_refuse(ACL_STATUS_REPEATED_INITIALIZE, "aclInit: called before");
  } else if (!settings_read(&emulator->settings, &problem)) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclInit: %s", problem.message);
  } else if (faults_find(&emulator->settings.faults, FAULT_STUB, &(struct fault_occasion){-1, 1, NULL, 0}) !=
             NULL) {
    status = emulated_refuse(ACL_STATUS_STUB_LIBRARY, "aclInit: this is a stub library");
  } else {
    emulator->memory =
        memory_create(emulator->settings.devices, emulator->settings.memory_bytes, MEMORY_WINDOW_BYTES);
    if (emulator->memory == NULL) {
      status = emulated_refuse(ACL_STATUS_BAD_ALLOC, "aclInit: no address space for the devices' memory");
    } else {
      emulator->initialised = true;
      emulator->generation++;
      emulator->jobs = emulator->allocations = 0;
      emulator->determinism = 0;
    }
  }
  emulator_unlock();
  return status;
}

// Says what is left in one line on stderr; false if nothing is.
static bool report_leaks(struct emulator *emulator) {
  const struct handles *handles = &emulator->handles;
  uint64_t device_bytes = 0;
  size_t default_contexts = 0;
  for (int32_t i = 0; i < emulator->settings.devices; i++) {
    device_bytes += memory_bytes_in_use(emulator->memory, i);
    default_contexts += emulator->default_contexts[i] != NULL;
  }
  const struct {
    size_t count;
    const char *what;
  } leaks[] = {
      {handles_count(handles, HANDLE_EXECUTOR), "executors"},
      {handles_count(handles, HANDLE_TENSOR), "tensors"},
      {handles_count(handles, HANDLE_INT_ARRAY), "integer arrays"},
      {memory_allocation_count(emulator->memory), "allocations on devices"},
      {device_bytes, "bytes of the devices' memory"},
      {handles_count(handles, HANDLE_HOST_MEMORY), "pinned allocations of the host"},
      {emulator->host_bytes, "bytes of pinned memory"},
      {handles_count(handles, HANDLE_STREAM), "streams"},
      {handles_count(handles, HANDLE_CONTEXT) - default_contexts, "contexts"},
      {default_contexts, "devices that weren't reset"},
  };
  char line[512];
  int length = 0;
  for (size_t i = 0; i < sizeof leaks / sizeof leaks[0]; i++) {
    if (leaks[i].count != 0) {
      length += snprintf(line + length, sizeof line - (size_t)length, "%s%zu %s", length == 0 ? "" : ", ",
                         leaks[i].count, leaks[i].what);
    }
  }
  if (length == 0) {
    return false;
  }
  fprintf(stderr, "aclnn emulated device: leaked %s\n", line);
  emulated_refuse(ACL_STATUS_FAILURE, "aclFinalize: leaked %s", line);
  return true;
}

static void contexts_destroy_left(struct emulator *emulator) {
  struct context *context;
  while ((context = handles_remove_any(&emulator->handles, HANDLE_CONTEXT)) != NULL) {
    free(context);
  }
  for (size_t i = 0; i < SETTINGS_DEVICES_MAX; i++) {
    emulator->default_contexts[i] = NULL;
  }
}

aclError aclFinalize(void) {
  struct emulator *emulator = emulator_lock();
  aclError status = 0;
  if (!emulator->initialised) {
    status = emulator->generation == 0
                 ? emulated_refuse(ACL_STATUS_UNINITIALIZED, "aclFinalize: aclInit wasn't called")
                 : emulated_refuse(ACL_STATUS_REPEATED_FINALIZE, "aclFinalize: called before");
  } else if (emulator->waiting > 0) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "aclFinalize: a thread waits for a stream");
  } else {
    status = report_leaks(emulator) ? ACL_STATUS_FAILURE : 0;
    streams_destroy_left(emulator);
    executors_destroy_left(emulator);
    tensors_destroy_left(emulator);
    host_memory_destroy_left(emulator);
    contexts_destroy_left(emulator);
    memory_destroy(emulator->memory);
    emulator->memory = NULL;
    emulator->initialised = false;
    executor_cache_clear();
  }
  emulator_unlock();
  return status;
}

const char *aclGetRecentErrMsg(void) {
  return errors_take();
}

const char *aclrtGetSocName(void) {
  static const char *const names[] = {[EMULATED_PROFILE_EXACT] = "AclnnEmulated",
                                      [EMULATED_PROFILE_A2] = "Ascend910B4",
                                      [EMULATED_PROFILE_950] = "Ascend950PR_9579"};
  const struct emulator *emulator = emulator_lock();
  const char *name =
      emulator_check_initialised(emulator, "aclrtGetSocName") == 0 ? names[emulator->settings.profile] : NULL;
  emulator_unlock();
  return name;
}

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) {
  if (major == NULL || minor == NULL || patch == NULL) {
    return emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtGetVersion: a null pointer");
  }
  *major = VERSION_MAJOR;
  *minor = VERSION_MINOR;
  *patch = VERSION_PATCH;
  return 0;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
  if (count == NULL) {
    return emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtGetDeviceCount: a null pointer");
  }
  const struct emulator *emulator = emulator_lock();
  aclError status = emulator_check_initialised(emulator, "aclrtGetDeviceCount");
  if (status == 0) {
    *count = (uint32_t)emulator->settings.devices;
  }
  emulator_unlock();
  return status;
}

static int32_t check_device(const struct emulator *emulator, const char *function, int32_t device) {
  int32_t status = emulator_check_initialised(emulator, function);
  if (status == 0 && (device < 0 || device >= emulator->settings.devices)) {
    return emulated_refuse(ACL_STATUS_RT_INVALID_DEVICE, "%s: device %d isn't one of %d", function, device,
                           emulator->settings.devices);
  }
  return status;
}

// Makes a context and its handle.
static int32_t make_context(struct emulator *emulator, int32_t device, void **handle,
                            struct context **context) {
  *context = calloc(1, sizeof **context);
  *handle = *context == NULL ? NULL : handles_add(&emulator->handles, HANDLE_CONTEXT, *context);
  if (*handle == NULL) {
    free(*context);
    return emulated_refuse(ACL_STATUS_BAD_ALLOC, "no memory for a context");
  }
  (*context)->device = device;
  return 0;
}

static int32_t set_device(struct emulator *emulator, int32_t device) {
  const struct faults *faults = &emulator->settings.faults;
  struct fault_occasion occasion = {.device = device, .number = 1};
  if (faults_find(faults, FAULT_STUB, &occasion) != NULL) {
    return emulated_refuse(ACL_STATUS_STUB_LIBRARY, "aclrtSetDevice: this is a stub library");
  }
  if (faults_find(faults, FAULT_REFUSE_INIT, &occasion) != NULL) {
    return emulated_refuse(ACL_STATUS_RT_DRIVER_INTERNAL, "aclrtSetDevice: device %d refuses to start",
                           device);
  }
  void **handle = &emulator->default_contexts[device];
  struct context *context = handles_find(&emulator->handles, HANDLE_CONTEXT, *handle);
  int32_t status = context == NULL ? make_context(emulator, device, handle, &context) : 0;
  if (status == 0) {
    context->references++;
    current_context = *handle;
  }
  return status;
}

aclError aclrtSetDevice(int32_t device) {
  struct emulator *emulator = emulator_lock();
  aclError status = check_device(emulator, "aclrtSetDevice", device);
  if (status == 0) {
    status = set_device(emulator, device);
  }
  emulator_unlock();
  return status;
}

// Ends the context, unless streams are left in it.
static int32_t end_context(struct emulator *emulator, const char *function, void *handle) {
  struct context *context = handles_find(&emulator->handles, HANDLE_CONTEXT, handle);
  if (context->streams > 0) {
    return emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "%s: %zu streams of the context are left", function,
                           context->streams);
  }
  free(handles_remove(&emulator->handles, HANDLE_CONTEXT, handle));
  if (current_context == handle) {
    current_context = NULL;
  }
  return 0;
}

aclError aclrtResetDevice(int32_t device) {
  struct emulator *emulator = emulator_lock();
  aclError status = check_device(emulator, "aclrtResetDevice", device);
  void **handle = status == 0 ? &emulator->default_contexts[device] : NULL;
  if (status == 0 && *handle == NULL) {
    status = emulated_refuse(ACL_STATUS_RT_NO_CONTEXT, "aclrtResetDevice: device %d isn't set", device);
  }
  if (status == 0) {
    struct context *context = handles_find(&emulator->handles, HANDLE_CONTEXT, *handle);
    if (context->references > 1) {
      context->references--;
    } else {
      status = end_context(emulator, "aclrtResetDevice", *handle);
      *handle = status == 0 ? NULL : *handle;
    }
  }
  emulator_unlock();
  return status;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device) {
  struct emulator *emulator = emulator_lock();
  aclError status = check_device(emulator, "aclrtCreateContext", device);
  if (status == 0 && context == NULL) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtCreateContext: a null pointer");
  }
  struct context *made;
  if (status == 0) {
    status = make_context(emulator, device, context, &made);
  }
  if (status == 0) {
    current_context = *context;
  }
  emulator_unlock();
  return status;
}

aclError aclrtDestroyContext(aclrtContext context) {
  struct emulator *emulator = emulator_lock();
  aclError status = emulator_check_initialised(emulator, "aclrtDestroyContext");
  const struct context *known = handles_find(&emulator->handles, HANDLE_CONTEXT, context);
  if (status == 0 && (known == NULL || known->references > 0)) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID,
                             known == NULL ? "aclrtDestroyContext: no such context"
                                           : "aclrtDestroyContext: it is a device's default context");
  }
  if (status == 0) {
    status = end_context(emulator, "aclrtDestroyContext", context);
  }
  emulator_unlock();
  return status;
}

// CANN takes the determinism of the whole process from either call.
static int32_t set_option(struct emulator *emulator, const char *function, int option, int64_t value) {
  if (option != ACL_OPT_DETERMINISTIC || value < 0 || value > DETERMINISM_MAX) {
    return emulated_refuse(ACL_STATUS_INVALID_PARAM, "%s: option %d can't be %lld", function, option,
                           (long long)value);
  }
  emulator->determinism = value;
  return 0;
}

aclError aclrtCtxSetSysParamOpt(int option, int64_t value) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtCtxSetSysParamOpt", &context);
  if (status == 0) {
    status = set_option(emulator, "aclrtCtxSetSysParamOpt", option, value);
  }
  emulator_unlock();
  return status;
}

aclError aclrtSetSysParamOpt(int option, int64_t value) {
  struct emulator *emulator = emulator_lock();
  aclError status = emulator_check_initialised(emulator, "aclrtSetSysParamOpt");
  if (status == 0) {
    status = set_option(emulator, "aclrtSetSysParamOpt", option, value);
  }
  emulator_unlock();
  return status;
}
