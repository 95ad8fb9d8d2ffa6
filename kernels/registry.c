#include "kernels/adaptive_max_pool2d/adaptive_max_pool2d.h"
#include "kernels/adaptive_max_pool2d_backward/adaptive_max_pool2d_backward.h"
#include "kernels/mm/mm.h"
#include "kernels/operator.h"

#include <assert.h>
#include <string.h>

static const struct operator_definition *const operators[] = {
    &adaptive_max_pool2d,
    &adaptive_max_pool2d_backward,
    &mm,
};

size_t operator_count(void) {
  return sizeof operators / sizeof operators[0];
}

const struct operator_definition *operator_at(size_t position) {
  assert(position < operator_count());
  return operators[position];
}

const struct operator_definition *operator_find(const char *name) {
  for (size_t i = 0; i < operator_count(); i++) {
    if (strcmp(operators[i]->name, name) == 0) {
      return operators[i];
    }
  }
  return NULL;
}
