// Arguments of an operator call, and the choices that come with one, as plain values.
//
// What a request says, before any operator looked at it. No memory of its own; usable from any thread.
#ifndef ACLNN_KERNELS_ARGUMENT_H
#define ACLNN_KERNELS_ARGUMENT_H

#include "kernels/tensor.h"

enum parameter_kind {
  PARAMETER_KIND_UNSPECIFIED = 0,
  PARAMETER_KIND_TENSOR = 1,
  PARAMETER_KIND_INT_ARRAY = 2,
  PARAMETER_KIND_INTEGER = 3,
  PARAMETER_KIND_REAL = 4,
  PARAMETER_KIND_BOOLEAN = 5,
  PARAMETER_KIND_TEXT = 6,
};

enum target { TARGET_UNSPECIFIED = 0, TARGET_AUTO = 1, TARGET_CPU = 2, TARGET_NPU = 3 };

enum numerics {
  NUMERICS_UNSPECIFIED = 0,
  NUMERICS_DEVICE = 1,
  NUMERICS_DETERMINISTIC = 2,
  NUMERICS_EXACT = 3,
};

// "AUTO", "CPU", "NPU" / "DEVICE", "DETERMINISTIC", "EXACT".
const char *target_name(enum target target);
const char *numerics_name(enum numerics numerics);
// "TENSOR", "INT_ARRAY", ...
const char *parameter_kind_name(enum parameter_kind kind);

// Values beyond these are counted but not kept; no operator takes as many.
#define ARGUMENT_INT_ARRAY_MAX 8
// Longer names and texts are cut to this: no parameter is called so.
#define ARGUMENT_TEXT_BYTES_MAX 95
#define REQUEST_ARGUMENTS_MAX 16

struct int_array {
  size_t count; // may exceed ARGUMENT_INT_ARRAY_MAX
  int64_t values[ARGUMENT_INT_ARRAY_MAX];
};

struct argument_value {
  enum parameter_kind kind;
  union {
    struct tensor_desc tensor;
    struct int_array int_array;
    int64_t integer;
    double real;
    bool boolean;
    char text[ARGUMENT_TEXT_BYTES_MAX + 1];
  };
};

struct argument {
  char name[ARGUMENT_TEXT_BYTES_MAX + 1];
  struct argument_value value;
};

// A GetWorkspaceSizeRequest in plain values. The position of a tensor among `arguments` is its tensor_index.
struct operator_request {
  char operator_name[ARGUMENT_TEXT_BYTES_MAX + 1];
  struct argument arguments[REQUEST_ARGUMENTS_MAX];
  size_t argument_count; // at most REQUEST_ARGUMENTS_MAX
  enum target target;
  enum numerics numerics;
  bool repeatable;
  int64_t ttl_ms;
};

#endif
