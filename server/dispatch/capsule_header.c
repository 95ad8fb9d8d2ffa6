#include "server/dispatch/capsule_header.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *tensor_name(const struct plan *plan, size_t index) {
  return plan->definition->parameters[plan->tensors[index].parameter].name;
}

static size_t list_role(const struct capsule *capsule, enum direction direction, const char *role,
                        const struct operator_run *run, struct capsule_storage *storages) {
  size_t count = 0;
  for (size_t i = 0; i < capsule->plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &capsule->plan->tensors[i];
    if (tensor->transferred && tensor->direction == direction) {
      storages[count++] = (struct capsule_storage){.tensor = tensor_name(capsule->plan, i),
                                                   .role = role,
                                                   .data = run->storages[tensor->parameter],
                                                   .bytes = (uint64_t)tensor->storage_bytes};
    }
  }
  return count;
}

size_t capsule_list_storages(const struct capsule *capsule,
                             struct capsule_storage storages[CAPSULE_STORAGES_MAX]) {
  size_t count = list_role(capsule, DIRECTION_INPUT, "input", capsule->device_run, storages);
  count += list_role(capsule, DIRECTION_OUTPUT, "device", capsule->device_run, storages + count);
  return count + list_role(capsule, DIRECTION_OUTPUT, "cpu", capsule->cpu_run, storages + count);
}

// What adds to an object returns false if there is no memory.

static bool add_text(cJSON *object, const char *name, const char *text) {
  return cJSON_AddStringToObject(object, name, text) != NULL;
}

// cJSON's numbers are doubles; written raw an integer keeps its digits.
static bool add_integer(cJSON *object, const char *name, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  return cJSON_AddRawToObject(object, name, digits) != NULL;
}

// Whoever reads JSON numbers as doubles would lose digits.
static bool add_integer_text(cJSON *object, const char *name, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  return add_text(object, name, digits);
}

// JSON has no infinity.
static bool add_error(cJSON *object, const char *name, double value) {
  char text[32];
  snprintf(text, sizeof text, "%g", value);
  return add_text(object, name, text);
}

static bool add_integers(cJSON *object, const char *name, const int64_t *values, size_t count) {
  cJSON *array = cJSON_AddArrayToObject(object, name);
  bool ok = array != NULL;
  for (size_t i = 0; ok && i < count; i++) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, values[i]);
    cJSON *value = cJSON_CreateRaw(digits);
    ok = value != NULL && cJSON_AddItemToArray(array, value);
  }
  return ok;
}

// A new object at the end of the array, NULL if there is no memory.
static cJSON *append_object(cJSON *array) {
  cJSON *object = cJSON_CreateObject();
  if (object != NULL) {
    cJSON_AddItemToArray(array, object);
  }
  return object;
}

static bool add_tensor(cJSON *object, const struct tensor_desc *desc, enum direction direction) {
  return add_text(object, "kind", "tensor") &&
         add_text(object, "direction", direction == DIRECTION_INPUT ? "input" : "output") &&
         add_text(object, "data_type", data_type_name(desc->data_type)) &&
         add_text(object, "format", format_name(desc->format)) &&
         add_integers(object, "shape", desc->shape, desc->rank) &&
         add_integers(object, "strides", desc->strides, desc->stride_count) &&
         add_integer(object, "storage_offset", desc->storage_offset) &&
         add_integer(object, "storage_elements", desc->storage_elements);
}

static bool add_value(cJSON *object, const struct argument_value *value, enum direction direction) {
  switch (value->kind) {
  case PARAMETER_KIND_TENSOR:
    return add_tensor(object, &value->tensor, direction);
  case PARAMETER_KIND_INT_ARRAY:
    return add_text(object, "kind", "int_array") &&
           add_integers(object, "values", value->int_array.values, value->int_array.count);
  case PARAMETER_KIND_INTEGER:
    return add_text(object, "kind", "integer") && add_integer_text(object, "value", value->integer);
  case PARAMETER_KIND_REAL:
    return add_text(object, "kind", "real") && cJSON_AddNumberToObject(object, "value", value->real) != NULL;
  case PARAMETER_KIND_BOOLEAN:
    return add_text(object, "kind", "boolean") &&
           cJSON_AddBoolToObject(object, "value", value->boolean) != NULL;
  case PARAMETER_KIND_TEXT:
    return add_text(object, "kind", "text") && add_text(object, "value", value->text);
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
  return true;
}

static bool add_arguments(cJSON *header, const struct plan *plan) {
  struct operator_request request;
  plan_to_request(plan, &request);
  cJSON *arguments = cJSON_AddArrayToObject(header, "arguments");
  bool ok = arguments != NULL;
  for (size_t i = 0; ok && i < request.argument_count; i++) {
    const struct argument *argument = &request.arguments[i];
    enum direction direction = i < plan->tensor_count ? plan->tensors[i].direction : DIRECTION_UNSPECIFIED;
    cJSON *object = append_object(arguments);
    ok = object != NULL && add_text(object, "name", argument->name) &&
         add_value(object, &argument->value, direction);
  }
  return ok;
}

static bool add_storages(cJSON *header, const struct capsule *capsule) {
  struct capsule_storage storages[CAPSULE_STORAGES_MAX];
  size_t count = capsule_list_storages(capsule, storages);
  cJSON *array = cJSON_AddArrayToObject(header, "storages");
  bool ok = array != NULL;
  for (size_t i = 0; ok && i < count; i++) {
    cJSON *object = append_object(array);
    ok = object != NULL && add_text(object, "tensor", storages[i].tensor) &&
         add_text(object, "role", storages[i].role) &&
         add_integer(object, "bytes", (int64_t)storages[i].bytes);
  }
  return ok;
}

static bool add_differences(cJSON *header, const struct capsule *capsule) {
  cJSON *array = cJSON_AddArrayToObject(header, "differences");
  bool ok = array != NULL;
  for (size_t i = 0; ok && i < capsule->plan->tensor_count; i++) {
    if (capsule->plan->tensors[i].direction != DIRECTION_OUTPUT) {
      continue;
    }
    const struct tensor_comparison *comparison = &capsule->comparisons[i];
    cJSON *object = append_object(array);
    ok = object != NULL && add_text(object, "tensor", tensor_name(capsule->plan, i)) &&
         add_integer(object, "elements", comparison->elements) &&
         add_integer(object, "differing", comparison->differing) &&
         add_integer(object, "first", comparison->first) && add_integer(object, "worst", comparison->worst) &&
         add_error(object, "worst_relative_error", comparison->worst_error) &&
         add_error(object, "mean_relative_error", comparison->mean_error);
  }
  return ok;
}

static bool add_origin(cJSON *header, const struct capsule *capsule, int64_t created_unix_ms) {
  cJSON *device = cJSON_AddObjectToObject(header, "device");
  cJSON *versions = cJSON_AddObjectToObject(header, "versions");
  const char *version = capsule->server_version == NULL ? "unknown" : capsule->server_version;
  return device != NULL && versions != NULL && add_integer(device, "number", capsule->device_number) &&
         add_text(device, "name", capsule->device->name) &&
         add_text(device, "detail", capsule->device->detail) && add_text(versions, "server", version) &&
         add_integer(header, "created_unix_ms", created_unix_ms);
}

char *capsule_write_header(const struct capsule *capsule, int64_t created_unix_ms) {
  const struct plan *plan = capsule->plan;
  cJSON *header = cJSON_CreateObject();
  bool ok = header != NULL && add_text(header, "operator", plan->definition->name) &&
            add_text(header, "target", target_name(plan->target)) &&
            add_text(header, "numerics", numerics_name(plan->numerics)) && add_arguments(header, plan) &&
            add_storages(header, capsule) &&
            add_text(header, "compared", capsule->exactly ? "exactly" : "tolerance") &&
            add_differences(header, capsule) && add_origin(header, capsule, created_unix_ms);
  char *text = ok ? cJSON_PrintUnformatted(header) : NULL;
  cJSON_Delete(header);
  return text;
}
