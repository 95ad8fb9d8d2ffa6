// Where two storages of the same type differ. Pure, any thread.
#ifndef ACLNN_CLIENT_CLI_DIFFERENCE_H
#define ACLNN_CLIENT_CLI_DIFFERENCE_H

#include "client/c/aclnn_client.h"

#define DIFFERENCE_DIGITS_MAX 16

struct difference {
  int64_t elements, differing;
  int64_t first; // -1: none; element of the storage
  // The bits of that element, in hexadecimal.
  char actual[DIFFERENCE_DIGITS_MAX + 1], recorded[DIFFERENCE_DIGITS_MAX + 1];
};

// Elements are the same if their bits are, or if both are NaN: payloads are free.
void difference_find(aclnn_data_type data_type, const void *actual, const void *recorded, size_t bytes,
                     struct difference *difference);

#endif
