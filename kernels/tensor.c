#include "kernels/tensor.h"

#include <stdio.h>
#include <string.h>

struct data_type_entry {
  const char *name;
  int32_t cann;
  unsigned bits;
};

static const struct data_type_entry data_types[DATA_TYPE_COUNT] = {
    [DATA_TYPE_UNSPECIFIED] = {"unspecified", -1, 0},
#define DATA_TYPE_ENTRY(name, number, cann, bits, text) [DATA_TYPE_##name] = {text, cann, bits},
    TENSOR_DATA_TYPES(DATA_TYPE_ENTRY)
#undef DATA_TYPE_ENTRY
};

struct format_entry {
  const char *name;
  int32_t cann;
};

static const struct format_entry formats[FORMAT_COUNT] = {
    [FORMAT_UNSPECIFIED] = {"UNSPECIFIED", -1},
    [FORMAT_ND] = {"ND", 2},
    [FORMAT_NCHW] = {"NCHW", 0},
    [FORMAT_NCL] = {"NCL", 47},
    [FORMAT_NHWC] = {"NHWC", 1},
};

// What CANN has no number for is its ACL_DT_UNDEFINED or ACL_FORMAT_UNDEFINED, both -1.
static const struct data_type_entry *data_type_entry(enum data_type data_type) {
  return &data_types[(unsigned)data_type < DATA_TYPE_COUNT ? data_type : DATA_TYPE_UNSPECIFIED];
}

static const struct format_entry *format_entry(enum format format) {
  return &formats[(unsigned)format < FORMAT_COUNT ? format : FORMAT_UNSPECIFIED];
}

const char *data_type_name(enum data_type data_type) {
  return data_type_entry(data_type)->name;
}

size_t data_type_bytes(enum data_type data_type) {
  unsigned bits = data_type_entry(data_type)->bits;
  return bits % 8 == 0 ? bits / 8 : 0;
}

int32_t data_type_to_cann(enum data_type data_type) {
  return data_type_entry(data_type)->cann;
}

enum data_type data_type_from_name(const char *name) {
  static const struct {
    const char *name;
    enum data_type data_type;
  } aliases[] = {{"fp32", DATA_TYPE_FLOAT},
                 {"fp16", DATA_TYPE_FLOAT16},
                 {"half", DATA_TYPE_FLOAT16},
                 {"bf16", DATA_TYPE_BF16}};
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    if (strcmp(name, aliases[i].name) == 0) {
      return aliases[i].data_type;
    }
  }
  for (size_t i = DATA_TYPE_UNSPECIFIED + 1; i < DATA_TYPE_COUNT; i++) {
    if (strcmp(name, data_types[i].name) == 0) {
      return (enum data_type)i;
    }
  }
  return DATA_TYPE_UNSPECIFIED;
}

const char *format_name(enum format format) {
  return format_entry(format)->name;
}

int32_t format_to_cann(enum format format) {
  return format_entry(format)->cann;
}

bool tensor_desc_is_unspecified(const struct tensor_desc *desc) {
  return desc->data_type == DATA_TYPE_UNSPECIFIED && desc->format == FORMAT_UNSPECIFIED && desc->rank == 0 &&
         desc->stride_count == 0 && desc->storage_offset == 0 && desc->storage_elements == 0;
}

struct tensor_desc tensor_desc_like(const struct tensor_desc *desc) {
  struct tensor_desc like = {.data_type = desc->data_type, .format = desc->format, .rank = desc->rank};
  memcpy(like.shape, desc->shape, sizeof like.shape);
  return like;
}

static bool check_data_type(const struct tensor_desc *desc, const char *name, struct status *status) {
  if (desc->data_type == DATA_TYPE_UNSPECIFIED) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name, "%s has no data type", name);
  }
  if (data_type_bytes(desc->data_type) == 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "data type %s of %s is not supported: its elements are not whole bytes",
                       data_type_name(desc->data_type), name);
  }
  return true;
}

static bool check_shape(const struct tensor_desc *desc, const char *name, struct status *status) {
  if (desc->rank > TENSOR_RANK_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s has %zu dimensions, at most %d are allowed", name, desc->rank, TENSOR_RANK_MAX);
  }
  for (size_t dim = 0; dim < desc->rank; dim++) {
    if (desc->shape[dim] < 0) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                         "dimension %zu of %s is %lld, it must not be negative", dim, name,
                         (long long)desc->shape[dim]);
    }
  }
  return true;
}

static bool settle_format(struct tensor_desc *desc, const char *name, struct status *status) {
  if (desc->format == FORMAT_UNSPECIFIED) {
    desc->format = FORMAT_ND;
  }
  if (desc->format != FORMAT_ND && desc->format != FORMAT_NCHW && desc->format != FORMAT_NCL) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "format %s of %s is not supported, it must be ND, NCHW or NCL",
                       format_name(desc->format), name);
  }
  return true;
}

static bool fail_too_large(const struct tensor_desc *desc, const char *name, struct status *status) {
  char shape[128];
  tensor_desc_format_shape(desc, shape, sizeof shape);
  return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                     "%s of shape %s and type %s is too large: its bytes must be countable in 63 bits", name,
                     shape, data_type_name(desc->data_type));
}

// Computes contiguous strides into `contiguous`, a zero dim counting as one, as frameworks do; fails if the
// elements or bytes of such a tensor can't be counted.
static bool contiguous_strides(const struct tensor_desc *desc, int64_t *contiguous, const char *name,
                               struct status *status) {
  int64_t elements = 1;
  for (size_t dim = desc->rank; dim-- > 0;) {
    contiguous[dim] = elements;
    if (__builtin_mul_overflow(elements, desc->shape[dim] > 0 ? desc->shape[dim] : 1, &elements)) {
      return fail_too_large(desc, name, status);
    }
  }
  int64_t bytes;
  if (__builtin_mul_overflow(elements, (int64_t)data_type_bytes(desc->data_type), &bytes)) {
    return fail_too_large(desc, name, status);
  }
  return true;
}

static bool settle_strides(struct tensor_desc *desc, const char *name, struct status *status) {
  int64_t contiguous[TENSOR_RANK_MAX];
  if (!contiguous_strides(desc, contiguous, name, status)) {
    return false;
  }
  if (desc->stride_count != 0 && desc->stride_count != desc->rank) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s has %zu strides for %zu dimensions: give one for each, or none", name,
                       desc->stride_count, desc->rank);
  }
  bool given = desc->stride_count != 0;
  desc->stride_count = desc->rank;
  for (size_t dim = 0; dim < desc->rank; dim++) {
    if (!given || desc->shape[dim] == 1) {
      desc->strides[dim] = contiguous[dim];
    } else if (desc->strides[dim] < 0) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                         "stride %zu of %s is %lld, it must not be negative: copy the view first", dim, name,
                         (long long)desc->strides[dim]);
    }
  }
  return true;
}

// Elements from the storage's beginning to the last that the view reaches, none if it is empty; false if they
// can't be counted.
static bool count_span(const struct tensor_desc *desc, int64_t *span) {
  *span = 0;
  if (tensor_desc_elements(desc) == 0) {
    return true;
  }
  bool countable = !__builtin_add_overflow(desc->storage_offset, 1, span);
  for (size_t dim = 0; countable && dim < desc->rank; dim++) {
    int64_t reach;
    countable = !__builtin_mul_overflow(desc->shape[dim] - 1, desc->strides[dim], &reach) &&
                !__builtin_add_overflow(*span, reach, span);
  }
  return countable;
}

static bool settle_storage(struct tensor_desc *desc, const char *name, struct status *status) {
  if (desc->storage_offset < 0 || desc->storage_elements < 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s has storage_offset %lld and storage_elements %lld, they must not be negative",
                       name, (long long)desc->storage_offset, (long long)desc->storage_elements);
  }
  int64_t span;
  bool countable = count_span(desc, &span);
  bool given = desc->storage_elements != 0;
  int64_t storage_elements = given ? desc->storage_elements : span;
  int64_t bytes;
  if (!countable ||
      __builtin_mul_overflow(storage_elements, (int64_t)data_type_bytes(desc->data_type), &bytes)) {
    return fail_too_large(desc, name, status);
  }
  if (span > storage_elements) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s reaches element %lld of its storage, which has only %lld", name,
                       (long long)(span - 1), (long long)storage_elements);
  }
  if (given && desc->storage_offset > storage_elements) { // of an empty view: others reach further
    return status_fail(
        status, REASON_ACLNN_ERR_PARAM_INVALID, name,
        "storage_offset %lld of %s lies beyond the end of its storage, which has %lld elements",
        (long long)desc->storage_offset, name, (long long)storage_elements);
  }
  desc->storage_elements = storage_elements;
  return true;
}

// Fills `order` with the dims that can tell elements apart (more than one element), smallest stride first.
static size_t dims_by_stride(const struct tensor_desc *desc, size_t *order) {
  size_t count = 0;
  for (size_t dim = 0; dim < desc->rank; dim++) {
    if (desc->shape[dim] <= 1) {
      continue;
    }
    size_t place = count++;
    for (; place > 0 && desc->strides[order[place - 1]] > desc->strides[dim]; place--) {
      order[place] = order[place - 1];
    }
    order[place] = dim;
  }
  return count;
}

// Two elements never share a place if each stride steps over all that the smaller ones reach. Everything that
// is permuted, sliced or padded passes; layouts that interleave without meeting this are refused as well.
static bool check_no_overlap(const struct tensor_desc *desc, const char *name, struct status *status) {
  size_t order[TENSOR_RANK_MAX];
  size_t count = dims_by_stride(desc, order);
  int64_t reach = 0;
  for (size_t i = 0; i < count; i++) {
    if (desc->strides[order[i]] <= reach) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                         "elements of output %s may overlap: stride %lld of dimension %zu must exceed %lld",
                         name, (long long)desc->strides[order[i]], order[i], (long long)reach);
    }
    reach += (desc->shape[order[i]] - 1) * desc->strides[order[i]];
  }
  return true;
}

bool tensor_desc_normalise(struct tensor_desc *desc, enum direction direction, const char *name,
                           struct status *status) {
  struct tensor_desc settled = *desc;
  if (!check_data_type(&settled, name, status) || !check_shape(&settled, name, status) ||
      !settle_strides(&settled, name, status) || !settle_format(&settled, name, status) ||
      !settle_storage(&settled, name, status)) {
    return false;
  }
  if (direction == DIRECTION_OUTPUT && tensor_desc_elements(&settled) > 0 &&
      !check_no_overlap(&settled, name, status)) {
    return false;
  }
  *desc = settled;
  return true;
}

int64_t tensor_desc_elements(const struct tensor_desc *desc) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < desc->rank; dim++) {
    if (desc->shape[dim] == 0) {
      return 0;
    }
    elements *= desc->shape[dim];
  }
  return elements;
}

int64_t tensor_desc_storage_bytes(const struct tensor_desc *desc) {
  return desc->storage_elements * (int64_t)data_type_bytes(desc->data_type);
}

bool tensor_desc_is_contiguous(const struct tensor_desc *desc) {
  if (tensor_desc_elements(desc) == 0) {
    return true;
  }
  int64_t expected = 1;
  for (size_t dim = desc->rank; dim-- > 0;) {
    if (desc->shape[dim] == 1) {
      continue;
    }
    if (desc->strides[dim] != expected) {
      return false;
    }
    expected *= desc->shape[dim];
  }
  return true;
}

bool tensor_desc_fills_storage(const struct tensor_desc *desc) {
  int64_t elements = tensor_desc_elements(desc);
  if (elements != desc->storage_elements || (elements > 0 && desc->storage_offset != 0)) {
    return false;
  }
  if (elements == 0) {
    return true;
  }
  size_t order[TENSOR_RANK_MAX];
  size_t count = dims_by_stride(desc, order);
  int64_t expected = 1;
  for (size_t i = 0; i < count; i++) {
    if (desc->strides[order[i]] != expected) {
      return false;
    }
    expected *= desc->shape[order[i]];
  }
  return true;
}

int64_t tensor_desc_offset_of(const struct tensor_desc *desc, int64_t flat) {
  int64_t offset = desc->storage_offset;
  for (size_t dim = desc->rank; dim-- > 0;) {
    offset += flat % desc->shape[dim] * desc->strides[dim];
    flat /= desc->shape[dim];
  }
  return offset;
}

void tensor_desc_format_shape(const struct tensor_desc *desc, char *text, size_t text_bytes) {
  static const char more[] = "...]";
  char whole[TENSOR_RANK_MAX * 24 + sizeof more] = "[";
  size_t used = 1;
  size_t cut = 1; // the end of the dims after which the mark of what is missing still fits
  for (size_t dim = 0; dim < desc->rank && dim < TENSOR_RANK_MAX; dim++) {
    used += (size_t)snprintf(whole + used, sizeof whole - used, "%lld%s", (long long)desc->shape[dim],
                             dim + 1 == desc->rank ? "" : ", ");
    if (used + sizeof more <= text_bytes) {
      cut = used;
    }
  }
  snprintf(whole + used, sizeof whole - used, "%s", desc->rank > TENSOR_RANK_MAX ? more : "]");
  if (strlen(whole) < text_bytes) {
    strcpy(text, whole);
  } else if (cut + sizeof more <= text_bytes) {
    memcpy(text, whole, cut);
    strcpy(text + cut, more);
  } else if (text_bytes > 0) {
    text[0] = '\0';
  }
}
