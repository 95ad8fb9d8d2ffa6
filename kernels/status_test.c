#include "kernels/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void a_failure_carries_reason_number_parameter_and_message(void **state) {
  (void)state;
  struct status status = {.metadata_count = 3, .retry_after_ms = 7};
  assert_false(status_fail(&status, REASON_ACLNN_ERR_PARAM_INVALID, "indices", "%s is %d", "rank", 5));
  assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
  assert_int_equal(status.aclnn_status, 161002);
  assert_string_equal(status.parameter, "indices");
  assert_string_equal(status.message, "rank is 5");
  assert_int_equal(status.metadata_count, 0);
  assert_int_equal(status.retry_after_ms, 0);
}

static void a_failure_without_parameter_names_none(void **state) {
  (void)state;
  struct status status;
  memset(&status, 'x', sizeof status);
  status_fail(&status, REASON_QUEUE_FULL, NULL, "full");
  assert_string_equal(status.parameter, "");
  assert_int_equal(status.aclnn_status, 0);
}

static void reasons_have_the_names_and_numbers_of_the_contract(void **state) {
  (void)state;
  assert_string_equal(reason_name(REASON_NONE), "NONE");
  assert_string_equal(reason_name(REASON_ACLNN_ERR_PARAM_NULLPTR), "ACLNN_ERR_PARAM_NULLPTR");
  assert_string_equal(reason_name(REASON_QUEUE_FULL), "QUEUE_FULL");
  assert_int_equal(reason_aclnn_status(REASON_ACLNN_ERR_PARAM_NULLPTR), 161001);
  assert_int_equal(reason_aclnn_status(REASON_INTERNAL), 561000);
  assert_int_equal(reason_aclnn_status(REASON_DEVICE_LOST), 361001);
  assert_int_equal(reason_aclnn_status(REASON_OPERATOR_UNKNOWN), 0);
}

static void every_reason_has_a_name_of_its_own(void **state) {
  (void)state;
  for (int i = 0; i < REASON_COUNT; i++) {
    assert_non_null(reason_name((enum reason)i));
    for (int j = 0; j < i; j++) {
      assert_string_not_equal(reason_name((enum reason)i), reason_name((enum reason)j));
    }
  }
}

static void long_messages_are_cut(void **state) {
  (void)state;
  char text[2000];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  struct status status;
  status_fail(&status, REASON_INTERNAL, text, "%s", text);
  assert_int_equal(strlen(status.message), STATUS_MESSAGE_BYTES_MAX);
  assert_int_equal(strlen(status.parameter), STATUS_PARAMETER_BYTES_MAX);
}

// Puts a character of 2, 3 or 4 bytes at each place around the end.
static void cutting_never_splits_a_character(void **state) {
  (void)state;
  static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
  for (size_t c = 0; c < 3; c++) {
    size_t bytes = strlen(characters[c]);
    for (size_t before = STATUS_MESSAGE_BYTES_MAX - 6; before <= STATUS_MESSAGE_BYTES_MAX; before++) {
      char text[STATUS_MESSAGE_BYTES_MAX + 16];
      memset(text, 'a', before);
      strcpy(text + before, characters[c]);
      struct status status;
      status_fail(&status, REASON_INTERNAL, NULL, "%s", text);
      bool fits = before + bytes <= STATUS_MESSAGE_BYTES_MAX;
      assert_int_equal(strlen(status.message), fits ? before + bytes : before);
      assert_memory_equal(status.message, text, strlen(status.message));
    }
  }
}

static void a_message_may_quote_the_status_that_it_replaces(void **state) {
  (void)state;
  struct status status;
  status_fail(&status, REASON_FILE_INVALID, "self", "no such file");
  status_fail(&status, REASON_CONFIGURATION, status.parameter, "can't start: %s", status.message);
  assert_string_equal(status.message, "can't start: no such file");
  assert_string_equal(status.parameter, "self");
}

static void metadata_beyond_the_limit_are_left_out(void **state) {
  (void)state;
  struct status status;
  status_fail(&status, REASON_INTERNAL, NULL, "x");
  for (int i = 0; i < STATUS_METADATA_MAX + 2; i++) {
    status_add_metadata(&status, "position", "%d", i);
  }
  assert_int_equal(status.metadata_count, STATUS_METADATA_MAX);
  assert_string_equal(status.metadata[STATUS_METADATA_MAX - 1].key, "position");
  assert_string_equal(status.metadata[STATUS_METADATA_MAX - 1].value, "5");
}

static void long_metadata_are_cut(void **state) {
  (void)state;
  struct status status;
  status_fail(&status, REASON_INTERNAL, NULL, "x");
  status_add_metadata(&status, "a_key_that_is_longer_than_the_limit_of_keys", "%0300d", 0);
  assert_int_equal(strlen(status.metadata[0].key), STATUS_METADATA_KEY_BYTES_MAX);
  assert_int_equal(strlen(status.metadata[0].value), STATUS_METADATA_VALUE_BYTES_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failure_carries_reason_number_parameter_and_message),
      cmocka_unit_test(a_failure_without_parameter_names_none),
      cmocka_unit_test(reasons_have_the_names_and_numbers_of_the_contract),
      cmocka_unit_test(every_reason_has_a_name_of_its_own),
      cmocka_unit_test(long_messages_are_cut),
      cmocka_unit_test(cutting_never_splits_a_character),
      cmocka_unit_test(a_message_may_quote_the_status_that_it_replaces),
      cmocka_unit_test(metadata_beyond_the_limit_are_left_out),
      cmocka_unit_test(long_metadata_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
