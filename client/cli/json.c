#include "client/cli/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *pointer) {
  if (pointer == NULL) {
    fputs("aclnn: out of memory\n", stderr);
    exit(1);
  }
  return pointer;
}

cJSON *json_object(void) {
  return must(cJSON_CreateObject());
}

cJSON *json_array(void) {
  return must(cJSON_CreateArray());
}

cJSON *json_add_object(cJSON *parent, const char *name) {
  return must(cJSON_AddObjectToObject(parent, name));
}

cJSON *json_add_array(cJSON *parent, const char *name) {
  return must(cJSON_AddArrayToObject(parent, name));
}

cJSON *json_append_object(cJSON *array) {
  cJSON *object = json_object();
  cJSON_AddItemToArray(array, object);
  return object;
}

void json_add_text(cJSON *parent, const char *name, const char *text) {
  must(cJSON_AddStringToObject(parent, name, text));
}

void json_add_boolean(cJSON *parent, const char *name, bool value) {
  must(cJSON_AddBoolToObject(parent, name, value));
}

void json_add_integer(cJSON *parent, const char *name, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  must(cJSON_AddRawToObject(parent, name, digits));
}

void json_add_integers(cJSON *parent, const char *name, const int64_t *values, size_t count) {
  cJSON *array = json_add_array(parent, name);
  for (size_t i = 0; i < count; i++) {
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, values[i]);
    cJSON_AddItemToArray(array, must(cJSON_CreateRaw(digits)));
  }
}

void json_add_list(cJSON *parent, const char *name, const char *list) {
  cJSON *array = json_add_array(parent, name);
  while (*list != '\0') {
    size_t length = strcspn(list, ",");
    char *item = must(strndup(list, length));
    cJSON_AddItemToArray(array, must(cJSON_CreateString(item)));
    free(item);
    list += length;
    list += strspn(list, ", ");
  }
}

void json_print(cJSON *value) {
  char *text = must(cJSON_Print(value));
  puts(text);
  cJSON_free(text);
  cJSON_Delete(value);
}
