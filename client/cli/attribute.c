#include "client/cli/attribute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool parse_integer(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return end != text && *end == '\0' && errno == 0;
}

static bool parse_real(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && *end == '\0';
}

static bool parse_boolean(const char *text, int64_t *value) {
  *value = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
  return *value == 1 || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

// "7,7", also in brackets; "" and "[]" are empty.
static bool parse_int_array(const char *text, struct attribute_value *value) {
  size_t length = strlen(text);
  if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
    text++;
    length -= 2;
  }
  const char *end = text + length;
  size_t count = 0;
  while (text < end) {
    char *after;
    errno = 0;
    long long item = strtoll(text, &after, 10);
    if (after == text || errno != 0 || count == ATTRIBUTE_VALUES_MAX || (after < end && *after != ',') ||
        after > end) {
      return false;
    }
    value->values[count++] = item;
    text = after < end ? after + 1 : after;
  }
  value->attribute.values = value->values;
  value->attribute.value_count = count;
  return true;
}

static const char *guess_kind(const char *text, struct attribute_value *value) {
  int64_t integer;
  double real;
  if (parse_integer(text, &integer)) {
    return "integer";
  }
  if (parse_int_array(text, value)) {
    return "int_array";
  }
  if (parse_real(text, &real)) {
    return "real";
  }
  return parse_boolean(text, &integer) ? "boolean" : "text";
}

bool attribute_parse(const char *name, const char *text, const char *kind, struct attribute_value *value,
                     struct failure *failure) {
  memset(value, 0, sizeof *value);
  if (kind == NULL) {
    kind = guess_kind(text, value);
  }
  aclnn_attribute *attribute = &value->attribute;
  attribute->name = name;
  bool ok = false;
  if (strcmp(kind, "int_array") == 0) {
    attribute->kind = ACLNN_INT_ARRAY;
    ok = parse_int_array(text, value);
  } else if (strcmp(kind, "integer") == 0) {
    attribute->kind = ACLNN_INTEGER;
    ok = parse_integer(text, &attribute->integer);
  } else if (strcmp(kind, "real") == 0) {
    attribute->kind = ACLNN_REAL;
    ok = parse_real(text, &attribute->real);
  } else if (strcmp(kind, "boolean") == 0) {
    attribute->kind = ACLNN_BOOLEAN;
    ok = parse_boolean(text, &attribute->integer);
  } else if (strcmp(kind, "text") == 0) {
    attribute->kind = ACLNN_TEXT;
    attribute->text = text;
    ok = true;
  } else {
    return failure_set(failure, "--attr %s: it is a %s, not an attribute", name, kind);
  }
  return ok || failure_set(failure, "--attr %s: '%s' is no %s", name, text, kind);
}
