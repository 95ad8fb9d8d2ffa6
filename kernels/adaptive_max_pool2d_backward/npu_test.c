#include "kernels/adaptive_max_pool2d_backward/npu.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/adaptive_pooling.h"
#include "kernels/testing/npu_cases.h"
#include "kernels/testing/phase1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const enum npu_product real_products[] = {NPU_PRODUCT_A2, NPU_PRODUCT_A3, NPU_PRODUCT_950};

static const struct operator_definition *backward(void) {
  return operator_find("aclnnAdaptiveMaxPool2dBackward");
}

static void cases_expect_what_the_cpu_gives(void **state) {
  (void)state;
  npu_cases_assert(backward());
}

static void exactly_one_case_is_a_probe(void **state) {
  (void)state;
  size_t probes = 0;
  for (size_t i = 0; i < BACKWARD_NPU_CASES; i++) {
    probes += backward_npu_cases[i].probe;
  }
  assert_int_equal(probes, 1);
}

static bool takes(const char *self, const char *grad_output, const char *indices, enum npu_product product,
                  struct status *status) {
  struct operator_call call;
  phase1_begin(&call, backward()->name, (const char *const[]){grad_output, self, indices, self});
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  bool taken = backward_npu_binding.check_plan(&call.plan, product, status);
  call_end(&call);
  return taken;
}

static void large_planes_that_do_not_divide_are_refused_by_a2_and_a3(void **state) {
  (void)state;
  struct status status;
  for (int product = NPU_PRODUCT_A2; product < NPU_PRODUCT_COUNT; product++) {
    bool limited = product == NPU_PRODUCT_A2 || product == NPU_PRODUCT_A3;
    // 4096 * 4096 is 2^24.
    assert_true(takes("fp32[1,4096,4096]", "fp32[1,3,3]", "int32[1,3,3]", product, &status));
    assert_true(takes("fp32[1,4096,8192]", "fp32[1,2,4]", "int32[1,2,4]", product, &status));
    assert_int_equal(takes("fp32[1,4096,4097]", "fp32[1,4096,4096]", "int32[1,4096,4096]", product, &status),
                     !limited);
    assert_int_equal(takes("fp32[1,4097,4096]", "fp32[1,3,4096]", "int32[1,3,4096]", product, &status),
                     !limited);
    if (limited) {
      assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
      assert_int_equal(status.aclnn_status, 161002);
      assert_string_equal(status.parameter, "self");
      assert_non_null(strstr(status.message, "16777216"));
    }
    // Many planes, none of them large.
    assert_true(takes("fp32[5000,64,64]", "fp32[5000,3,3]", "int32[5000,3,3]", product, &status));
  }
}

static void only_the_emulated_device_vouches_for_exact_bits(void **state) {
  (void)state;
  struct plan plan = {0};
  for (int product = 0; product < NPU_PRODUCT_COUNT; product++) {
    assert_int_equal(backward_npu_binding.is_exact(&plan, product), product == NPU_PRODUCT_EMULATED);
  }
  assert_int_equal(backward_npu_binding.products & NPU_PRODUCT_BIT(UNKNOWN), 0);
}

static bool is_comparable(const struct operator_call *call, enum npu_product product) {
  struct operator_run run = {.plan = &call->plan};
  memcpy(run.storages, call->storages, sizeof run.storages);
  return backward_npu_binding.is_comparable(&run, product);
}

static void set_index(struct operator_call *call, int64_t position, int64_t value) {
  const struct tensor_desc *desc = call_desc(call, BACKWARD_INDICES);
  int64_t offset = tensor_desc_offset_of(desc, position);
  if (desc->data_type == DATA_TYPE_INT64) {
    ((int64_t *)call->storages[BACKWARD_INDICES])[offset] = value;
  } else {
    ((int32_t *)call->storages[BACKWARD_INDICES])[offset] = (int32_t)value;
  }
}

// Each index in a random place of its window, then each in turn moved to each other place of the plane.
static void check_shape(struct random *random, int64_t rows, int64_t columns, int64_t out_rows,
                        int64_t out_columns, const char *type) {
  struct operator_call call;
  call_begin(&call, backward()->name);
  char text[64];
  snprintf(text, sizeof text, "fp32[2,%lld,%lld]", (long long)out_rows, (long long)out_columns);
  struct tensor_desc grad_output = desc_of(text);
  snprintf(text, sizeof text, "%s[2,%lld,%lld]", type, (long long)out_rows, (long long)out_columns);
  struct tensor_desc indices = desc_of(text);
  snprintf(text, sizeof text, "fp32[2,%lld,%lld]", (long long)rows, (long long)columns);
  struct tensor_desc self = desc_of(text);
  indices.stride_count = 3;
  indices.strides[2] = 2;
  indices.strides[1] = 2 * out_columns + 1;
  indices.strides[0] = indices.strides[1] * out_rows;
  call_add_tensor(&call, "gradOutput", &grad_output);
  call_add_tensor(&call, "self", &self);
  call_add_tensor(&call, "indices", &indices);
  call_add_tensor(&call, "gradInput", &self);
  assert_true(call_plan(&call));
  int64_t count = 2 * out_rows * out_columns;
  for (int64_t i = 0; i < count; i++) {
    int64_t row = i / out_columns % out_rows, column = i % out_columns;
    int64_t top = pooling_window_begin(row, rows, out_rows), bottom = pooling_window_end(row, rows, out_rows);
    int64_t left = pooling_window_begin(column, columns, out_columns);
    int64_t right = pooling_window_end(column, columns, out_columns);
    int64_t legal = random_between(random, top, bottom) * columns + random_between(random, left, right);
    for (int64_t j = i; j < count; j++) {
      // What comes later is judged by its own first position meanwhile.
      int64_t r = j / out_columns % out_rows, c = j % out_columns;
      set_index(&call, j,
                pooling_window_begin(r, rows, out_rows) * columns +
                    pooling_window_begin(c, columns, out_columns));
    }
    for (int64_t index = 0; index < rows * columns; index++) {
      set_index(&call, i, index);
      bool inside = index / columns >= top && index / columns < bottom && index % columns >= left &&
                    index % columns < right;
      for (size_t product = 0; product < 3; product++) {
        assert_int_equal(is_comparable(&call, real_products[product]), inside);
      }
      assert_true(is_comparable(&call, NPU_PRODUCT_EMULATED));
    }
    set_index(&call, i, legal);
  }
  call_end(&call);
}

static void only_indices_in_their_windows_are_comparable(void **state) {
  (void)state;
  struct random random = {0};
  check_shape(&random, 4, 4, 2, 2, "int64");
  check_shape(&random, 5, 7, 3, 4, "int32");
  check_shape(&random, 2, 3, 3, 5, "int64");
  check_shape(&random, 7, 1, 2, 3, "int32");
  for (int i = 0; i < 20; i++) {
    check_shape(&random, random_between(&random, 1, 9), random_between(&random, 1, 9),
                random_between(&random, 1, 9), random_between(&random, 1, 9), i % 2 == 0 ? "int32" : "int64");
  }
}

// Takes the place of a phase 1 and looks at what it gets.
static int32_t phase_one(const struct aclTensor *grad_output, const struct aclTensor *self,
                         const struct aclTensor *indices, struct aclTensor *grad_input,
                         uint64_t *workspace_bytes, struct aclOpExecutor **executor) {
  *workspace_bytes = 7;
  *executor = (struct aclOpExecutor *)grad_input;
  return grad_output == (void *)0x10 && self == (void *)0x20 && indices == (void *)0x30 ? 0 : 1;
}

static void arguments_stand_in_cann_order(void **state) {
  (void)state;
  const union npu_argument arguments[BACKWARD_PARAMETERS] = {
      {.tensor = (void *)0x10}, {.tensor = (void *)0x20}, {.tensor = (void *)0x30}, {.tensor = (void *)0x40}};
  uint64_t workspace_bytes = 0;
  struct aclOpExecutor *executor = NULL;
  assert_int_equal(backward_npu_binding.get_workspace_size((void (*)(void))phase_one, arguments,
                                                           &workspace_bytes, &executor),
                   0);
  assert_int_equal(workspace_bytes, 7);
  assert_ptr_equal(executor, (void *)0x40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cases_expect_what_the_cpu_gives),
      cmocka_unit_test(exactly_one_case_is_a_probe),
      cmocka_unit_test(large_planes_that_do_not_divide_are_refused_by_a2_and_a3),
      cmocka_unit_test(only_the_emulated_device_vouches_for_exact_bits),
      cmocka_unit_test(only_indices_in_their_windows_are_comparable),
      cmocka_unit_test(arguments_stand_in_cann_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
