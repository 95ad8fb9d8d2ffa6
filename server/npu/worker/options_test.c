#include "server/npu/worker/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define PARSE(options, status, ...)                                                                          \
  options_parse((int)(sizeof((char *[]){"worker", __VA_ARGS__}) / sizeof(char *)),                           \
                (char *[]){"worker", __VA_ARGS__}, options, status)

static void everything_can_be_given(void **state) {
  (void)state;
  struct options options;
  struct status status;
  assert_true(PARSE(&options, &status, "--device", "3", "--library", "/x.so", "--deterministic", "--affinity",
                    "off", "--parent", "77", "--sync-timeout", "1500", "--copies", "staged"));
  assert_int_equal(options.device, 3);
  assert_string_equal(options.library, "/x.so");
  assert_true(options.deterministic);
  assert_false(options.affinity);
  assert_int_equal(options.parent, 77);
  assert_int_equal(options.sync_timeout_ms, 1500);
  assert_int_equal(options.copies, TRANSFER_STAGED);
  assert_false(options.self_test || options.help || options.version);
  assert_true(PARSE(&options, &status, "--copies", "direct", "--affinity", "auto", "--self-test", "--help",
                    "--version"));
  assert_int_equal(options.copies, TRANSFER_DIRECT);
  assert_true(options.affinity && options.self_test && options.help && options.version);
}

static void what_is_left_out_has_a_default(void **state) {
  (void)state;
  struct options options;
  struct status status;
  assert_true(PARSE(&options, &status, "--copies", "auto"));
  assert_int_equal(options.device, 0);
  assert_null(options.library);
  assert_false(options.deterministic);
  assert_true(options.affinity);
  assert_int_equal(options.parent, 0);
  assert_int_equal(options.copies, TRANSFER_MEASURED);
  assert_true(options.sync_timeout_ms > 0);
}

static void wrong_values_are_named(void **state) {
  (void)state;
  static const struct {
    char *option, *value;
    const char *said;
  } rows[] = {
      {"--device", "-1", "--device"},
      {"--device", "99999999999", "--device"},
      {"--device", "1x", "1x"},
      {"--device", "", "--device"},
      {"--affinity", "maybe", "auto|off"},
      {"--copies", "fast", "auto|direct|staged"},
      {"--copies", "", "auto|direct|staged"},
      {"--sync-timeout", "0", "--sync-timeout"},
      {"--parent", "0", "--parent"},
      {"--nonsense", "1", "--nonsense"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct options options;
    struct status status;
    assert_false(PARSE(&options, &status, rows[i].option, rows[i].value));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
    assert_non_null(strstr(status.message, rows[i].said));
  }
  struct options options;
  struct status status;
  assert_false(PARSE(&options, &status, "--device"));
  assert_non_null(strstr(status.message, "needs a value"));
}

static void help_names_each_option(void **state) {
  (void)state;
  char text[4096] = "";
  FILE *stream = fmemopen(text, sizeof text, "w");
  options_print_help(stream);
  fclose(stream);
  assert_non_null(strstr(text, "--self-test"));
  assert_non_null(strstr(text, "--sync-timeout MS"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_can_be_given),
      cmocka_unit_test(what_is_left_out_has_a_default),
      cmocka_unit_test(wrong_values_are_named),
      cmocka_unit_test(help_names_each_option),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
