#include "tests/golden/golden.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 4

struct named_tensor {
  const char *name;
  struct golden_tensor tensor;
};

struct golden_case {
  const char *name;
  enum golden_kind kind;
  enum golden_expect expect;
  struct tensor_desc self;
  int64_t output_size[2];
  bool allows_any_nan;
  int64_t bad_position;
  const char *bad_value;
  struct named_tensor tensors[TENSORS_MAX];
  size_t tensor_count;
};

struct golden {
  cJSON *manifest;
  unsigned char *data;
  size_t data_bytes;
  struct golden_case *cases;
  size_t case_count;
};

// Reads a whole file and puts a zero behind it.
static bool read_file(const char *directory, const char *name, unsigned char **content, size_t *bytes,
                      struct status *status) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return status_fail(status, REASON_FILE_INVALID, NULL, "%s can't be opened", path);
  }
  bool read = false;
  long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    *bytes = (size_t)length;
    *content = malloc(*bytes + 1);
    read = *content != NULL && fread(*content, 1, *bytes, file) == *bytes;
  }
  fclose(file);
  if (!read) {
    return status_fail(status, REASON_FILE_INVALID, NULL, "%s can't be read", path);
  }
  (*content)[*bytes] = 0;
  return true;
}

static uint32_t crc32(const unsigned char *data, size_t bytes) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) {
      crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
  }
  return ~crc;
}

static bool fail_case(const struct golden_case *golden_case, const char *what, struct status *status) {
  return status_fail(status, REASON_FILE_INVALID, NULL, "case %s of the manifest: %s",
                     golden_case->name == NULL ? "without name" : golden_case->name, what);
}

static const char *text_at(const cJSON *object, const char *key) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

// An array of dims; false if it is something else.
static bool read_dims(const cJSON *array, int64_t *dims, size_t dims_max, size_t *count) {
  if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > (int)dims_max) {
    return false;
  }
  *count = 0;
  const cJSON *dim;
  cJSON_ArrayForEach(dim, array) {
    if (!cJSON_IsNumber(dim)) {
      return false;
    }
    dims[(*count)++] = (int64_t)dim->valuedouble;
  }
  return true;
}

static bool read_tensor(const struct golden *golden, const cJSON *json, bool with_data,
                        struct golden_tensor *tensor) {
  const char *type = text_at(json, "dtype");
  struct tensor_desc *desc = &tensor->desc;
  if (type == NULL || !read_dims(cJSON_GetObjectItemCaseSensitive(json, "shape"), desc->shape,
                                 TENSOR_RANK_MAX, &desc->rank)) {
    return false;
  }
  desc->data_type = data_type_from_name(type);
  if (!with_data) {
    return true;
  }
  const cJSON *offset = cJSON_GetObjectItemCaseSensitive(json, "offset");
  const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(json, "nbytes");
  const cJSON *crc = cJSON_GetObjectItemCaseSensitive(json, "crc32");
  if (!cJSON_IsNumber(offset) || !cJSON_IsNumber(bytes) || !cJSON_IsNumber(crc) ||
      offset->valuedouble + bytes->valuedouble > (double)golden->data_bytes) {
    return false;
  }
  const unsigned char *data = golden->data + (size_t)offset->valuedouble;
  tensor->data = data;
  tensor->bytes = (size_t)bytes->valuedouble;
  return (size_t)tensor_desc_elements(desc) * data_type_bytes(desc->data_type) == tensor->bytes &&
         crc32(data, tensor->bytes) == (uint32_t)crc->valuedouble;
}

static bool read_tensors(const struct golden *golden, const cJSON *json, struct golden_case *golden_case,
                         struct status *status) {
  bool with_data = golden_case->expect != GOLDEN_REJECT_PARAMS;
  const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(json, with_data ? "tensors" : "params");
  const cJSON *tensor;
  cJSON_ArrayForEach(tensor, tensors) {
    if (golden_case->tensor_count == TENSORS_MAX) {
      return fail_case(golden_case, "too many tensors", status);
    }
    struct named_tensor *read = &golden_case->tensors[golden_case->tensor_count++];
    read->name = tensor->string;
    if (!read_tensor(golden, tensor, with_data, &read->tensor)) {
      return fail_case(golden_case, "a tensor isn't what it says", status);
    }
  }
  return golden_case->tensor_count >= 2 || fail_case(golden_case, "it lacks tensors", status);
}

static bool read_case(const struct golden *golden, const cJSON *json, struct golden_case *golden_case,
                      struct status *status) {
  golden_case->name = text_at(json, "name");
  const char *kind = text_at(json, "kind");
  const char *expect = text_at(json, "expect");
  if (golden_case->name == NULL || kind == NULL || expect == NULL) {
    return fail_case(golden_case, "it needs name, kind and expect", status);
  }
  golden_case->kind = strcmp(kind, "forward") == 0 ? GOLDEN_FORWARD : GOLDEN_BACKWARD;
  golden_case->expect = strcmp(expect, "ok") == 0             ? GOLDEN_OK
                        : strcmp(expect, "reject_index") == 0 ? GOLDEN_REJECT_INDEX
                                                              : GOLDEN_REJECT_PARAMS;
  if (golden_case->expect != GOLDEN_REJECT_PARAMS) {
    const char *type = text_at(json, "dtype");
    size_t sizes;
    golden_case->self.data_type = type == NULL ? DATA_TYPE_UNSPECIFIED : data_type_from_name(type);
    if (golden_case->self.data_type == DATA_TYPE_UNSPECIFIED ||
        !read_dims(cJSON_GetObjectItemCaseSensitive(json, "self_shape"), golden_case->self.shape,
                   TENSOR_RANK_MAX, &golden_case->self.rank) ||
        !read_dims(cJSON_GetObjectItemCaseSensitive(json, "output_size"), golden_case->output_size, 2,
                   &sizes)) {
      return fail_case(golden_case, "it needs dtype, self_shape and output_size", status);
    }
  }
  const char *index_compare = text_at(json, "index_compare");
  golden_case->allows_any_nan = index_compare != NULL && strcmp(index_compare, "nan_index") == 0;
  if (golden_case->expect == GOLDEN_REJECT_INDEX) {
    const cJSON *position = cJSON_GetObjectItemCaseSensitive(json, "bad_flat_position");
    golden_case->bad_value = text_at(json, "bad_value");
    if (!cJSON_IsNumber(position) || golden_case->bad_value == NULL) {
      return fail_case(golden_case, "it needs bad_flat_position and bad_value", status);
    }
    golden_case->bad_position = (int64_t)position->valuedouble;
  }
  return read_tensors(golden, json, golden_case, status);
}

static bool read_manifest(struct golden *golden, const char *text, struct status *status) {
  golden->manifest = cJSON_Parse(text);
  const cJSON *cases = cJSON_GetObjectItemCaseSensitive(golden->manifest, "cases");
  if (!cJSON_IsArray(cases)) {
    return status_fail(status, REASON_FILE_INVALID, NULL, "the manifest has no list of cases");
  }
  golden->case_count = (size_t)cJSON_GetArraySize(cases);
  golden->cases = calloc(golden->case_count + 1, sizeof *golden->cases);
  if (golden->cases == NULL) {
    return status_fail(status, REASON_FILE_INVALID, NULL, "no memory for %zu cases", golden->case_count);
  }
  size_t position = 0;
  const cJSON *json;
  cJSON_ArrayForEach(json, cases) {
    if (!read_case(golden, json, &golden->cases[position++], status)) {
      return false;
    }
  }
  return true;
}

bool golden_open(const char *directory, struct golden **golden, struct status *status) {
  struct golden *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return status_fail(status, REASON_FILE_INVALID, NULL, "no memory for the reference cases");
  }
  unsigned char *manifest = NULL;
  size_t manifest_bytes;
  bool ok = read_file(directory, "data.bin", &opened->data, &opened->data_bytes, status) &&
            read_file(directory, "manifest.json", &manifest, &manifest_bytes, status) &&
            read_manifest(opened, (const char *)manifest, status);
  free(manifest);
  if (!ok) {
    golden_close(opened);
    return false;
  }
  *golden = opened;
  return true;
}

void golden_close(struct golden *golden) {
  if (golden != NULL) {
    cJSON_Delete(golden->manifest);
    free(golden->data);
    free(golden->cases);
    free(golden);
  }
}

size_t golden_case_count(const struct golden *golden) {
  return golden->case_count;
}

const struct golden_case *golden_case_at(const struct golden *golden, size_t position) {
  return &golden->cases[position];
}

const char *golden_case_name(const struct golden_case *golden_case) {
  return golden_case->name;
}

enum golden_kind golden_case_kind(const struct golden_case *golden_case) {
  return golden_case->kind;
}

enum golden_expect golden_case_expect(const struct golden_case *golden_case) {
  return golden_case->expect;
}

const struct tensor_desc *golden_case_self(const struct golden_case *golden_case) {
  return golden_case->expect == GOLDEN_REJECT_PARAMS ? NULL : &golden_case->self;
}

const int64_t *golden_case_output_size(const struct golden_case *golden_case) {
  return golden_case->output_size;
}

bool golden_case_allows_any_nan(const struct golden_case *golden_case) {
  return golden_case->allows_any_nan;
}

int64_t golden_case_bad_position(const struct golden_case *golden_case) {
  return golden_case->bad_position;
}

const char *golden_case_bad_value(const struct golden_case *golden_case) {
  return golden_case->bad_value;
}

const struct golden_tensor *golden_case_tensor(const struct golden_case *golden_case, const char *name) {
  for (size_t i = 0; i < golden_case->tensor_count; i++) {
    if (strcmp(golden_case->tensors[i].name, name) == 0) {
      return &golden_case->tensors[i].tensor;
    }
  }
  return NULL;
}
