#include "proto/wire/messages.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct test_bytes from_hex(const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  return bytes;
}

static bool read_bytes(struct test_bytes bytes, struct execute_begin *begin, struct status *status) {
  bool ok = wire_read_execute_begin(bytes.data, bytes.size, begin, status);
  bytes_free(&bytes);
  return ok;
}

static void expect_refused(struct test_bytes bytes, enum reason reason, const char *named) {
  struct execute_begin begin;
  memset(&begin, 0xee, sizeof begin);
  struct execute_begin untouched = begin;
  struct status status;
  assert_false(read_bytes(bytes, &begin, &status));
  print_message("%s\n", status.message);
  assert_int_equal(status.reason, reason);
  assert_non_null(strstr(status.message, named));
  assert_memory_equal(&begin, &untouched, sizeof begin);
}

static void a_begin_with_executor_comes_back_as_written(void **state) {
  (void)state;
  uint8_t handle[] = {0, 1, 0xff, 0};
  struct execute_begin begin = {.executor = {handle, sizeof handle},
                                .workspace_size = UINT64_MAX,
                                .accept_codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK,
                                .max_chunk_bytes = WIRE_CHUNK_BYTES_MAX};
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_execute_begin(&begin, &buffer, &status));
  struct execute_begin read;
  assert_true(wire_read_execute_begin(buffer.data, buffer.size, &read, &status));
  assert_false(read.has_request);
  assert_int_equal(read.executor.size, sizeof handle);
  assert_memory_equal(read.executor.data, handle, sizeof handle);
  assert_true(read.workspace_size == UINT64_MAX);
  assert_int_equal(read.accept_codecs, begin.accept_codecs);
  assert_int_equal(read.max_chunk_bytes, WIRE_CHUNK_BYTES_MAX);
  execute_begin_free(&read);
  assert_null(read.executor.data);
  wire_buffer_free(&buffer);
}

static void a_begin_with_request_comes_back_as_written(void **state) {
  (void)state;
  struct execute_begin begin = {
      .has_request = true, .accept_codecs = 1u << CODEC_NONE, .max_chunk_bytes = 4096};
  begin.request =
      (struct operator_request){.operator_name = "aclnnMm", .target = TARGET_CPU, .argument_count = 1};
  begin.request.arguments[0] =
      (struct argument){.name = "cubeMathType", .value = {.kind = PARAMETER_KIND_INTEGER, .integer = 1}};
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_execute_begin(&begin, &buffer, &status));
  struct execute_begin read;
  assert_true(wire_read_execute_begin(buffer.data, buffer.size, &read, &status));
  assert_true(read.has_request);
  assert_null(read.executor.data);
  assert_string_equal(read.request.operator_name, "aclnnMm");
  assert_int_equal(read.request.target, TARGET_CPU);
  assert_int_equal(read.request.argument_count, 1);
  assert_string_equal(read.request.arguments[0].name, "cubeMathType");
  assert_int_equal(read.request.arguments[0].value.integer, 1);
  assert_int_equal(read.max_chunk_bytes, 4096);
  execute_begin_free(&read);
  wire_buffer_free(&buffer);
}

static void a_begin_has_these_bytes(void **state) {
  (void)state;
  uint8_t handle[] = {0xaa, 0xbb};
  struct execute_begin begin = {.executor = {handle, 2},
                                .workspace_size = 1024,
                                .accept_codecs = 1u << CODEC_LZ4_BLOCK,
                                .max_chunk_bytes = 1 << 20};
  struct test_bytes expected = from_hex("0a 02 aa bb 18 80 08 22 01 01 28 80 80 40");
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_execute_begin(&begin, &buffer, &status));
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void a_begin_without_plan_is_an_unknown_feature(void **state) {
  (void)state;
  expect_refused(from_hex(""), REASON_FEATURE_UNSUPPORTED, "ExecuteBegin");
  expect_refused(from_hex("18 05 28 05"), REASON_FEATURE_UNSUPPORTED, "ExecuteBegin");
  expect_refused(from_hex("30 01"), REASON_FEATURE_UNSUPPORTED, "field 6 of ExecuteBegin");
}

static void an_empty_executor_is_given_nevertheless(void **state) {
  (void)state;
  struct execute_begin begin;
  struct status status;
  assert_true(read_bytes(from_hex("0a 00"), &begin, &status));
  assert_false(begin.has_request);
  assert_int_equal(begin.executor.size, 0);
  execute_begin_free(&begin);
}

static void unknown_codec_offers_are_skipped(void **state) {
  (void)state;
  static const char *const offers[] = {
      "0a 01 61 22 03 63 01 02", "0a 01 61 20 63 20 01", "0a 01 61 22 02 01 01",
      "0a 01 61 22 0b ff ff ff ff ff ff ff ff ff 01 01", "0a 01 61 20 80 80 80 80 10 20 01"};
  struct execute_begin begin;
  struct status status;
  for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
    assert_true(read_bytes(from_hex(offers[i]), &begin, &status));
    assert_int_equal(begin.accept_codecs, 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK);
    execute_begin_free(&begin);
  }
  // NONE is implied.
  assert_true(read_bytes(from_hex("0a 01 61"), &begin, &status));
  assert_int_equal(begin.accept_codecs, 1u << CODEC_NONE);
  execute_begin_free(&begin);
}

static void of_both_plans_the_last_counts(void **state) {
  (void)state;
  struct execute_begin begin;
  struct status status;
  assert_true(read_bytes(from_hex("0a 01 61 12 04 0a 02 6f 70"), &begin, &status));
  assert_true(begin.has_request);
  assert_string_equal(begin.request.operator_name, "op");
  assert_null(begin.executor.data);
  assert_true(read_bytes(from_hex("12 04 0a 02 6f 70 0a 01 61"), &begin, &status));
  assert_false(begin.has_request);
  assert_int_equal(begin.executor.size, 1);
  execute_begin_free(&begin);
  assert_true(read_bytes(from_hex("0a 01 61 0a 02 62 63"), &begin, &status));
  assert_int_equal(begin.executor.size, 2);
  execute_begin_free(&begin);
}

static void bad_requests_within_a_begin_are_refused(void **state) {
  (void)state;
  expect_refused(from_hex("12 00 12 00"), REASON_MESSAGE_INVALID, "twice");
  expect_refused(from_hex("12 02 12 00"), REASON_FEATURE_UNSUPPORTED, "argument 0");
  expect_refused(from_hex("12 02 18 09"), REASON_FEATURE_UNSUPPORTED, "target");
  expect_refused(from_hex("12 02 0a 05"), REASON_MESSAGE_INVALID, "operator_name");
  struct test_bytes inner = {0};
  for (int i = 0; i <= REQUEST_ARGUMENTS_MAX; i++) {
    bytes_hex(&inner, "12 02 20 01");
  }
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 2, inner);
  expect_refused(bytes, REASON_ACLNN_ERR_PARAM_INVALID, "17 arguments");
}

static struct test_bytes with_handle(size_t size) {
  uint8_t *handle = calloc(size, 1);
  assert_non_null(handle);
  struct test_bytes bytes = {0};
  bytes_tag(&bytes, 1, WIRE_TYPE_LENGTH);
  bytes_varint(&bytes, size);
  bytes_raw(&bytes, handle, size);
  free(handle);
  return bytes;
}

static void a_handle_longer_than_any_is_invalid(void **state) {
  (void)state;
  struct execute_begin begin;
  struct status status;
  assert_true(read_bytes(with_handle(WIRE_HANDLE_BYTES_MAX), &begin, &status));
  assert_int_equal(begin.executor.size, WIRE_HANDLE_BYTES_MAX);
  execute_begin_free(&begin);
  expect_refused(with_handle(WIRE_HANDLE_BYTES_MAX + 1), REASON_EXECUTOR_INVALID, "8193");
  struct test_bytes bytes = with_handle(WIRE_HANDLE_BYTES_MAX + 1);
  struct wire_buffer executor = {0};
  assert_false(wire_read_destroy_request(bytes.data, bytes.size, &executor, &status));
  assert_int_equal(status.reason, REASON_EXECUTOR_INVALID);
  assert_null(executor.data);
  bytes_free(&bytes);
}

static void a_begin_cut_anywhere_leaks_nothing(void **state) {
  (void)state;
  struct test_bytes bytes = from_hex("0a 03 61 62 63 18 80 08 22 02 01 02 28 80 80 40");
  for (size_t size = 0; size < bytes.size; size++) {
    struct execute_begin begin;
    struct status status;
    bool ok = read_bytes(bytes_prefix(&bytes, size), &begin, &status);
    assert_int_equal(ok, size == 5 || size == 8 || size == 12);
    if (ok) {
      execute_begin_free(&begin);
    }
  }
  bytes_free(&bytes);
}

static void a_destroy_request_comes_back_as_written(void **state) {
  (void)state;
  static const uint8_t handle[] = {0, 1, 2};
  struct wire_buffer buffer;
  struct wire_buffer executor;
  struct status status;
  assert_true(wire_write_destroy_request((struct wire_handle){handle, sizeof handle}, &buffer, &status));
  assert_int_equal(buffer.size, 5);
  assert_memory_equal(buffer.data, "\x0a\x03\0\1\2", 5);
  assert_true(wire_read_destroy_request(buffer.data, buffer.size, &executor, &status));
  assert_int_equal(executor.size, sizeof handle);
  assert_memory_equal(executor.data, handle, sizeof handle);
  wire_buffer_free(&executor);
  wire_buffer_free(&buffer);
  assert_true(wire_read_destroy_request(NULL, 0, &executor, &status));
  assert_int_equal(executor.size, 0);
  wire_buffer_free(&executor);
  assert_false(wire_read_destroy_request((const uint8_t *)"\x10\x01", 2, &executor, &status));
  assert_int_equal(status.reason, REASON_FEATURE_UNSUPPORTED);
}

static void a_request_without_fields_takes_hints_only(void **state) {
  (void)state;
  struct status status;
  assert_true(wire_read_empty_request(NULL, 0, &status));
  assert_true(wire_read_empty_request((const uint8_t *)"\xc0\x3e\x01", 3, &status));
  assert_false(wire_read_empty_request((const uint8_t *)"\x08\x01", 2, &status));
  assert_int_equal(status.reason, REASON_FEATURE_UNSUPPORTED);
  assert_string_equal(status.message, "field 1 of this request is not known here");
  assert_false(wire_read_empty_request((const uint8_t *)"\xc0\x3e", 2, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_begin_with_executor_comes_back_as_written),
      cmocka_unit_test(a_begin_with_request_comes_back_as_written),
      cmocka_unit_test(a_begin_has_these_bytes),
      cmocka_unit_test(a_begin_without_plan_is_an_unknown_feature),
      cmocka_unit_test(an_empty_executor_is_given_nevertheless),
      cmocka_unit_test(unknown_codec_offers_are_skipped),
      cmocka_unit_test(of_both_plans_the_last_counts),
      cmocka_unit_test(bad_requests_within_a_begin_are_refused),
      cmocka_unit_test(a_handle_longer_than_any_is_invalid),
      cmocka_unit_test(a_begin_cut_anywhere_leaks_nothing),
      cmocka_unit_test(a_destroy_request_comes_back_as_written),
      cmocka_unit_test(a_request_without_fields_takes_hints_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
