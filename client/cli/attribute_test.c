#include "client/cli/attribute.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool parse(const char *text, const char *kind, struct attribute_value *value) {
  struct failure failure;
  return attribute_parse("x", text, kind, value, &failure);
}

static void kinds_are_followed(void **state) {
  (void)state;
  struct attribute_value value;
  assert_true(parse("7", "int_array", &value));
  assert_int_equal(value.attribute.kind, ACLNN_INT_ARRAY);
  assert_int_equal(value.attribute.value_count, 1);
  assert_int_equal(value.attribute.values[0], 7);
  assert_true(parse("[7,-8]", "int_array", &value));
  assert_int_equal(value.attribute.value_count, 2);
  assert_int_equal(value.attribute.values[1], -8);
  assert_true(parse("[]", "int_array", &value));
  assert_int_equal(value.attribute.value_count, 0);
  assert_true(parse("-5", "integer", &value));
  assert_int_equal(value.attribute.integer, -5);
  assert_true(parse("1e-3", "real", &value));
  assert_true(value.attribute.real == 1e-3);
  assert_true(parse("true", "boolean", &value));
  assert_int_equal(value.attribute.integer, 1);
  assert_true(parse("0", "boolean", &value));
  assert_int_equal(value.attribute.integer, 0);
  assert_true(parse("7", "text", &value));
  assert_string_equal(value.attribute.text, "7");
}

static void unknown_kinds_are_guessed(void **state) {
  (void)state;
  struct attribute_value value;
  assert_true(parse("7,7", NULL, &value));
  assert_int_equal(value.attribute.kind, ACLNN_INT_ARRAY);
  assert_true(parse("7", NULL, &value));
  assert_int_equal(value.attribute.kind, ACLNN_INTEGER);
  assert_true(parse("0.5", NULL, &value));
  assert_int_equal(value.attribute.kind, ACLNN_REAL);
  assert_true(parse("false", NULL, &value));
  assert_int_equal(value.attribute.kind, ACLNN_BOOLEAN);
  assert_true(parse("none", NULL, &value));
  assert_int_equal(value.attribute.kind, ACLNN_TEXT);
}

static void wrong_values_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *kind;
  } wrong[] = {
      {"7,x", "int_array"},
      {"7,,7", "int_array"},
      {"7.5", "int_array"},
      {"[7,7", "int_array"},
      {"7 7", "int_array"},
      {"99999999999999999999", "int_array"},
      {"", "integer"},
      {"1.5", "integer"},
      {"99999999999999999999", "integer"},
      {"", "real"},
      {"1,5", "real"},
      {"yes", "boolean"},
      {"7", "tensor"},
      {"1,2,3,4,5,6,7,8,9", "int_array"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct attribute_value value;
    assert_false(parse(wrong[i].text, wrong[i].kind, &value));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kinds_are_followed),
      cmocka_unit_test(unknown_kinds_are_guessed),
      cmocka_unit_test(wrong_values_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
