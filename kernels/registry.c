#include "kernels/operator.h"

#include <string.h>

// Ends with NULL.
static const struct operator* const operators[] = {NULL};

size_t operator_count(void) {
  return sizeof operators / sizeof operators[0] - 1;
}

const struct operator* operator_at(size_t position) {
  return operators[position];
}

const struct operator* operator_find(const char *name) {
  for (size_t i = 0; i < operator_count(); i++) {
    if (strcmp(operators[i]->name, name) == 0) {
      return operators[i];
    }
  }
  return NULL;
}
