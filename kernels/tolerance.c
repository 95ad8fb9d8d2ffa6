#include "kernels/tolerance.h"

#include "kernels/half.h"

#include <assert.h>
#include <math.h>

// Keeps the relative error finite where the golden value is 0.
#define DENOMINATOR_SHIFT 1e-7
// The worst element may be so many times further off than the mean.
#define WORST_TIMES_MEAN 10

// T of the yardstick; 0: the type isn't measured by it.
static double mean_bound(enum data_type data_type) {
  switch (data_type) {
  case DATA_TYPE_FLOAT16:
    return 0x1p-10;
  case DATA_TYPE_BF16:
    return 0x1p-7;
  case DATA_TYPE_FLOAT:
    return 0x1p-13;
  default:
    return 0;
  }
}

// The value of one element; 0 for types that aren't numbers with NaN and infinities.
static double value_of(enum data_type data_type, const uint8_t *element) {
  uint16_t half;
  float single;
  double value = 0;
  switch (data_type) {
  case DATA_TYPE_FLOAT16:
    memcpy(&half, element, sizeof half);
    return fp16_to_float(half);
  case DATA_TYPE_BF16:
    memcpy(&half, element, sizeof half);
    return bf16_to_float(half);
  case DATA_TYPE_FLOAT:
    memcpy(&single, element, sizeof single);
    return single;
  case DATA_TYPE_DOUBLE:
    memcpy(&value, element, sizeof value);
    return value;
  default:
    return value;
  }
}

// Of two different elements.
static double relative_error(double actual, double golden) {
  if (!isfinite(actual) || !isfinite(golden)) {
    return INFINITY;
  }
  return fabs(actual - golden) / (fabs(golden) + DENOMINATOR_SHIFT);
}

// The comparison under way.
struct comparing {
  enum data_type data_type;
  size_t bytes; // of an element
  const uint8_t *actual, *golden;
  struct tensor_comparison *result;
  double sum;
};

// Of the element at that offset, which is number `position` of the view.
static void compare_element(struct comparing *comparing, int64_t offset, int64_t position) {
  struct tensor_comparison *result = comparing->result;
  const uint8_t *actual = comparing->actual + (size_t)offset * comparing->bytes;
  const uint8_t *golden = comparing->golden + (size_t)offset * comparing->bytes;
  if (memcmp(actual, golden, comparing->bytes) == 0) {
    return;
  }
  double actual_value = value_of(comparing->data_type, actual);
  double golden_value = value_of(comparing->data_type, golden);
  if (isnan(actual_value) && isnan(golden_value)) {
    return;
  }
  double error = relative_error(actual_value, golden_value);
  if (result->differing++ == 0) {
    result->first = position;
  }
  if (result->worst < 0 || error > result->worst_error) {
    result->worst = position;
    result->worst_error = error;
  }
  comparing->sum += error;
}

// Walks over the view row by row; each row is the innermost dimension.
static void compare_rows(struct comparing *comparing, const struct tensor_desc *desc) {
  int64_t columns = desc->rank == 0 ? 1 : desc->shape[desc->rank - 1];
  int64_t stride = desc->rank == 0 ? 1 : desc->strides[desc->rank - 1];
  for (int64_t position = 0; position < comparing->result->elements; position += columns) {
    int64_t offset = tensor_desc_offset_of(desc, position);
    const uint8_t *actual = comparing->actual + (size_t)offset * comparing->bytes;
    const uint8_t *golden = comparing->golden + (size_t)offset * comparing->bytes;
    if (stride == 1 && memcmp(actual, golden, (size_t)columns * comparing->bytes) == 0) {
      continue;
    }
    for (int64_t column = 0; column < columns; column++) {
      compare_element(comparing, offset + column * stride, position + column);
    }
  }
}

void tensor_compare(const struct tensor_desc *desc, const void *actual, const void *golden, bool exactly,
                    struct tensor_comparison *comparison) {
  *comparison = (struct tensor_comparison){
      .elements = tensor_desc_elements(desc),
      .first = -1,
      .worst = -1,
  };
  struct comparing comparing = {
      .data_type = desc->data_type,
      .bytes = data_type_bytes(desc->data_type),
      .actual = actual,
      .golden = golden,
      .result = comparison,
  };
  assert(comparing.bytes > 0);
  compare_rows(&comparing, desc);
  comparison->mean_error = comparison->differing > 0 ? comparing.sum / (double)comparison->elements : 0;
  comparison->agree = tensor_comparison_agrees(comparison, desc->data_type, exactly);
}

bool tensor_comparison_agrees(const struct tensor_comparison *comparison, enum data_type data_type,
                              bool exactly) {
  double bound = mean_bound(data_type);
  if (exactly || bound == 0) {
    return comparison->differing == 0;
  }
  return comparison->mean_error < bound && comparison->worst_error < WORST_TIMES_MEAN * bound;
}
