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

// Every array full.
static void fill_info(struct server_info *info) {
  *info = (struct server_info){.server_version = "1.2.3",
                               .contract_revision = 7,
                               .feature_count = WIRE_FEATURES_MAX,
                               .limits = {1, 2, 3, 4, 5, 6, 7, 8, INT64_MAX, 10},
                               .codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK,
                               .target_count = WIRE_TARGETS_MAX,
                               .cpu_path = "avx2"};
  for (size_t i = 0; i < WIRE_FEATURES_MAX; i++) {
    memset(info->features[i], 'a' + (int)i, sizeof info->features[i] - 1);
  }
  for (size_t i = 0; i < WIRE_TARGETS_MAX; i++) {
    struct target_info *target = &info->targets[i];
    target->target = (enum target)(i % (TARGET_NPU + 1));
    target->available = i % 2 == 0;
    target->numerics = 1u << NUMERICS_DEVICE | 1u << NUMERICS_EXACT;
    target->device_count = WIRE_DEVICES_MAX;
    for (size_t j = 0; j < WIRE_DEVICES_MAX; j++) {
      memset(target->devices[j].name, 'n', j);
      memset(target->devices[j].detail, 'd', sizeof target->devices[j].detail - 1);
      target->devices[j].healthy = j % 3 == 0;
    }
  }
}

static void expect_same_target(const struct target_info *read, const struct target_info *expected) {
  assert_int_equal(read->target, expected->target);
  assert_int_equal(read->available, expected->available);
  assert_int_equal(read->numerics, expected->numerics);
  assert_int_equal(read->device_count, expected->device_count);
  for (size_t i = 0; i < expected->device_count; i++) {
    assert_string_equal(read->devices[i].name, expected->devices[i].name);
    assert_string_equal(read->devices[i].detail, expected->devices[i].detail);
    assert_int_equal(read->devices[i].healthy, expected->devices[i].healthy);
  }
}

static void server_info_comes_back_as_written(void **state) {
  (void)state;
  struct server_info info;
  struct server_info read;
  fill_info(&info);
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_server_info(&info, &buffer, &status));
  assert_true(wire_read_server_info(buffer.data, buffer.size, &read, &status));
  assert_string_equal(read.server_version, info.server_version);
  assert_string_equal(read.cpu_path, info.cpu_path);
  assert_int_equal(read.contract_revision, info.contract_revision);
  assert_memory_equal(&read.limits, &info.limits, sizeof read.limits);
  assert_int_equal(read.codecs, info.codecs);
  assert_int_equal(read.feature_count, WIRE_FEATURES_MAX);
  for (size_t i = 0; i < WIRE_FEATURES_MAX; i++) {
    assert_string_equal(read.features[i], info.features[i]);
  }
  assert_int_equal(read.target_count, WIRE_TARGETS_MAX);
  for (size_t i = 0; i < WIRE_TARGETS_MAX; i++) {
    expect_same_target(&read.targets[i], &info.targets[i]);
  }
  wire_buffer_free(&buffer);
}

static void server_info_has_these_bytes(void **state) {
  (void)state;
  struct server_info info = {.server_version = "v",
                             .contract_revision = 1,
                             .features = {"f"},
                             .feature_count = 1,
                             .limits = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                             .codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK,
                             .target_count = 1,
                             .cpu_path = "c"};
  info.targets[0] = (struct target_info){.target = TARGET_CPU,
                                         .available = true,
                                         .devices = {{.name = "d", .healthy = true, .detail = "e"}},
                                         .device_count = 1,
                                         .numerics = 1u << NUMERICS_EXACT};
  struct test_bytes expected = from_hex("0a 01 76 10 01 1a 01 66"
                                        "22 12 08 01 10 02 18 03 20 04 28 05 30 06 38 07 40 08 48 09"
                                        "2a 02 00 01"
                                        "32 11 08 02 10 01 1a 08 0a 01 64 10 01 1a 01 65 22 01 03"
                                        "3a 01 63");
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_server_info(&info, &buffer, &status));
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void device_texts_are_repaired(void **state) {
  (void)state;
  struct server_info info = {.target_count = 1};
  info.targets[0].device_count = 1;
  memcpy(info.targets[0].devices[0].detail, "\xb4\xed\xce\xf3 x", 7);
  struct wire_buffer buffer;
  struct server_info read;
  struct status status;
  assert_true(wire_write_server_info(&info, &buffer, &status));
  assert_true(wire_read_server_info(buffer.data, buffer.size, &read, &status));
  assert_string_equal(read.targets[0].devices[0].detail, "???? x");
  wire_buffer_free(&buffer);
}

static void what_is_too_much_for_a_client_is_left_out(void **state) {
  (void)state;
  struct test_bytes target = {0};
  for (int i = 0; i <= WIRE_DEVICES_MAX; i++) {
    bytes_text(&target, 3, "");
  }
  bytes_hex(&target, "22 02 03 63"); // numerics EXACT and one unknown
  bytes_hex(&target, "08 63 c0 3e 01 28 01");
  struct test_bytes bytes = {0};
  for (int i = 0; i <= WIRE_TARGETS_MAX; i++) {
    bytes_message(&bytes, 6, bytes_prefix(&target, target.size));
  }
  bytes_free(&target);
  char longer[101] = {0};
  memset(longer, 'v', 100);
  bytes_text(&bytes, 1, longer);
  for (int i = 0; i <= WIRE_FEATURES_MAX; i++) {
    bytes_text(&bytes, 3, "feature");
  }
  bytes_hex(&bytes, "28 63 28 01 40 01");
  struct server_info info;
  struct status status;
  assert_true(wire_read_server_info(bytes.data, bytes.size, &info, &status));
  assert_int_equal(info.target_count, WIRE_TARGETS_MAX);
  assert_int_equal(info.targets[0].device_count, WIRE_DEVICES_MAX);
  assert_int_equal(info.targets[0].numerics, 1u << NUMERICS_EXACT);
  assert_int_equal(info.targets[0].target, TARGET_UNSPECIFIED);
  assert_int_equal(info.feature_count, WIRE_FEATURES_MAX);
  assert_int_equal(info.codecs, 1u << CODEC_LZ4_BLOCK);
  assert_int_equal(strlen(info.server_version), sizeof info.server_version - 1);
  bytes_free(&bytes);
}

static void an_empty_info_has_nothing(void **state) {
  (void)state;
  struct server_info info;
  struct status status;
  assert_true(wire_read_server_info(NULL, 0, &info, &status));
  assert_int_equal(info.target_count, 0);
  assert_int_equal(info.limits.max_chunk_bytes, 0);
  assert_false(wire_read_server_info((const uint8_t *)"\x0a\x01", 2, &info, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
}

// ---- operators

static void operators_come_back_as_written(void **state) {
  (void)state;
  struct operator_info *written = calloc(3, sizeof *written);
  assert_non_null(written);
  for (size_t i = 0; i < 3; i++) {
    written[i] =
        (struct operator_info){.name = "aclnnMm", .effect = EFFECT_PURE, .targets = 1u << TARGET_CPU};
    written[i].parameter_count = i == 1 ? REQUEST_ARGUMENTS_MAX : i;
    for (size_t j = 0; j < written[i].parameter_count; j++) {
      written[i].parameters[j] = (struct parameter_info){.name = "mat2",
                                                         .kind = (enum parameter_kind)(j % 7),
                                                         .direction = (enum direction)(j % 3),
                                                         .optional = j % 2 == 0,
                                                         .shape_only = j % 2 == 1,
                                                         .data_types = (UINT64_C(1) << DATA_TYPE_COUNT) - 1,
                                                         .ranks = UINT32_MAX};
    }
  }
  struct wire_buffer buffer;
  struct operator_info *read;
  size_t count;
  struct status status;
  assert_true(wire_write_operator_list(written, 3, &buffer, &status));
  assert_true(wire_read_operator_list(buffer.data, buffer.size, &read, &count, &status));
  assert_int_equal(count, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(read[i].name, written[i].name);
    assert_int_equal(read[i].effect, EFFECT_PURE);
    assert_int_equal(read[i].targets, 1u << TARGET_CPU);
    assert_int_equal(read[i].parameter_count, written[i].parameter_count);
    for (size_t j = 0; j < read[i].parameter_count; j++) {
      const struct parameter_info *parameter = &read[i].parameters[j];
      const struct parameter_info *expected = &written[i].parameters[j];
      assert_string_equal(parameter->name, expected->name);
      assert_int_equal(parameter->kind, expected->kind);
      assert_int_equal(parameter->direction, expected->direction);
      assert_int_equal(parameter->optional, expected->optional);
      assert_int_equal(parameter->shape_only, expected->shape_only);
      assert_true(parameter->data_types == expected->data_types);
      assert_int_equal(parameter->ranks, expected->ranks);
    }
  }
  free(read);
  free(written);
  wire_buffer_free(&buffer);
}

static void operators_have_these_bytes(void **state) {
  (void)state;
  struct operator_info entry = {.name = "o",
                                .parameter_count = 1,
                                .effect = EFFECT_PURE,
                                .targets = 1u << TARGET_CPU | 1u << TARGET_NPU};
  entry.parameters[0] = (struct parameter_info){.name = "p",
                                                .kind = PARAMETER_KIND_TENSOR,
                                                .direction = DIRECTION_OUTPUT,
                                                .optional = true,
                                                .shape_only = true,
                                                .data_types = 1u << DATA_TYPE_FLOAT | 1u << DATA_TYPE_BF16,
                                                .ranks = 1u << 3 | 1u << 4};
  struct test_bytes expected = from_hex("0a 1e 0a 01 6f"
                                        "12 13 0a 01 70 10 01 18 02 20 01 28 01 32 02 01 03 3a 02 03 04"
                                        "18 01 22 02 02 03");
  struct wire_buffer buffer;
  struct status status;
  assert_true(wire_write_operator_list(&entry, 1, &buffer, &status));
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void no_operators_are_an_empty_list(void **state) {
  (void)state;
  struct wire_buffer buffer;
  struct operator_info *read = NULL;
  size_t count = 9;
  struct status status;
  assert_true(wire_write_operator_list(NULL, 0, &buffer, &status));
  assert_int_equal(buffer.size, 0);
  assert_true(wire_read_operator_list(buffer.data, buffer.size, &read, &count, &status));
  assert_int_equal(count, 0);
  free(read);
  wire_buffer_free(&buffer);
}

static void operators_that_cannot_be_called_are_left_out(void **state) {
  (void)state;
  struct test_bytes large = {0};
  for (int i = 0; i <= REQUEST_ARGUMENTS_MAX; i++) {
    bytes_text(&large, 2, "");
  }
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, "0a 03 0a 01 61");
  bytes_message(&bytes, 1, large);
  // Unknown kind, direction, data types, ranks, effect and targets.
  struct test_bytes parameter = {0};
  bytes_hex(&parameter, "10 63 18 63 32 0e ff ff ff ff ff ff ff ff ff 01 01 ff 01 02 3a 0d 03 20 ff ff ff ff "
                        "ff ff ff ff ff 01 04");
  struct test_bytes entry = {0};
  bytes_hex(&entry, "0a 01 62 18 09 22 02 02 63");
  bytes_message(&entry, 2, parameter);
  bytes_message(&bytes, 1, entry);
  bytes_hex(&bytes, "28 01");
  struct operator_info *read;
  size_t count;
  struct status status;
  if (!wire_read_operator_list(bytes.data, bytes.size, &read, &count, &status)) {
    fail_msg("%s", status.message);
  }
  assert_int_equal(count, 2);
  assert_string_equal(read[0].name, "a");
  assert_string_equal(read[1].name, "b");
  assert_int_equal(read[1].effect, EFFECT_UNSPECIFIED);
  assert_int_equal(read[1].targets, 1u << TARGET_CPU);
  assert_int_equal(read[1].parameters[0].kind, PARAMETER_KIND_UNSPECIFIED);
  assert_int_equal(read[1].parameters[0].direction, DIRECTION_UNSPECIFIED);
  assert_true(read[1].parameters[0].data_types == (1u << 1 | 1u << 2));
  assert_int_equal(read[1].parameters[0].ranks, 1u << 3 | 1u << 4);
  free(read);
  bytes_free(&bytes);
}

static void endless_lists_are_refused(void **state) {
  (void)state;
  struct operator_info *read = NULL;
  size_t count = 0;
  struct status status;
  size_t size = 3 << 20;
  uint8_t *data = malloc(size);
  assert_non_null(data);
  for (size_t i = 0; i < size; i += 2) {
    data[i] = 0x0a;
    data[i + 1] = 0;
  }
  assert_true(wire_read_operator_list(data, 2 * WIRE_OPERATORS_MAX, &read, &count, &status));
  assert_int_equal(count, WIRE_OPERATORS_MAX);
  free(read);
  read = NULL;
  assert_false(wire_read_operator_list(data, 2 * WIRE_OPERATORS_MAX + 2, &read, &count, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_false(wire_read_operator_list(data, size, &read, &count, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_null(read);
  assert_int_equal(count, WIRE_OPERATORS_MAX);
  free(data);
}

// ---- health

static void health_comes_back_as_written(void **state) {
  (void)state;
  struct wire_buffer buffer;
  struct wire_buffer service;
  struct status status;
  assert_true(wire_write_health_request("aclnn.v1.OperatorService", &buffer, &status));
  assert_true(wire_read_health_request(buffer.data, buffer.size, &service, &status));
  assert_string_equal((const char *)service.data, "aclnn.v1.OperatorService");
  assert_int_equal(service.size, strlen("aclnn.v1.OperatorService"));
  wire_buffer_free(&service);
  wire_buffer_free(&buffer);
  for (int value = HEALTH_UNKNOWN; value <= HEALTH_SERVICE_UNKNOWN; value++) {
    enum health_status health;
    assert_true(wire_write_health_response((enum health_status)value, &buffer, &status));
    assert_int_equal(buffer.size, value == 0 ? 0 : 2);
    assert_true(wire_read_health_response(buffer.data, buffer.size, &health, &status));
    assert_int_equal(health, value);
    wire_buffer_free(&buffer);
  }
}

static void health_is_lenient_about_what_it_does_not_know(void **state) {
  (void)state;
  struct wire_buffer service;
  enum health_status health;
  struct status status;
  assert_true(wire_read_health_request((const uint8_t *)"\x10\x01", 2, &service, &status));
  assert_string_equal((const char *)service.data, "");
  wire_buffer_free(&service);
  assert_true(wire_read_health_request(NULL, 0, &service, &status));
  assert_int_equal(service.size, 0);
  wire_buffer_free(&service);
  assert_true(wire_read_health_response((const uint8_t *)"\x08\x63", 2, &health, &status));
  assert_int_equal(health, HEALTH_UNKNOWN);
  assert_true(wire_read_health_response((const uint8_t *)"\x10\x63\x08\x02", 4, &health, &status));
  assert_int_equal(health, HEALTH_NOT_SERVING);
}

static void malformed_health_messages_are_refused(void **state) {
  (void)state;
  struct wire_buffer service;
  enum health_status health;
  struct status status;
  assert_false(wire_read_health_request((const uint8_t *)"\x0a\x02"
                                                         "a",
                                        3, &service, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_false(wire_read_health_request((const uint8_t *)"\x0a\x02"
                                                         "a",
                                        4, &service, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
  assert_false(wire_read_health_response((const uint8_t *)"\x08", 1, &health, &status));
  assert_int_equal(status.reason, REASON_MESSAGE_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(server_info_comes_back_as_written),
      cmocka_unit_test(server_info_has_these_bytes),
      cmocka_unit_test(device_texts_are_repaired),
      cmocka_unit_test(what_is_too_much_for_a_client_is_left_out),
      cmocka_unit_test(an_empty_info_has_nothing),
      cmocka_unit_test(operators_come_back_as_written),
      cmocka_unit_test(operators_have_these_bytes),
      cmocka_unit_test(no_operators_are_an_empty_list),
      cmocka_unit_test(operators_that_cannot_be_called_are_left_out),
      cmocka_unit_test(endless_lists_are_refused),
      cmocka_unit_test(health_comes_back_as_written),
      cmocka_unit_test(health_is_lenient_about_what_it_does_not_know),
      cmocka_unit_test(malformed_health_messages_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
