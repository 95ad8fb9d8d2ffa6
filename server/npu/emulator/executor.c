// Executors: phase 1 and phase 2 of every operator, and CANN's functions about repeatable ones.
//
// Phase 2 consumes an executor, whatever it answers, unless it was made repeatable. A call that ran to the
// stream as a one-shot enters its thread's executor cache: the same call's next phase 1 on that thread gives
// an executor from the cache, without another check, and that one can't be made repeatable (561000).
#include "server/npu/emulator/api.h"
#include "server/npu/emulator/bound_call.h"
#include "server/npu/emulator/executor_cache.h"
#include "server/npu/emulator/launch.h"
#include "server/npu/emulator/tensors.h"

#include <stdlib.h>

// More than any device has, and far from where sums wrap around.
#define WORKSPACE_BYTES_MAX ((uint64_t)1 << 48)

struct executor {
  struct bound_call *bound;
  uint64_t workspace_bytes; // 0 for one that holds no kernel
  bool cached;              // it came from the cache
  bool repeatable;
};

static void executor_destroy(struct executor *executor) {
  bound_call_release(executor->bound);
  free(executor);
}

void executors_destroy_left(struct emulator *emulator) {
  struct executor *executor;
  while ((executor = handles_remove_any(&emulator->handles, HANDLE_EXECUTOR)) != NULL) {
    executor_destroy(executor);
  }
}

// Whether every element of the view lies in the storage; the tensor isn't empty.
static bool view_fits(const struct emulated_tensor *tensor) {
  __int128 least = tensor->storage_offset, most = tensor->storage_offset;
  for (size_t i = 0; i < tensor->rank; i++) {
    __int128 reach = (__int128)(tensor->shape[i] - 1) * tensor->strides[i];
    *(reach < 0 ? &least : &most) += reach;
  }
  return least >= 0 && most < tensor->storage_elements;
}

static int32_t check_address(struct emulator *emulator, const char *function, const char *name,
                             uint64_t address) {
  if (!memory_is_device_address(emulator->memory, address)) {
    return emulated_refuse(ACL_STATUS_INVALID, "%s: %s lies at %#llx, which is no address of a device",
                           function, name, (unsigned long long)address);
  }
  if (address % TENSORS_ALIGNMENT != 0) {
    return emulated_refuse(ACL_STATUS_INVALID, "%s: %s lies at %#llx, which is no multiple of %d", function,
                           name, (unsigned long long)address, TENSORS_ALIGNMENT);
  }
  return 0;
}

// What CANN leaves to the device to find out. A null address may still be set before the run.
static int32_t check_tensors(struct emulator *emulator, const struct bound_call *bound) {
  const struct emulated_operator *definition = bound->definition;
  for (size_t i = 0; i < definition->argument_count; i++) {
    if (!bound_call_is_tensor(bound, i)) {
      continue;
    }
    const char *name = definition->argument_names[i];
    if (!view_fits(bound->call.tensors[i])) {
      return emulated_refuse(ACL_STATUS_INVALID, "%s: the view of %s leaves its storage", definition->name,
                             name);
    }
    const struct tensor_object *object = handles_find(&emulator->handles, HANDLE_TENSOR, bound->handles[i]);
    int32_t status =
        object->address == 0 ? 0 : check_address(emulator, definition->name, name, object->address);
    if (status != 0) {
      return status;
    }
  }
  return 0;
}

static bool is_empty(const struct bound_call *bound) {
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    if (bound_call_is_tensor(bound, i) && emulated_tensor_elements(bound->call.tensors[i]) == 0) {
      return true;
    }
  }
  return false;
}

// Fills workspace_bytes and cached.
static int32_t plan(struct emulator *emulator, struct executor *executor) {
  const struct bound_call *bound = executor->bound;
  const struct emulated_operator *definition = bound->definition;
  size_t count;
  int64_t *key = bound_call_key(bound, &count);
  if (key == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_CREATE_EXECUTOR, "%s: no memory", definition->name);
  }
  executor->cached = executor_cache_find(emulator->generation, key, count, &executor->workspace_bytes);
  free(key);
  int32_t status = executor->cached ? 0 : definition->check(&bound->call);
  if (status != 0 || is_empty(bound)) {
    return status;
  }
  status = check_tensors(emulator, bound);
  if (status == 0 && !executor->cached) {
    uint64_t own = definition->workspace_bytes(&bound->call);
    if (own > WORKSPACE_BYTES_MAX) {
      return emulated_refuse(ACL_STATUS_INNER_NULLPTR, "%s: no device has room for the workspace",
                             definition->name);
    }
    uint64_t aligned = (own + TENSORS_ALIGNMENT - 1) / TENSORS_ALIGNMENT * TENSORS_ALIGNMENT;
    executor->workspace_bytes = aligned + LAUNCH_SYSTEM_WORKSPACE_BYTES;
  }
  return status;
}

static int32_t create_executor(struct emulator *emulator, const struct emulated_operator *definition,
                               const union emulated_argument *arguments, struct executor **result) {
  struct context *context;
  if (emulator_current_context(emulator, definition->name, &context) != 0) {
    return emulated_refuse(ACL_STATUS_RUNTIME_ERROR, "%s: there is no device", definition->name);
  }
  struct executor *executor = calloc(1, sizeof *executor);
  if (executor == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_CREATE_EXECUTOR, "%s: no memory", definition->name);
  }
  int32_t status = bound_call_create(emulator, definition, arguments, context->device, &executor->bound);
  if (status != 0) {
    free(executor);
    return status;
  }
  status = plan(emulator, executor);
  if (status != 0) {
    executor_destroy(executor);
    return status;
  }
  *result = executor;
  return 0;
}

int32_t emulated_plan(const struct emulated_operator *definition, const union emulated_argument *arguments,
                      uint64_t *workspace_bytes, struct aclOpExecutor **handle) {
  if (workspace_bytes == NULL || handle == NULL) {
    return emulated_refuse(ACL_STATUS_NULLPTR, "%s: workspaceSize or executor is a null pointer",
                           definition->name);
  }
  struct emulator *emulator = emulator_lock();
  struct executor *executor = NULL;
  int32_t status = create_executor(emulator, definition, arguments, &executor);
  if (status == 0) {
    void *number = handles_add(&emulator->handles, HANDLE_EXECUTOR, executor);
    if (number == NULL) {
      executor_destroy(executor);
      status = emulated_refuse(ACL_STATUS_INNER_CREATE_EXECUTOR, "%s: no memory", definition->name);
    } else {
      *handle = number;
      *workspace_bytes = executor->workspace_bytes;
    }
  }
  emulator_unlock();
  return status;
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b ? b - a < a_bytes : a - b < b_bytes;
}

// What the kernel writes must not lie in its workspace or in another output.
static int32_t check_outputs(const struct bound_call *bound, const struct launch_request *request) {
  const struct emulated_operator *definition = bound->definition;
  for (size_t i = 0; i < definition->argument_count; i++) {
    if (definition->arguments[i] != EMULATED_OUTPUT) {
      continue;
    }
    uint64_t bytes = bound_call_storage_bytes(bound, i);
    bool shared = overlap(request->addresses[i], bytes, request->workspace, request->workspace_bytes);
    for (size_t j = 0; j < i && !shared; j++) {
      shared =
          definition->arguments[j] == EMULATED_OUTPUT &&
          overlap(request->addresses[i], bytes, request->addresses[j], bound_call_storage_bytes(bound, j));
    }
    if (shared) {
      return emulated_refuse(ACL_STATUS_INVALID, "%s: %s lies in the workspace or in another output",
                             definition->name, definition->argument_names[i]);
    }
  }
  return 0;
}

// The tensors' addresses as they are now.
static int32_t collect_addresses(struct emulator *emulator, const struct bound_call *bound,
                                 struct launch_request *request) {
  const struct emulated_operator *definition = bound->definition;
  for (size_t i = 0; i < definition->argument_count; i++) {
    if (!bound_call_is_tensor(bound, i)) {
      continue;
    }
    const struct tensor_object *object = handles_find(&emulator->handles, HANDLE_TENSOR, bound->handles[i]);
    if (object == NULL) {
      return emulated_refuse(ACL_STATUS_INNER, "%s: %s was destroyed before the executor", definition->name,
                             definition->argument_names[i]);
    }
    int32_t status =
        check_address(emulator, definition->name, definition->argument_names[i], object->address);
    if (status != 0) {
      return status;
    }
    request->addresses[i] = object->address;
  }
  return 0;
}

static int32_t launch(struct emulator *emulator, const struct executor *executor, void *workspace,
                      uint64_t workspace_bytes, const void *stream) {
  struct bound_call *bound = executor->bound;
  const char *name = bound->definition->name;
  struct owned_stream *owned;
  if (workspace_bytes > 0 && workspace == NULL) {
    return emulated_refuse(ACL_STATUS_NULLPTR, "%s: workspace is a null pointer", name);
  }
  int32_t status = emulator_find_stream(emulator, name, stream, &owned);
  if (status == 0 && owned->device != bound->device) {
    status =
        emulated_refuse(ACL_STATUS_RT_STREAM_CONTEXT, "%s: the stream is of device %d, the executor of %d",
                        name, owned->device, bound->device);
  }
  if (status != 0) {
    return status;
  }
  struct launch_request request = {.bound = bound,
                                   .workspace = (uint64_t)(uintptr_t)workspace,
                                   .workspace_bytes = executor->workspace_bytes,
                                   .job = emulator->jobs + 1};
  if (workspace_bytes < request.workspace_bytes) {
    return emulated_refuse(ACL_STATUS_INVALID, "%s: the workspace has %llu bytes, phase 1 asked for %llu",
                           name, (unsigned long long)workspace_bytes,
                           (unsigned long long)request.workspace_bytes);
  }
  if (request.workspace_bytes > 0) {
    status = check_address(emulator, name, "workspace", request.workspace);
    if (status == 0 &&
        !memory_is_live(emulator->memory, bound->device, request.workspace, request.workspace_bytes)) {
      status = emulated_refuse(ACL_STATUS_INVALID, "%s: the workspace isn't within one allocation", name);
    }
    if (status == 0) {
      status = collect_addresses(emulator, bound, &request);
    }
    if (status == 0) {
      status = check_outputs(bound, &request);
    }
  }
  if (status != 0) {
    return status;
  }
  emulator->jobs++;
  if (request.workspace_bytes > 0 && !launch_submit(emulator, &request, owned->stream)) {
    return emulated_refuse(ACL_STATUS_BAD_ALLOC, "%s: no memory for a launch", name);
  }
  return 0;
}

static void remember(struct emulator *emulator, const struct executor *executor) {
  size_t count;
  int64_t *key = bound_call_key(executor->bound, &count);
  if (key != NULL) {
    executor_cache_add(emulator->generation, emulator->settings.cache_limit, key, count,
                       executor->workspace_bytes);
  }
}

// The executor that the handle names, NULL and a text if there is none (any more).
static struct executor *find_executor(struct emulator *emulator, const char *function, const void *handle) {
  struct executor *executor = handles_find(&emulator->handles, HANDLE_EXECUTOR, handle);
  if (executor == NULL) {
    emulated_refuse(ACL_STATUS_INNER, "%s: %p is no executor, it was consumed, destroyed or never made",
                    function, handle);
  }
  return executor;
}

int32_t emulated_launch(const struct emulated_operator *definition, void *workspace, uint64_t workspace_bytes,
                        struct aclOpExecutor *handle, void *stream) {
  if (handle == NULL) {
    return emulated_refuse(ACL_STATUS_NULLPTR, "%s: executor is a null pointer", definition->name);
  }
  struct emulator *emulator = emulator_lock();
  struct executor *executor = find_executor(emulator, definition->name, handle);
  int32_t status = executor == NULL ? ACL_STATUS_INNER : 0;
  if (status == 0 && executor->bound->definition != definition) {
    status = emulated_refuse(ACL_STATUS_INNER, "%s: the executor is one of %s", definition->name,
                             executor->bound->definition->name);
  } else if (status == 0) {
    status = launch(emulator, executor, workspace, workspace_bytes, stream);
    if (!executor->repeatable) {
      if (status == 0 && !executor->cached) {
        remember(emulator, executor);
      }
      executor_destroy(handles_remove(&emulator->handles, HANDLE_EXECUTOR, handle));
    }
  }
  emulator_unlock();
  return status;
}

aclnnStatus aclSetAclOpExecutorRepeatable(struct aclOpExecutor *handle) {
  if (handle == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_NULLPTR, "aclSetAclOpExecutorRepeatable: a null pointer");
  }
  struct emulator *emulator = emulator_lock();
  struct executor *executor = find_executor(emulator, "aclSetAclOpExecutorRepeatable", handle);
  aclnnStatus status = executor == NULL ? ACL_STATUS_INNER : 0;
  if (status == 0 && (executor->cached || !emulator->settings.repeatable)) {
    status = emulated_refuse(ACL_STATUS_INNER, "aclSetAclOpExecutorRepeatable: %s",
                             executor->cached ? "the executor is from the cache"
                                              : "ACLNN_EMULATED_REPEATABLE is off");
  } else if (status == 0) {
    executor->repeatable = true;
  }
  emulator_unlock();
  return status;
}

// Says whether a tensor is gone that should have outlived the executor.
static int32_t check_outlived(struct emulator *emulator, const struct bound_call *bound) {
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    if (bound->handles[i] != NULL &&
        handles_find(&emulator->handles, HANDLE_TENSOR, bound->handles[i]) == NULL) {
      return emulated_refuse(ACL_STATUS_INNER,
                             "aclDestroyAclOpExecutor: %s was destroyed before the executor",
                             bound->definition->argument_names[i]);
    }
  }
  return 0;
}

aclnnStatus aclDestroyAclOpExecutor(struct aclOpExecutor *handle) {
  if (handle == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_NULLPTR, "aclDestroyAclOpExecutor: a null pointer");
  }
  struct emulator *emulator = emulator_lock();
  struct executor *executor = find_executor(emulator, "aclDestroyAclOpExecutor", handle);
  aclnnStatus status = executor == NULL ? ACL_STATUS_INNER : 0;
  if (status == 0 && !executor->repeatable) {
    status = emulated_refuse(ACL_STATUS_INNER, "aclDestroyAclOpExecutor: the executor isn't repeatable");
  } else if (status == 0) {
    status = check_outlived(emulator, executor->bound);
    executor_destroy(handles_remove(&emulator->handles, HANDLE_EXECUTOR, handle));
  }
  emulator_unlock();
  return status;
}

// The argument that is number `index` of a kind; argument_count if there is none.
static size_t find_argument(const struct emulated_operator *definition, enum emulated_argument_kind kind,
                            size_t index) {
  size_t i = 0;
  for (; i < definition->argument_count; i++) {
    if (definition->arguments[i] == kind && index-- == 0) {
      break;
    }
  }
  return i;
}

static int32_t set_address(const char *function, enum emulated_argument_kind kind, const void *handle,
                           size_t index, const void *tensor, const void *address) {
  if (handle == NULL || tensor == NULL || address == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_NULLPTR, "%s: a null pointer", function);
  }
  struct emulator *emulator = emulator_lock();
  struct executor *executor = find_executor(emulator, function, handle);
  int32_t status = executor == NULL ? ACL_STATUS_INNER : 0;
  if (status == 0 && !executor->repeatable) {
    status = emulated_refuse(ACL_STATUS_INNER, "%s: the executor isn't repeatable", function);
  }
  if (status == 0) {
    const struct emulated_operator *definition = executor->bound->definition;
    size_t argument = find_argument(definition, kind, index);
    struct tensor_object *object = handles_find(&emulator->handles, HANDLE_TENSOR, tensor);
    if (argument == definition->argument_count) {
      status = emulated_refuse(ACL_STATUS_INVALID, "%s: there is no number %zu", function, index);
    } else if (object == NULL || executor->bound->handles[argument] != tensor) {
      status = emulated_refuse(ACL_STATUS_INVALID, "%s: the tensor isn't the executor's number %zu", function,
                               index);
    } else {
      status = check_address(emulator, function, definition->argument_names[argument],
                             (uint64_t)(uintptr_t)address);
    }
    if (status == 0) {
      object->address = (uint64_t)(uintptr_t)address;
    }
  }
  emulator_unlock();
  return status;
}

aclnnStatus aclSetInputTensorAddr(struct aclOpExecutor *executor, size_t index, struct aclTensor *tensor,
                                  void *address) {
  return set_address("aclSetInputTensorAddr", EMULATED_INPUT, executor, index, tensor, address);
}

aclnnStatus aclSetOutputTensorAddr(struct aclOpExecutor *executor, size_t index, struct aclTensor *tensor,
                                   void *address) {
  return set_address("aclSetOutputTensorAddr", EMULATED_OUTPUT, executor, index, tensor, address);
}
