#include "proto/wire/messages.h"
#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// One argument of each kind.
static void fill_request(struct operator_request *request) {
  *request = (struct operator_request){.operator_name = "aclnnAdaptiveMaxPool2dBackward",
                                       .target = TARGET_NPU,
                                       .numerics = NUMERICS_EXACT,
                                       .repeatable = true,
                                       .ttl_ms = 90000,
                                       .argument_count = 7};
  struct argument *arguments = request->arguments;
  arguments[0] = (struct argument){.name = "gradOutput",
                                   .value = {.kind = PARAMETER_KIND_TENSOR,
                                             .tensor = {.data_type = DATA_TYPE_FLOAT16,
                                                        .format = FORMAT_NCHW,
                                                        .rank = 4,
                                                        .stride_count = 4,
                                                        .shape = {2, 3, 7, 7},
                                                        .strides = {147, 49, 7, 1},
                                                        .storage_offset = 5,
                                                        .storage_elements = 400}}};
  arguments[1] = (struct argument){.name = "outputSize",
                                   .value = {.kind = PARAMETER_KIND_INT_ARRAY, .int_array = {2, {7, -7}}}};
  arguments[2] = (struct argument){.name = "cubeMathType",
                                   .value = {.kind = PARAMETER_KIND_INTEGER, .integer = INT64_MIN}};
  arguments[3] = (struct argument){.name = "alpha", .value = {.kind = PARAMETER_KIND_REAL, .real = -0.5}};
  arguments[4] =
      (struct argument){.name = "flag", .value = {.kind = PARAMETER_KIND_BOOLEAN, .boolean = true}};
  arguments[5] = (struct argument){.name = "mode",
                                   .value = {.kind = PARAMETER_KIND_TEXT,
                                             .text = "m\xc3\xb6"
                                                     "de"}};
  arguments[6] = (struct argument){.name = "gradInput", .value = {.kind = PARAMETER_KIND_TENSOR}};
}

// The same again with every value zero: a oneof's member is written even so.
static void fill_zero_request(struct operator_request *request) {
  fill_request(request);
  for (size_t i = 0; i < request->argument_count; i++) {
    enum parameter_kind kind = request->arguments[i].value.kind;
    memset(&request->arguments[i], 0, sizeof request->arguments[i]);
    request->arguments[i].value.kind = kind;
  }
}

static void expect_same_value(const struct argument_value *value, const struct argument_value *expected) {
  assert_int_equal(value->kind, expected->kind);
  switch (expected->kind) {
  case PARAMETER_KIND_TENSOR:
    // Descriptors have no padding.
    assert_memory_equal(&value->tensor, &expected->tensor, sizeof value->tensor);
    break;
  case PARAMETER_KIND_INT_ARRAY:
    assert_memory_equal(&value->int_array, &expected->int_array, sizeof value->int_array);
    break;
  case PARAMETER_KIND_INTEGER:
    assert_true(value->integer == expected->integer);
    break;
  case PARAMETER_KIND_REAL:
    assert_memory_equal(&value->real, &expected->real, sizeof value->real);
    break;
  case PARAMETER_KIND_BOOLEAN:
    assert_int_equal(value->boolean, expected->boolean);
    break;
  case PARAMETER_KIND_TEXT:
    assert_string_equal(value->text, expected->text);
    break;
  case PARAMETER_KIND_UNSPECIFIED:
    fail();
  }
}

static void expect_same(const struct operator_request *request, const struct operator_request *expected) {
  assert_string_equal(request->operator_name, expected->operator_name);
  assert_int_equal(request->target, expected->target);
  assert_int_equal(request->numerics, expected->numerics);
  assert_int_equal(request->repeatable, expected->repeatable);
  assert_true(request->ttl_ms == expected->ttl_ms);
  assert_int_equal(request->argument_count, expected->argument_count);
  for (size_t i = 0; i < expected->argument_count; i++) {
    assert_string_equal(request->arguments[i].name, expected->arguments[i].name);
    expect_same_value(&request->arguments[i].value, &expected->arguments[i].value);
  }
}

static struct wire_buffer write_request(const struct operator_request *request) {
  struct wire_buffer buffer;
  struct status status;
  if (!wire_write_operator_request(request, &buffer, &status)) {
    fail_msg("%s", status.message);
  }
  return buffer;
}

static bool read_bytes(struct test_bytes bytes, struct operator_request *request, struct status *status) {
  bool ok = wire_read_operator_request(bytes.data, bytes.size, request, status);
  bytes_free(&bytes);
  return ok;
}

static void expect_refused(struct test_bytes bytes, enum reason reason, const char *named) {
  struct operator_request request;
  memset(&request, 0xee, sizeof request);
  struct operator_request untouched = request;
  struct status status;
  assert_false(read_bytes(bytes, &request, &status));
  print_message("%s\n", status.message);
  assert_int_equal(status.reason, reason);
  assert_non_null(strstr(status.message, named));
  assert_memory_equal(&request, &untouched, sizeof request);
}

static void a_request_comes_back_as_written(void **state) {
  (void)state;
  struct operator_request request;
  for (int zero = 0; zero < 2; zero++) {
    if (zero) {
      fill_zero_request(&request);
    } else {
      fill_request(&request);
    }
    struct wire_buffer buffer = write_request(&request);
    struct operator_request read;
    struct status status;
    assert_true(wire_read_operator_request(buffer.data, buffer.size, &read, &status));
    expect_same(&read, &request);
    wire_buffer_free(&buffer);
    assert_null(buffer.data);
  }
}

static void an_empty_request_has_nothing(void **state) {
  (void)state;
  struct operator_request request;
  const struct operator_request empty = {0};
  struct status status;
  assert_true(wire_read_operator_request(NULL, 0, &request, &status));
  expect_same(&request, &empty);
}

static void a_request_has_these_bytes(void **state) {
  (void)state;
  struct operator_request request = {.operator_name = "op", .target = TARGET_CPU, .ttl_ms = 300};
  request.argument_count = 2;
  request.arguments[0] = (struct argument){
      .name = "x",
      .value = {.kind = PARAMETER_KIND_TENSOR,
                .tensor = {.data_type = DATA_TYPE_BF16, .rank = 2, .shape = {3, 200}, .format = FORMAT_ND}}};
  request.arguments[1] =
      (struct argument){.name = "n", .value = {.kind = PARAMETER_KIND_INTEGER, .integer = -1}};
  request.numerics = NUMERICS_DETERMINISTIC;
  request.repeatable = true;
  struct test_bytes expected = {0};
  bytes_hex(&expected, "0a 02 6f 70"                      // operator_name
                       "12 0e 0a 01 78"                   // arguments[0].name
                       "12 09 08 03"                      // tensor.data_type
                       "12 03 03 c8 01"                   // shape, packed
                       "28 01"                            // format
                       "12 0e 0a 01 6e"                   // arguments[1].name
                       "20 ff ff ff ff ff ff ff ff ff 01" // integer
                       "18 02 20 02 28 01 30 ac 02");     // target, numerics, repeatable, ttl_ms
  struct wire_buffer buffer = write_request(&request);
  assert_int_equal(buffer.size, expected.size);
  assert_memory_equal(buffer.data, expected.data, expected.size);
  wire_buffer_free(&buffer);
  bytes_free(&expected);
}

static void a_request_cut_within_a_field_is_refused(void **state) {
  (void)state;
  struct operator_request request;
  fill_request(&request);
  struct wire_buffer buffer = write_request(&request);
  struct test_bytes bytes = {.data = buffer.data, .size = buffer.size};
  struct span span = {buffer.data, buffer.size};
  struct span_cursor cursor;
  span_cursor_init(&cursor, &span, 1);
  size_t boundary = 0;
  for (size_t size = 0; size < buffer.size; size++) {
    uint32_t field;
    enum wire_type type;
    while (boundary < size) {
      assert_true(span_read_tag(&cursor, &field, &type) && span_skip_value(&cursor, field, type));
      boundary = cursor.consumed;
    }
    struct operator_request read;
    struct status status;
    bool ok = read_bytes(bytes_prefix(&bytes, size), &read, &status);
    assert_int_equal(ok, size == boundary);
    assert_true(ok || status.reason == REASON_MESSAGE_INVALID);
  }
  wire_buffer_free(&buffer);
}

static struct test_bytes argument(const char *name, struct test_bytes value) {
  struct test_bytes inner = {0};
  bytes_text(&inner, 1, name);
  bytes_raw(&inner, value.data, value.size);
  bytes_free(&value);
  struct test_bytes bytes = {0};
  bytes_message(&bytes, 2, inner);
  return bytes;
}

static struct test_bytes from_hex(const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  return bytes;
}

static void an_argument_without_value_is_an_unknown_feature(void **state) {
  (void)state;
  expect_refused(argument("self", (struct test_bytes){0}), REASON_FEATURE_UNSUPPORTED, "self");
  expect_refused(from_hex("12 00"), REASON_FEATURE_UNSUPPORTED, "argument 0");
  // A hint is no value.
  expect_refused(argument("self", from_hex("c0 3e 01")), REASON_FEATURE_UNSUPPORTED, "self");
}

static void of_several_values_the_last_counts(void **state) {
  (void)state;
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(argument("x", from_hex("12 02 08 01 3a 01 61 20 05")), &request, &status));
  assert_int_equal(request.arguments[0].value.kind, PARAMETER_KIND_INTEGER);
  assert_int_equal(request.arguments[0].value.integer, 5);
  assert_true(
      read_bytes(argument("x", from_hex("12 02 08 02 20 05 3a 01 61 12 02 08 01")), &request, &status));
  assert_int_equal(request.arguments[0].value.kind, PARAMETER_KIND_TENSOR);
  assert_int_equal(request.arguments[0].value.tensor.data_type, DATA_TYPE_FLOAT);
}

static void of_a_double_scalar_the_last_counts(void **state) {
  (void)state;
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(from_hex("0a 01 61 18 02 0a 01 62 18 03 30 05 30 00"), &request, &status));
  assert_string_equal(request.operator_name, "b");
  assert_int_equal(request.target, TARGET_NPU);
  assert_int_equal(request.ttl_ms, 0);
}

static void any_nonzero_number_is_true(void **state) {
  (void)state;
  static const char *const booleans[] = {"28 01",
                                         "28 02",
                                         "28 80 01",
                                         "28 ff ff ff ff ff ff ff ff ff 01",
                                         "28 80 80 80 80 80 80 80 80 80 01",
                                         "28 80 80 80 80 10"};
  struct operator_request request;
  struct status status;
  for (size_t i = 0; i < sizeof booleans / sizeof *booleans; i++) {
    assert_true(read_bytes(from_hex(booleans[i]), &request, &status));
    assert_true(request.repeatable);
  }
  assert_true(read_bytes(from_hex("28 80 00"), &request, &status));
  assert_false(request.repeatable);
}

static void packed_and_unpacked_dims_are_one_list(void **state) {
  (void)state;
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(argument("x", from_hex("12 10 10 02 12 02 03 04 10 05 12 00 18 01 1a 02 07 08")),
                         &request, &status));
  const struct tensor_desc *desc = &request.arguments[0].value.tensor;
  assert_int_equal(desc->rank, 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(desc->shape[i], i + 2);
  }
  assert_int_equal(desc->stride_count, 3);
  assert_int_equal(desc->strides[2], 8);
}

static void dims_and_values_beyond_the_struct_are_counted(void **state) {
  (void)state;
  struct test_bytes packed = {0};
  for (int i = 1; i <= 20; i++) {
    bytes_varint(&packed, (uint64_t)i);
  }
  struct test_bytes desc = {0};
  bytes_message(&desc, 2, bytes_prefix(&packed, 20));
  bytes_message(&desc, 3, bytes_prefix(&packed, 11));
  struct test_bytes value = {0};
  bytes_message(&value, 2, desc);
  struct test_bytes bytes = argument("x", value);
  struct test_bytes array = {0};
  bytes_message(&array, 1, packed);
  value = (struct test_bytes){0};
  bytes_message(&value, 3, array);
  struct test_bytes second = argument("y", value);
  bytes_raw(&bytes, second.data, second.size);
  bytes_free(&second);
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(bytes, &request, &status));
  assert_int_equal(request.arguments[0].value.tensor.rank, 20);
  assert_int_equal(request.arguments[0].value.tensor.stride_count, 11);
  assert_int_equal(request.arguments[0].value.tensor.shape[TENSOR_RANK_MAX - 1], TENSOR_RANK_MAX);
  assert_int_equal(request.arguments[1].value.int_array.count, 20);
  assert_int_equal(request.arguments[1].value.int_array.values[ARGUMENT_INT_ARRAY_MAX - 1],
                   ARGUMENT_INT_ARRAY_MAX);
}

static void more_arguments_than_any_operator_takes_are_refused(void **state) {
  (void)state;
  struct test_bytes bytes = {0};
  for (int i = 0; i < REQUEST_ARGUMENTS_MAX; i++) {
    struct test_bytes one = argument("x", from_hex("20 01"));
    bytes_raw(&bytes, one.data, one.size);
    bytes_free(&one);
  }
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(bytes_prefix(&bytes, bytes.size), &request, &status));
  assert_int_equal(request.argument_count, REQUEST_ARGUMENTS_MAX);
  bytes_hex(&bytes, "12 02 20 01");
  expect_refused(bytes, REASON_ACLNN_ERR_PARAM_INVALID, "17 arguments");
}

static void a_message_that_explodes_in_memory_is_refused(void **state) {
  (void)state;
  // Three megabytes of empty arguments: hundreds when unpacked.
  size_t size = 3 << 20;
  struct test_bytes bytes = {.data = malloc(size), .size = size};
  assert_non_null(bytes.data);
  for (size_t i = 0; i < size; i += 2) {
    bytes.data[i] = 0x12;
    bytes.data[i + 1] = 0;
  }
  expect_refused(bytes, REASON_ACLNN_ERR_PARAM_INVALID, "GetWorkspaceSizeRequest");
}

static void a_large_hint_is_no_reason_to_refuse(void **state) {
  (void)state;
  size_t size = 3 << 20;
  uint8_t *hint = calloc(size, 1);
  assert_non_null(hint);
  struct test_bytes bytes = {0};
  bytes_tag(&bytes, 1000, WIRE_TYPE_LENGTH);
  bytes_varint(&bytes, size);
  bytes_raw(&bytes, hint, size);
  bytes_text(&bytes, 1, "op");
  free(hint);
  struct operator_request request;
  struct status status;
  assert_true(read_bytes(bytes, &request, &status));
  assert_string_equal(request.operator_name, "op");
}

static void a_name_that_is_too_long_is_no_valid_name(void **state) {
  (void)state;
  char name[ARGUMENT_TEXT_BYTES_MAX + 2];
  memset(name, 'n', sizeof name);
  name[ARGUMENT_TEXT_BYTES_MAX + 1] = '\0';
  for (int longer = 0; longer < 2; longer++) {
    const char *text = longer ? name : name + 1;
    struct test_bytes bytes = argument(text, from_hex("20 01"));
    bytes_text(&bytes, 1, text);
    struct operator_request request;
    struct status status;
    assert_true(read_bytes(bytes, &request, &status));
    assert_int_equal(strlen(request.operator_name), ARGUMENT_TEXT_BYTES_MAX);
    assert_string_equal(request.operator_name, request.arguments[0].name);
    // One that just fits is whole; a longer one doesn't become that one by being cut.
    assert_int_equal(strcmp(request.operator_name, name + 1) == 0, !longer);
    assert_int_equal(strstr(request.operator_name, "...") != NULL, longer);
  }
}

static void unknown_and_malformed_parts_are_refused(void **state) {
  (void)state;
  expect_refused(from_hex("38 01"), REASON_FEATURE_UNSUPPORTED, "field 7 of GetWorkspaceSizeRequest");
  expect_refused(argument("x", from_hex("12 02 38 01")), REASON_FEATURE_UNSUPPORTED, "field 7 of TensorDesc");
  expect_refused(argument("x", from_hex("12 02 08 1c")), REASON_FEATURE_UNSUPPORTED, "value 28");
  expect_refused(from_hex("18 04"), REASON_FEATURE_UNSUPPORTED, "target");
  expect_refused(from_hex("0a 01 ff"), REASON_MESSAGE_INVALID, "operator_name");
  expect_refused(from_hex("0a 02 61 00"), REASON_MESSAGE_INVALID, "NUL");
  expect_refused(from_hex("08 01"), REASON_MESSAGE_INVALID, "operator_name");
  expect_refused(argument("x", from_hex("12 00 12 00")), REASON_MESSAGE_INVALID, "twice");
  // A length of six bytes: legal as a varint, taken by no decoder.
  expect_refused(from_hex("0a 81 80 80 80 80 00 61"), REASON_MESSAGE_INVALID, "GetWorkspaceSizeRequest");
}

static void what_the_contract_cannot_carry_is_not_written(void **state) {
  (void)state;
  struct operator_request good;
  fill_request(&good);
  for (int what = 0; what < 8; what++) {
    struct operator_request request = good;
    struct argument *arguments = request.arguments;
    switch (what) {
    case 0:
      request.argument_count = REQUEST_ARGUMENTS_MAX + 1;
      break;
    case 1:
      arguments[0].value.tensor.rank = TENSOR_RANK_MAX + 1;
      break;
    case 2:
      arguments[0].value.tensor.stride_count = TENSOR_RANK_MAX + 1;
      break;
    case 3:
      arguments[1].value.int_array.count = ARGUMENT_INT_ARRAY_MAX + 1;
      break;
    case 4:
      arguments[2].value.kind = PARAMETER_KIND_UNSPECIFIED;
      break;
    case 5:
      arguments[0].name[0] = (char)0xff;
      break;
    case 6:
      request.operator_name[0] = (char)0xff;
      break;
    default:
      arguments[5].value.text[0] = (char)0xff;
      break;
    }
    struct wire_buffer buffer = {0};
    struct status status = {0};
    assert_false(wire_write_operator_request(&request, &buffer, &status));
    assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
    assert_null(buffer.data);
    struct execute_begin begin = {.has_request = true, .request = request};
    assert_false(wire_write_execute_begin(&begin, &buffer, &status));
    assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_request_comes_back_as_written),
      cmocka_unit_test(an_empty_request_has_nothing),
      cmocka_unit_test(a_request_has_these_bytes),
      cmocka_unit_test(a_request_cut_within_a_field_is_refused),
      cmocka_unit_test(an_argument_without_value_is_an_unknown_feature),
      cmocka_unit_test(of_several_values_the_last_counts),
      cmocka_unit_test(of_a_double_scalar_the_last_counts),
      cmocka_unit_test(any_nonzero_number_is_true),
      cmocka_unit_test(packed_and_unpacked_dims_are_one_list),
      cmocka_unit_test(dims_and_values_beyond_the_struct_are_counted),
      cmocka_unit_test(more_arguments_than_any_operator_takes_are_refused),
      cmocka_unit_test(a_message_that_explodes_in_memory_is_refused),
      cmocka_unit_test(a_large_hint_is_no_reason_to_refuse),
      cmocka_unit_test(a_name_that_is_too_long_is_no_valid_name),
      cmocka_unit_test(unknown_and_malformed_parts_are_refused),
      cmocka_unit_test(what_the_contract_cannot_carry_is_not_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
