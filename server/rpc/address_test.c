#include "server/rpc/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void addresses_are_read_and_written(void **unused) {
  (void)unused;
  static const char *const texts[] = {"127.0.0.1:0", "0.0.0.0:50051",    "127.0.0.1:65535", "[::1]:50051",
                                      "[::]:1",      "unix:/tmp/socket", "unix:relative"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
    struct address address;
    struct status status;
    char text[ADDRESS_TEXT_BYTES_MAX];
    assert_true(address_parse(texts[i], &address, &status));
    address_format(&address, text);
    assert_string_equal(text, texts[i]);
    assert_int_equal(address_is_unix(&address), strncmp(texts[i], "unix:", 5) == 0);
  }
}

static void what_is_no_address_is_refused_and_shown(void **unused) {
  (void)unused;
  static const char *const texts[] = {"",
                                      "localhost",
                                      ":50051",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:x",
                                      "127.0.0.1:-1",
                                      "::1:80",
                                      "[::1]",
                                      "[::1:50051",
                                      "[]:50051",
                                      "unix:",
                                      "256.0.0.1:80",
                                      "127.0.0.1:123456",
                                      "a b:80"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
    struct address address;
    struct status status;
    assert_false(address_parse(texts[i], &address, &status));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
    assert_non_null(strstr(status.message, texts[i]));
  }
}

static void longest_paths_are_refused_rather_than_cut(void **unused) {
  (void)unused;
  char text[400] = "unix:/";
  struct address address;
  struct status status;
  memset(text + strlen(text), 'x', 106);
  assert_true(address_parse(text, &address, &status)); // 107 bytes and the NUL
  strcat(text, "x");
  assert_false(address_parse(text, &address, &status));
  memset(text, 'x', sizeof text);
  memcpy(text + sizeof text - 4, ":80", 4);
  assert_false(address_parse(text, &address, &status));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(addresses_are_read_and_written),
      cmocka_unit_test(what_is_no_address_is_refused_and_shown),
      cmocka_unit_test(longest_paths_are_refused_rather_than_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
