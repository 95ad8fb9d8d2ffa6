#include "server/npu/control/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER_BYTES 8

static const enum control_kind kinds[] = {CONTROL_START,    CONTROL_PLAN,  CONTROL_RUN,      CONTROL_PING,
                                          CONTROL_STOP,     CONTROL_READY, CONTROL_UNUSABLE, CONTROL_PLANNED,
                                          CONTROL_FINISHED, CONTROL_PONG};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

// ---- Messages with every field in use

static struct status some_status(void) {
  struct status status;
  memset(&status, 0, sizeof status);
  status.reason = REASON_DEVICE_LOST;
  strcpy(status.parameter, "gradOutput");
  strcpy(status.message, "507015: AI Core \xe2\x80\x93 exception");
  status.aclnn_status = 507015;
  status.retry_after_ms = -7;
  status.metadata_count = 2;
  strcpy(status.metadata[0].key, "position");
  strcpy(status.metadata[0].value, "12");
  strcpy(status.metadata[1].key, "value");
  return status;
}

static void fill_request(struct operator_request *request) {
  memset(request, 0, sizeof *request);
  strcpy(request->operator_name, "aclnnAdaptiveMaxPool2dBackward");
  request->target = TARGET_NPU;
  request->numerics = NUMERICS_DETERMINISTIC;
  request->repeatable = true;
  request->ttl_ms = 60000;
  request->argument_count = 6;
  struct argument *arguments = request->arguments;
  strcpy(arguments[0].name, "gradOutput");
  arguments[0].value.kind = PARAMETER_KIND_TENSOR;
  arguments[0].value.tensor = (struct tensor_desc){.data_type = DATA_TYPE_BF16,
                                                   .format = FORMAT_NCHW,
                                                   .rank = 4,
                                                   .stride_count = 3,
                                                   .shape = {2, 3, 1, INT64_MAX},
                                                   .strides = {9, -3, INT64_MIN},
                                                   .storage_offset = 5,
                                                   .storage_elements = INT64_C(1) << 40};
  strcpy(arguments[1].name, "outputSize");
  arguments[1].value.kind = PARAMETER_KIND_INT_ARRAY;
  arguments[1].value.int_array = (struct int_array){.count = 2, .values = {7, -7}};
  arguments[2].value.kind = PARAMETER_KIND_INTEGER;
  arguments[2].value.integer = -1;
  arguments[3].value.kind = PARAMETER_KIND_REAL;
  arguments[3].value.real = -0.1;
  arguments[4].value.kind = PARAMETER_KIND_BOOLEAN;
  arguments[4].value.boolean = true;
  arguments[5].value.kind = PARAMETER_KIND_TEXT;
  strcpy(arguments[5].value.text, "max");
}

static struct control_message some_message(enum control_kind kind) {
  struct control_message message;
  memset(&message, 0, sizeof message);
  message.kind = kind;
  switch (kind) {
  case CONTROL_START:
    message.start.version = 0x01020304;
    message.start.arena_bytes = UINT64_C(0x1122334455667788);
    break;
  case CONTROL_PLAN:
    message.plan.id = 77;
    fill_request(&message.plan.request);
    break;
  case CONTROL_RUN:
    message.run.id = UINT64_MAX;
    fill_request(&message.run.request);
    message.run.storages[0] = (struct control_storage){true, 64, 100};
    message.run.storages[OPERATOR_PARAMETERS_MAX - 1] = (struct control_storage){true, UINT64_MAX, 1};
    break;
  case CONTROL_PING:
    message.ping.sequence = 9;
    break;
  case CONTROL_STOP:
    break;
  case CONTROL_READY:
    message.ready.product = NPU_PRODUCT_A2;
    strcpy(message.ready.soc_name, "Ascend910B4");
    strcpy(message.ready.cann_version, "8.1.0");
    message.ready.memory_bytes = UINT64_C(32) << 30;
    message.ready.operators = 0x80000001;
    message.ready.deterministic = true;
    break;
  case CONTROL_UNUSABLE:
    message.unusable.status = some_status();
    break;
  case CONTROL_PLANNED:
    message.planned.id = 5;
    message.planned.workspace_bytes = UINT64_C(1) << 33;
    message.planned.device_fault = true;
    message.planned.status = some_status();
    break;
  case CONTROL_FINISHED:
    message.finished.id = 6;
    message.finished.device_fault = true;
    message.finished.started_ns = INT64_MIN;
    message.finished.finished_ns = INT64_MAX;
    message.finished.status = some_status();
    break;
  case CONTROL_PONG:
    message.pong.sequence = UINT64_C(1) << 63;
    break;
  }
  return message;
}

// ---- Reading

enum outcome { WHOLE, MORE, BROKEN };

static enum outcome read_bytes(struct control_reader *reader, const uint8_t **data, size_t *size,
                               struct control_message *message, struct status *status) {
  bool need_more = true;
  if (control_read(reader, data, size, message, &need_more, status)) {
    assert_false(need_more);
    return WHOLE;
  }
  if (need_more) {
    assert_int_equal(*size, 0);
  }
  return need_more ? MORE : BROKEN;
}

// One frame from memory of its own, so that a sanitizer sees a step too far.
static enum outcome read_frame(const uint8_t *frame, size_t size, struct control_message *message,
                               struct status *status) {
  struct control_reader reader = {.count = 0};
  uint8_t *copy = malloc(size == 0 ? 1 : size);
  assert_non_null(copy);
  memcpy(copy, frame, size);
  const uint8_t *data = copy;
  enum outcome outcome = read_bytes(&reader, &data, &size, message, status);
  free(copy);
  return outcome;
}

static void expect_same(const struct control_message *one, const struct control_message *other) {
  uint8_t first[CONTROL_FRAME_BYTES_MAX], second[CONTROL_FRAME_BYTES_MAX];
  size_t first_bytes = control_write(one, first);
  assert_int_equal(control_write(other, second), first_bytes);
  assert_memory_equal(first, second, first_bytes);
}

static void expect_broken(const uint8_t *frame, size_t size, const char *why) {
  struct control_message message;
  struct status status;
  assert_int_equal(read_frame(frame, size, &message, &status), BROKEN);
  assert_int_equal(status.reason, REASON_INTERNAL);
  if (strstr(status.message, why) == NULL) {
    fail_msg("\"%s\" doesn't say \"%s\"", status.message, why);
  }
}

// ---- Tests of reading and writing

static void every_kind_is_read_as_it_was_written(void **state) {
  (void)state;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]), read;
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t size = control_write(&message, frame);
    struct status status;
    assert_int_equal(read_frame(frame, size, &read, &status), WHOLE);
    assert_int_equal(read.kind, kinds[i]);
    // Nothing was left out: the bytes behind unused fields are zero on both sides.
    assert_memory_equal(&read, &message, sizeof message);
    expect_same(&message, &read);
  }
}

static void a_good_end_carries_no_status(void **state) {
  (void)state;
  struct control_message message = {.kind = CONTROL_FINISHED}, read;
  message.finished.ok = true;
  message.finished.id = 3;
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  size_t size = control_write(&message, frame);
  assert_int_equal(size, HEADER_BYTES + 8 + 1 + 1 + 8 + 8);
  struct status status;
  assert_int_equal(read_frame(frame, size, &read, &status), WHOLE);
  assert_true(read.finished.ok);
  assert_int_equal(read.finished.status.reason, REASON_NONE);
}

static void fields_are_little_endian(void **state) {
  (void)state;
  struct control_message message = some_message(CONTROL_START);
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  static const uint8_t expected[] = {12, 0, 0,    0,    1,    0,    0,    0,    4,    3,
                                     2,  1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  assert_int_equal(control_write(&message, frame), sizeof expected);
  assert_memory_equal(frame, expected, sizeof expected);
}

static void bytes_may_come_one_by_one(void **state) {
  (void)state;
  struct control_reader reader = {.count = 0};
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]), read;
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t frame_bytes = control_write(&message, frame);
    struct status status;
    for (size_t at = 0; at < frame_bytes; at++) {
      const uint8_t *data = frame + at;
      size_t size = 1;
      enum outcome expected = at + 1 == frame_bytes ? WHOLE : MORE;
      assert_int_equal(read_bytes(&reader, &data, &size, &read, &status), expected);
    }
    expect_same(&message, &read);
  }
}

static void messages_may_come_all_at_once(void **state) {
  (void)state;
  static uint8_t bytes[KIND_COUNT * CONTROL_FRAME_BYTES_MAX];
  size_t size = 0;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]);
    size += control_write(&message, bytes + size);
  }
  struct control_reader reader = {.count = 0};
  const uint8_t *data = bytes;
  struct control_message read;
  struct status status;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    assert_int_equal(read_bytes(&reader, &data, &size, &read, &status), WHOLE);
    assert_int_equal(read.kind, kinds[i]);
  }
  assert_int_equal(read_bytes(&reader, &data, &size, &read, &status), MORE);
}

static void a_cut_frame_waits_for_the_rest(void **state) {
  (void)state;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]), read;
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t size = control_write(&message, frame);
    struct status status;
    for (size_t length = 0; length < size; length++) {
      assert_int_equal(read_frame(frame, length, &read, &status), MORE);
    }
  }
}

// A payload that ends early, said so honestly by the frame's length.
static void a_cut_payload_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]);
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t payload_bytes = control_write(&message, frame) - HEADER_BYTES;
    for (size_t length = 0; length < payload_bytes; length++) {
      frame[0] = (uint8_t)length;
      frame[1] = (uint8_t)(length >> 8);
      expect_broken(frame, HEADER_BYTES + length, "ends too early");
    }
  }
}

static void a_surplus_byte_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < KIND_COUNT; i++) {
    struct control_message message = some_message(kinds[i]);
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t size = control_write(&message, frame);
    size_t payload_bytes = size - HEADER_BYTES + 1;
    frame[0] = (uint8_t)payload_bytes;
    frame[1] = (uint8_t)(payload_bytes >> 8);
    frame[size] = 0;
    expect_broken(frame, size + 1, "longer than its fields");
  }
}

static void unknown_kinds_are_refused(void **state) {
  (void)state;
  static const uint8_t unknown[] = {0, 6, 15, 21, 255};
  for (size_t i = 0; i < sizeof unknown; i++) {
    uint8_t frame[HEADER_BYTES] = {0, 0, 0, 0, unknown[i]};
    expect_broken(frame, sizeof frame, "kind is unknown");
  }
  uint8_t frame[HEADER_BYTES] = {0, 0, 0, 0, CONTROL_STOP, 0, 0, 1};
  expect_broken(frame, sizeof frame, "kind is unknown");
}

static void a_frame_that_is_too_long_is_refused_at_its_head(void **state) {
  (void)state;
  uint32_t length = CONTROL_FRAME_BYTES_MAX - HEADER_BYTES + 1;
  uint8_t frame[HEADER_BYTES] = {(uint8_t)length, (uint8_t)(length >> 8), 0, 0, CONTROL_PING};
  expect_broken(frame, sizeof frame, "at most 16376");
  memset(frame, 0xff, 4);
  expect_broken(frame, sizeof frame, "4294967295");
}

// Where a field lies in the payload of some_message.
struct bad_field {
  enum control_kind kind;
  size_t position; // from the payload's start
  uint8_t value;
  const char *why;
};

// In a PLAN: id, then the operator's name of 30 bytes, then the choices and the arguments.
#define REQUEST_AT 8
#define NAME_BYTES 30
#define CHOICES_AT (REQUEST_AT + 2 + NAME_BYTES)
#define ARGUMENTS_AT (CHOICES_AT + 11)
#define VALUE_AT (ARGUMENTS_AT + 1 + 2 + 10) // of gradOutput

static void bad_fields_are_refused(void **state) {
  (void)state;
  static const struct bad_field fields[] = {
      {CONTROL_PLAN, REQUEST_AT, ARGUMENT_TEXT_BYTES_MAX + 1, "text is too long"},
      {CONTROL_PLAN, REQUEST_AT + 1, 0xff, "text is too long"},
      {CONTROL_PLAN, REQUEST_AT + 2, 0x00, "isn't UTF-8"},
      {CONTROL_PLAN, REQUEST_AT + 2, 0xff, "isn't UTF-8"},
      {CONTROL_PLAN, REQUEST_AT + 1 + NAME_BYTES, 0xc3, "isn't UTF-8"},
      {CONTROL_PLAN, CHOICES_AT, TARGET_NPU + 1, "unknown target"},
      {CONTROL_PLAN, CHOICES_AT + 1, NUMERICS_EXACT + 1, "unknown numerics"},
      {CONTROL_PLAN, CHOICES_AT + 2, 2, "neither 0 nor 1"},
      {CONTROL_PLAN, ARGUMENTS_AT, REQUEST_ARGUMENTS_MAX + 1, "too many arguments"},
      {CONTROL_PLAN, VALUE_AT, PARAMETER_KIND_TEXT + 1, "unknown kind of argument"},
      {CONTROL_PLAN, VALUE_AT, PARAMETER_KIND_UNSPECIFIED, "without a value"},
      {CONTROL_PLAN, VALUE_AT + 1, DATA_TYPE_COUNT, "unknown data type"},
      {CONTROL_PLAN, VALUE_AT + 2, FORMAT_COUNT, "unknown format"},
      {CONTROL_PLAN, VALUE_AT + 3, TENSOR_RANK_MAX + 1, "too many dims"},
      {CONTROL_PLAN, VALUE_AT + 4, TENSOR_RANK_MAX + 1, "too many strides"},
      {CONTROL_PLAN, VALUE_AT + 5 + 7 * 8 + 16 + 2 + 10 + 1, ARGUMENT_INT_ARRAY_MAX + 1, "too many values"},
      {CONTROL_READY, 0, NPU_PRODUCT_COUNT, "unknown product"},
      {CONTROL_READY, 1, CONTROL_NAME_BYTES_MAX + 1, "text is too long"},
      {CONTROL_READY, 1 + 2 + 11 + 2 + 5 + 8 + 4, 2, "neither 0 nor 1"},
      {CONTROL_UNUSABLE, 0, REASON_COUNT, "unknown reason"},
      {CONTROL_UNUSABLE, 0, REASON_NONE, "without a reason"},
      {CONTROL_UNUSABLE, 1 + 4 + 8, STATUS_PARAMETER_BYTES_MAX + 1, "text is too long"},
      {CONTROL_PLANNED, 8, 2, "neither 0 nor 1"},
      {CONTROL_PLANNED, 8 + 1 + 8, 0x80, "neither 0 nor 1"},
      {CONTROL_FINISHED, 8, 0xff, "neither 0 nor 1"},
      {CONTROL_FINISHED, 9, 0xff, "neither 0 nor 1"},
  };
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    struct control_message message = some_message(fields[i].kind);
    uint8_t frame[CONTROL_FRAME_BYTES_MAX];
    size_t size = control_write(&message, frame);
    frame[HEADER_BYTES + fields[i].position] = fields[i].value;
    expect_broken(frame, size, fields[i].why);
  }
}

static void bad_metadata_and_storages_are_refused(void **state) {
  (void)state;
  struct control_message message = some_message(CONTROL_UNUSABLE);
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  size_t size = control_write(&message, frame);
  const struct status *status = &message.unusable.status;
  size_t metadata_at = HEADER_BYTES + 13 + 2 + strlen(status->parameter) + 2 + strlen(status->message);
  frame[metadata_at] = STATUS_METADATA_MAX + 1;
  expect_broken(frame, size, "too much metadata");
  frame[metadata_at] = 2;
  frame[metadata_at + 1] = STATUS_METADATA_KEY_BYTES_MAX + 1;
  expect_broken(frame, size, "text is too long");
  message = some_message(CONTROL_RUN);
  size = control_write(&message, frame);
  size_t storages_at = size - 2 * 16 - OPERATOR_PARAMETERS_MAX;
  assert_int_equal(frame[storages_at], 1);
  frame[storages_at] = 2;
  expect_broken(frame, size, "neither 0 nor 1");
}

static void texts_of_libraries_become_utf8(void **state) {
  (void)state;
  struct control_message message = some_message(CONTROL_UNUSABLE), read;
  strcpy(message.unusable.status.message,
         "a\xff\xc3 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xc3\xa4 \xe2\x82");
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  size_t size = control_write(&message, frame);
  struct status status;
  assert_int_equal(read_frame(frame, size, &read, &status), WHOLE);
  assert_string_equal(read.unusable.status.message, "a?? ?? ??? ???? \xc3\xa4 ??");
}

static void the_longest_messages_fit(void **state) {
  (void)state;
  struct control_message message = some_message(CONTROL_RUN), read;
  struct operator_request *request = &message.run.request;
  memset(request->operator_name, 'o', ARGUMENT_TEXT_BYTES_MAX);
  request->argument_count = REQUEST_ARGUMENTS_MAX;
  for (size_t i = 0; i < REQUEST_ARGUMENTS_MAX; i++) {
    memset(request->arguments[i].name, 'n', ARGUMENT_TEXT_BYTES_MAX);
    request->arguments[i].value.kind = PARAMETER_KIND_TENSOR;
    memset(&request->arguments[i].value.tensor, 0, sizeof request->arguments[i].value.tensor);
    request->arguments[i].value.tensor.rank = TENSOR_RANK_MAX;
    request->arguments[i].value.tensor.stride_count = TENSOR_RANK_MAX;
  }
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    message.run.storages[i] = (struct control_storage){true, 64, 64};
  }
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  size_t size = control_write(&message, frame);
  assert_true(2 * size <= CONTROL_FRAME_BYTES_MAX);
  struct status status;
  assert_int_equal(read_frame(frame, size, &read, &status), WHOLE);
  expect_same(&message, &read);
}

// ---- Storages

static void backward_plan(struct plan *plan) {
  struct operator_request request = {.operator_name = "aclnnAdaptiveMaxPool2dBackward", .argument_count = 3};
  static const char *const names[] = {"gradOutput", "self", "indices"};
  for (size_t i = 0; i < 3; i++) {
    strcpy(request.arguments[i].name, names[i]);
    int64_t side = i == 1 ? 8 : 4;
    request.arguments[i].value = (struct argument_value){
        .kind = PARAMETER_KIND_TENSOR,
        .tensor = {
            .data_type = i == 2 ? DATA_TYPE_INT64 : DATA_TYPE_FLOAT, .rank = 3, .shape = {2, side, side}}};
  }
  strcpy(request.arguments[3].name, "gradInput");
  request.arguments[3].value.kind = PARAMETER_KIND_TENSOR;
  request.argument_count = 4;
  struct status status;
  if (!plan_create(&request, plan, &status)) {
    fail_msg("%s", status.message);
  }
}

#define ARENA_BYTES 4096
enum { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT };

static void good_storages(struct control_storage *storages) {
  memset(storages, 0, OPERATOR_PARAMETERS_MAX * sizeof *storages);
  storages[GRAD_OUTPUT] = (struct control_storage){true, 0, 128};
  storages[INDICES] = (struct control_storage){true, 128, 256};
  storages[GRAD_INPUT] = (struct control_storage){true, ARENA_BYTES - 512, 512};
}

static void expect_storages(const struct control_storage *storages, const char *why) {
  struct plan plan;
  backward_plan(&plan);
  struct status status;
  if (why == NULL) {
    assert_true(control_check_storages(&plan, storages, ARENA_BYTES, &status));
    return;
  }
  assert_false(control_check_storages(&plan, storages, ARENA_BYTES, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  if (strstr(status.message, why) == NULL) {
    fail_msg("\"%s\" doesn't say \"%s\"", status.message, why);
  }
}

static void storages_as_planned_are_taken(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  good_storages(storages);
  expect_storages(storages, NULL);
}

static void storages_that_are_missing_or_not_wanted_are_refused(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    good_storages(storages);
    storages[i].present = !storages[i].present;
    expect_storages(storages,
                    i == GRAD_OUTPUT || i == INDICES || i == GRAD_INPUT ? "has no storage" : "nobody wants");
  }
}

static void storages_of_another_length_are_refused(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  static const uint64_t lengths[] = {0, 127, 129, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    good_storages(storages);
    storages[GRAD_OUTPUT].bytes = lengths[i];
    expect_storages(storages, "planned are 128");
  }
}

static void storages_that_are_not_aligned_are_refused(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  static const uint64_t offsets[] = {1, 32, 63, 65};
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
    good_storages(storages);
    storages[INDICES].offset += offsets[i];
    expect_storages(storages, "isn't a multiple of 64");
  }
}

static void storages_beyond_the_arena_are_refused(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  static const uint64_t offsets[] = {ARENA_BYTES - 512 + 64, ARENA_BYTES, ARENA_BYTES + 64, UINT64_MAX - 63};
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
    good_storages(storages);
    storages[GRAD_INPUT].offset = offsets[i];
    expect_storages(storages, "beyond the arena");
  }
}

static void outputs_that_overlap_are_refused(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  good_storages(storages);
  storages[GRAD_INPUT].offset = 384; // just behind the indices
  expect_storages(storages, NULL);
  storages[GRAD_INPUT].offset = 320;
  expect_storages(storages, "gradInput and indices overlap");
  storages[GRAD_INPUT].offset = 0;
  expect_storages(storages, "gradInput and gradOutput overlap");
}

static void inputs_may_share_their_storage(void **state) {
  (void)state;
  struct control_storage storages[OPERATOR_PARAMETERS_MAX];
  good_storages(storages);
  storages[INDICES].offset = storages[GRAD_OUTPUT].offset;
  expect_storages(storages, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_is_read_as_it_was_written),
      cmocka_unit_test(a_good_end_carries_no_status),
      cmocka_unit_test(fields_are_little_endian),
      cmocka_unit_test(bytes_may_come_one_by_one),
      cmocka_unit_test(messages_may_come_all_at_once),
      cmocka_unit_test(a_cut_frame_waits_for_the_rest),
      cmocka_unit_test(a_cut_payload_is_refused),
      cmocka_unit_test(a_surplus_byte_is_refused),
      cmocka_unit_test(unknown_kinds_are_refused),
      cmocka_unit_test(a_frame_that_is_too_long_is_refused_at_its_head),
      cmocka_unit_test(bad_fields_are_refused),
      cmocka_unit_test(bad_metadata_and_storages_are_refused),
      cmocka_unit_test(texts_of_libraries_become_utf8),
      cmocka_unit_test(the_longest_messages_fit),
      cmocka_unit_test(storages_as_planned_are_taken),
      cmocka_unit_test(storages_that_are_missing_or_not_wanted_are_refused),
      cmocka_unit_test(storages_of_another_length_are_refused),
      cmocka_unit_test(storages_that_are_not_aligned_are_refused),
      cmocka_unit_test(storages_beyond_the_arena_are_refused),
      cmocka_unit_test(outputs_that_overlap_are_refused),
      cmocka_unit_test(inputs_may_share_their_storage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
