#include "kernels/adaptive_pooling.h"

#include <assert.h>

__extension__ typedef unsigned __int128 uint128;

struct plane_view plane_view_of(const struct tensor_desc *desc) {
  assert(desc->rank == 3 || desc->rank == 4);
  size_t channel = desc->rank - 3;
  return (struct plane_view){
      .planes = (desc->rank == 4 ? desc->shape[0] : 1) * desc->shape[channel],
      .channels = desc->shape[channel],
      .rows = desc->shape[channel + 1],
      .columns = desc->shape[channel + 2],
      .storage_offset = desc->storage_offset,
      .batch_stride = desc->rank == 4 ? desc->strides[0] : 0,
      .channel_stride = desc->strides[channel],
      .row_stride = desc->strides[channel + 1],
      .column_stride = desc->strides[channel + 2],
  };
}

// Rounded down; none of the three is negative.
static int64_t scale(int64_t position, int64_t to, int64_t from) {
  return (int64_t)((uint128)position * (uint128)to / (uint128)from);
}

static int64_t scale_up(int64_t position, int64_t to, int64_t from) {
  return (int64_t)(((uint128)position * (uint128)to + (uint128)(from - 1)) / (uint128)from);
}

int64_t pooling_window_begin(int64_t m, int64_t input, int64_t output) {
  return scale(m, input, output);
}

int64_t pooling_window_end(int64_t m, int64_t input, int64_t output) {
  return scale_up(m + 1, input, output);
}

int64_t pooling_first_output(int64_t position, int64_t input, int64_t output) {
  return scale(position, output, input);
}

int64_t pooling_end_output(int64_t position, int64_t input, int64_t output) {
  return scale_up(position + 1, output, input);
}

int64_t pooling_largest_window(int64_t input, int64_t output) {
  int64_t divisor = pooling_greatest_divisor(input, output);
  // With p / q as the reduced quotient a window may begin (q - 1) / q into an element.
  return (input / divisor + output / divisor - 2) / (output / divisor) + 1;
}

int64_t pooling_window_count(int64_t input, int64_t output) {
  return input + output - pooling_greatest_divisor(input, output);
}

bool pooling_check_plane_size(struct named_tensor tensor, struct status *status) {
  int64_t rows = tensor.desc->shape[tensor.desc->rank - 2];
  int64_t columns = tensor.desc->shape[tensor.desc->rank - 1];
  // A normalised shape's product is countable, with the zeros among its dims taken as ones.
  if (rows * columns > ADAPTIVE_POOLING_PLANE_ELEMENTS_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, tensor.parameter->name,
                       "planes of %s have %lld * %lld elements, at most %lld are allowed",
                       tensor.parameter->name, (long long)rows, (long long)columns,
                       (long long)ADAPTIVE_POOLING_PLANE_ELEMENTS_MAX);
  }
  return true;
}

uint64_t pooling_saturating_product(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

int64_t pooling_greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
