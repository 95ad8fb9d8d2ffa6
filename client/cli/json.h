// cJSON as the commands use it: out of memory ends the program, integers keep all their digits.
#ifndef ACLNN_CLIENT_CLI_JSON_H
#define ACLNN_CLIENT_CLI_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

cJSON *json_object(void);
cJSON *json_array(void);
// The added value is the parent's.
cJSON *json_add_object(cJSON *parent, const char *name);
cJSON *json_add_array(cJSON *parent, const char *name);
cJSON *json_append_object(cJSON *array);
void json_add_text(cJSON *parent, const char *name, const char *text);
void json_add_boolean(cJSON *parent, const char *name, bool value);
void json_add_integer(cJSON *parent, const char *name, int64_t value);
void json_add_integers(cJSON *parent, const char *name, const int64_t *values, size_t count);
// "a, b" as an array of texts.
void json_add_list(cJSON *parent, const char *name, const char *list);
// Prints to stdout with a line end and frees it.
void json_print(cJSON *value);

#endif
