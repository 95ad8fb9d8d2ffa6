// The accessors of kernels/emulated_device.h: what kernels do to the device's memory.
#include "kernels/emulated_device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void emulated_fault(struct emulated_kernel *kernel, const char *format, ...) {
  if (kernel->fault[0] == '\0') {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(kernel->fault, sizeof kernel->fault, format, arguments);
    va_end(arguments);
  }
}

int64_t emulated_tensor_elements(const struct emulated_tensor *tensor) {
  int64_t elements = 1;
  bool empty = false;
  for (size_t i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] < 0) {
      return -1;
    }
    empty = empty || tensor->shape[i] == 0;
  }
  for (size_t i = 0; i < tensor->rank && !empty; i++) {
    if (__builtin_mul_overflow(elements, tensor->shape[i], &elements)) {
      return -1;
    }
  }
  return empty ? 0 : elements;
}

bool emulated_tensor_same_shape(const struct emulated_tensor *a, const struct emulated_tensor *b) {
  return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0;
}

bool emulated_tensor_is_contiguous(const struct emulated_tensor *tensor) {
  int64_t stride = 1;
  for (size_t i = tensor->rank; i-- > 0;) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride) {
      return false;
    }
    stride *= tensor->shape[i];
  }
  return true;
}

double emulated_read(struct emulated_kernel *kernel, size_t argument, int64_t element) {
  const unsigned char *place = emulated_place(kernel, argument, element);
  if (place == NULL) {
    return 0;
  }
  uint16_t half;
  float single;
  double value;
  switch (kernel->call->tensors[argument]->data_type) {
  case DATA_TYPE_FLOAT:
    memcpy(&single, place, sizeof single);
    return (double)single;
  case DATA_TYPE_FLOAT16:
    memcpy(&half, place, sizeof half);
    return (double)fp16_to_float(half);
  case DATA_TYPE_BF16:
    memcpy(&half, place, sizeof half);
    return (double)bf16_to_float(half);
  case DATA_TYPE_DOUBLE:
    memcpy(&value, place, sizeof value);
    return value;
  default:
    emulated_fault(kernel, "argument %zu is read as a float", argument);
    return 0;
  }
}

void emulated_write(struct emulated_kernel *kernel, size_t argument, int64_t element, float value) {
  unsigned char *place = emulated_place(kernel, argument, element);
  if (place == NULL) {
    return;
  }
  uint16_t half;
  switch (kernel->call->tensors[argument]->data_type) {
  case DATA_TYPE_FLOAT:
    memcpy(place, &value, sizeof value);
    break;
  case DATA_TYPE_FLOAT16:
    half = fp16_from_float(value);
    memcpy(place, &half, sizeof half);
    break;
  case DATA_TYPE_BF16:
    half = bf16_from_float(value);
    memcpy(place, &half, sizeof half);
    break;
  default:
    emulated_fault(kernel, "argument %zu is written as a float", argument);
  }
}

int64_t emulated_read_integer(struct emulated_kernel *kernel, size_t argument, int64_t element) {
  const unsigned char *place = emulated_place(kernel, argument, element);
  if (place == NULL) {
    return 0;
  }
  if (kernel->call->tensors[argument]->data_type == DATA_TYPE_INT32) {
    int32_t value;
    memcpy(&value, place, sizeof value);
    return value;
  }
  int64_t value;
  memcpy(&value, place, sizeof value);
  return value;
}

void emulated_write_integer(struct emulated_kernel *kernel, size_t argument, int64_t element, int64_t value) {
  unsigned char *place = emulated_place(kernel, argument, element);
  if (place == NULL) {
    return;
  }
  if (kernel->call->tensors[argument]->data_type == DATA_TYPE_INT32) {
    int32_t narrow = (int32_t)value;
    memcpy(place, &narrow, sizeof narrow);
  } else {
    memcpy(place, &value, sizeof value);
  }
}

void emulated_copy(struct emulated_kernel *kernel, size_t to, int64_t to_element, size_t from,
                   int64_t from_element) {
  const unsigned char *source = emulated_place(kernel, from, from_element);
  unsigned char *target = emulated_place(kernel, to, to_element);
  if (source != NULL && target != NULL) {
    memcpy(target, source, data_type_bytes(kernel->call->tensors[to]->data_type));
  }
}
