#include "server/npu/emulator/bound_call.h"

#include "server/npu/acl/acl.h"
#include "server/npu/emulator/tensors.h"

#include <stdlib.h>
#include <string.h>

static int32_t bind_tensor(struct emulator *emulator, struct bound_call *bound, size_t i,
                           const struct aclTensor *handle) {
  if (handle == NULL) {
    return 0;
  }
  const struct tensor_object *object = handles_find(&emulator->handles, HANDLE_TENSOR, handle);
  if (object == NULL) {
    return emulated_refuse(ACL_STATUS_INVALID, "%s: %s is no tensor (any more)", bound->definition->name,
                           bound->definition->argument_names[i]);
  }
  bound->_tensors[i] = object->tensor;
  bound->call.tensors[i] = &bound->_tensors[i];
  bound->handles[i] = handle;
  return 0;
}

static int32_t bind_int_array(struct emulator *emulator, struct bound_call *bound, size_t i,
                              const struct aclIntArray *handle) {
  if (handle == NULL) {
    return 0;
  }
  const struct int_array_object *object = handles_find(&emulator->handles, HANDLE_INT_ARRAY, handle);
  if (object == NULL) {
    return emulated_refuse(ACL_STATUS_INVALID, "%s: %s is no array (any more)", bound->definition->name,
                           bound->definition->argument_names[i]);
  }
  int64_t *values = calloc(object->count + 1, sizeof *values);
  if (values == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_CREATE_EXECUTOR, "%s: no memory", bound->definition->name);
  }
  memcpy(values, object->values, object->count * sizeof *values);
  bound->_int_arrays[i] = (struct emulated_int_array){values, object->count};
  bound->call.int_arrays[i] = &bound->_int_arrays[i];
  return 0;
}

int32_t bound_call_create(struct emulator *emulator, const struct emulated_operator *definition,
                          const union emulated_argument *arguments, int32_t device,
                          struct bound_call **result) {
  struct bound_call *bound = calloc(1, sizeof *bound);
  if (bound == NULL) {
    return emulated_refuse(ACL_STATUS_INNER_CREATE_EXECUTOR, "%s: no memory", definition->name);
  }
  bound->definition = definition;
  bound->device = device;
  bound->call.profile = emulator->settings.profile;
  bound->call.deterministic = emulator->determinism > 0;
  atomic_init(&bound->_references, 1);
  int32_t status = 0;
  for (size_t i = 0; i < definition->argument_count && status == 0; i++) {
    switch (definition->arguments[i]) {
    case EMULATED_INPUT:
    case EMULATED_OUTPUT:
      status = bind_tensor(emulator, bound, i, arguments[i].tensor);
      break;
    case EMULATED_INT_ARRAY:
      status = bind_int_array(emulator, bound, i, arguments[i].int_array);
      break;
    case EMULATED_INTEGER:
      bound->call.integers[i] = arguments[i].integer;
      break;
    }
  }
  if (status != 0) {
    bound_call_release(bound);
    return status;
  }
  *result = bound;
  return 0;
}

void bound_call_hold(struct bound_call *bound) {
  atomic_fetch_add(&bound->_references, 1);
}

void bound_call_release(struct bound_call *bound) {
  if (atomic_fetch_sub(&bound->_references, 1) != 1) {
    return;
  }
  for (size_t i = 0; i < EMULATED_ARGUMENTS_MAX; i++) {
    free((void *)(uintptr_t)bound->_int_arrays[i].values);
  }
  free(bound);
}

uint64_t bound_call_storage_bytes(const struct bound_call *bound, size_t argument) {
  const struct emulated_tensor *tensor = bound->call.tensors[argument];
  return emulated_byte_count(tensor->storage_elements, data_type_bytes(tensor->data_type));
}

// A growing list of words.
struct words {
  int64_t *list;
  size_t count;
};

static void put(struct words *words, int64_t word) {
  words->list[words->count++] = word;
}

int64_t *bound_call_key(const struct bound_call *bound, size_t *count) {
  size_t most = 3;
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    most += 6 + 2 * TENSOR_RANK_MAX + bound->_int_arrays[i].count;
  }
  struct words words = {calloc(most, sizeof *words.list), 0};
  if (words.list == NULL) {
    return NULL;
  }
  put(&words, (int64_t)(intptr_t)bound->definition);
  put(&words, bound->device);
  put(&words, bound->call.deterministic);
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    const struct emulated_tensor *tensor = bound->call.tensors[i];
    const struct emulated_int_array *array = &bound->_int_arrays[i];
    if (tensor != NULL) {
      put(&words, (int64_t)tensor->data_type);
      put(&words, tensor->format);
      put(&words, (int64_t)tensor->rank);
      put(&words, tensor->storage_offset);
      put(&words, tensor->storage_elements);
      for (size_t dim = 0; dim < TENSOR_RANK_MAX; dim++) {
        put(&words, tensor->shape[dim]);
        put(&words, tensor->strides[dim]);
      }
    } else {
      put(&words, bound->call.integers[i]);
      put(&words, (int64_t)array->count);
      for (size_t j = 0; j < array->count; j++) {
        put(&words, array->values[j]);
      }
    }
  }
  *count = words.count;
  return words.list;
}
