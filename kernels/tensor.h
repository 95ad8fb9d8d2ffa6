// Tensor descriptors: data type, format, shape, strides and storage of one view.
//
// Pure values, no memory of their own, usable from any thread. All products are formed in 64 bits with
// overflow detected. A descriptor that came from outside may be anything; `tensor_desc_normalise` is the gate
// after which strides and storage_elements are filled in and every element of the view lies inside the
// storage.
#ifndef ACLNN_KERNELS_TENSOR_H
#define ACLNN_KERNELS_TENSOR_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(name, number, CANN's aclDataType, bits of one element (0: has no fixed size), short name)
// Numbers are those of proto/aclnn/v1; the short names are those of the command line and the Python client.
#define TENSOR_DATA_TYPES(X)                                                                                 \
  X(FLOAT, 1, 0, 32, "float32")                                                                              \
  X(FLOAT16, 2, 1, 16, "float16")                                                                            \
  X(BF16, 3, 27, 16, "bfloat16")                                                                             \
  X(INT32, 4, 3, 32, "int32")                                                                                \
  X(INT64, 5, 9, 64, "int64")                                                                                \
  X(INT8, 6, 2, 8, "int8")                                                                                   \
  X(UINT8, 7, 4, 8, "uint8")                                                                                 \
  X(INT16, 8, 6, 16, "int16")                                                                                \
  X(UINT16, 9, 7, 16, "uint16")                                                                              \
  X(UINT32, 10, 8, 32, "uint32")                                                                             \
  X(UINT64, 11, 10, 64, "uint64")                                                                            \
  X(DOUBLE, 12, 11, 64, "float64")                                                                           \
  X(BOOL, 13, 12, 8, "bool")                                                                                 \
  X(STRING, 14, 13, 0, "string")                                                                             \
  X(COMPLEX64, 15, 16, 64, "complex64")                                                                      \
  X(COMPLEX128, 16, 17, 128, "complex128")                                                                   \
  X(INT4, 17, 29, 4, "int4")                                                                                 \
  X(UINT1, 18, 30, 1, "uint1")                                                                               \
  X(COMPLEX32, 19, 33, 32, "complex32")                                                                      \
  X(HIFLOAT8, 20, 34, 8, "hifloat8")                                                                         \
  X(FLOAT8_E5M2, 21, 35, 8, "float8_e5m2")                                                                   \
  X(FLOAT8_E4M3FN, 22, 36, 8, "float8_e4m3fn")                                                               \
  X(FLOAT8_E8M0, 23, 37, 8, "float8_e8m0")                                                                   \
  X(FLOAT6_E3M2, 24, 38, 6, "float6_e3m2")                                                                   \
  X(FLOAT6_E2M3, 25, 39, 6, "float6_e2m3")                                                                   \
  X(FLOAT4_E2M1, 26, 40, 4, "float4_e2m1")                                                                   \
  X(FLOAT4_E1M2, 27, 41, 4, "float4_e1m2")

enum data_type {
  DATA_TYPE_UNSPECIFIED = 0,
#define TENSOR_DATA_TYPE_ENUM(name, number, cann, bits, text) DATA_TYPE_##name = (number),
  TENSOR_DATA_TYPES(TENSOR_DATA_TYPE_ENUM)
#undef TENSOR_DATA_TYPE_ENUM
      DATA_TYPE_COUNT = 28
};

enum format {
  FORMAT_UNSPECIFIED = 0,
  FORMAT_ND = 1,
  FORMAT_NCHW = 2,
  FORMAT_NCL = 3,
  FORMAT_NHWC = 4,
  FORMAT_COUNT = 5
};

enum direction { DIRECTION_UNSPECIFIED = 0, DIRECTION_INPUT = 1, DIRECTION_OUTPUT = 2 };

// Dims beyond this many are counted but not kept: no operator takes them, and the message can name the rank.
#define TENSOR_RANK_MAX 8

struct tensor_desc {
  enum data_type data_type;
  enum format format;
  size_t rank;         // may exceed TENSOR_RANK_MAX in a descriptor from outside
  size_t stride_count; // 0: contiguous; differs from rank only in a descriptor from outside
  int64_t shape[TENSOR_RANK_MAX];
  int64_t strides[TENSOR_RANK_MAX]; // in elements
  int64_t storage_offset;           // in elements
  int64_t storage_elements;         // 0 from outside: just what the view spans, nothing if empty
};

// "float32" and the like; "unspecified" for DATA_TYPE_UNSPECIFIED.
const char *data_type_name(enum data_type data_type);
// Bytes of one element; 0 for types whose elements aren't whole bytes or have no fixed size.
size_t data_type_bytes(enum data_type data_type);
// CANN's aclDataType, -1 for DATA_TYPE_UNSPECIFIED.
int32_t data_type_to_cann(enum data_type data_type);
// By short name, also "fp32", "fp16", "bf16", "half"; DATA_TYPE_UNSPECIFIED if there is none of that name.
enum data_type data_type_from_name(const char *name);

// "ND", "NCHW", ...
const char *format_name(enum format format);
// CANN's aclFormat.
int32_t format_to_cann(enum format format);

// True for an output that its operator is to infer: no data type, no shape, nothing else given.
bool tensor_desc_is_unspecified(const struct tensor_desc *desc);

// A fresh contiguous tensor of the same type, format and shape. *desc may come from outside.
struct tensor_desc tensor_desc_like(const struct tensor_desc *desc);

// Checks everything about *desc that no operator needs to know and fills in what was left out: the type has
// whole bytes, format (ND if unspecified; NHWC is refused), rank at most TENSOR_RANK_MAX, no negative dim,
// strides as many as dims and not negative (computed if absent; those of dims of size 1 are replaced by the
// contiguous ones), offset and view inside the storage (an empty view reaches nothing: its offset may be the
// storage's end, and anything where storage_elements is left out), elements and bytes representable in int64.
// An output
// (direction) must not let two of its elements share a place. `name` is the parameter's, for the message.
// Fails with ACLNN_ERR_PARAM_INVALID.
MUST_CHECK bool tensor_desc_normalise(struct tensor_desc *desc, enum direction direction, const char *name,
                                      struct status *status);

// The rest is for normalised descriptors.

// Elements of the view; 0 if a dim is 0.
int64_t tensor_desc_elements(const struct tensor_desc *desc);
// Bytes of the storage: what travels.
int64_t tensor_desc_storage_bytes(const struct tensor_desc *desc);
// True if the view's elements lie in row-major order without holes (storage_offset may be anything).
bool tensor_desc_is_contiguous(const struct tensor_desc *desc);
// True if the view covers each element of its storage: no holes to be zeroed.
bool tensor_desc_fills_storage(const struct tensor_desc *desc);
// Element offset of the view's element number `flat` in row-major order.
int64_t tensor_desc_offset_of(const struct tensor_desc *desc, int64_t flat);
// Writes "[2, 3, 8, 8]", shortened with "..." where it doesn't fit.
void tensor_desc_format_shape(const struct tensor_desc *desc, char *text, size_t text_bytes);

#endif
