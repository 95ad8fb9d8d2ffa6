#include "proto/wire/error_details.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct status failed_with(enum reason reason, const char *parameter, const char *message) {
  struct status status;
  (void)status_fail(&status, reason, parameter, "%s", message);
  return status;
}

static struct wire_buffer write_details(const struct status *failed) {
  struct wire_buffer buffer = {0};
  assert_true(error_details_write(failed, &buffer));
  assert_in_range(buffer.size, 0, ERROR_DETAILS_BYTES_MAX);
  return buffer;
}

// Design's table, every reason in it.
static void every_reason_has_its_code(void **state) {
  (void)state;
  static const struct {
    enum reason reason;
    enum rpc_code code;
  } rows[] = {
      {REASON_NONE, RPC_CODE_UNKNOWN},
      {REASON_ACLNN_ERR_PARAM_NULLPTR, RPC_CODE_INVALID_ARGUMENT},
      {REASON_ACLNN_ERR_PARAM_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_ACLNN_ERR_RUNTIME_ERROR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_INFERSHAPE_ERROR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_TILING_ERROR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_FIND_KERNEL_ERROR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_CREATE_EXECUTOR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_NULLPTR, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND, RPC_CODE_INTERNAL},
      {REASON_ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND, RPC_CODE_INTERNAL},
      {REASON_OPERATOR_UNKNOWN, RPC_CODE_NOT_FOUND},
      {REASON_MESSAGE_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_TENSOR_DATA_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_SEQUENCE_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_CODEC_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_FEATURE_UNSUPPORTED, RPC_CODE_UNIMPLEMENTED},
      {REASON_EXECUTOR_INVALID, RPC_CODE_INVALID_ARGUMENT},
      {REASON_EXECUTOR_CONSUMED, RPC_CODE_FAILED_PRECONDITION},
      {REASON_EXECUTOR_EXPIRED, RPC_CODE_NOT_FOUND},
      {REASON_QUEUE_FULL, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_QUEUE_TIMEOUT, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_EXECUTOR_LIMIT, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_IDENTITY_LIMIT, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_JOB_TOO_LARGE, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_TARGET_UNAVAILABLE, RPC_CODE_FAILED_PRECONDITION},
      {REASON_DEVICE_MEMORY, RPC_CODE_RESOURCE_EXHAUSTED},
      {REASON_DEVICE_LOST, RPC_CODE_UNAVAILABLE},
      {REASON_IDLE_TIMEOUT, RPC_CODE_ABORTED},
      {REASON_UNAUTHENTICATED, RPC_CODE_UNAUTHENTICATED},
      {REASON_DRAINING, RPC_CODE_UNAVAILABLE},
      {REASON_INTERNAL, RPC_CODE_INTERNAL},
      {REASON_CANCELLED, RPC_CODE_CANCELLED},
      {REASON_DEADLINE_EXCEEDED, RPC_CODE_DEADLINE_EXCEEDED},
      {REASON_CONFIGURATION, RPC_CODE_INTERNAL},
      {REASON_TRANSPORT, RPC_CODE_UNAVAILABLE},
      {REASON_FILE_INVALID, RPC_CODE_INTERNAL},
  };
  assert_int_equal(sizeof rows / sizeof *rows, REASON_COUNT);
  bool seen[REASON_COUNT] = {false};
  for (size_t i = 0; i < REASON_COUNT; i++) {
    assert_false(seen[rows[i].reason]);
    seen[rows[i].reason] = true;
    assert_int_equal(reason_to_rpc_code(rows[i].reason), rows[i].code);
  }
}

static void codes_have_grpcs_numbers_and_names(void **state) {
  (void)state;
  assert_string_equal(rpc_code_name(RPC_CODE_OK), "OK");
  assert_string_equal(rpc_code_name(RPC_CODE_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  assert_string_equal(rpc_code_name(6), "ALREADY_EXISTS");
  assert_string_equal(rpc_code_name(RPC_CODE_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
  assert_string_equal(rpc_code_name(RPC_CODE_UNIMPLEMENTED), "UNIMPLEMENTED");
  assert_string_equal(rpc_code_name(RPC_CODE_INTERNAL), "INTERNAL");
  assert_string_equal(rpc_code_name(15), "DATA_LOSS");
  assert_string_equal(rpc_code_name(16), "UNAUTHENTICATED");
  assert_string_equal(rpc_code_name(17), "UNKNOWN");
  assert_string_equal(rpc_code_name(-1), "UNKNOWN");
}

static void expect_same(const struct status *read, const struct status *written) {
  assert_int_equal(read->reason, written->reason);
  assert_int_equal(read->aclnn_status, written->aclnn_status);
  assert_true(read->retry_after_ms == written->retry_after_ms);
  assert_string_equal(read->parameter, written->parameter);
  assert_string_equal(read->message, written->message);
  assert_int_equal(read->metadata_count, written->metadata_count);
  for (size_t i = 0; i < written->metadata_count; i++) {
    assert_string_equal(read->metadata[i].key, written->metadata[i].key);
    assert_string_equal(read->metadata[i].value, written->metadata[i].value);
  }
}

static void a_status_of_every_reason_comes_back_as_written(void **state) {
  (void)state;
  for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++) {
    struct status failed = failed_with((enum reason)reason, "self", "a message");
    bool plain = reason == REASON_CANCELLED || reason == REASON_DEADLINE_EXCEEDED;
    if (plain) {
      failed.parameter[0] = '\0';
    } else {
      failed.retry_after_ms = 1500;
      status_add_metadata(&failed, "job", "%d", 3);
    }
    struct wire_buffer buffer = write_details(&failed);
    assert_int_equal(buffer.size == 0, plain);
    struct status read;
    char text[64];
    int code = (int)reason_to_rpc_code((enum reason)reason);
    error_details_read(code, failed.message, buffer.data, buffer.size, &read, text);
    expect_same(&read, &failed);
    assert_string_equal(text, plain ? "" : reason_name((enum reason)reason));
    wire_buffer_free(&buffer);
  }
}

static void details_have_these_bytes(void **state) {
  (void)state;
  struct status failed = failed_with(REASON_ACLNN_ERR_PARAM_INVALID, "x", "m");
  failed.retry_after_ms = 2500;
  status_add_metadata(&failed, "k", "v");
  struct test_bytes entry = {0};
  struct test_bytes info = {0};
  bytes_text(&info, 1, "ACLNN_ERR_PARAM_INVALID");
  bytes_text(&info, 2, "aclnn");
  static const char *const entries[][2] = {{"aclnn_status", "161002"}, {"parameter", "x"}, {"k", "v"}};
  for (size_t i = 0; i < 3; i++) {
    entry = (struct test_bytes){0};
    bytes_text(&entry, 1, entries[i][0]);
    bytes_text(&entry, 2, entries[i][1]);
    bytes_message(&info, 3, entry);
  }
  struct test_bytes detail = {0};
  bytes_text(&detail, 1, "type.googleapis.com/google.rpc.ErrorInfo");
  bytes_message(&detail, 2, info);
  struct test_bytes expected = {0};
  bytes_hex(&expected, "08 03 12 01 6d");
  bytes_message(&expected, 3, detail);
  detail = (struct test_bytes){0};
  bytes_text(&detail, 1, "type.googleapis.com/google.rpc.RetryInfo");
  bytes_hex(&detail, "12 0a 0a 08 08 02 10 80 ca b5 ee 01"); // 2 s and 500,000,000 ns
  bytes_message(&expected, 3, detail);
  struct wire_buffer buffer = write_details(&failed);
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void the_largest_status_fits(void **state) {
  (void)state;
  struct status failed = {.reason = REASON_ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND,
                          .aclnn_status = INT32_MIN,
                          .retry_after_ms = INT64_MAX,
                          .metadata_count = STATUS_METADATA_MAX};
  memset(failed.message, 'm', STATUS_MESSAGE_BYTES_MAX);
  memset(failed.parameter, 'p', STATUS_PARAMETER_BYTES_MAX);
  for (size_t i = 0; i < STATUS_METADATA_MAX; i++) {
    memset(failed.metadata[i].key, 'k', STATUS_METADATA_KEY_BYTES_MAX);
    memset(failed.metadata[i].value, 'v', STATUS_METADATA_VALUE_BYTES_MAX);
  }
  struct wire_buffer buffer = write_details(&failed);
  struct status read;
  error_details_read(RPC_CODE_INTERNAL, failed.message, buffer.data, buffer.size, &read, NULL);
  expect_same(&read, &failed);
  wire_buffer_free(&buffer);
}

static void texts_that_are_no_utf8_are_repaired(void **state) {
  (void)state;
  struct status failed = failed_with(REASON_INTERNAL, "p\xff.", "m\xff.");
  status_add_metadata(&failed, "k\xff.", "v\xff.");
  struct wire_buffer buffer = write_details(&failed);
  struct status read;
  error_details_read(RPC_CODE_INTERNAL, NULL, buffer.data, buffer.size, &read, NULL);
  assert_string_equal(read.message, "m?.");
  assert_string_equal(read.parameter, "p?.");
  assert_string_equal(read.metadata[0].key, "k?.");
  assert_string_equal(read.metadata[0].value, "v?.");
  // gRPC's own message may hold anything, too.
  error_details_read(RPC_CODE_INTERNAL, "a\xc3", NULL, 0, &read, NULL);
  assert_string_equal(read.message, "a?");
  wire_buffer_free(&buffer);
}

static void without_details_code_and_message_are_used(void **state) {
  (void)state;
  struct status read;
  char text[64];
  error_details_read(RPC_CODE_UNIMPLEMENTED, "no such method", NULL, 0, &read, text);
  assert_int_equal(read.reason, REASON_NONE);
  assert_string_equal(read.message, "no such method");
  assert_string_equal(text, "");
  error_details_read(RPC_CODE_UNAVAILABLE, NULL, NULL, 0, &read, NULL);
  assert_string_equal(read.message, "UNAVAILABLE");
  error_details_read(RPC_CODE_CANCELLED, "", NULL, 0, &read, NULL);
  assert_int_equal(read.reason, REASON_CANCELLED);
  error_details_read(RPC_CODE_DEADLINE_EXCEEDED, "late", NULL, 0, &read, NULL);
  assert_int_equal(read.reason, REASON_DEADLINE_EXCEEDED);
}

// One ErrorInfo with these entries of metadata: key, value, key, value ... NULL.
static struct test_bytes details_of(const char *domain, const char *reason, const char *const *entries) {
  struct test_bytes info = {0};
  bytes_text(&info, 1, reason);
  bytes_text(&info, 2, domain);
  for (; entries[0] != NULL; entries += 2) {
    struct test_bytes entry = {0};
    bytes_text(&entry, 1, entries[0]);
    bytes_text(&entry, 2, entries[1]);
    bytes_message(&info, 3, entry);
  }
  struct test_bytes detail = {0};
  bytes_text(&detail, 1, "type.googleapis.com/google.rpc.ErrorInfo");
  bytes_message(&detail, 2, info);
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 3, detail);
  return bytes;
}

static void read_bytes(struct test_bytes bytes, struct status *read, char text[64]) {
  error_details_read(RPC_CODE_INTERNAL, "message", bytes.data, bytes.size, read, text);
  bytes_free(&bytes);
}

static void an_unknown_reason_keeps_its_text(void **state) {
  (void)state;
  static const char *const entries[] = {"aclnn_status", "561999", NULL};
  struct status read;
  char text[64];
  read_bytes(details_of("aclnn", "ACLNN_ERR_FUTURE", entries), &read, text);
  assert_int_equal(read.reason, REASON_NONE);
  assert_int_equal(read.aclnn_status, 561999);
  assert_string_equal(text, "ACLNN_ERR_FUTURE");
  char longer[200] = {0};
  memset(longer, 'r', 199);
  read_bytes(details_of("aclnn", longer, entries), &read, text);
  assert_int_equal(strlen(text), 63);
}

static void another_domain_is_not_ours(void **state) {
  (void)state;
  static const char *const entries[] = {"aclnn_status", "161002", "parameter", "x", "a", "b", NULL};
  struct status read;
  char text[64];
  read_bytes(details_of("googleapis.com", "INTERNAL", entries), &read, text);
  assert_int_equal(read.reason, REASON_NONE);
  assert_int_equal(read.aclnn_status, 0);
  assert_int_equal(read.metadata_count, 0);
  assert_string_equal(read.parameter, "");
  assert_string_equal(text, "");
}

static void numbers_that_are_none_are_zero(void **state) {
  (void)state;
  static const char *const values[] = {"",    "x", "1x", "99999999999", "-99999999999", "9223372036854775808",
                                       "0x10"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    const char *const entries[] = {"aclnn_status", values[i], NULL};
    struct status read;
    read_bytes(details_of("aclnn", "INTERNAL", entries), &read, NULL);
    assert_int_equal(read.aclnn_status, 0);
    assert_int_equal(read.reason, REASON_INTERNAL);
  }
}

static void more_metadata_than_there_is_room_for_is_left_out(void **state) {
  (void)state;
  const char *entries[2 * 10 + 1] = {NULL};
  for (size_t i = 0; i < 20; i++) {
    entries[i] = "a text that is longer than a key or a value may be: a text that is longer than a key or a "
                 "value may be";
  }
  struct status read;
  read_bytes(details_of("aclnn", "INTERNAL", entries), &read, NULL);
  assert_int_equal(read.metadata_count, STATUS_METADATA_MAX);
  assert_int_equal(strlen(read.metadata[0].key), STATUS_METADATA_KEY_BYTES_MAX);
  assert_int_equal(strlen(read.metadata[0].value), STATUS_METADATA_VALUE_BYTES_MAX);
}

static void retry_delays_are_kept_in_range(void **state) {
  (void)state;
  static const struct {
    const char *hex; // RetryInfo
    int64_t expected;
  } rows[] = {
      {"0a 02 08 02", 2000},
      {"0a 05 10 80 ca b5 ee 01", 0}, // cut: ignored
      {"0a 06 10 80 ca b5 ee 01", 500},
      {"0a 0b 08 ff ff ff ff ff ff ff ff ff 01", 0}, // negative
      {"0a 0b 10 ff ff ff ff ff ff ff ff ff 01", 0}, // negative
      {"0a 0a 08 ff ff ff ff ff ff ff ff 7f", INT64_MAX},
      {"0a 06 10 80 94 eb dc 03", 0}, // a whole second of nanoseconds
      {"0a 00", 0},
      {"", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct test_bytes info = {0};
    bytes_hex(&info, rows[i].hex);
    struct test_bytes detail = {0};
    bytes_text(&detail, 1, "type.googleapis.com/google.rpc.RetryInfo");
    bytes_message(&detail, 2, info);
    struct test_bytes bytes = {0};
    bytes_message(&bytes, 3, detail);
    struct status read;
    read_bytes(bytes, &read, NULL);
    assert_true(read.retry_after_ms == rows[i].expected);
  }
}

static void cut_and_changed_details_are_tolerated(void **state) {
  (void)state;
  struct status failed = failed_with(REASON_QUEUE_FULL, "x", "m");
  failed.retry_after_ms = 1000;
  struct wire_buffer buffer = write_details(&failed);
  struct test_bytes bytes = {buffer.data, buffer.size};
  for (size_t size = 0; size < buffer.size; size++) {
    struct status read;
    char text[64];
    read_bytes(bytes_prefix(&bytes, size), &read, text);
    assert_string_equal(read.message, "message");
    struct test_bytes changed = bytes_prefix(&bytes, buffer.size);
    changed.data[size] ^= 0xff;
    read_bytes(changed, &read, text);
    assert_string_equal(read.message, "message");
  }
  wire_buffer_free(&buffer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_reason_has_its_code),
      cmocka_unit_test(codes_have_grpcs_numbers_and_names),
      cmocka_unit_test(a_status_of_every_reason_comes_back_as_written),
      cmocka_unit_test(details_have_these_bytes),
      cmocka_unit_test(the_largest_status_fits),
      cmocka_unit_test(texts_that_are_no_utf8_are_repaired),
      cmocka_unit_test(without_details_code_and_message_are_used),
      cmocka_unit_test(an_unknown_reason_keeps_its_text),
      cmocka_unit_test(another_domain_is_not_ours),
      cmocka_unit_test(numbers_that_are_none_are_zero),
      cmocka_unit_test(more_metadata_than_there_is_room_for_is_left_out),
      cmocka_unit_test(retry_delays_are_kept_in_range),
      cmocka_unit_test(cut_and_changed_details_are_tolerated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
