// CANN's functions about tensors and integer arrays. They check nearly nothing, as CANN's.
#include "server/npu/emulator/tensors.h"

#include "server/npu/emulator/api.h"
#include "server/npu/emulator/emulator.h"

#include <stdlib.h>
#include <string.h>

static enum data_type data_type_of(int number) {
  for (int type = DATA_TYPE_UNSPECIFIED + 1; type < DATA_TYPE_COUNT; type++) {
    if (data_type_to_cann((enum data_type)type) == number) {
      return (enum data_type)type;
    }
  }
  return DATA_TYPE_UNSPECIFIED;
}

// Those of a contiguous tensor. Dims may be anything, so products wrap around.
static void fill_strides(struct emulated_tensor *tensor) {
  uint64_t stride = 1;
  for (size_t i = tensor->rank; i-- > 0;) {
    tensor->strides[i] = (int64_t)stride;
    stride *= (uint64_t)tensor->shape[i];
  }
}

struct aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t view_dims_num, int data_type,
                                  const int64_t *strides, int64_t offset, int format,
                                  const int64_t *storage_dims, uint64_t storage_dims_num, void *data) {
  if ((view_dims == NULL && view_dims_num > 0) || (storage_dims == NULL && storage_dims_num > 0)) {
    emulated_refuse(ACL_STATUS_NULLPTR, "aclCreateTensor: dims are a null pointer");
    return NULL;
  }
  if (view_dims_num > TENSOR_RANK_MAX || storage_dims_num > TENSOR_RANK_MAX) {
    emulated_refuse(ACL_STATUS_INVALID, "aclCreateTensor: more than %d dims", TENSOR_RANK_MAX);
    return NULL;
  }
  struct emulated_tensor tensor = {.data_type = data_type_of(data_type),
                                   .format = format,
                                   .rank = view_dims_num,
                                   .storage_offset = offset};
  struct emulated_tensor storage = {.rank = storage_dims_num};
  for (size_t i = 0; i < view_dims_num; i++) {
    tensor.shape[i] = view_dims[i];
  }
  for (size_t i = 0; i < storage_dims_num; i++) {
    storage.shape[i] = storage_dims[i];
  }
  fill_strides(&tensor);
  for (size_t i = 0; strides != NULL && i < view_dims_num; i++) {
    tensor.strides[i] = strides[i];
  }
  tensor.storage_elements = emulated_tensor_elements(&storage);
  struct tensor_object *object = calloc(1, sizeof *object);
  void *handle = NULL;
  struct emulator *emulator = emulator_lock();
  if (emulator_check_initialised(emulator, "aclCreateTensor") == 0 && object != NULL) {
    *object = (struct tensor_object){.tensor = tensor, .address = (uint64_t)(uintptr_t)data};
    handle = handles_add(&emulator->handles, HANDLE_TENSOR, object);
  }
  emulator_unlock();
  if (handle == NULL) {
    free(object);
  }
  return handle;
}

// Both kinds are plain blocks of memory.
static aclnnStatus destroy(enum handle_kind kind, const void *handle, const char *function) {
  struct emulator *emulator = emulator_lock();
  aclnnStatus status = emulator_check_initialised(emulator, function);
  if (status == 0 && handle != NULL) {
    void *object = handles_remove(&emulator->handles, kind, handle);
    if (object == NULL) {
      status = emulated_refuse(ACL_STATUS_INVALID, "%s: %p is none (any more)", function, handle);
    }
    free(object);
  }
  emulator_unlock();
  return status;
}

aclnnStatus aclDestroyTensor(const struct aclTensor *tensor) {
  return destroy(HANDLE_TENSOR, tensor, "aclDestroyTensor");
}

struct aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t count) {
  if (values == NULL && count > 0) {
    emulated_refuse(ACL_STATUS_NULLPTR, "aclCreateIntArray: values are a null pointer");
    return NULL;
  }
  if (count > INT32_MAX) {
    emulated_refuse(ACL_STATUS_INVALID, "aclCreateIntArray: too many values");
    return NULL;
  }
  struct int_array_object *object = malloc(sizeof *object + count * sizeof *values);
  void *handle = NULL;
  struct emulator *emulator = emulator_lock();
  if (emulator_check_initialised(emulator, "aclCreateIntArray") == 0 && object != NULL) {
    object->count = count;
    for (size_t i = 0; i < count; i++) {
      object->values[i] = values[i];
    }
    handle = handles_add(&emulator->handles, HANDLE_INT_ARRAY, object);
  }
  emulator_unlock();
  if (handle == NULL) {
    free(object);
  }
  return handle;
}

aclnnStatus aclDestroyIntArray(const struct aclIntArray *array) {
  return destroy(HANDLE_INT_ARRAY, array, "aclDestroyIntArray");
}

void tensors_destroy_left(struct emulator *emulator) {
  void *object;
  while ((object = handles_remove_any(&emulator->handles, HANDLE_TENSOR)) != NULL ||
         (object = handles_remove_any(&emulator->handles, HANDLE_INT_ARRAY)) != NULL) {
    free(object);
  }
}
