#include "client/cli/capsule_file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "ACLNNCAP"
#define MAGIC_BYTES 8
#define VERSION 1
#define START_BYTES (MAGIC_BYTES + 8)
// Up to here a double tells all integers apart.
#define INTEGER_MAX ((int64_t)1 << 53)

// ---- Values of the header

static bool fail_value(struct failure *failure, const char *name, const char *what) {
  return failure_set(failure, "the header's \"%s\" is not %s", name, what);
}

static bool copy_text(const cJSON *value, char text[CAPSULE_TEXT_BYTES_MAX + 1]) {
  if (!cJSON_IsString(value) || strlen(value->valuestring) > CAPSULE_TEXT_BYTES_MAX) {
    return false;
  }
  memcpy(text, value->valuestring, strlen(value->valuestring) + 1);
  return true;
}

static bool get_text(const cJSON *object, const char *name, char text[CAPSULE_TEXT_BYTES_MAX + 1],
                     struct failure *failure) {
  return copy_text(cJSON_GetObjectItemCaseSensitive(object, name), text) ||
         fail_value(failure, name, "a text of at most 95 bytes");
}

static bool read_integer(const cJSON *value, int64_t *integer) {
  if (!cJSON_IsNumber(value) || !(value->valuedouble >= -(double)INTEGER_MAX) ||
      !(value->valuedouble <= (double)INTEGER_MAX)) {
    return false;
  }
  *integer = (int64_t)value->valuedouble;
  return (double)*integer == value->valuedouble;
}

static bool get_integer(const cJSON *object, const char *name, int64_t *integer, struct failure *failure) {
  return read_integer(cJSON_GetObjectItemCaseSensitive(object, name), integer) ||
         fail_value(failure, name, "an integer");
}

static bool get_integers(const cJSON *object, const char *name, int64_t *values, size_t values_max,
                         size_t *count, struct failure *failure) {
  const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, name);
  const cJSON *value;
  *count = 0;
  if (!cJSON_IsArray(array)) {
    return fail_value(failure, name, "an array");
  }
  cJSON_ArrayForEach(value, array) {
    if (*count == values_max || !read_integer(value, &values[*count])) {
      return failure_set(failure, "the header's \"%s\" is not an array of at most %zu integers", name,
                         values_max);
    }
    ++*count;
  }
  return true;
}

// ---- Arguments

static bool read_tensor(const cJSON *argument, struct capsule_file *capsule, struct failure *failure) {
  char data_type[CAPSULE_TEXT_BYTES_MAX + 1], direction[CAPSULE_TEXT_BYTES_MAX + 1];
  aclnn_tensor *tensor = &capsule->tensors[capsule->tensor_count];
  struct capsule_tensor *recorded = &capsule->recorded[capsule->tensor_count];
  size_t stride_count;
  if (!get_text(argument, "name", recorded->name, failure) ||
      !get_text(argument, "data_type", data_type, failure) ||
      !get_text(argument, "direction", direction, failure) ||
      !get_integers(argument, "shape", tensor->shape, ACLNN_RANK_MAX, &tensor->rank, failure) ||
      !get_integers(argument, "strides", tensor->strides, ACLNN_RANK_MAX, &stride_count, failure) ||
      !get_integer(argument, "storage_offset", &tensor->storage_offset, failure) ||
      !get_integer(argument, "storage_elements", &tensor->storage_elements, failure)) {
    return false;
  }
  tensor->name = recorded->name;
  tensor->output = strcmp(direction, "output") == 0;
  tensor->has_strides = stride_count > 0;
  tensor->data_type = aclnn_data_type_from_name(data_type);
  if (!tensor->output && strcmp(direction, "input") != 0) {
    return fail_value(failure, "direction", "input or output");
  }
  if (tensor->data_type == ACLNN_UNSPECIFIED || tensor->data_type > ACLNN_BOOL) {
    return fail_value(failure, "data_type", "a type that this program knows");
  }
  if (stride_count != 0 && stride_count != tensor->rank) {
    return fail_value(failure, "strides", "as long as the shape");
  }
  capsule->tensor_count++;
  return true;
}

// A text, since JSON's numbers lose digits.
static bool get_long_integer(const cJSON *argument, struct capsule_attribute *value, int64_t *integer,
                             struct failure *failure) {
  char *end;
  if (!get_text(argument, "value", value->text, failure)) {
    return false;
  }
  errno = 0;
  *integer = strtoll(value->text, &end, 10);
  return (end != value->text && *end == '\0' && errno == 0) ||
         fail_value(failure, "value", "an integer of 64 bits");
}

static bool read_attribute(const cJSON *argument, const char *kind, struct capsule_file *capsule,
                           struct failure *failure) {
  aclnn_attribute *attribute = &capsule->attributes[capsule->attribute_count];
  struct capsule_attribute *value = &capsule->attribute_values[capsule->attribute_count];
  const cJSON *given = cJSON_GetObjectItemCaseSensitive(argument, "value");
  if (!get_text(argument, "name", value->name, failure)) {
    return false;
  }
  *attribute = (aclnn_attribute){.name = value->name, .values = value->values, .text = value->text};
  bool ok;
  if (strcmp(kind, "int_array") == 0) {
    attribute->kind = ACLNN_INT_ARRAY;
    ok = get_integers(argument, "values", value->values, ATTRIBUTE_VALUES_MAX, &attribute->value_count,
                      failure);
  } else if (strcmp(kind, "integer") == 0) {
    attribute->kind = ACLNN_INTEGER;
    ok = get_long_integer(argument, value, &attribute->integer, failure);
  } else if (strcmp(kind, "real") == 0) {
    attribute->kind = ACLNN_REAL;
    ok = cJSON_IsNumber(given) || fail_value(failure, "value", "a number");
    attribute->real = ok ? given->valuedouble : 0;
  } else if (strcmp(kind, "boolean") == 0) {
    attribute->kind = ACLNN_BOOLEAN;
    ok = cJSON_IsBool(given) || fail_value(failure, "value", "true or false");
    attribute->integer = cJSON_IsTrue(given);
  } else if (strcmp(kind, "text") == 0) {
    attribute->kind = ACLNN_TEXT;
    ok = get_text(argument, "value", value->text, failure);
  } else {
    ok = failure_set(failure, "the header has an argument of the unknown kind '%s'", kind);
  }
  capsule->attribute_count += ok;
  return ok;
}

static bool read_arguments(const cJSON *header, struct capsule_file *capsule, struct failure *failure) {
  const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(header, "arguments");
  const cJSON *argument;
  if (!cJSON_IsArray(arguments)) {
    return fail_value(failure, "arguments", "an array");
  }
  cJSON_ArrayForEach(argument, arguments) {
    char kind[CAPSULE_TEXT_BYTES_MAX + 1];
    if (capsule->tensor_count + capsule->attribute_count == ACLNN_TENSORS_MAX) {
      return failure_set(failure, "the header has more than %d arguments", ACLNN_TENSORS_MAX);
    }
    if (!get_text(argument, "kind", kind, failure)) {
      return false;
    }
    bool ok = strcmp(kind, "tensor") == 0 ? read_tensor(argument, capsule, failure)
                                          : read_attribute(argument, kind, capsule, failure);
    if (!ok) {
      return false;
    }
  }
  return true;
}

// ---- Storages

static bool find_tensor(const struct capsule_file *capsule, const char *name, size_t *position) {
  for (*position = 0; *position < capsule->tensor_count; ++*position) {
    if (strcmp(capsule->recorded[*position].name, name) == 0) {
      return true;
    }
  }
  return false;
}

// Where the storage of that role is noted; NULL if the tensor has none of that role.
static const void **find_place(struct capsule_tensor *recorded, bool output, const char *role) {
  if (strcmp(role, "input") == 0) {
    return output ? NULL : &recorded->input;
  }
  if (strcmp(role, "device") == 0) {
    return output ? &recorded->device : NULL;
  }
  return strcmp(role, "cpu") == 0 && output ? &recorded->cpu : NULL;
}

// Notes one storage, which begins at `data` with `left` bytes to the end of the file.
static bool take_storage(const cJSON *storage, const uint8_t *data, size_t left, size_t *bytes,
                         struct capsule_file *capsule, struct failure *failure) {
  char name[CAPSULE_TEXT_BYTES_MAX + 1], role[CAPSULE_TEXT_BYTES_MAX + 1];
  int64_t wanted;
  size_t position;
  if (!get_text(storage, "tensor", name, failure) || !get_text(storage, "role", role, failure) ||
      !get_integer(storage, "bytes", &wanted, failure)) {
    return false;
  }
  if (wanted < 0 || (uint64_t)wanted > left) {
    return failure_set(failure, "%s of %s should have %" PRId64 " bytes, but only %zu are left", role, name,
                       wanted, left);
  }
  if (!find_tensor(capsule, name, &position)) {
    return failure_set(failure, "there is a storage of '%s', which is no tensor of the job", name);
  }
  struct capsule_tensor *recorded = &capsule->recorded[position];
  const void **place = find_place(recorded, capsule->tensors[position].output, role);
  if (place == NULL || *place != NULL) {
    return failure_set(failure, "%s has a storage as '%s' too many", name, role);
  }
  bool second = recorded->device != NULL || recorded->cpu != NULL;
  if (second && (size_t)wanted != recorded->bytes) {
    return failure_set(failure, "the two outputs of %s have %zu and %" PRId64 " bytes", name, recorded->bytes,
                       wanted);
  }
  *place = data;
  *bytes = recorded->bytes = (size_t)wanted;
  return true;
}

static bool read_storages(const cJSON *header, const uint8_t *data, size_t size, struct capsule_file *capsule,
                          struct failure *failure) {
  const cJSON *storages = cJSON_GetObjectItemCaseSensitive(header, "storages");
  const cJSON *storage;
  if (!cJSON_IsArray(storages)) {
    return fail_value(failure, "storages", "an array");
  }
  cJSON_ArrayForEach(storage, storages) {
    size_t bytes = 0;
    if (!take_storage(storage, data, size, &bytes, capsule, failure)) {
      return false;
    }
    data += bytes;
    size -= bytes;
  }
  if (size != 0) {
    return failure_set(failure, "there are %zu bytes after the last storage", size);
  }
  size_t outputs = 0;
  for (size_t i = 0; i < capsule->tensor_count; i++) {
    aclnn_tensor *tensor = &capsule->tensors[i];
    const struct capsule_tensor *recorded = &capsule->recorded[i];
    outputs += tensor->output;
    if (tensor->output && (recorded->device == NULL || recorded->cpu == NULL)) {
      return failure_set(failure, "an output of %s is missing", recorded->name);
    }
    if (!tensor->output && recorded->input != NULL) {
      tensor->data = (void *)(uintptr_t)recorded->input; // an input's data are only read
      tensor->data_bytes = recorded->bytes;
    }
  }
  return outputs > 0 || failure_set(failure, "the job has no output");
}

// ---- The file

static bool read_numerics(const cJSON *header, struct capsule_file *capsule, struct failure *failure) {
  char text[CAPSULE_TEXT_BYTES_MAX + 1];
  if (!get_text(header, "numerics", text, failure)) {
    return false;
  }
  for (int numerics = ACLNN_NUMERICS_DEVICE; numerics <= ACLNN_NUMERICS_EXACT; numerics++) {
    if (strcmp(text, aclnn_numerics_name((aclnn_numerics)numerics)) == 0) {
      capsule->numerics = (aclnn_numerics)numerics;
      return true;
    }
  }
  return fail_value(failure, "numerics", "a known word");
}

// Where it comes from; what isn't there stays empty.
static void read_origin(const cJSON *header, struct capsule_file *capsule) {
  const cJSON *device = cJSON_GetObjectItemCaseSensitive(header, "device");
  const cJSON *versions = cJSON_GetObjectItemCaseSensitive(header, "versions");
  (void)copy_text(cJSON_GetObjectItemCaseSensitive(device, "name"), capsule->device);
  (void)copy_text(cJSON_GetObjectItemCaseSensitive(versions, "server"), capsule->server_version);
}

static uint32_t get_u32(const uint8_t *bytes) {
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool check_start(const uint8_t *bytes, size_t size, size_t *header_bytes, struct failure *failure) {
  if (size < START_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) {
    return failure_set(failure, "it is no capsule");
  }
  uint32_t version = get_u32(bytes + MAGIC_BYTES);
  if (version != VERSION) {
    return failure_set(failure, "it is a capsule of version %" PRIu32 ", this program reads version %d",
                       version, VERSION);
  }
  *header_bytes = get_u32(bytes + MAGIC_BYTES + 4);
  if (*header_bytes > CAPSULE_HEADER_BYTES_MAX || *header_bytes > size - START_BYTES) {
    return failure_set(failure, "its header should have %zu bytes; it is cut, or damaged", *header_bytes);
  }
  return true;
}

bool capsule_file_parse(const uint8_t *bytes, size_t size, struct capsule_file *capsule,
                        struct failure *failure) {
  size_t header_bytes = 0;
  memset(capsule, 0, sizeof *capsule);
  if (!check_start(bytes, size, &header_bytes, failure)) {
    return false;
  }
  cJSON *header = cJSON_ParseWithLength((const char *)bytes + START_BYTES, header_bytes);
  if (!cJSON_IsObject(header)) {
    cJSON_Delete(header);
    return failure_set(failure, "its header is no JSON object");
  }
  const uint8_t *data = bytes + START_BYTES + header_bytes;
  bool ok = get_text(header, "operator", capsule->operator_name, failure) &&
            read_numerics(header, capsule, failure) && read_arguments(header, capsule, failure) &&
            read_storages(header, data, size - START_BYTES - header_bytes, capsule, failure);
  read_origin(header, capsule);
  cJSON_Delete(header);
  return ok;
}

static bool map_file(const char *path, void **map, size_t *map_bytes, struct failure *failure) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return failure_set(failure, "%s: %s", path, strerror(errno));
  }
  struct stat stat;
  bool ok = false;
  if (fstat(descriptor, &stat) != 0) {
    (void)failure_set(failure, "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(stat.st_mode) || stat.st_size == 0) {
    (void)failure_set(failure, "%s: it is no capsule", path);
  } else {
    *map_bytes = (size_t)stat.st_size;
    *map = mmap(NULL, *map_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    ok = *map != MAP_FAILED;
    if (!ok) {
      (void)failure_set(failure, "%s: it can't be mapped: %s", path, strerror(errno));
    }
  }
  close(descriptor);
  return ok;
}

bool capsule_file_open(const char *path, struct capsule_file *capsule, struct failure *failure) {
  void *map = NULL;
  size_t map_bytes = 0;
  struct failure why;
  memset(capsule, 0, sizeof *capsule);
  if (!map_file(path, &map, &map_bytes, failure)) {
    return false;
  }
  if (!capsule_file_parse(map, map_bytes, capsule, &why)) {
    munmap(map, map_bytes);
    return failure_set(failure, "%s: %s", path, why.text);
  }
  capsule->_map = map;
  capsule->_map_bytes = map_bytes;
  return true;
}

void capsule_file_close(struct capsule_file *capsule) {
  if (capsule->_map != NULL) {
    munmap(capsule->_map, capsule->_map_bytes);
  }
  memset(capsule, 0, sizeof *capsule);
}
