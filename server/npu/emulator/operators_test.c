// What the operators' phase 1 accepts and refuses on the emulated devices, in CANN's numbers, its leniencies
// among them.
#include "kernels/testing/operator_call.h"
#include "server/npu/emulator/device_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// A format that our descriptors don't have.
#define FORMAT_NC1HWC0 3

struct row {
  const char *arguments[DEVICE_CALL_TENSORS]; // as desc_of reads them; NULL for a null pointer
  aclnnStatus status;
  const char *said;
};

static struct aclTensor *tensor_of(const char *text) {
  if (text == NULL) {
    return NULL;
  }
  struct tensor_desc desc = desc_of(text);
  int format = desc.format == FORMAT_UNSPECIFIED ? ACL_FORMAT_ND : format_to_cann(desc.format);
  struct aclTensor *tensor = aclCreateTensor(desc.shape, desc.rank, data_type_to_cann(desc.data_type), NULL,
                                             0, format, desc.shape, desc.rank, NULL);
  assert_non_null(tensor);
  return tensor;
}

// Ends an executor that phase 1 gave, in the one way that runs nothing.
static void dispose(bool forward, struct aclOpExecutor *executor, struct session *session) {
  assert_int_equal(
      (forward ? aclnnAdaptiveMaxPool2d : aclnnAdaptiveMaxPool2dBackward)(NULL, 1, executor, session->stream),
      ACL_STATUS_NULLPTR);
}

static void check_answer(const struct row *row, size_t number, aclnnStatus status) {
  const char *said = aclGetRecentErrMsg();
  if (status != row->status || (status != 0 && (said == NULL || strstr(said, row->said) == NULL))) {
    fail_msg("row %zu: %d (%s) instead of %d (%s)", number, status, said == NULL ? "" : said, row->status,
             row->said);
  }
}

static void check_backward(const char *profile, const struct row *rows, size_t count) {
  environment_set("PROFILE", profile);
  struct session session;
  session_open(&session);
  for (size_t i = 0; i < count; i++) {
    struct aclTensor *tensors[DEVICE_CALL_TENSORS];
    for (size_t j = 0; j < DEVICE_CALL_TENSORS; j++) {
      tensors[j] = tensor_of(rows[i].arguments[j]);
    }
    uint64_t workspace_bytes;
    struct aclOpExecutor *executor;
    aclnnStatus status = aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(
        tensors[0], tensors[1], tensors[2], tensors[3], &workspace_bytes, &executor);
    check_answer(&rows[i], i, status);
    if (status == 0) {
      dispose(false, executor, &session);
    }
    for (size_t j = 0; j < DEVICE_CALL_TENSORS; j++) {
      assert_int_equal(aclDestroyTensor(tensors[j]), 0);
    }
  }
  aclGetRecentErrMsg();
  assert_int_equal(session_close(&session), 0);
}

#define CHECK_BACKWARD(profile, rows) check_backward(profile, rows, sizeof(rows) / sizeof((rows)[0]))

static void backward_answers_as_the_public_unit_test(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"}, 0, ""},
      {{"NCHW:fp16[2,3,1,1]", "NCHW:fp16[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp16[2,3,2,2]"}, 0, ""},
      {{"NCHW:bf16[2,3,1,1]", "NCHW:bf16[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:bf16[2,3,2,2]"}, 0, ""},
      {{"NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"},
       161002,
       "self is float32, gradOutput is not"},
      {{"NCL:int32[2,3,1,1]", "NCL:fp32[2,3,2,2]", "NCL:int32[2,3,1,1]", "NCL:fp32[2,3,2,2]"},
       161002,
       "gradOutput is not"},
      // C differs: that passes where the shape divides, and fails in the kernel.
      {{"NCHW:fp32[2,1,1,1]", "NCHW:fp32[2,2,2,2]", "NCHW:int32[2,1,1,1]", "NCHW:fp32[2,2,2,2]"}, 0, ""},
      {{"NCL:fp32[2,1,1]", "NCL:fp32[2,2,2]", "NCL:int64[2,1,1]", "NCL:fp32[2,2,2]"}, 0, ""},
      {{"NCHW:fp32[1,1]", "NCHW:fp32[2,2]", "NCHW:int32[1,1]", "NCHW:fp32[2,2]"}, 161002, "rank 2"},
      {{NULL, "NCHW:fp32[2,3,1,1,1]", "NCHW:int32[2,3,1,1,1]", "NCHW:fp32[2,3,1,1,1]"}, 161001, "gradOutput"},
      {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,1,1,1]", "NCHW:fp32[2,3,2,2]"},
       161002,
       "gradOutput and indices"},
      {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,1]"},
       161002,
       "self and gradInput"},
      {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,100000000,1000]", "NCHW:int32[2,3,1,1]",
        "NCHW:fp32[2,3,100000000,1000]"},
       161002,
       "more than 2147483647"},
  };
  CHECK_BACKWARD("a2", rows);
  CHECK_BACKWARD("exact", rows);
}

static void backward_checks_in_canns_order(void **state) {
  (void)state;
  static const struct row rows[] = {
      // Each row has the faults of those that follow.
      {{NULL, "int8[3,3]", "int8[2,2,2]", "fp32[9]"}, 161001, "gradOutput is a null"},
      {{"fp32[1,1]", "int8[3,3]", "int8[2,2,2]", NULL}, 161001, "gradInput is a null"},
      {{"fp32[1,1]", "int8[3,3]", "int8[2,2,2]", "fp32[9]"}, 161002, "self is int8, gradOutput"},
      {{"int8[1,1]", "int8[3,3]", "int8[2,2,2]", "fp32[9]"}, 161002, "self is int8, gradInput"},
      {{"int8[1,1]", "int8[3,3]", "int8[2,2,2]", "int8[9]"}, 161002, "not bfloat16, float16 or float32"},
      {{"fp32[1,1]", "fp32[3,3]", "int8[2,2,2]", "fp32[9]"}, 161002, "indices are int8"},
      {{"fp32[1,1]", "fp32[3,3]", "int32[2,2,2]", "fp32[9]"}, 161002, "indices has rank 3"},
      {{"fp32[1,1]", "fp32[3,3]", "int32[2,2]", "NCHW:fp32[2,2]"}, 161002, "gradOutput and indices"},
      {{"fp32[1,1]", "fp32[3,3]", "int32[1,1]", "NCHW:fp32[2,2]"}, 161002, "self and gradInput"},
      {{"fp32[1,1]", "fp32[3,3]", "int32[1,1]", "NCHW:fp32[3,3]"}, 161002, "gradInput has format 0"},
      {{"fp32[1,1]", "fp32[3,3]", "int32[1,1]", "fp32[3,3]"}, 161002, "rank 2"},
      {{"float64[1,1,1]", "float64[1,3,3]", "int32[1,1,1]", "float64[1,3,3]"}, 161002, "self is"},
  };
  CHECK_BACKWARD("a2", rows);
}

static void backward_is_as_lenient_as_cann(void **state) {
  (void)state;
  static const struct row rows[] = {
      // Any plain format, whatever it means, if only all are equal.
      {{"NHWC:fp32[2,3,1,1]", "NHWC:fp32[2,3,2,2]", "NHWC:int32[2,3,1,1]", "NHWC:fp32[2,3,2,2]"}, 0, ""},
      {{"NCL:fp32[2,3,1,1]", "NCL:fp32[2,3,2,2]", "NCL:int32[2,3,1,1]", "NCL:fp32[2,3,2,2]"}, 0, ""},
      {{"fp32[2,3,1,1]", "fp32[2,3,2,2]", "int64[2,3,1,1]", "fp32[2,3,2,2]"}, 0, ""},
      // Larger outputs than inputs, and empty ones.
      {{"fp32[1,3,5]", "fp32[1,2,2]", "int64[1,3,5]", "fp32[1,2,2]"}, 0, ""},
      {{"fp32[0,2,2]", "fp32[0,4,4]", "int32[0,2,2]", "fp32[0,4,4]"}, 0, ""},
      {{"fp32[2,0,2]", "fp32[2,4,4]", "int32[2,0,2]", "fp32[2,4,4]"}, 0, ""},
      // Where the shape doesn't divide, the tiling looks at N and C.
      {{"fp32[2,1,2,2]", "fp32[2,2,3,3]", "int32[2,1,2,2]", "fp32[2,2,3,3]"}, 561103, "N or C differ"},
      {{"fp32[1,2,2,2]", "fp32[2,2,3,3]", "int32[1,2,2,2]", "fp32[2,2,3,3]"}, 561103, "N or C differ"},
      {{"fp32[1,1,-1]", "fp32[1,2,2]", "int32[1,1,-1]", "fp32[1,2,2]"}, 561103, "negative"},
  };
  CHECK_BACKWARD("a2", rows);
}

static void the_950_has_no_limit_on_a_plane_and_tiles_all(void **state) {
  (void)state;
  static const struct row rows[] = {
      {{"fp32[1,1,1]", "fp32[1,100000,100000]", "int64[1,1,1]", "fp32[1,100000,100000]"}, 0, ""},
      {{"fp32[2,1,1,1]", "fp32[2,2,2,2]", "int32[2,1,1,1]", "fp32[2,2,2,2]"}, 561103, "N or C differ"},
      {{"fp32[1,1,1]", "fp32[1,3000000000,3000000000]", "int64[1,1,1]", "fp32[1,3000000000,3000000000]"},
       561103,
       "no device has room"},
  };
  CHECK_BACKWARD("950", rows);
}

static void backward_refuses_private_formats(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  const int64_t small[] = {1, 1, 1}, large[] = {1, 2, 2};
  struct aclTensor *tensors[DEVICE_CALL_TENSORS];
  for (size_t i = 0; i < DEVICE_CALL_TENSORS; i++) {
    const int64_t *shape = i % 2 == 0 ? small : large;
    tensors[i] = aclCreateTensor(shape, 3, i == 2 ? 3 : 0, NULL, 0, FORMAT_NC1HWC0, shape, 3, NULL);
  }
  uint64_t workspace_bytes;
  struct aclOpExecutor *executor;
  assert_int_equal(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2],
                                                                  tensors[3], &workspace_bytes, &executor),
                   ACL_STATUS_INVALID);
  assert_non_null(strstr(aclGetRecentErrMsg(), "private"));
  for (size_t i = 0; i < DEVICE_CALL_TENSORS; i++) {
    assert_int_equal(aclDestroyTensor(tensors[i]), 0);
  }
  assert_int_equal(session_close(&session), 0);
}

// self, outputOut, indicesOut; then the outputSize.
struct forward_row {
  struct row row;
  int64_t output_size[3];
  uint64_t size_count; // 0: a null pointer
};

static void check_forward(const char *profile, const struct forward_row *rows, size_t count) {
  environment_set("PROFILE", profile);
  struct session session;
  session_open(&session);
  for (size_t i = 0; i < count; i++) {
    const struct forward_row *row = &rows[i];
    struct aclTensor *tensors[3];
    for (size_t j = 0; j < 3; j++) {
      tensors[j] = tensor_of(row->row.arguments[j]);
    }
    struct aclIntArray *size =
        row->size_count == 0 ? NULL : aclCreateIntArray(row->output_size, row->size_count);
    uint64_t workspace_bytes;
    struct aclOpExecutor *executor;
    aclnnStatus status = aclnnAdaptiveMaxPool2dGetWorkspaceSize(tensors[0], size, tensors[1], tensors[2],
                                                                &workspace_bytes, &executor);
    check_answer(&row->row, i, status);
    if (status == 0) {
      dispose(true, executor, &session);
    }
    for (size_t j = 0; j < 3; j++) {
      assert_int_equal(aclDestroyTensor(tensors[j]), 0);
    }
    assert_int_equal(aclDestroyIntArray(size), 0);
  }
  aclGetRecentErrMsg();
  assert_int_equal(session_close(&session), 0);
}

#define CHECK_FORWARD(profile, rows) check_forward(profile, rows, sizeof(rows) / sizeof((rows)[0]))
#define SELF_5 "NCHW:fp32[1,1,5,5]"
#define OUT_2 "NCHW:fp32[1,1,2,2]"
#define INDICES_2 "NCHW:int64[1,1,2,2]"

static void forward_answers_as_the_public_unit_test(void **state) {
  (void)state;
  static const struct forward_row rows[] = {
      {{{SELF_5, OUT_2, INDICES_2}, 0, ""}, {2, 2}, 2},
      {{{NULL, OUT_2, INDICES_2}, 161001, "self"}, {2, 2}, 2},
      {{{SELF_5, OUT_2, INDICES_2}, 161001, "outputSize"}, {0}, 0},
      {{{SELF_5, NULL, INDICES_2}, 161001, "outputOut"}, {2, 2}, 2},
      {{{SELF_5, OUT_2, NULL}, 161001, "indicesOut"}, {2, 2}, 2},
      {{{"NCHW:fp16[1,1,5,5]", "NCHW:fp16[1,1,2,2]", INDICES_2}, 0, ""}, {2, 2}, 2},
      {{{"NCHW:bf16[1,1,5,5]", "NCHW:bf16[1,1,2,2]", INDICES_2}, 0, ""}, {2, 2}, 2},
      {{{"NCHW:float64[1,1,5,5]", "NCHW:float64[1,1,2,2]", INDICES_2}, 0, ""}, {2, 2}, 2},
      {{{"NCHW:fp32[0,1,5,5]", "NCHW:fp32[0,1,2,2]", "NCHW:int64[0,1,2,2]"}, 0, ""}, {2, 2}, 2},
      {{{"NCHW:int8[1,1,5,5]", "NCHW:int8[1,1,2,2]", INDICES_2}, 161002, "self is int8"}, {2, 2}, 2},
      {{{"NCHW:int32[1,1,5,5]", "NCHW:int32[1,1,2,2]", INDICES_2}, 161002, "self is int32"}, {2, 2}, 2},
      {{{"NCHW:fp16[1,1,5,5]", OUT_2, INDICES_2}, 161002, "outputOut is not"}, {2, 2}, 2},
      {{{"NCHW:fp32[5,5]", "NCHW:fp32[2,2]", "NCHW:int64[2,2]"}, 161002, "rank 2"}, {2, 2}, 2},
      {{{"NCHW:fp32[1,1,1,5,5]", OUT_2, INDICES_2}, 161002, "rank 5"}, {2, 2}, 2},
      {{{"NCHW:fp32[1,-1,5,5]", OUT_2, INDICES_2}, 161002, "dim 1 of self is -1"}, {2, 2}, 2},
      {{{"NCHW:fp32[1,0,5,5]", OUT_2, INDICES_2}, 161002, "dim 1 of self is 0"}, {2, 2}, 2},
      {{{SELF_5, OUT_2, INDICES_2}, 161002, "outputSize"}, {2, 2, 2}, 3},
      {{{SELF_5, OUT_2, INDICES_2}, 161002, "outputSize"}, {2, -2}, 2},
      {{{SELF_5, OUT_2, INDICES_2}, 161002, "outputSize"}, {2, 0}, 2},
      {{{SELF_5, "NCHW:fp32[1,1,1,2,2]", INDICES_2}, 161002, "outputOut has another shape"}, {2, 2}, 2},
      {{{SELF_5, OUT_2, "NCHW:int64[1,1,2,3]"}, 161002, "indicesOut has another shape"}, {2, 2}, 2},
      {{{"NHWC:fp32[1,5,5,1]", "NHWC:fp32[1,2,2,1]", "NHWC:int64[1,2,2,1]"}, 0, ""}, {2, 2}, 2},
      {{{"NCL:fp32[64,16,8]", "NCL:fp32[64,1,8]", "NCL:int64[64,1,8]"}, 0, ""}, {1, 8}, 2},
      {{{"ND:fp32[1,1,5,5]", "ND:fp32[1,1,2,2]", "ND:int64[1,1,2,2]"}, 161002, "format 2"}, {2, 2}, 2},
      {{{SELF_5, "NCL:fp32[1,1,2,2]", INDICES_2}, 161002, "outputOut has format"}, {2, 2}, 2},
  };
  CHECK_FORWARD("a2", rows);
  CHECK_FORWARD("950", rows);
  CHECK_FORWARD("exact", rows);
}

static void forward_has_narrow_indices_where_the_bits_are_exact(void **state) {
  (void)state;
  static const struct forward_row refused[] = {
      {{{SELF_5, OUT_2, "NCHW:int32[1,1,2,2]"}, 161002, "not int64"}, {2, 2}, 2}};
  static const struct forward_row accepted[] = {{{{SELF_5, OUT_2, "NCHW:int32[1,1,2,2]"}, 0, ""}, {2, 2}, 2}};
  CHECK_FORWARD("a2", refused);
  CHECK_FORWARD("950", refused);
  CHECK_FORWARD("exact", accepted);
}

static void creating_a_tensor_checks_nearly_nothing(void **state) {
  (void)state;
  assert_int_equal(aclInit(NULL), 0);
  const int64_t dims[9] = {-3, 0, 1};
  struct aclTensor *tensor = aclCreateTensor(dims, 3, 9999, NULL, -5, 77, dims, 3, (void *)1);
  assert_non_null(tensor);
  assert_int_equal(aclDestroyTensor(tensor), 0);
  assert_int_equal(aclDestroyTensor(NULL), 0);
  assert_null(aclCreateTensor(NULL, 3, 0, NULL, 0, 2, dims, 3, NULL));
  assert_null(aclCreateTensor(dims, 3, 0, NULL, 0, 2, NULL, 3, NULL));
  assert_null(aclCreateTensor(dims, 9, 0, NULL, 0, 2, dims, 9, NULL));
  assert_null(aclCreateIntArray(NULL, 1));
  assert_int_equal(aclFinalize(), 0);
}

static int begin(void **state) {
  (void)state;
  environment_clear();
  aclFinalize();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(backward_answers_as_the_public_unit_test, begin),
      cmocka_unit_test_setup(backward_checks_in_canns_order, begin),
      cmocka_unit_test_setup(backward_is_as_lenient_as_cann, begin),
      cmocka_unit_test_setup(the_950_has_no_limit_on_a_plane_and_tiles_all, begin),
      cmocka_unit_test_setup(backward_refuses_private_formats, begin),
      cmocka_unit_test_setup(forward_answers_as_the_public_unit_test, begin),
      cmocka_unit_test_setup(forward_has_narrow_indices_where_the_bits_are_exact, begin),
      cmocka_unit_test_setup(creating_a_tensor_checks_nearly_nothing, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
