#include "kernels/mm/npu.h"
#include "kernels/mm/plan.h"
#include "kernels/testing/npu_cases.h"
#include "kernels/testing/phase1.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void cases_expect_what_the_cpu_gives(void **state) {
  (void)state;
  npu_cases_assert(operator_find("aclnnMm"));
}

static void no_device_vouches_for_exact_bits(void **state) {
  (void)state;
  struct plan plan = {0};
  for (int product = 0; product < NPU_PRODUCT_COUNT; product++) {
    assert_false(mm_npu_binding.is_exact(&plan, product));
  }
}

static void only_sums_that_are_exact_in_any_order_are_compared(void **state) {
  (void)state;
  static const struct {
    float self, mat2;
    bool comparable;
  } cases[] = {{3, -256, true}, {0.5f, 1, false}, {257, 1, false}, {256, 256, true}, {NAN, 1, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct operator_call call;
    phase1_begin(&call, "aclnnMm", (const char *const[]){"fp32[1,1]", "bf16[1,1]", "fp32[1,1]", "=0"});
    assert_true(call_plan(&call));
    value_write(DATA_TYPE_FLOAT, call.storages[MM_SELF], 0, cases[i].self);
    value_write(DATA_TYPE_BF16, call.storages[MM_MAT2], 0, cases[i].mat2);
    struct operator_run run = {.plan = &call.plan,
                               .storages = {call.storages[MM_SELF], call.storages[MM_MAT2]}};
    assert_int_equal(mm_npu_binding.is_comparable(&run, NPU_PRODUCT_A2), cases[i].comparable);
    call_end(&call);
  }
}

static void wide_results_of_narrow_matrices_are_the_950_s(void **state) {
  (void)state;
  struct operator_call call;
  struct status status;
  phase1_begin(&call, "aclnnMm", (const char *const[]){"fp16[1,1]", "fp16[1,1]", "fp32[1,1]", "=0"});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  assert_true(mm_npu_binding.check_plan(&call.plan, NPU_PRODUCT_950, &status));
  assert_false(mm_npu_binding.check_plan(&call.plan, NPU_PRODUCT_A2, &status));
  assert_string_equal(status.parameter, "out");
  call_end(&call);
}

// Takes the place of a phase 1 and looks at what it gets.
static int32_t phase_one(const struct aclTensor *self, const struct aclTensor *mat2, struct aclTensor *out,
                         int8_t cube_math_type, uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  *workspace_bytes = 7;
  *executor = (struct aclOpExecutor *)out;
  return (int32_t)((const char *)mat2 - (const char *)self) + cube_math_type;
}

static void arguments_go_to_phase_one_in_cann_s_order(void **state) {
  (void)state;
  char places[3];
  const union npu_argument arguments[OPERATOR_PARAMETERS_MAX] = {
      [MM_SELF] = {.tensor = (struct aclTensor *)&places[0]},
      [MM_MAT2] = {.tensor = (struct aclTensor *)&places[1]},
      [MM_OUT] = {.tensor = (struct aclTensor *)&places[2]},
      [MM_CUBE_MATH_TYPE] = {.integer = 3}};
  uint64_t workspace_bytes = 0;
  struct aclOpExecutor *executor = NULL;
  assert_int_equal(
      mm_npu_binding.get_workspace_size((void (*)(void))phase_one, arguments, &workspace_bytes, &executor),
      4);
  assert_int_equal(workspace_bytes, 7);
  assert_ptr_equal(executor, &places[2]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases_expect_what_the_cpu_gives),
      cmocka_unit_test(no_device_vouches_for_exact_bits),
      cmocka_unit_test(only_sums_that_are_exact_in_any_order_are_compared),
      cmocka_unit_test(wide_results_of_narrow_matrices_are_the_950_s),
      cmocka_unit_test(arguments_go_to_phase_one_in_cann_s_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
