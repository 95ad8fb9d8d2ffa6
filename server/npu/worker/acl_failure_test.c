#include "server/npu/worker/acl_failure.h"
#include "server/npu/worker/fake_functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void numbers_mean_what_cann_says(void **state) {
  (void)state;
  static const struct {
    int32_t number;
    enum reason reason;
    bool device_fault;
  } rows[] = {
      {161001, REASON_ACLNN_ERR_PARAM_NULLPTR, false},
      {161002, REASON_ACLNN_ERR_PARAM_INVALID, false},
      {361001, REASON_DEVICE_LOST, true},
      {561000, REASON_ACLNN_ERR_INNER, false},
      {561002, REASON_ACLNN_ERR_INNER_TILING_ERROR, false},
      {561103, REASON_ACLNN_ERR_INNER_NULLPTR, false},
      {561107, REASON_ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, false},
      {561118, REASON_ACLNN_ERR_INNER, false}, // has no reason of its own
      {207018, REASON_DEVICE_MEMORY, false},
      {200000, REASON_DEVICE_MEMORY, false},
      {107000, REASON_INTERNAL, false},
      {107002, REASON_INTERNAL, false},
      {107019, REASON_DEVICE_LOST, true},
      {107020, REASON_DEVICE_LOST, true},
      {107021, REASON_INTERNAL, false}, // an option that isn't set
      {100000, REASON_INTERNAL, false},
      {500000, REASON_DEVICE_LOST, true},
      {507015, REASON_DEVICE_LOST, true},
      {507046, REASON_DEVICE_LOST, true},
      {507899, REASON_DEVICE_LOST, true},
  };
  struct acl_functions functions;
  fake_functions_begin(&functions);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct status status;
    assert_false(acl_failure(&functions, "aclSomething", rows[i].number, &status));
    assert_int_equal(status.reason, rows[i].reason);
    assert_int_equal(status.aclnn_status, rows[i].number);
    assert_int_equal(acl_failure_is_device_fault(rows[i].number), rows[i].device_fault);
    assert_int_equal(acl_failure_is_memory(rows[i].number), rows[i].reason == REASON_DEVICE_MEMORY);
    assert_non_null(strstr(status.message, "aclSomething"));
  }
}

static void text_of_cann_is_kept_in_one_line(void **state) {
  (void)state;
  struct acl_functions functions;
  struct status status;
  struct fake_state *fake = fake_functions_begin(&functions);
  fake->text = "EZ9999: Inner Error!\n\tthe kernel  failed\r\n";
  acl_failure(&functions, "aclnnX", 561103, &status);
  assert_string_equal(status.message, "aclnnX returned 561103: EZ9999: Inner Error! the kernel failed");
  acl_failure(&functions, "aclnnX", 561103, &status); // its text is gone
  assert_string_equal(status.message, "aclnnX returned 561103");
  char text[4096];
  memset(text, 'e', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  fake->text = text;
  acl_failure(&functions, "aclnnX", 561103, &status);
  assert_true(strlen(status.message) <= STATUS_MESSAGE_BYTES_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_mean_what_cann_says),
      cmocka_unit_test(text_of_cann_is_kept_in_one_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
