// What phase 1 of the matrix product accepts and refuses.
#include "kernels/testing/phase1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define OK REASON_NONE
#define NULLPTR REASON_ACLNN_ERR_PARAM_NULLPTR
#define INVALID REASON_ACLNN_ERR_PARAM_INVALID

enum { SELF, MAT2, OUT };

#define OPERATOR "aclnnMm"
#define ASSERT_ALL(rows) phase1_assert_rows(OPERATOR, rows, sizeof(rows) / sizeof((rows)[0]))

static const struct phase1_row missing[] = {
    {{NULL, "fp32[3,4]", "fp32[2,4]", "=1"}, NULLPTR, "self", "self is missing"},
    {{"fp32[2,3]", NULL, "fp32[2,4]", "=1"}, NULLPTR, "mat2", "mat2 is missing"},
    {{"fp32[2,3]", "fp32[3,4]", NULL, "=1"}, NULLPTR, "out", "out is missing"},
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", NULL}, NULLPTR, "cubeMathType", "cubeMathType is missing"},
};

static void missing_parameters_are_refused(void **state) {
  (void)state;
  ASSERT_ALL(missing);
}

static const struct phase1_row types[] = {
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=0"}, OK, "", ""},
    {{"fp16[2,3]", "fp16[3,4]", "fp16[2,4]", "=0"}, OK, "", ""},
    {{"bf16[2,3]", "bf16[3,4]", "bf16[2,4]", "=0"}, OK, "", ""},
    {{"fp16[2,3]", "fp32[3,4]", "fp32[2,4]", "=0"}, OK, "", ""},
    {{"bf16[2,3]", "fp16[3,4]", "fp32[2,4]", "=0"}, OK, "", ""},
    {{"bf16[2,3]", "bf16[3,4]", "fp32[2,4]", "=0"}, OK, "", ""},
    {{"fp32[2,3]", "fp32[3,4]", "fp16[2,4]", "=0"}, INVALID, "out", "float16 of out"},
    {{"bf16[2,3]", "fp16[3,4]", "bf16[2,4]", "=0"}, INVALID, "out", "which is float32"},
    {{"float64[2,3]", "float64[3,4]", "float64[2,4]", "=0"}, INVALID, "self", "float64 of self"},
    {{"fp32[2,3]", "int32[3,4]", "fp32[2,4]", "=0"}, INVALID, "mat2", "int32 of mat2"},
    {{"NCHW:fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=0"}, INVALID, "self", "NCHW"},
};

static void types_are_those_of_a_product(void **state) {
  (void)state;
  ASSERT_ALL(types);
}

static const struct phase1_row shapes[] = {
    {{"fp32[0,3]", "fp32[3,4]", "fp32[0,4]", "=0"}, OK, "", ""},
    {{"fp32[2,0]", "fp32[0,4]", "fp32[2,4]", "=0"}, OK, "", ""},
    {{"fp32[2,3]", "fp32[3,0]", "fp32[2,0]", "=0"}, OK, "", ""},
    {{"fp32[2,3]", "fp32[4,3]", "fp32[2,3]", "=0"}, INVALID, "mat2", "4 rows"},
    {{"fp32[2,3]", "fp32[3,4]", "fp32[4,2]", "=0"}, INVALID, "out", "[4, 2]"},
    {{"fp32[2,3,1]", "fp32[3,4]", "fp32[2,4]", "=0"}, INVALID, "self", "3 dimensions"},
    {{"fp32[2,3]", "fp32[3]", "fp32[2]", "=0"}, INVALID, "mat2", "1 dimensions"},
    {{"fp32[2,3]", "fp32[3]", "", "=0"}, INVALID, "mat2", "1 dimensions"},
    {{"fp32[2147483648,0]", "fp32[0,1]", "fp32[2147483648,1]", "=0"}, INVALID, "self", "2147483647"},
};

static void shapes_are_those_of_a_product(void **state) {
  (void)state;
  ASSERT_ALL(shapes);
}

static const struct phase1_row math_types[] = {
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=4"}, OK, "", ""},
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=3"}, OK, "", ""},
    {{"fp16[2,3]", "fp16[3,4]", "fp16[2,4]", "=2"}, OK, "", ""},
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=5"}, INVALID, "cubeMathType", "allowed are 0 to 4"},
    {{"fp32[2,3]", "fp32[3,4]", "fp32[2,4]", "=-1"}, INVALID, "cubeMathType", "is -1"},
    {{"bf16[2,3]", "bf16[3,4]", "bf16[2,4]", "=2"}, INVALID, "cubeMathType", "bfloat16"},
    {{"fp16[2,3]", "fp16[3,4]", "fp16[2,4]", "=3"}, INVALID, "cubeMathType", "float16"},
};

static void math_types_are_cann_s(void **state) {
  (void)state;
  ASSERT_ALL(math_types);
}

static void out_is_inferred(void **state) {
  (void)state;
  static const struct {
    const char *self, *mat2;
    enum data_type type;
  } cases[] = {{"bf16[2,3]", "bf16[3,4]", DATA_TYPE_BF16},
               {"bf16[2,3]", "fp32[3,4]", DATA_TYPE_FLOAT},
               {"fp16[2,3]", "bf16[3,4]", DATA_TYPE_FLOAT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct operator_call call;
    phase1_begin(&call, OPERATOR, (const char *const[]){cases[i].self, cases[i].mat2, "", "=0"});
    assert_true(plan_create(&call.request, &call.plan, &call.status));
    assert_int_equal(call_desc(&call, OUT)->data_type, cases[i].type);
    assert_int_equal(call_desc(&call, OUT)->shape[0], 2);
    assert_int_equal(call_desc(&call, OUT)->shape[1], 4);
    call_end(&call);
  }
}

// The workspace of a call of which self has these strides.
static uint64_t workspace_with_strides(int64_t row_stride, int64_t column_stride) {
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"fp32[16,16]", "fp32[16,16]", "fp32[16,16]", "=0"});
  struct tensor_desc *self = &call.request.arguments[SELF].value.tensor;
  self->stride_count = 2;
  self->strides[0] = row_stride;
  self->strides[1] = column_stride;
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  uint64_t bytes = call.plan.workspace_bytes;
  call_end(&call);
  return bytes;
}

static void what_blas_can_take_is_not_copied(void **state) {
  (void)state;
  assert_int_equal(workspace_with_strides(16, 1), 0);
  assert_int_equal(workspace_with_strides(100, 1), 0);
  assert_int_equal(workspace_with_strides(1, 16), 0);
  assert_int_equal(workspace_with_strides(1, 31), 0);
  assert_int_equal(workspace_with_strides(32, 2), 16 * 16 * 4);
  assert_int_equal(workspace_with_strides(0, 1), 16 * 16 * 4);
  assert_int_equal(workspace_with_strides(0, 0), 16 * 16 * 4);
}

static void sixteen_bits_are_widened_in_the_workspace(void **state) {
  (void)state;
  struct operator_call call;
  phase1_begin(&call, OPERATOR, (const char *const[]){"bf16[16,32]", "bf16[32,64]", "bf16[16,64]", "=0"});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call.plan.workspace_bytes, 4 * (16 * 32 + 32 * 64 + 16 * 64));
  call_end(&call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(missing_parameters_are_refused),
      cmocka_unit_test(types_are_those_of_a_product),
      cmocka_unit_test(shapes_are_those_of_a_product),
      cmocka_unit_test(math_types_are_cann_s),
      cmocka_unit_test(out_is_inferred),
      cmocka_unit_test(what_blas_can_take_is_not_copied),
      cmocka_unit_test(sixteen_bits_are_widened_in_the_workspace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
