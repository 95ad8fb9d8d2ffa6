#include "kernels/argument.h"

const char *target_name(enum target target) {
  switch (target) {
  case TARGET_AUTO:
    return "AUTO";
  case TARGET_CPU:
    return "CPU";
  case TARGET_NPU:
    return "NPU";
  case TARGET_UNSPECIFIED:
    break;
  }
  return "UNSPECIFIED";
}

const char *numerics_name(enum numerics numerics) {
  switch (numerics) {
  case NUMERICS_DEVICE:
    return "DEVICE";
  case NUMERICS_DETERMINISTIC:
    return "DETERMINISTIC";
  case NUMERICS_EXACT:
    return "EXACT";
  case NUMERICS_UNSPECIFIED:
    break;
  }
  return "UNSPECIFIED";
}

const char *parameter_kind_name(enum parameter_kind kind) {
  switch (kind) {
  case PARAMETER_KIND_TENSOR:
    return "TENSOR";
  case PARAMETER_KIND_INT_ARRAY:
    return "INT_ARRAY";
  case PARAMETER_KIND_INTEGER:
    return "INTEGER";
  case PARAMETER_KIND_REAL:
    return "REAL";
  case PARAMETER_KIND_BOOLEAN:
    return "BOOLEAN";
  case PARAMETER_KIND_TEXT:
    return "TEXT";
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
  return "UNSPECIFIED";
}
