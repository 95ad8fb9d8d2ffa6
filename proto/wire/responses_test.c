#include "proto/wire/messages.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t handle[] = {0, 0xff, 7};

static void fill_response(struct workspace_size_response *response) {
  *response = (struct workspace_size_response){
      .executor = {handle, sizeof handle},
      .workspace_size = UINT64_MAX,
      .ttl_ms = 60000,
      .expire_unix_ms = 1700000000000,
      .target = TARGET_CPU,
      .numerics = NUMERICS_EXACT,
      .tensor_count = 2,
      .max_chunk_bytes = WIRE_CHUNK_BYTES_MAX,
      .accept_codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK,
  };
  response->tensors[0] = (struct tensor_plan){.name = "self",
                                              .direction = DIRECTION_INPUT,
                                              .desc = {.data_type = DATA_TYPE_FLOAT,
                                                       .format = FORMAT_ND,
                                                       .rank = 3,
                                                       .stride_count = 3,
                                                       .shape = {2, 8, 8},
                                                       .strides = {64, 8, 1},
                                                       .storage_elements = 128},
                                              .storage_bytes = 512};
  response->tensors[1] = (struct tensor_plan){.name = "gradInput",
                                              .direction = DIRECTION_OUTPUT,
                                              .desc = {.data_type = DATA_TYPE_FLOAT, .rank = 8},
                                              .storage_bytes = INT64_MAX,
                                              .transferred = true};
}

static void expect_same(const struct workspace_size_response *read,
                        const struct workspace_size_response *expected) {
  assert_int_equal(read->executor.size, expected->executor.size);
  assert_memory_equal(read->executor.data, expected->executor.data, expected->executor.size);
  assert_true(read->workspace_size == expected->workspace_size);
  assert_true(read->ttl_ms == expected->ttl_ms && read->expire_unix_ms == expected->expire_unix_ms);
  assert_int_equal(read->target, expected->target);
  assert_int_equal(read->numerics, expected->numerics);
  assert_true(read->max_chunk_bytes == expected->max_chunk_bytes);
  assert_int_equal(read->accept_codecs, expected->accept_codecs);
  assert_int_equal(read->tensor_count, expected->tensor_count);
  for (size_t i = 0; i < expected->tensor_count; i++) {
    const struct tensor_plan *plan = &read->tensors[i];
    assert_string_equal(plan->name, expected->tensors[i].name);
    assert_int_equal(plan->direction, expected->tensors[i].direction);
    assert_memory_equal(&plan->desc, &expected->tensors[i].desc, sizeof plan->desc);
    assert_true(plan->storage_bytes == expected->tensors[i].storage_bytes);
    assert_int_equal(plan->transferred, expected->tensors[i].transferred);
  }
}

static struct test_bytes from_hex(const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  return bytes;
}

static bool read_bytes(struct test_bytes bytes, struct workspace_size_response *response,
                       struct status *status) {
  bool ok = wire_read_workspace_size_response(bytes.data, bytes.size, response, status);
  bytes_free(&bytes);
  return ok;
}

static void a_response_comes_back_as_written(void **state) {
  (void)state;
  struct workspace_size_response response;
  struct workspace_size_response read;
  fill_response(&response);
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_workspace_size_response(&response, &buffer, &status));
  assert_true(wire_read_workspace_size_response(buffer.data, buffer.size, &read, &status));
  expect_same(&read, &response);
  workspace_size_response_free(&read);
  assert_null(read.executor.data);
  wire_buffer_free(&buffer);
}

static void an_accepted_comes_back_as_written(void **state) {
  (void)state;
  struct workspace_size_response response;
  struct workspace_size_response read;
  fill_response(&response);
  response.executor = (struct wire_buffer){0};
  struct wire_buffer buffer;
  struct status status;
  bool has_plan = false;
  assert_true(wire_write_execute_accepted(&response, &buffer, &status));
  assert_true(wire_read_execute_accepted(buffer.data, buffer.size, &has_plan, &read, &status));
  assert_true(has_plan);
  assert_null(read.executor.data);
  expect_same(&read, &response);
  wire_buffer_free(&buffer);

  assert_true(wire_write_execute_accepted(NULL, &buffer, &status));
  assert_int_equal(buffer.size, 0);
  assert_true(wire_read_execute_accepted(buffer.data, buffer.size, &has_plan, &read, &status));
  assert_false(has_plan);
  wire_buffer_free(&buffer);
}

static void a_done_comes_back_as_written(void **state) {
  (void)state;
  struct execute_done done = {.target = TARGET_NPU,
                              .numerics = NUMERICS_DETERMINISTIC,
                              .attempts = 3,
                              .queue_ns = 1,
                              .upload_ns = INT64_MAX,
                              .compute_ns = -5,
                              .download_ns = 1234567890123};
  struct wire_buffer buffer;
  struct execute_done read;
  struct status status;
  assert_true(wire_write_execute_done(&done, &buffer, &status));
  assert_true(wire_read_execute_done(buffer.data, buffer.size, &read, &status));
  assert_int_equal(read.target, done.target);
  assert_int_equal(read.numerics, done.numerics);
  assert_int_equal(read.attempts, done.attempts);
  assert_true(read.queue_ns == done.queue_ns && read.upload_ns == done.upload_ns &&
              read.compute_ns == done.compute_ns && read.download_ns == done.download_ns);
  wire_buffer_free(&buffer);
}

static void responses_have_these_bytes(void **state) {
  (void)state;
  struct workspace_size_response response = {.executor = {handle, 1},
                                             .workspace_size = 300,
                                             .ttl_ms = 1,
                                             .expire_unix_ms = 2,
                                             .target = TARGET_CPU,
                                             .numerics = NUMERICS_EXACT,
                                             .tensor_count = 1,
                                             .max_chunk_bytes = 4096,
                                             .accept_codecs = 1u << CODEC_LZ4_BLOCK};
  response.tensors[0] = (struct tensor_plan){.name = "x",
                                             .direction = DIRECTION_OUTPUT,
                                             .desc = {.data_type = DATA_TYPE_INT64, .storage_offset = 3},
                                             .storage_bytes = 8,
                                             .transferred = true};
  struct test_bytes expected = from_hex("0a 01 00 10 ac 02 18 01 20 02 28 02 30 03"
                                        "3a 0f 0a 01 78 10 02 1a 04 08 05 20 03 20 08 28 01"
                                        "40 80 20 4a 01 01");
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_workspace_size_response(&response, &buffer, &status));
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);

  struct execute_done done = {TARGET_CPU, NUMERICS_EXACT, 1, 2, 3, 4, 5};
  expected = from_hex("08 02 10 03 18 01 20 02 28 03 30 04 38 05");
  assert_true(wire_write_execute_done(&done, &buffer, &status));
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void what_a_newer_server_adds_is_skipped(void **state) {
  (void)state;
  struct workspace_size_response response;
  struct status status;
  // Field 10, target 9, numerics -1, codec 7 and a tensor with field 6, direction 3 and data type 99.
  assert_true(read_bytes(from_hex("50 01 28 09 30 ff ff ff ff ff ff ff ff ff 01 48 07 48 01"
                                  "3a 0c 30 01 10 03 1a 06 08 63 28 63 38 01"),
                         &response, &status));
  assert_int_equal(response.target, TARGET_UNSPECIFIED);
  assert_int_equal(response.numerics, NUMERICS_UNSPECIFIED);
  assert_int_equal(response.accept_codecs, 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK);
  assert_int_equal(response.tensor_count, 1);
  assert_int_equal(response.tensors[0].direction, DIRECTION_UNSPECIFIED);
  assert_int_equal(response.tensors[0].desc.data_type, DATA_TYPE_UNSPECIFIED);
  assert_int_equal(response.tensors[0].desc.format, FORMAT_UNSPECIFIED);
  workspace_size_response_free(&response);

  struct execute_done done;
  assert_true(wire_read_execute_done((const uint8_t *)"\x40\x01\x08\x63\x18\x02", 6, &done, &status));
  assert_int_equal(done.target, TARGET_UNSPECIFIED);
  assert_int_equal(done.attempts, 2);
}

static void expect_refused(struct test_bytes bytes, const char *named) {
  struct workspace_size_response response;
  memset(&response, 0xee, sizeof response);
  struct workspace_size_response untouched = response;
  struct status status;
  assert_false(wire_read_workspace_size_response(bytes.data, bytes.size, &response, &status));
  print_message("%s\n", status.message);
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_non_null(strstr(status.message, named));
  assert_memory_equal(&response, &untouched, sizeof response);
  // The same within ExecuteAccepted.
  struct test_bytes accepted = {0};
  bytes_message(&accepted, 1, bytes);
  bool has_plan = true;
  assert_false(wire_read_execute_accepted(accepted.data, accepted.size, &has_plan, &response, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_true(has_plan);
  assert_memory_equal(&response, &untouched, sizeof response);
  bytes_free(&accepted);
}

static void plans_that_a_client_cannot_hold_are_refused(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  for (int i = 0; i <= WIRE_TENSORS_MAX; i++) {
    bytes_hex(&bytes, "3a 00");
  }
  expect_refused(bytes, "17 tensors");
  expect_refused(from_hex("3a 0d 1a 0b 12 09 01 01 01 01 01 01 01 01 01"), "9 dims");
  expect_refused(from_hex("3a 0a 1a 08 12 01 01 1a 01 01 18 01"), "2 strides");
  expect_refused(from_hex("0a 01 61 3a 05 1a 03 1a 01 01"), "1 strides");
}

static void a_plan_without_descriptor_is_empty(void **state) {
  (void)state;
  struct workspace_size_response response;
  struct status status;
  assert_true(read_bytes(from_hex("3a 00"), &response, &status));
  assert_int_equal(response.tensor_count, 1);
  assert_true(tensor_desc_is_unspecified(&response.tensors[0].desc));
  workspace_size_response_free(&response);
}

static void malformed_responses_are_refused(void **state) {
  (void)state;
  expect_refused(from_hex("0a 05 61"), "executor");
  expect_refused(from_hex("3a 03 0a 01 ff"), "TensorPlan.name");
  expect_refused(from_hex("0b 0c"), "wire type");
}

static void a_response_cut_anywhere_leaks_nothing(void **state) {
  (void)state;
  struct workspace_size_response response;
  fill_response(&response);
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_workspace_size_response(&response, &buffer, &status));
  struct test_bytes bytes = {buffer.data, buffer.size};
  size_t refused = 0;
  for (size_t size = 0; size < buffer.size; size++) {
    struct workspace_size_response read;
    if (read_bytes(bytes_prefix(&bytes, size), &read, &status)) {
      workspace_size_response_free(&read);
    } else {
      assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
      refused++;
    }
  }
  // Ten fields on the top level: cut between them a message is a shorter one.
  assert_int_equal(refused, buffer.size - 10);
  wire_buffer_free(&buffer);
}

static void names_that_are_no_utf8_are_repaired(void **state) {
  (void)state;
  struct workspace_size_response response;
  struct workspace_size_response read;
  fill_response(&response);
  memcpy(response.tensors[0].name,
         "s\xff"
         "f",
         4);
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_workspace_size_response(&response, &buffer, &status));
  assert_true(wire_read_workspace_size_response(buffer.data, buffer.size, &read, &status));
  assert_string_equal(read.tensors[0].name, "s?f");
  workspace_size_response_free(&read);
  wire_buffer_free(&buffer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_response_comes_back_as_written),
      cmocka_unit_test(an_accepted_comes_back_as_written),
      cmocka_unit_test(a_done_comes_back_as_written),
      cmocka_unit_test(responses_have_these_bytes),
      cmocka_unit_test(what_a_newer_server_adds_is_skipped),
      cmocka_unit_test(plans_that_a_client_cannot_hold_are_refused),
      cmocka_unit_test(a_plan_without_descriptor_is_empty),
      cmocka_unit_test(malformed_responses_are_refused),
      cmocka_unit_test(a_response_cut_anywhere_leaks_nothing),
      cmocka_unit_test(names_that_are_no_utf8_are_repaired),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
