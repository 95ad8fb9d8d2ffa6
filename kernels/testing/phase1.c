#include "kernels/testing/phase1.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct int_array int_array_of(const char *text) {
  struct int_array array = {0};
  for (text++; *text != ')' && *text != '\0'; text += *text == ',') {
    char *end;
    long long value = strtoll(text, &end, 10);
    if (array.count < ARGUMENT_INT_ARRAY_MAX) {
      array.values[array.count] = value;
    }
    array.count++;
    text = end;
  }
  return array;
}

void phase1_begin(struct operator_call *call, const char *operator_name,
                  const char *const arguments[PHASE1_ARGUMENTS]) {
  const struct operator_definition *definition = operator_find(operator_name);
  assert_non_null(definition);
  assert_true(definition->parameter_count <= PHASE1_ARGUMENTS);
  call_begin(call, operator_name);
  for (size_t i = 0; i < definition->parameter_count; i++) {
    const char *name = definition->parameters[i].name;
    if (arguments[i] == NULL) {
      continue;
    }
    if (arguments[i][0] == '(') {
      struct int_array array = int_array_of(arguments[i]);
      call_add_int_array(call, name, &array);
    } else if (arguments[i][0] == '=') {
      call_add_integer(call, name, strtoll(arguments[i] + 1, NULL, 10));
    } else {
      struct tensor_desc desc = arguments[i][0] == '\0' ? (struct tensor_desc){0} : desc_of(arguments[i]);
      call_add_tensor(call, name, &desc);
    }
  }
}

static void assert_row(const char *operator_name, const struct phase1_row *row, size_t number) {
  struct operator_call call;
  phase1_begin(&call, operator_name, row->arguments);
  bool accepted = plan_create(&call.request, &call.plan, &call.status);
  if (accepted != (row->reason == REASON_NONE)) {
    fail_msg("row %zu is %s: %s", number, accepted ? "accepted" : "refused",
             accepted ? "" : call.status.message);
  }
  if (accepted) {
    return;
  }
  assert_string_equal(reason_name(call.status.reason), reason_name(row->reason));
  assert_string_equal(call.status.parameter, row->parameter);
  if (strstr(call.status.message, row->said) == NULL) {
    fail_msg("row %zu: \"%s\" doesn't say \"%s\"", number, call.status.message, row->said);
  }
}

void phase1_assert_rows(const char *operator_name, const struct phase1_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    assert_row(operator_name, &rows[i], i);
  }
}
