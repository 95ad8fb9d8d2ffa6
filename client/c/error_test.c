#include "client/c/error.h"

#include "proto/wire/error_details.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void servers_words_arrive_whole(void **state) {
  (void)state;
  struct status status;
  (void)status_fail(&status, REASON_ACLNN_ERR_PARAM_INVALID, "indices", "indices: rank is 2");
  struct wire_buffer details = {0};
  assert_true(error_details_write(&status, &details));
  aclnn_error error;
  assert_false(
      error_from_call(&error, RPC_CODE_INVALID_ARGUMENT, "indices: rank is 2", details.data, details.size));
  wire_buffer_free(&details);
  assert_int_equal(error.code, RPC_CODE_INVALID_ARGUMENT);
  assert_int_equal(error.aclnn_status, 161002);
  assert_string_equal(error.reason, "ACLNN_ERR_PARAM_INVALID");
  assert_string_equal(error.parameter, "indices");
  assert_string_equal(error.message, "indices: rank is 2");
  assert_true(error_has_reason(&error, REASON_ACLNN_ERR_PARAM_INVALID));
  assert_false(error_invites_retry(&error));
}

static aclnn_error from_server(int code, enum reason reason, int64_t retry_after_ms) {
  struct status status;
  (void)status_fail(&status, reason, NULL, "no");
  status.retry_after_ms = retry_after_ms;
  struct wire_buffer details = {0};
  assert_true(error_details_write(&status, &details));
  aclnn_error error;
  (void)error_from_call(&error, code, "no", details.data, details.size);
  wire_buffer_free(&details);
  return error;
}

static void only_invitations_are_followed(void **state) {
  (void)state;
  aclnn_error error = from_server(RPC_CODE_RESOURCE_EXHAUSTED, REASON_QUEUE_FULL, 250);
  assert_true(error_invites_retry(&error));
  assert_int_equal(error.retry_after_ms, 250);
  error = from_server(RPC_CODE_UNAVAILABLE, REASON_DRAINING, 1000);
  assert_true(error_invites_retry(&error));
  error = from_server(RPC_CODE_UNAVAILABLE, REASON_DEVICE_LOST, 0);
  assert_false(error_invites_retry(&error));
  error = from_server(RPC_CODE_RESOURCE_EXHAUSTED, REASON_JOB_TOO_LARGE, 0);
  assert_false(error_invites_retry(&error));
  (void)error_from_call(&error, RPC_CODE_UNAVAILABLE, "connection refused", NULL, 0);
  assert_true(error_invites_retry(&error));
  (void)error_from_call(&error, RPC_CODE_DEADLINE_EXCEEDED, "late", NULL, 0);
  assert_false(error_invites_retry(&error));
  (void)error_from_call(&error, RPC_CODE_CANCELLED, "cancelled", NULL, 0);
  assert_true(error_invites_retry(&error));
}

static void reason_of_the_server_is_preferred_to_a_broken_way(void **state) {
  (void)state;
  aclnn_error told = {0};
  aclnn_error broken, error = from_server(RPC_CODE_UNAVAILABLE, REASON_DRAINING, 1000);
  (void)error_from_call(&broken, RPC_CODE_UNAVAILABLE, "Socket closed", NULL, 0);
  error_remember(&told, &broken);
  aclnn_error last = broken;
  error_prefer_told(&last, &told);
  assert_memory_equal(&last, &broken, sizeof last); // nothing was told
  error_remember(&told, &error);
  error_remember(&told, &broken); // says nothing
  error_prefer_told(&last, &told);
  assert_memory_equal(&last, &error, sizeof last);

  error = from_server(RPC_CODE_RESOURCE_EXHAUSTED, REASON_QUEUE_FULL, 250);
  last = error;
  error_prefer_told(&last, &told);
  assert_memory_equal(&last, &error, sizeof last);
  (void)error_from_call(&last, RPC_CODE_DEADLINE_EXCEEDED, "late", NULL, 0);
  error_prefer_told(&last, &told);
  assert_int_equal(last.code, RPC_CODE_DEADLINE_EXCEEDED);
}

static void own_failures_carry_the_reasons_code(void **state) {
  (void)state;
  aclnn_error error;
  assert_false(error_fail(&error, REASON_ACLNN_ERR_PARAM_NULLPTR, "self", "%s: data is NULL", "self"));
  assert_int_equal(error.code, RPC_CODE_INVALID_ARGUMENT);
  assert_int_equal(error.aclnn_status, 161001);
  assert_string_equal(error.parameter, "self");
  assert_string_equal(error.message, "self: data is NULL");
}

static void garbage_in_the_details_is_survived(void **state) {
  (void)state;
  aclnn_error error;
  const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff};
  assert_false(error_from_call(&error, RPC_CODE_INTERNAL, "broken", garbage, sizeof garbage));
  assert_int_equal(error.code, RPC_CODE_INTERNAL);
  assert_string_equal(error.reason, "");
  assert_string_equal(error.message, "broken");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(servers_words_arrive_whole),
      cmocka_unit_test(only_invitations_are_followed),
      cmocka_unit_test(reason_of_the_server_is_preferred_to_a_broken_way),
      cmocka_unit_test(own_failures_carry_the_reasons_code),
      cmocka_unit_test(garbage_in_the_details_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
