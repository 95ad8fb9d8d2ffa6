#include "proto/wire/message_validator.h"

#include "aclnn/v1/operator_service.pb-c.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct message_rules strict = {.strict = true};
static const struct message_rules lenient = {.strict = false};

static bool validate(const ProtobufCMessageDescriptor *descriptor, const struct message_rules *rules,
                     struct test_bytes *bytes, struct status *status) {
  bool ok = message_validate(descriptor, rules, bytes->data, bytes->size, status);
  bytes_free(bytes);
  return ok;
}

static void expect_good(const ProtobufCMessageDescriptor *descriptor, const struct message_rules *rules,
                        struct test_bytes bytes) {
  struct status status = {0};
  if (!validate(descriptor, rules, &bytes, &status)) {
    fail_msg("%s", status.message);
  }
}

static void expect_bad(const ProtobufCMessageDescriptor *descriptor, const struct message_rules *rules,
                       struct test_bytes bytes, enum reason reason, const char *named) {
  struct status status = {0};
  assert_false(validate(descriptor, rules, &bytes, &status));
  print_message("%s\n", status.message);
  assert_int_equal(status.reason, reason);
  assert_non_null(strstr(status.message, named));
}

#define REQUEST (&aclnn__v1__get_workspace_size_request__descriptor)
#define DESC (&aclnn__v1__tensor_desc__descriptor)
#define ARGUMENT (&aclnn__v1__argument__descriptor)
#define BEGIN (&aclnn__v1__execute_begin__descriptor)
#define DONE (&aclnn__v1__execute_done__descriptor)

static struct test_bytes from_hex(const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  return bytes;
}

static struct test_bytes number(uint32_t field, int64_t value) {
  struct test_bytes bytes = {0};
  bytes_number(&bytes, field, value);
  return bytes;
}

// A message whose field is `inner`.
static struct test_bytes wrapped(uint32_t field, struct test_bytes inner) {
  struct test_bytes bytes = {0};
  bytes_message(&bytes, field, inner);
  return bytes;
}

// ExecuteBegin.request.arguments[0].tensor is `desc`.
static struct test_bytes in_begin(struct test_bytes desc) {
  return wrapped(2, wrapped(2, wrapped(2, desc)));
}

static void unknown_fields_are_refused_at_every_depth(void **state) {
  (void)state;
  enum reason reason = REASON_FEATURE_UNSUPPORTED;
  expect_bad(BEGIN, &strict, number(6, 0), reason, "field 6 of ExecuteBegin");
  expect_bad(BEGIN, &strict, wrapped(2, number(7, 0)), reason, "field 7 of GetWorkspaceSizeRequest");
  expect_bad(BEGIN, &strict, wrapped(2, wrapped(2, number(8, 0))), reason, "field 8 of Argument");
  expect_bad(BEGIN, &strict, in_begin(number(999, 0)), reason, "field 999 of TensorDesc");
  expect_bad(BEGIN, &strict, wrapped(2, wrapped(2, wrapped(3, number(2, 0)))), reason, "field 2 of IntArray");
  // Whatever its wire type, a group too.
  expect_bad(BEGIN, &strict, from_hex("33 34"), reason, "field 6 of ExecuteBegin");
}

static void hints_are_skipped_at_every_depth(void **state) {
  (void)state;
  expect_good(BEGIN, &strict, number(1000, -1));
  expect_good(BEGIN, &strict, in_begin(number(1000, 1)));
  expect_good(BEGIN, &strict, in_begin(number(536870911, 1)));
  struct test_bytes text = {0};
  bytes_text(&text, 1000, "\xff\xfe");
  expect_good(BEGIN, &strict, in_begin(text));
  expect_good(DESC, &strict, from_hex("c1 3e 01 02 03 04 05 06 07 08 c5 3e 01 02 03 04"));
}

static void malformed_hints_are_refused(void **state) {
  (void)state;
  enum reason reason = REASON_MESSAGE_INVALID;
  expect_bad(DESC, &strict, from_hex("c0 3e"), reason, "field 1000 of TensorDesc");
  expect_bad(DESC, &strict, from_hex("c1 3e 01 02 03"), reason, "field 1000 of TensorDesc");
  expect_bad(DESC, &strict, from_hex("c2 3e 02 61"), reason, "field 1000 of TensorDesc");
  expect_bad(DESC, &strict, from_hex("c3 3e c4 3e"), reason, "group");
  expect_bad(DESC, &strict, from_hex("c4 3e"), reason, "group");
}

static void unknown_fields_are_skipped_in_lenient_reading(void **state) {
  (void)state;
  expect_good(BEGIN, &lenient, in_begin(number(7, 1)));
  expect_good(BEGIN, &lenient, number(6, 0));
  expect_bad(BEGIN, &lenient, from_hex("33 34"), REASON_MESSAGE_INVALID, "group");
  expect_bad(BEGIN, &lenient, from_hex("32 05 61"), REASON_MESSAGE_INVALID, "field 6");
}

static void unknown_enum_values_are_refused_by_field_and_value(void **state) {
  (void)state;
  static const int64_t values[] = {
      28, 999, -1, INT32_MIN, INT32_MAX, (int64_t)1 << 32, ((int64_t)1 << 32) + 1, 0xffffffff};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char named[64];
    (void)snprintf(named, sizeof named, "TensorDesc.data_type has the value %lld,", (long long)values[i]);
    expect_bad(DESC, &strict, number(1, values[i]), REASON_FEATURE_UNSUPPORTED, named);
    expect_bad(BEGIN, &strict, in_begin(number(1, values[i])), REASON_FEATURE_UNSUPPORTED, named);
    expect_good(DESC, &lenient, number(1, values[i]));
  }
  expect_bad(DESC, &strict, number(5, 5), REASON_FEATURE_UNSUPPORTED, "TensorDesc.format");
  expect_bad(REQUEST, &strict, number(3, 4), REASON_FEATURE_UNSUPPORTED, "target");
  expect_bad(REQUEST, &strict, number(4, 4), REASON_FEATURE_UNSUPPORTED, "numerics");
  for (int64_t value = 0; value < 28; value++) {
    expect_good(DESC, &strict, number(1, value));
  }
}

static void unknown_values_of_the_open_field_are_skipped(void **state) {
  (void)state;
  const struct message_rules rules = {.strict = true, .open_message = BEGIN, .open_field = "accept_codecs"};
  expect_good(BEGIN, &rules, from_hex("22 03 01 63 02"));
  expect_good(BEGIN, &rules, number(4, -1));
  expect_bad(BEGIN, &strict, number(4, 2), REASON_FEATURE_UNSUPPORTED, "ExecuteBegin.accept_codecs");
  // Only that one.
  expect_bad(BEGIN, &rules, in_begin(number(1, 99)), REASON_FEATURE_UNSUPPORTED, "data_type");
  expect_bad(BEGIN, &rules, from_hex("22 01 80"), REASON_MESSAGE_INVALID, "accept_codecs");
}

static void wrong_wire_types_are_refused(void **state) {
  (void)state;
  static const char *const descs[] = {
      "0a 01 01",                   // data_type as bytes: not repeated
      "0d 00 00 00 00",             // as four bytes
      "11 00 00 00 00 00 00 00 00", // shape as eight bytes
      "15 00 00 00 00",             // as four bytes
      "22 01 00",                   // storage_offset as bytes
      "0b 0c",                      // a group
  };
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
    expect_bad(DESC, &strict, from_hex(descs[i]), REASON_MESSAGE_INVALID, "wire type");
    expect_bad(DESC, &lenient, from_hex(descs[i]), REASON_MESSAGE_INVALID, "wire type");
  }
  expect_bad(ARGUMENT, &strict, number(1, 1), REASON_MESSAGE_INVALID, "Argument.name");
  expect_bad(ARGUMENT, &strict, number(2, 1), REASON_MESSAGE_INVALID, "Argument.tensor");
  expect_bad(ARGUMENT, &strict, number(5, 1), REASON_MESSAGE_INVALID, "Argument.real");
}

static void packed_and_unpacked_numbers_are_both_taken(void **state) {
  (void)state;
  expect_good(DESC, &strict, from_hex("10 01 10 02 12 02 03 04 10 05"));
  expect_good(DESC, &strict, from_hex("12 00"));
  expect_good(DESC, &strict, from_hex("12 0a ff ff ff ff ff ff ff ff ff 01"));
  expect_bad(DESC, &strict, from_hex("12 02 01 80"), REASON_MESSAGE_INVALID, "TensorDesc.shape");
  expect_bad(DESC, &strict, from_hex("12 03 01 02"), REASON_MESSAGE_INVALID, "TensorDesc.shape");
  // The varint goes on behind the packed field.
  expect_bad(DESC, &strict, from_hex("12 01 80 01"), REASON_MESSAGE_INVALID, "TensorDesc.shape");
}

static void malformed_bytes_are_refused(void **state) {
  (void)state;
  static const char *const messages[] = {
      "08",
      "08 80",
      "12",
      "12 80",
      "12 05 01",
      "0e",
      "0f",
      "00",
      "02",
      "80",
      "08 ff ff ff ff ff ff ff ff ff 02",
      "10 ff",
      "20",
      "07",
  };
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    expect_bad(DESC, &strict, from_hex(messages[i]), REASON_MESSAGE_INVALID, "TensorDesc");
    expect_bad(DESC, &lenient, from_hex(messages[i]), REASON_MESSAGE_INVALID, "TensorDesc");
  }
  expect_bad(ARGUMENT, &strict, from_hex("29 00 00 00 00 00 00 00"), REASON_MESSAGE_INVALID, "Argument.real");
  expect_bad(ARGUMENT, &strict, from_hex("12 7f 08 01"), REASON_MESSAGE_INVALID, "Argument.tensor");
}

static void strings_are_utf8_without_nul(void **state) {
  (void)state;
  expect_good(ARGUMENT, &strict, from_hex("0a 06 c3 a9 e2 82 ac 7f"));
  expect_good(ARGUMENT, &strict, from_hex("0a 00"));
  for (int i = 0; i < 2; i++) {
    const struct message_rules *rules = i == 0 ? &strict : &lenient;
    expect_bad(ARGUMENT, rules, from_hex("0a 01 ff"), REASON_MESSAGE_INVALID,
               "Argument.name is not valid UTF-8");
    expect_bad(ARGUMENT, rules, from_hex("0a 02 e2 82"), REASON_MESSAGE_INVALID, "UTF-8");
    expect_bad(ARGUMENT, rules, from_hex("0a 03 61 00 62"), REASON_MESSAGE_INVALID,
               "Argument.name holds a NUL");
    expect_bad(ARGUMENT, rules, from_hex("3a 01 00"), REASON_MESSAGE_INVALID, "Argument.text holds a NUL");
  }
  // A character that the string cuts in two is not completed by what follows.
  expect_bad(ARGUMENT, &strict, from_hex("0a 01 c3 a9 01"), REASON_MESSAGE_INVALID, "UTF-8");
  // bytes are anything.
  expect_good(BEGIN, &strict, from_hex("0a 03 00 ff 00"));
}

static void a_sub_message_given_twice_is_refused(void **state) {
  (void)state;
  expect_bad(ARGUMENT, &strict, from_hex("12 00 12 00"), REASON_MESSAGE_INVALID,
             "Argument.tensor is given twice");
  expect_bad(ARGUMENT, &lenient, from_hex("12 00 12 00"), REASON_MESSAGE_INVALID, "twice");
  expect_bad(BEGIN, &strict, from_hex("12 00 12 00"), REASON_MESSAGE_INVALID, "ExecuteBegin.request");
  // Repeated ones are meant to come often.
  expect_good(REQUEST, &strict, from_hex("12 00 12 00 12 00"));
}

static void a_later_member_of_a_oneof_replaces_the_earlier(void **state) {
  (void)state;
  expect_good(ARGUMENT, &strict, from_hex("12 00 1a 00 12 00 20 05 20 06 12 00"));
  expect_bad(ARGUMENT, &strict, from_hex("20 05 12 00 12 00"), REASON_MESSAGE_INVALID, "twice");
}

static void scalars_may_come_twice(void **state) {
  (void)state;
  expect_good(DESC, &strict, from_hex("08 01 08 02 20 01 20 02"));
  expect_good(ARGUMENT, &strict, from_hex("0a 01 61 0a 01 62"));
}

static void numbers_of_32_bits_are_not_cut(void **state) {
  (void)state;
  expect_good(DONE, &lenient, number(3, INT32_MAX));
  expect_good(DONE, &lenient, number(3, INT32_MIN));
  expect_bad(DONE, &lenient, number(3, (int64_t)INT32_MAX + 1), REASON_MESSAGE_INVALID, "attempts");
  expect_bad(DONE, &strict, number(3, INT64_MIN), REASON_MESSAGE_INVALID, "attempts");
  const ProtobufCMessageDescriptor *chunk = &aclnn__v1__tensor_chunk__descriptor;
  expect_good(chunk, &strict, number(1, UINT32_MAX));
  expect_bad(chunk, &strict, number(1, (int64_t)UINT32_MAX + 1), REASON_MESSAGE_INVALID, "tensor_index");
}

// A message type that holds itself, as none of the contract does.
static const ProtobufCMessageDescriptor recursive;
static const ProtobufCFieldDescriptor recursive_fields[] = {{.name = "inner",
                                                             .id = 1,
                                                             .label = PROTOBUF_C_LABEL_NONE,
                                                             .type = PROTOBUF_C_TYPE_MESSAGE,
                                                             .descriptor = &recursive}};
static const ProtobufCIntRange recursive_ranges[] = {{1, 0}, {0, 1}};
static const ProtobufCMessageDescriptor recursive = {.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
                                                     .short_name = "Recursive",
                                                     .n_fields = 1,
                                                     .fields = recursive_fields,
                                                     .n_field_ranges = 1,
                                                     .field_ranges = recursive_ranges};

static void nesting_has_a_limit(void **state) {
  (void)state;
  for (int depth = 1; depth <= 2 * MESSAGE_DEPTH_MAX; depth++) {
    // depth messages, one in the other.
    struct test_bytes bytes = {0};
    for (int i = 1; i < depth; i++) {
      bytes = wrapped(1, bytes);
    }
    if (depth <= MESSAGE_DEPTH_MAX) {
      expect_good(&recursive, &strict, bytes);
    } else {
      expect_bad(&recursive, &lenient, bytes, REASON_MESSAGE_INVALID, "nested");
    }
  }
}

static void an_empty_message_is_good(void **state) {
  (void)state;
  struct status status;
  assert_true(message_validate(REQUEST, &strict, NULL, 0, &status));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_fields_are_refused_at_every_depth),
      cmocka_unit_test(hints_are_skipped_at_every_depth),
      cmocka_unit_test(malformed_hints_are_refused),
      cmocka_unit_test(unknown_fields_are_skipped_in_lenient_reading),
      cmocka_unit_test(unknown_enum_values_are_refused_by_field_and_value),
      cmocka_unit_test(unknown_values_of_the_open_field_are_skipped),
      cmocka_unit_test(wrong_wire_types_are_refused),
      cmocka_unit_test(packed_and_unpacked_numbers_are_both_taken),
      cmocka_unit_test(malformed_bytes_are_refused),
      cmocka_unit_test(strings_are_utf8_without_nul),
      cmocka_unit_test(a_sub_message_given_twice_is_refused),
      cmocka_unit_test(a_later_member_of_a_oneof_replaces_the_earlier),
      cmocka_unit_test(scalars_may_come_twice),
      cmocka_unit_test(numbers_of_32_bits_are_not_cut),
      cmocka_unit_test(nesting_has_a_limit),
      cmocka_unit_test(an_empty_message_is_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
