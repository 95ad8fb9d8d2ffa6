#include "kernels/adaptive_max_pool2d/npu.h"
#include "kernels/adaptive_max_pool2d/plan.h"
#include "kernels/testing/npu_cases.h"
#include "kernels/testing/phase1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct operator_definition *forward(void) {
  return operator_find("aclnnAdaptiveMaxPool2d");
}

static void cases_expect_what_the_cpu_gives(void **state) {
  (void)state;
  npu_cases_assert(forward());
}

static bool takes(const char *indices, enum npu_product product, struct status *status) {
  struct operator_call call;
  phase1_begin(&call, forward()->name,
               (const char *const[]){"fp32[1,1,4,4]", "(2,2)", "fp32[1,1,2,2]", indices});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  bool taken = forward_npu_binding.check_plan(&call.plan, product, status);
  call_end(&call);
  return taken;
}

static void int32_indices_are_for_the_emulated_device_alone(void **state) {
  (void)state;
  static const enum npu_product products[] = {NPU_PRODUCT_A2, NPU_PRODUCT_A3, NPU_PRODUCT_950};
  struct status status;
  for (size_t i = 0; i < 3; i++) {
    assert_true(takes("int64[1,1,2,2]", products[i], &status));
    assert_false(takes("int32[1,1,2,2]", products[i], &status));
    assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
    assert_string_equal(status.parameter, "indicesOut");
    assert_non_null(strstr(status.message, npu_product_name(products[i])));
  }
  assert_true(takes("int64[1,1,2,2]", NPU_PRODUCT_EMULATED, &status));
  assert_true(takes("int32[1,1,2,2]", NPU_PRODUCT_EMULATED, &status));
}

static void only_the_emulated_device_vouches_for_exact_bits(void **state) {
  (void)state;
  struct plan plan = {0};
  for (int product = 0; product < NPU_PRODUCT_COUNT; product++) {
    assert_int_equal(forward_npu_binding.is_exact(&plan, product), product == NPU_PRODUCT_EMULATED);
  }
  assert_int_equal(forward_npu_binding.products & NPU_PRODUCT_BIT(UNKNOWN), 0);
}

// Takes the place of a phase 1 and looks at what it gets.
static int32_t phase_one(const struct aclTensor *self, const struct aclIntArray *output_size,
                         struct aclTensor *output_out, struct aclTensor *indices_out,
                         uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  *workspace_bytes = 7;
  *executor = (struct aclOpExecutor *)output_out;
  return self == (void *)0x10 && output_size == (void *)0x20 && indices_out == (void *)0x40 ? 0 : 1;
}

static void arguments_stand_in_cann_order(void **state) {
  (void)state;
  const union npu_argument arguments[FORWARD_PARAMETERS] = {{.tensor = (void *)0x10},
                                                            {.int_array = (void *)0x20},
                                                            {.tensor = (void *)0x30},
                                                            {.tensor = (void *)0x40}};
  uint64_t workspace_bytes = 0;
  struct aclOpExecutor *executor = NULL;
  assert_int_equal(forward_npu_binding.get_workspace_size((void (*)(void))phase_one, arguments,
                                                          &workspace_bytes, &executor),
                   0);
  assert_int_equal(workspace_bytes, 7);
  assert_ptr_equal(executor, (void *)0x30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases_expect_what_the_cpu_gives),
      cmocka_unit_test(int32_indices_are_for_the_emulated_device_alone),
      cmocka_unit_test(only_the_emulated_device_vouches_for_exact_bits),
      cmocka_unit_test(arguments_stand_in_cann_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
