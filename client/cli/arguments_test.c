#include "client/cli/arguments.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 64

// Parses a command line whose words are divided by blanks.
static bool parse(const char *line, struct arguments *arguments, struct failure *failure) {
  static char buffer[2048];
  char *values[VALUES_MAX] = {"aclnn"};
  int count = 1;
  snprintf(buffer, sizeof buffer, "%s", line);
  for (char *word = strtok(buffer, " "); word != NULL; word = strtok(NULL, " ")) {
    assert_true(count < VALUES_MAX);
    values[count++] = word;
  }
  return arguments_parse(count, values, NULL, arguments, failure);
}

static void call_is_taken_apart(void **state) {
  (void)state;
  struct arguments arguments;
  struct failure failure;
  assert_true(parse("call aclnnX --in gradOutput=g.npy --in self=fp32[32,64,112,112] --in indices=bf16:i.npy "
                    "--attr outputSize=7,7 --out gradInput=gi.npy --out y=int32[2,3]:y.npy --server unix:/s "
                    "--target NPU --numerics exact --timeout 1.5 --retries 0 --json --plain-data",
                    &arguments, &failure));
  assert_int_equal(arguments.command, COMMAND_CALL);
  assert_string_equal(arguments.operand, "aclnnX");
  assert_string_equal(arguments.server, "unix:/s");
  assert_int_equal(arguments.target, ACLNN_TARGET_NPU);
  assert_int_equal(arguments.numerics, ACLNN_NUMERICS_EXACT);
  assert_int_equal(arguments.timeout_ms, 1500);
  assert_int_equal(arguments.retries, -1);
  assert_true(arguments.json);
  assert_true(arguments.plain_data);
  assert_int_equal(arguments.input_count, 3);
  assert_string_equal(arguments.inputs[0].name, "gradOutput");
  assert_string_equal(arguments.inputs[0].path, "g.npy");
  assert_null(arguments.inputs[1].path);
  assert_int_equal(arguments.inputs[1].data_type, ACLNN_FLOAT);
  assert_int_equal(arguments.inputs[1].rank, 4);
  assert_int_equal(arguments.inputs[1].shape[3], 112);
  assert_int_equal(arguments.inputs[2].data_type, ACLNN_BF16);
  assert_string_equal(arguments.inputs[2].path, "i.npy");
  assert_int_equal(arguments.output_count, 2);
  assert_false(arguments.outputs[0].has_shape);
  assert_true(arguments.outputs[1].has_shape);
  assert_int_equal(arguments.outputs[1].data_type, ACLNN_INT32);
  assert_string_equal(arguments.outputs[1].path, "y.npy");
  assert_int_equal(arguments.attribute_count, 1);
  assert_string_equal(arguments.attributes[0].name, "outputSize");
  assert_string_equal(arguments.attributes[0].text, "7,7");
}

static void server_comes_from_option_then_default(void **state) {
  (void)state;
  struct arguments arguments;
  struct failure failure;
  char *values[] = {"aclnn", "info", "--server", "a:1"};
  assert_true(arguments_parse(4, values, "b:2", &arguments, &failure));
  assert_string_equal(arguments.server, "a:1");
  assert_true(arguments_parse(2, values, "b:2", &arguments, &failure));
  assert_string_equal(arguments.server, "b:2");
  assert_true(arguments_parse(2, values, "", &arguments, &failure));
  assert_string_equal(arguments.server, SERVER_ADDRESS_DEFAULT);
  assert_true(arguments_parse(2, values, NULL, &arguments, &failure));
  assert_string_equal(arguments.server, SERVER_ADDRESS_DEFAULT);
}

static void operands_fit_their_commands(void **state) {
  (void)state;
  struct arguments arguments;
  struct failure failure;
  assert_true(parse("health", &arguments, &failure));
  assert_null(arguments.operand);
  assert_true(parse("health --json aclnn.v1.OperatorService", &arguments, &failure));
  assert_string_equal(arguments.operand, "aclnn.v1.OperatorService");
  assert_true(parse("describe aclnnMm", &arguments, &failure));
  assert_true(parse("list --json", &arguments, &failure));
  assert_true(parse("replay --target cpu a.capsule --json", &arguments, &failure));
  assert_int_equal(arguments.command, COMMAND_REPLAY);
  assert_string_equal(arguments.operand, "a.capsule");
  assert_int_equal(arguments.target, ACLNN_TARGET_CPU);
}

static void help_needs_nothing_else(void **state) {
  (void)state;
  static const char *const lines[] = {"--help",        "-h",          "call --help",
                                      "replay --help", "describe -h", "info --help"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct arguments arguments;
    struct failure failure;
    assert_true(parse(lines[i], &arguments, &failure));
    assert_true(arguments.help);
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    arguments_print_help(&arguments, file);
    fclose(file);
    assert_non_null(strstr(text, "usage: aclnn"));
    free(text);
  }
}

static void wrong_lines_are_refused(void **state) {
  (void)state;
  static const char *const lines[] = {
      "",
      "cal",
      "call",
      "call --json",
      "call X Y",
      "describe",
      "list X",
      "info X",
      "health a b",
      "list --in a=b",
      "call X --bogus",
      "call X -x",
      "call X --in",
      "call X --in g.npy",
      "call X --in =g.npy",
      "call X --in a=",
      "call X --in a=fp32:",
      "call X --in a=fp33[2]",
      "call X --in a=fp32[2",
      "call X --in a=fp32[2,]x",
      "call X --in a=fp32[,2]",
      "call X --in a=fp32[a]",
      "call X --in a=fp32[2]:f.npy",
      "call X --in a=fp32[99999999999999999999]",
      "call X --in a=fp32[1,1,1,1,1,1,1,1,1]",
      "call X --out a=fp32[2]",
      "call X --out a=fp32:f.npy",
      "call X --out a",
      "call X --out a=",
      "call X --out a=f.npy --out b=f.npy",
      "call X --attr a",
      "call X --attr =1",
      "call X --target gpu",
      "call X --numerics fast",
      "call X --timeout -1",
      "call X --timeout x",
      "call X --timeout nan",
      "call X --timeout 1e300",
      "call X --retries -1",
      "call X --retries 1.5",
      "call X --json=1",
      "call X --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --in "
      "a=1 "
      "--in a=1 --in a=1 --in a=1 --in a=1 --in a=1 --out a=1",
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct arguments arguments;
    struct failure failure = {0};
    assert_false(parse(lines[i], &arguments, &failure));
    assert_string_not_equal(failure.text, "");
  }
}

static void paths_may_look_odd(void **state) {
  (void)state;
  struct failure failure;
  static const struct {
    const char *text;
    const char *path;
    aclnn_data_type data_type;
  } inputs[] = {
      {"fp32", "fp32", 0},          {"./fp32[2].npy", "./fp32[2].npy", 0},
      {"c:f.npy", "c:f.npy", 0},    {"fp32:a:b", "a:b", 1},
      {"a=b.npy", "a=b.npy", 0},    {"float16:x", "x", 2},
      {"bf16:fp32:x", "fp32:x", 3},
  };
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
    struct tensor_argument tensor = {0};
    assert_true(arguments_parse_input(inputs[i].text, &tensor, &failure));
    assert_string_equal(tensor.path, inputs[i].path);
    assert_int_equal(tensor.data_type, inputs[i].data_type);
  }
  struct tensor_argument scalar = {0};
  assert_true(arguments_parse_input("int64[]", &scalar, &failure));
  assert_null(scalar.path);
  assert_true(scalar.has_shape);
  assert_int_equal(scalar.rank, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(call_is_taken_apart),         cmocka_unit_test(server_comes_from_option_then_default),
      cmocka_unit_test(operands_fit_their_commands), cmocka_unit_test(help_needs_nothing_else),
      cmocka_unit_test(wrong_lines_are_refused),     cmocka_unit_test(paths_may_look_odd),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
