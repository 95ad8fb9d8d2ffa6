// What phase 1 of the backward accepts and refuses.
#include "kernels/testing/phase1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OK REASON_NONE
#define NULLPTR REASON_ACLNN_ERR_PARAM_NULLPTR
#define INVALID REASON_ACLNN_ERR_PARAM_INVALID

enum { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT };

#define OPERATOR "aclnnAdaptiveMaxPool2dBackward"
#define ASSERT_ALL(rows) phase1_assert_rows(OPERATOR, rows, sizeof(rows) / sizeof((rows)[0]))

// The rows of the public unit test of the aclnn interface, by the lines of its file.
static const struct phase1_row public_unit_test[] = {
    // 34, 54, 74
    {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"}, OK, "", ""},
    {{"NCHW:fp16[2,3,1,1]", "NCHW:fp16[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp16[2,3,2,2]"}, OK, "", ""},
    {{"NCHW:bf16[2,3,1,1]", "NCHW:bf16[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:bf16[2,3,2,2]"}, OK, "", ""},
    // 94, 114, 134
    {{"NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"},
     INVALID,
     "gradOutput",
     "data type int32 of gradOutput must be that of self, which is float32"},
    {{"NCL:int32[2,3,1,1]", "NCL:fp32[2,3,2,2]", "NCL:int32[2,3,1,1]", "NCL:fp32[2,3,2,2]"},
     INVALID,
     "gradOutput",
     "data type"},
    {{"NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"},
     INVALID,
     "gradOutput",
     "data type"},
    // 154, 178, 202 differ from the public test on purpose: it lets another C pass on A2, whose device code
    // then fails. We refuse it at once.
    {{"NCHW:fp32[2,1,1,1]", "NCHW:fp32[2,2,2,2]", "NCHW:int32[2,1,1,1]", "NCHW:fp32[2,2,2,2]"},
     INVALID,
     "gradOutput",
     "dimension 1 (C) of gradOutput is 1, it must be that of self, which is 2"},
    // 226: rank 3 with as many channels, and int64 indices.
    {{"NCL:fp32[2,1,1]", "NCL:fp32[2,2,2]", "NCL:int64[2,1,1]", "NCL:fp32[2,2,2]"}, OK, "", ""},
    // 250
    {{"NCHW:fp32[1,1]", "NCHW:fp32[2,2]", "NCHW:int32[1,1]", "NCHW:fp32[2,2]"},
     INVALID,
     "self",
     "2 dimensions, allowed are: 3, 4"},
    // 270
    {{NULL, "NCHW:fp32[2,3,1,1,1]", "NCHW:int32[2,3,1,1,1]", "NCHW:fp32[2,3,1,1,1]"},
     NULLPTR,
     "gradOutput",
     "gradOutput is missing"},
    // 289
    {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,1,1,1]", "NCHW:fp32[2,3,2,2]"},
     INVALID,
     "indices",
     "shape [2, 1, 1, 1] of indices must be that of gradOutput, which is [2, 3, 1, 1]"},
    // 309
    {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", "NCHW:fp32[2,3,2,1]"},
     INVALID,
     "gradInput",
     "shape [2, 3, 2, 1] of gradInput must be that of self"},
    // 330
    {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,100000000,1000]", "NCHW:int32[2,3,1,1]",
      "NCHW:fp32[2,3,100000000,1000]"},
     INVALID,
     "self",
     "at most 2147483647"},
};

static void the_public_unit_test_is_answered_alike(void **state) {
  (void)state;
  ASSERT_ALL(public_unit_test);
}

static void missing_arguments_come_first_in_their_order(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{NULL, NULL, NULL, NULL}, NULLPTR, "gradOutput", "gradOutput is missing"},
      {{"fp32[1,1]", NULL, NULL, NULL}, NULLPTR, "self", "self is missing"},
      {{"fp32[1,1]", "int8[-1]", NULL, NULL}, NULLPTR, "indices", "indices is missing"},
      {{"fp32[1,1]", "int8[-1]", "fp32[7]", NULL}, NULLPTR, "gradInput", "gradInput is missing"},
  };
  ASSERT_ALL(rows);
}

static void data_types_are_those_of_the_operator(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[3,2,2]", "fp32[3,5,5]", "int64[3,2,2]", "fp32[3,5,5]"}, OK, "", ""},
      {{"bf16[3,2,2]", "bf16[3,5,5]", "int64[3,2,2]", ""}, OK, "", ""},
      {{"float64[3,2,2]", "float64[3,5,5]", "int64[3,2,2]", "float64[3,5,5]"},
       INVALID,
       "self",
       "data type float64 of self is not supported, it must be one of: float32, float16, bfloat16"},
      {{"int8[3,2,2]", "int8[3,5,5]", "int64[3,2,2]", "int8[3,5,5]"}, INVALID, "self", "int8"},
      {{"fp16[3,2,2]", "bf16[3,5,5]", "int64[3,2,2]", "bf16[3,5,5]"}, INVALID, "gradOutput", "float16"},
      {{"fp16[3,2,2]", "fp16[3,5,5]", "int64[3,2,2]", "fp32[3,5,5]"}, INVALID, "gradInput", "float32"},
      {{"fp16[3,2,2]", "fp16[3,5,5]", "int16[3,2,2]", "fp16[3,5,5]"},
       INVALID,
       "indices",
       "int16 of indices is not supported, it must be one of: int32, int64"},
      {{"fp16[3,2,2]", "fp16[3,5,5]", "fp32[3,2,2]", "fp16[3,5,5]"}, INVALID, "indices", "float32"},
      {{"unspecified[3,2,2]", "fp16[3,5,5]", "int64[3,2,2]", ""}, INVALID, "gradOutput", "no data type"},
      {{"", "fp16[3,5,5]", "int64[3,2,2]", ""}, INVALID, "gradOutput", "no data type"},
      {{"fp16[3,2,2]", "", "int64[3,2,2]", ""}, INVALID, "self", "no data type"},
      {{"fp16[3,2,2]", "fp16[3,5,5]", "", ""}, INVALID, "indices", "no data type"},
      {{"fp16[3,2,2]", "fp16[3,5,5]", "int64[3,2,2]", "unspecified[3,5,5]"},
       INVALID,
       "gradInput",
       "no data type"},
  };
  ASSERT_ALL(rows);
}

static void shapes_must_fit_each_other(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[1,3,2,2]", "fp32[3,5,5]", "int64[1,3,2,2]", "fp32[3,5,5]"},
       INVALID,
       "gradOutput",
       "gradOutput has 4 dimensions, it must have as many as self, which has 3"},
      {{"fp32[3,2,2]", "fp32[3,5,5]", "int64[1,3,2,2]", "fp32[3,5,5]"}, INVALID, "indices", "4 dimensions"},
      {{"fp32[3,2,2]", "fp32[3,5,5]", "int64[3,2,2]", "fp32[1,3,5,5]"}, INVALID, "gradInput", "4 dimensions"},
      // The public report of a heap overflow: fewer gradients than indices.
      {{"fp32[1,4,4,4]", "fp32[1,4,4,4]", "int64[1,4,3,1]", ""}, INVALID, "indices", "[1, 4, 3, 1]"},
      {{"fp32[1,3,2,2]", "fp32[2,3,5,5]", "int64[1,3,2,2]", ""},
       INVALID,
       "gradOutput",
       "dimension 0 (N) of gradOutput is 1, it must be that of self, which is 2"},
      {{"fp32[4,2,2]", "fp32[3,5,5]", "int64[4,2,2]", ""}, INVALID, "gradOutput", "dimension 0 (C)"},
      {{"fp32[3,2,2]", "fp32[3,5,5]", "int64[3,2,2]", "fp32[3,25,1]"}, INVALID, "gradInput", "[3, 25, 1]"},
      {{"fp32[3,9,9]", "fp32[3,5,5]", "int64[3,9,9]", ""}, OK, "", ""}, // upsampling
      {{"fp32[1,2,3,4,5]", "fp32[1,2,3,4,5]", "int64[1,2,3,4,5]", ""}, INVALID, "self", "5 dimensions"},
      {{"fp32[]", "fp32[]", "int64[]", "fp32[]"}, INVALID, "self", "0 dimensions"},
      {{"fp32[1,1,1,1,1,1,1,1,1]", "fp32[1,1,1,1,1,1,1,1,1]", "int64[1,1]", ""},
       INVALID,
       "gradOutput",
       "9 dimensions, at most 8"},
      {{"fp32[3,2,-2]", "fp32[3,5,5]", "int64[3,2,-2]", ""},
       INVALID,
       "gradOutput",
       "dimension 2 of gradOutput is -2"},
  };
  ASSERT_ALL(rows);
}

static void formats_must_be_the_same(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      // The public interface lets NHWC pass and then reads it as NCHW, which is wrong: refused.
      {{"NHWC:fp32[2,1,1,3]", "NHWC:fp32[2,2,2,3]", "NHWC:int32[2,1,1,3]", "NHWC:fp32[2,2,2,3]"},
       INVALID,
       "gradOutput",
       "format NHWC of gradOutput is not supported, it must be ND, NCHW or NCL"},
      {{"NCHW:fp32[2,3,1,1]", "ND:fp32[2,3,2,2]", "ND:int32[2,3,1,1]", "ND:fp32[2,3,2,2]"},
       INVALID,
       "gradOutput",
       "format NCHW of gradOutput must be that of self, which is ND"},
      {{"fp32[2,3,1,1]", "ND:fp32[2,3,2,2]", "NCL:int32[2,3,1,1]", "ND:fp32[2,3,2,2]"},
       INVALID,
       "indices",
       "NCL"},
      {{"fp32[2,3,1,1]", "fp32[2,3,2,2]", "int32[2,3,1,1]", "NCHW:fp32[2,3,2,2]"},
       INVALID,
       "gradInput",
       "NCHW"},
      // Unspecified is ND.
      {{"ND:fp32[2,3,1,1]", "fp32[2,3,2,2]", "ND:int32[2,3,1,1]", "fp32[2,3,2,2]"}, OK, "", ""},
      {{"NCHW:fp32[2,3,1,1]", "NCHW:fp32[2,3,2,2]", "NCHW:int32[2,3,1,1]", ""}, OK, "", ""},
  };
  ASSERT_ALL(rows);
}

static void sizes_that_no_index_or_memory_can_reach_are_refused(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[1,1,1]", "fp32[1,1,2147483647]", "int64[1,1,1]", ""}, OK, "", ""},
      {{"fp32[1,1,1]", "fp32[1,1,2147483648]", "int64[1,1,1]", ""}, INVALID, "self", "1 * 2147483648"},
      {{"fp32[1,1,1]", "fp32[1,32768,65536]", "int64[1,1,1]", ""}, INVALID, "self", "32768 * 65536"},
      // Products that wrap at 2^32 and at 2^64.
      {{"fp32[1,1,1]", "fp32[1,65536,65537]", "int64[1,1,1]", ""}, INVALID, "self", "at most 2147483647"},
      {{"fp32[1,1,1]", "fp32[1,4294967296,4294967296]", "int64[1,1,1]", ""}, INVALID, "self", "too large"},
      {{"fp32[4294967296,1,1]", "fp32[4294967296,65536,32767]", "int64[4294967296,1,1]", ""},
       INVALID,
       "self",
       "too large"},
      {{"fp32[9223372036854775807,1,1]", "fp32[9223372036854775807,1,1]", "int64[9223372036854775807,1,1]",
        ""},
       INVALID,
       "gradOutput",
       "too large"},
      {{"fp32[1,9223372036854775807,2]", "fp32[1,1,1]", "int64[1,9223372036854775807,2]", ""},
       INVALID,
       "gradOutput",
       "too large"},
      // Fits as float32, not as int64.
      {{"fp32[1,2305843009213693951,1]", "fp32[1,1,1]", "int64[1,2305843009213693951,1]", ""},
       INVALID,
       "indices",
       "too large"},
  };
  ASSERT_ALL(rows);
}

static void empty_tensors_are_accepted_where_they_mean_something(void **state) {
  (void)state;
  static const struct phase1_row rows[] = {
      {{"fp32[0,3,2,2]", "fp32[0,3,5,5]", "int64[0,3,2,2]", ""}, OK, "", ""},
      {{"fp32[2,0,2,2]", "fp32[2,0,5,5]", "int64[2,0,2,2]", ""}, OK, "", ""},
      {{"fp32[0,2,2]", "fp32[0,5,5]", "int64[0,2,2]", ""}, OK, "", ""},
      {{"fp32[2,3,0,2]", "fp32[2,3,5,5]", "int64[2,3,0,2]", ""}, OK, "", ""},
      {{"fp32[2,3,0,0]", "fp32[2,3,0,5]", "int64[2,3,0,0]", ""}, OK, "", ""},
      {{"fp32[2,3,2,2]", "fp32[2,3,0,5]", "int64[2,3,2,2]", ""},
       INVALID,
       "self",
       "self has empty planes (0 * 5)"},
      {{"fp32[2,3,2,2]", "fp32[2,3,5,0]", "int64[2,3,2,2]", ""},
       INVALID,
       "self",
       "self has empty planes (5 * 0)"},
      {{"fp32[0,3,2,2]", "fp32[1,3,5,5]", "int64[0,3,2,2]", ""}, INVALID, "gradOutput", "(N)"},
  };
  ASSERT_ALL(rows);
  struct operator_call call;
  phase1_begin(&call, OPERATOR, rows[3].arguments);
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_true(call.plan.empty);
  assert_int_equal(call.plan.workspace_bytes, 0);
}

static void a_grad_input_left_out_is_that_of_self(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR,
               (const char *const[]){"NCHW:bf16[2,3,1,1]", "NCHW:bf16[2,3,4,5]", "NCHW:int32[2,3,1,1]", ""});
  struct tensor_desc *self = &call.request.arguments[SELF].value.tensor;
  self->stride_count = 4; // a channels_last self says nothing about gradInput
  memcpy(self->strides, (int64_t[]){60, 1, 15, 3}, 4 * sizeof self->strides[0]);
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  const struct tensor_desc *grad_input = call_desc(&call, GRAD_INPUT);
  struct tensor_desc expected = desc_of("NCHW:bf16[2,3,4,5]");
  assert_true(tensor_desc_normalise(&expected, DIRECTION_OUTPUT, "x", &call.status));
  assert_memory_equal(grad_input, &expected, sizeof expected);
}

static void only_the_shape_of_self_is_read(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"fp32[3,1,1]", "fp32[3,4,5]", "int32[3,1,1]", ""});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  static const bool transferred[] = {true, false, true, true};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(call.plan.tensors[i].transferred, transferred[i]);
  }
}

static void strides_are_allowed_on_all_four_but_outputs_must_not_overlap(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR,
               (const char *const[]){"fp32[3,2,2]", "fp32[3,4,5]", "int32[3,2,2]", "fp32[3,4,5]"});
  for (size_t i = 0; i < 4; i++) {
    struct tensor_desc *desc = &call.request.arguments[i].value.tensor;
    desc->stride_count = 3;
    desc->strides[0] = i == GRAD_INPUT ? 1 : 0;
    desc->strides[1] = 3;
    desc->strides[2] = 12;
  }
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  call.request.arguments[GRAD_INPUT].value.tensor.strides[0] = 0;
  assert_false(plan_create(&call.request, &call.plan, &call.status));
  assert_string_equal(call.status.parameter, "gradInput");
  assert_non_null(strstr(call.status.message, "overlap"));
}

// The workspace holds the float sums of 16-bit types, of strided outputs and of what is written past the
// caches; and gradients and indices of a dense run with what vectors load beyond them. It is bounded however
// large the tensor.
static void the_workspace_is_what_the_plan_needs(void **state) {
  (void)state;
  static const struct {
    const char *tensors[4];
    uint64_t bytes;
  } rows[] = {
      {{"fp32[3,2,2]", "fp32[3,4,5]", "int32[3,2,2]", ""}, (12 + 64 + 4) * 8},
      {{"bf16[3,2,2]", "bf16[3,4,5]", "int32[3,2,2]", ""}, 128 + (12 + 64 + 4) * 8},
      {{"fp16[1000,2,2]", "fp16[1000,4,5]", "int32[1000,2,2]", ""}, 3 * (128 + (4000 + 64) * 8)},
      {{"fp16[1000,2,2]", "fp16[1000,256,256]", "int32[1000,2,2]", ""},
       UINT64_C(64) * (65536 * 4 + 65536 * 2 + 64)},
      {{"bf16[1,2,2]", "bf16[1,32767,65536]", "int32[1,2,2]", ""},
       UINT64_C(4) * 32767 * 65536 + 64 * (4 + 64 + 12) * 8},
      {{"bf16[1,3,3]", "bf16[1,9,8]", "int32[1,3,3]", ""}, (3 * (9 + 6 + 64) + 3) * 4 + (9 + 64 + 7) * 8},
      {{"fp32[1,20,20]", "fp32[1,2000,2000]", "int64[1,20,20]", ""},
       UINT64_C(62) * (65536 * 4 + 64 + (400 + 64) * 8)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct operator_call call;
    phase1_begin(&call, OPERATOR, rows[i].tensors);
    assert_true(plan_create(&call.request, &call.plan, &call.status));
    assert_int_equal(call.plan.workspace_bytes, rows[i].bytes);
  }
}

static void work_is_counted_by_views_not_by_storages(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(
      &call, OPERATOR,
      (const char *const[]){"fp32[1,1048576,1048576]", "fp32[1,2,2]", "int32[1,1048576,1048576]", ""});
  for (size_t i = 0; i < 3; i++) {
    call.request.arguments[i].value.tensor.stride_count = 3;
  }
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call.plan.tensors[GRAD_OUTPUT].storage_bytes, 4);
  assert_true(call.plan.work_elements >= UINT64_C(1) << 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_public_unit_test_is_answered_alike),
      cmocka_unit_test(missing_arguments_come_first_in_their_order),
      cmocka_unit_test(data_types_are_those_of_the_operator),
      cmocka_unit_test(shapes_must_fit_each_other),
      cmocka_unit_test(formats_must_be_the_same),
      cmocka_unit_test(sizes_that_no_index_or_memory_can_reach_are_refused),
      cmocka_unit_test(empty_tensors_are_accepted_where_they_mean_something),
      cmocka_unit_test(a_grad_input_left_out_is_that_of_self),
      cmocka_unit_test(only_the_shape_of_self_is_read),
      cmocka_unit_test(strides_are_allowed_on_all_four_but_outputs_must_not_overlap),
      cmocka_unit_test(the_workspace_is_what_the_plan_needs),
      cmocka_unit_test(work_is_counted_by_views_not_by_storages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
