// What phase 1 of the forward accepts and refuses.
#include "kernels/testing/phase1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OK REASON_NONE
#define NULLPTR REASON_ACLNN_ERR_PARAM_NULLPTR
#define INVALID REASON_ACLNN_ERR_PARAM_INVALID

enum { SELF, OUTPUT_SIZE, OUTPUT_OUT, INDICES_OUT };

#define OPERATOR "aclnnAdaptiveMaxPool2d"
#define ASSERT_ALL(rows) phase1_assert_rows(OPERATOR, rows, sizeof(rows) / sizeof((rows)[0]))

// The rows of the public unit test of the aclnn interface.
static const struct phase1_row public_unit_test[] = {
    {{NULL, "(2,2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"}, NULLPTR, "self", "self is missing"},
    {{"NCHW:fp32[1,1,5,5]", NULL, "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     NULLPTR,
     "outputSize",
     "outputSize is missing"},
    {{"NCHW:fp32[1,1,5,5]", "(2,2)", NULL, "NCHW:int64[1,1,2,2]"},
     NULLPTR,
     "outputOut",
     "outputOut is missing"},
    {{"NCHW:fp32[1,1,5,5]", "(2,2)", "NCHW:fp32[1,1,2,2]", NULL},
     NULLPTR,
     "indicesOut",
     "indicesOut is missing"},
    {{"NCHW:fp16[1,1,5,5]", "(2,2)", "NCHW:fp16[1,1,2,2]", "NCHW:int64[1,1,2,2]"}, OK, "", ""},
    {{"NCHW:fp32[1,1,5,5]", "(2,2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"}, OK, "", ""},
    // Differs from the public test on purpose: double is accepted there, and not offered here.
    {{"NCHW:float64[1,1,5,5]", "(2,2)", "NCHW:float64[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "data type float64 of self is not supported, it must be one of: float32, float16, bfloat16"},
    {{"NCHW:fp32[0,1,5,5]", "(2,2)", "NCHW:fp32[0,1,2,2]", "NCHW:int64[0,1,2,2]"}, OK, "", ""},
    {{"NCHW:int8[1,1,5,5]", "(2,2)", "NCHW:int8[1,1,2,2]", "NCHW:int64[1,1,2,2]"}, INVALID, "self", "int8"},
    {{"NCHW:int16[1,1,5,5]", "(2,2)", "NCHW:int16[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "int16"},
    {{"NCHW:int32[1,1,5,5]", "(2,2)", "NCHW:int32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "int32"},
    {{"NCHW:int64[1,1,5,5]", "(2,2)", "NCHW:int64[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "int64"},
    {{"NCHW:uint8[1,1,5,5]", "(2,2)", "NCHW:uint8[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "uint8"},
    {{"NCHW:fp16[1,1,5,5]", "(2,2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "outputOut",
     "data type float32 of outputOut must be that of self, which is float16"},
    {{"NCHW:fp32[5,5]", "(2,2)", "NCHW:fp32[2,2]", "NCHW:int64[2,2]"}, INVALID, "self", "2 dimensions"},
    {{"NCHW:fp32[1,1,1,5,5]", "(2,2)", "NCHW:fp32[1,1,1,2,2]", "NCHW:int64[1,1,1,2,2]"},
     INVALID,
     "self",
     "5 dimensions, allowed are: 3, 4"},
    {{"NCHW:fp32[1,-1,5,5]", "(2,2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "self",
     "dimension 1 of self is -1"},
    {{"NCHW:fp32[1,1,5,5]", "(2,2,2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "outputSize",
     "outputSize has 3 values, it must have two"},
    {{"NCHW:fp32[1,1,5,5]", "(2,-2)", "NCHW:fp32[1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "outputSize",
     "outputSize[1] is -2, it must be above 0"},
    {{"NCHW:fp32[1,1,5,5]", "(2,2)", "NCHW:fp32[1,1,1,2,2]", "NCHW:int64[1,1,2,2]"},
     INVALID,
     "outputOut",
     "outputOut has 5 dimensions"},
    // Differs from the public test on purpose: NHWC passes there and is then read as NCHW.
    {{"NHWC:fp32[1,5,5,1]", "(2,2)", "NHWC:fp32[1,2,2,1]", "NHWC:int64[1,2,2,1]"},
     INVALID,
     "self",
     "format NHWC of self is not supported"},
    {{"NCHW:fp32[1,64,16,8]", "(1,8)", "NCHW:fp32[1,64,1,8]", "NCHW:int64[1,64,1,8]"}, OK, "", ""},
};

static void the_public_unit_test_is_answered_alike(void **state) {
  (void)state;
  ASSERT_ALL(public_unit_test);
}

static void data_types_and_formats_are_those_of_the_operator(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"bf16[3,5,5]", "(2,2)", "bf16[3,2,2]", "int32[3,2,2]"}, OK, "", ""},
      {{"bf16[3,5,5]", "(2,2)", "bf16[3,2,2]", "int16[3,2,2]"}, INVALID, "indicesOut", "int16 of indicesOut"},
      {{"bf16[3,5,5]", "(2,2)", "bf16[3,2,2]", "bf16[3,2,2]"}, INVALID, "indicesOut", "one of: int32, int64"},
      {{"bf16[3,5,5]", "(2,2)", "fp16[3,2,2]", "int64[3,2,2]"}, INVALID, "outputOut", "float16"},
      {{"bf16[3,5,5]", "(2,2)", "unspecified[3,2,2]", ""}, INVALID, "outputOut", "no data type"},
      {{"", "(2,2)", "bf16[3,2,2]", "int64[3,2,2]"}, INVALID, "self", "no data type"},
      {{"", "(2,2)", "", ""}, INVALID, "self", "0 dimensions"},
      {{"NCL:bf16[3,5,5]", "(2,2)", "NCL:bf16[3,2,2]", "NCL:int64[3,2,2]"}, OK, "", ""},
      {{"NCL:bf16[3,5,5]", "(2,2)", "ND:bf16[3,2,2]", "NCL:int64[3,2,2]"},
       INVALID,
       "outputOut",
       "format ND of outputOut must be that of self, which is NCL"},
      {{"ND:bf16[3,5,5]", "(2,2)", "bf16[3,2,2]", "NCHW:int64[3,2,2]"}, INVALID, "indicesOut", "format NCHW"},
  };
  ASSERT_ALL(rows);
}

static void shapes_must_fit_self_and_output_size(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[3,5,5]", "(2,3)", "fp32[3,3,2]", "int64[3,2,3]"},
       INVALID,
       "outputOut",
       "shape [3, 3, 2] of outputOut must be that of self with outputSize, which is [3, 2, 3]"},
      {{"fp32[3,5,5]", "(2,3)", "fp32[3,2,3]", "int64[3,3,2]"},
       INVALID,
       "indicesOut",
       "[3, 3, 2] of indicesOut"},
      {{"fp32[3,5,5]", "(2,3)", "fp32[2,2,3]", "int64[3,2,3]"}, INVALID, "outputOut", "[2, 2, 3]"},
      {{"fp32[3,5,5]", "(2,3)", "fp32[1,3,2,3]", "int64[3,2,3]"}, INVALID, "outputOut", "4 dimensions"},
      {{"fp32[3,5,5]", "(2,3)", "fp32[3,2,3]", "int64[1,3,2,3]"}, INVALID, "indicesOut", "4 dimensions"},
      {{"fp32[1,3,5,5]", "(2,3)", "fp32[1,3,2,3]", "int64[1,1,2,3]"}, INVALID, "indicesOut", "[1, 1, 2, 3]"},
      {{"fp32[3,5,5]", "(9,11)", "fp32[3,9,11]", "int64[3,9,11]"}, OK, "", ""}, // upsampling
      {{"fp32[1,1,1,1,1,1,1,1,1]", "(1,1)", "fp32[1]", "int64[1]"},
       INVALID,
       "self",
       "9 dimensions, at most 8"},
      {{"fp32[1,1,1,1,1,1,1,1,1]", "(1,1)", "", ""}, INVALID, "self", "9 dimensions"},
  };
  ASSERT_ALL(rows);
}

static void output_size_is_two_numbers_above_0(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[3,5,5]", "()", "", ""}, INVALID, "outputSize", "outputSize has 0 values"},
      {{"fp32[3,5,5]", "(7)", "", ""}, INVALID, "outputSize", "outputSize has 1 values"},
      {{"fp32[3,5,5]", "(1,2,3,4,5,6,7,8,9,10)", "", ""}, INVALID, "outputSize", "outputSize has 10 values"},
      {{"fp32[3,5,5]", "(0,2)", "", ""}, INVALID, "outputSize", "outputSize[0] is 0"},
      {{"fp32[3,5,5]", "(2,-9223372036854775808)", "", ""}, INVALID, "outputSize", "outputSize[1] is -922"},
      {{"fp32[3,5,5]", "(9223372036854775807,9223372036854775807)", "", ""},
       INVALID,
       "outputOut",
       "too large"},
      {{"fp32[3,5,5]", "(4294967296,4294967296)", "", ""}, INVALID, "outputOut", "too large"},
      // Fits as float16, not as int64.
      {{"fp16[1,5,5]", "(1,2305843009213693951)", "", ""}, INVALID, "indicesOut", "too large"},
      {{"fp16[1,5,5]", "(1,2305843009213693951)", "", "int32[1,1,2305843009213693951]"}, OK, "", ""},
  };
  ASSERT_ALL(rows);
}

static void only_the_first_dim_may_be_0(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[0,3,5,5]", "(2,2)", "", ""}, OK, "", ""},
      {{"fp32[0,5,5]", "(2,2)", "", ""}, OK, "", ""},
      {{"fp32[1,0,5,5]", "(2,2)", "", ""},
       INVALID,
       "self",
       "dimension 1 of self is 0, only dimension 0 may be"},
      {{"fp32[1,3,0,5]", "(2,2)", "", ""}, INVALID, "self", "dimension 2"},
      {{"fp32[1,3,5,0]", "(2,2)", "", ""}, INVALID, "self", "dimension 3"},
      {{"fp32[0,3,5,0]", "(2,2)", "", ""}, INVALID, "self", "dimension 3"},
      {{"fp32[3,0,5]", "(2,2)", "", ""}, INVALID, "self", "dimension 1"},
      {{"fp32[3,5,0]", "(2,2)", "", ""}, INVALID, "self", "dimension 2"},
  };
  ASSERT_ALL(rows);
}

static void planes_are_limited_to_32_bit_positions(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[1,1,2147483647]", "(1,1)", "", ""}, OK, "", ""},
      {{"fp32[1,1,2147483648]", "(1,1)", "", ""}, INVALID, "self", "at most 2147483647"},
      {{"fp32[1,65536,65536]", "(1,1)", "", ""}, INVALID, "self", "65536 * 65536"},
      {{"fp32[1,4294967296,4294967296]", "(1,1)", "", ""}, INVALID, "self", "too large"},
  };
  ASSERT_ALL(rows);
}

static void outputs_left_out_are_inferred(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"NCHW:bf16[2,3,5,6]", "(4,7)", "", ""});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  struct tensor_desc output = desc_of("NCHW:bf16[2,3,4,7]");
  struct tensor_desc indices = desc_of("NCHW:int64[2,3,4,7]");
  assert_true(tensor_desc_normalise(&output, DIRECTION_OUTPUT, "x", &call.status));
  assert_true(tensor_desc_normalise(&indices, DIRECTION_OUTPUT, "x", &call.status));
  assert_memory_equal(call_desc(&call, OUTPUT_OUT), &output, sizeof output);
  assert_memory_equal(call_desc(&call, INDICES_OUT), &indices, sizeof indices);
  assert_int_equal(call.plan.tensor_count, 3);
  assert_int_equal(call.plan.workspace_bytes, 0);
}

static void one_output_may_be_given_and_the_other_left_out(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"fp32[3,5,6]", "(4,7)", "", "int32[3,4,7]"});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call_desc(&call, INDICES_OUT)->data_type, DATA_TYPE_INT32);
  assert_int_equal(call_desc(&call, OUTPUT_OUT)->data_type, DATA_TYPE_FLOAT);
}

static void outputs_must_not_overlap(void **state) {
  (void)state;
  for (size_t i = OUTPUT_OUT; i <= INDICES_OUT; i++) {
    struct operator_call call;
    phase1_begin(&call, OPERATOR,
                 (const char *const[]){"fp32[3,5,6]", "(4,7)", "fp32[3,4,7]", "int32[3,4,7]"});
    struct tensor_desc *desc = &call.request.arguments[i].value.tensor;
    desc->stride_count = 3;
    memcpy(desc->strides, (int64_t[]){28, 6, 1}, 3 * sizeof desc->strides[0]);
    assert_false(plan_create(&call.request, &call.plan, &call.status));
    assert_string_equal(call.status.parameter, i == OUTPUT_OUT ? "outputOut" : "indicesOut");
  }
}

static void work_grows_with_windows_and_never_wraps(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"fp32[2,8,8]", "(4,2)", "", ""});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call.plan.work_elements, 2 * 8 * 8);
  phase1_begin(&call, OPERATOR,
               (const char *const[]){"fp16[1048576,1048576,2047]", "(1048576,1024)", "",
                                     "int32[1048576,1048576,1024]"});
  call.request.arguments[SELF].value.tensor.stride_count = 3;
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call.plan.work_elements, UINT64_C(1048576) * 1048576 * (2047 + 1024));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_public_unit_test_is_answered_alike),
      cmocka_unit_test(data_types_and_formats_are_those_of_the_operator),
      cmocka_unit_test(shapes_must_fit_self_and_output_size),
      cmocka_unit_test(output_size_is_two_numbers_above_0),
      cmocka_unit_test(only_the_first_dim_may_be_0),
      cmocka_unit_test(planes_are_limited_to_32_bit_positions),
      cmocka_unit_test(outputs_left_out_are_inferred),
      cmocka_unit_test(one_output_may_be_given_and_the_other_left_out),
      cmocka_unit_test(outputs_must_not_overlap),
      cmocka_unit_test(work_grows_with_windows_and_never_wraps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
