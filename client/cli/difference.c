#include "client/cli/difference.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The bits of infinity; everything above, but for the sign, is a NaN. 0: the type has none.
static uint64_t infinity_bits(aclnn_data_type data_type) {
  switch (data_type) {
  case ACLNN_FLOAT16:
    return 0x7c00;
  case ACLNN_BF16:
    return 0x7f80;
  case ACLNN_FLOAT:
    return 0x7f800000;
  case ACLNN_DOUBLE:
    return UINT64_C(0x7ff0000000000000);
  default:
    return 0;
  }
}

// Little endian, as everything in a storage.
static uint64_t read_bits(const uint8_t *element, size_t bytes) {
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes; i++) {
    bits |= (uint64_t)element[i] << (8 * i);
  }
  return bits;
}

void difference_find(aclnn_data_type data_type, const void *actual, const void *recorded, size_t bytes,
                     struct difference *difference) {
  size_t element_bytes = aclnn_data_type_bytes(data_type);
  assert(element_bytes > 0 && element_bytes <= DIFFERENCE_DIGITS_MAX / 2);
  uint64_t infinity = infinity_bits(data_type);
  uint64_t magnitude = (UINT64_C(1) << (8 * element_bytes - 1)) - 1; // all but the sign
  *difference = (struct difference){.elements = (int64_t)(bytes / element_bytes), .first = -1};
  for (int64_t i = 0; i < difference->elements; i++) {
    uint64_t left = read_bits((const uint8_t *)actual + (size_t)i * element_bytes, element_bytes);
    uint64_t right = read_bits((const uint8_t *)recorded + (size_t)i * element_bytes, element_bytes);
    bool both_nan = infinity != 0 && (left & magnitude) > infinity && (right & magnitude) > infinity;
    if (left == right || both_nan) {
      continue;
    }
    if (difference->differing++ == 0) {
      difference->first = i;
      snprintf(difference->actual, sizeof difference->actual, "%0*" PRIx64, (int)(2 * element_bytes), left);
      snprintf(difference->recorded, sizeof difference->recorded, "%0*" PRIx64, (int)(2 * element_bytes),
               right);
    }
  }
}
