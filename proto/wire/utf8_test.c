#include "proto/wire/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// In a heap copy without NUL, so that a sanitizer sees a step too far.
static bool valid(const char *text) {
  size_t size = strlen(text);
  char *copy = malloc(size + 1);
  assert_non_null(copy);
  memcpy(copy, text, size);
  copy = realloc(copy, size > 0 ? size : 1);
  bool result = utf8_is_valid(copy, size);
  free(copy);
  return result;
}

static void well_formed_text_is_valid(void **state) {
  (void)state;
  assert_true(valid(""));
  assert_true(valid("gradOutput"));
  assert_true(valid("\x7f\xc2\x80\xdf\xbf"));
  assert_true(valid("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
  assert_true(valid("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
  assert_true(utf8_is_valid("a\0b", 3));
}

static void malformed_text_is_not_valid(void **state) {
  (void)state;
  static const char *const texts[] = {
      "\x80",
      "\xbf",
      "a\x80",
      "\xc0\x80",
      "\xc1\xbf", // over-long
      "\xc2",
      "\xc2\x41",
      "\xe0\x9f\xbf",
      "\xe1\x80",
      "\xe1\x80\x41",
      "\xe1\x41\x80",
      "\xed\xa0\x80",
      "\xed\xbf\xbf", // surrogates
      "\xf0\x8f\xbf\xbf",
      "\xf0\x90\x80",
      "\xf1\x80\x80\x41",
      "\xf4\x90\x80\x80",
      "\xf5\x80\x80\x80", // above U+10FFFF
      "\xfe",
      "\xff",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    assert_false(valid(texts[i]));
  }
}

static void cutting_keeps_characters_whole(void **state) {
  (void)state;
  const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"; // 1 + 2 + 3 + 4 bytes
  static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t size = 0; size < sizeof expected / sizeof *expected; size++) {
    assert_int_equal(utf8_cut(text, size), expected[size]);
  }
  // No UTF-8: cut where it was asked for.
  assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80\x80", 5), 5);
}

static void shortened_copy_cannot_equal_a_whole_one(void **state) {
  (void)state;
  char out[9];
  utf8_copy_shortened(out, sizeof out, "12345678");
  assert_string_equal(out, "12345678");
  utf8_copy_shortened(out, sizeof out, "123456789");
  assert_string_equal(out, "12345...");
  utf8_copy_shortened(out, sizeof out,
                      "1234\xc3\xa9"
                      "6789");
  assert_string_equal(out, "1234...");
  utf8_copy_shortened(out, sizeof out, "");
  assert_string_equal(out, "");
  utf8_copy_shortened(out, 4, "12345678");
  assert_string_equal(out, "...");
}

static void repair_makes_any_text_valid_and_keeps_what_was(void **state) {
  (void)state;
  char mixed[] = "ok \xc3\xa9 \xff\xc3 \xed\xa0\x80 end\xe2\x82";
  utf8_repair(mixed);
  assert_string_equal(mixed, "ok \xc3\xa9 ?? ??? end??");
  char text[5] = {0};
  for (uint32_t bits = 0; bits < 1u << 16; bits++) {
    text[0] = (char)(bits | 0x80);
    text[1] = (char)(bits >> 8 | 1);
    text[2] = (char)0xbf;
    text[3] = (char)0x80;
    utf8_repair(text);
    assert_true(utf8_is_valid(text, strlen(text)));
    assert_int_equal(strlen(text), 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(well_formed_text_is_valid),
      cmocka_unit_test(malformed_text_is_not_valid),
      cmocka_unit_test(cutting_keeps_characters_whole),
      cmocka_unit_test(shortened_copy_cannot_equal_a_whole_one),
      cmocka_unit_test(repair_makes_any_text_valid_and_keeps_what_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
