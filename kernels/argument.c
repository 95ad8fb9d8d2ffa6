#include "kernels/argument.h"

static const char unspecified[] = "UNSPECIFIED";

static const char *const targets[] = {unspecified, "AUTO", "CPU", "NPU"};
static const char *const numerics_names[] = {unspecified, "DEVICE", "DETERMINISTIC", "EXACT"};
static const char *const kinds[] = {unspecified, "TENSOR", "INT_ARRAY", "INTEGER", "REAL", "BOOLEAN", "TEXT"};

// The name of that number, the first one for a number that has none.
static const char *name_of(const char *const *names, size_t count, unsigned number) {
  return names[number < count ? number : 0];
}

const char *target_name(enum target target) {
  return name_of(targets, sizeof targets / sizeof targets[0], target);
}

const char *numerics_name(enum numerics numerics) {
  return name_of(numerics_names, sizeof numerics_names / sizeof numerics_names[0], numerics);
}

const char *parameter_kind_name(enum parameter_kind kind) {
  return name_of(kinds, sizeof kinds / sizeof kinds[0], kind);
}
