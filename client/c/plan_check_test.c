#include "client/c/plan_check.h"

#include "client/c/job_test_support.h"
#include "client/c/reply_breach.h"
#include "client/c/request.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define GRAD_OUTPUT 0
#define SELF 1
#define GRAD_INPUT 3

// A request that describes gradOutput and self, and the plan that answers it; indices and gradInput are left
// open.
struct fixture {
  struct operator_request request;
  struct workspace_size_response plan;
};

static void fill(struct fixture *fixture) {
  aclnn_tensor tensors[4];
  test_tensors_fill(tensors, NULL, NULL, 40, NULL, 100);
  tensors[GRAD_OUTPUT].data_type = tensors[SELF].data_type = ACLNN_FLOAT;
  tensors[GRAD_OUTPUT].rank = tensors[SELF].rank = 2;
  memcpy(tensors[GRAD_OUTPUT].shape, (const int64_t[]){2, 5}, 2 * sizeof(int64_t));
  memcpy(tensors[SELF].shape, (const int64_t[]){5, 5}, 2 * sizeof(int64_t));
  const int64_t sizes[] = {2};
  const aclnn_attribute attribute = {"size", ACLNN_INT_ARRAY, .values = sizes, .value_count = 1};
  const aclnn_call_arguments arguments = {"aclnnX", tensors, 4, &attribute, 1};
  struct status status;
  assert_true(request_build(&arguments, ACLNN_TARGET_AUTO, ACLNN_NUMERICS_EXACT, &fixture->request, &status));
  test_plan_fill(&fixture->plan, 40, 100);
  fixture->plan.tensors[GRAD_OUTPUT].desc =
      (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .format = FORMAT_ND, .rank = 2, .shape = {2, 5}};
  fixture->plan.tensors[SELF].desc =
      (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .format = FORMAT_ND, .rank = 2, .shape = {5, 5}};
  fixture->plan.tensors[GRAD_INPUT].desc =
      (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .format = FORMAT_ND, .rank = 2, .shape = {5, 5}};
}

static void consistent_plan_is_trusted(void **state) {
  (void)state;
  struct fixture fixture;
  struct status status;
  fill(&fixture);
  assert_true(plan_check(&fixture.request, &fixture.plan, &status));

  // With all that the server fills in, and a format that this client doesn't know.
  struct tensor_desc *desc = &fixture.plan.tensors[GRAD_INPUT].desc;
  desc->stride_count = 2;
  desc->strides[0] = 5;
  desc->strides[1] = 1;
  desc->storage_elements = 25;
  desc->format = (enum format)77;
  assert_true(plan_check(&fixture.request, &fixture.plan, &status));

  // Empty and scalar results.
  *desc = (struct tensor_desc){.data_type = DATA_TYPE_FLOAT, .rank = 3, .shape = {4, 0, 3}};
  fixture.plan.tensors[GRAD_INPUT].storage_bytes = 0;
  assert_true(plan_check(&fixture.request, &fixture.plan, &status));
  *desc = (struct tensor_desc){.data_type = DATA_TYPE_DOUBLE};
  fixture.plan.tensors[GRAD_INPUT].storage_bytes = 8;
  assert_true(plan_check(&fixture.request, &fixture.plan, &status));
}

static void strided_view_is_trusted_where_it_was_asked_for(void **state) {
  (void)state;
  struct fixture fixture;
  struct status status;
  fill(&fixture);
  const struct tensor_desc strided = {.data_type = DATA_TYPE_FLOAT,
                                      .rank = 2,
                                      .stride_count = 2,
                                      .shape = {5, 5},
                                      .strides = {10, 1},
                                      .storage_offset = 3};
  fixture.request.arguments[GRAD_INPUT].value.tensor = strided;
  fixture.plan.tensors[GRAD_INPUT].desc = strided;
  fixture.plan.tensors[GRAD_INPUT].desc.storage_elements = 48;
  fixture.plan.tensors[GRAD_INPUT].storage_bytes = 4 * 48;
  assert_true(plan_check(&fixture.request, &fixture.plan, &status));
}

typedef void spoil_plan(struct workspace_size_response *plan);

static void omit_a_tensor(struct workspace_size_response *plan) {
  plan->tensor_count = 3;
}

static void repeat_a_tensor(struct workspace_size_response *plan) {
  plan->tensors[4] = plan->tensors[GRAD_INPUT];
  plan->tensor_count = 5;
}

static void swap_tensors(struct workspace_size_response *plan) {
  struct tensor_plan first = plan->tensors[0];
  plan->tensors[0] = plan->tensors[GRAD_INPUT];
  plan->tensors[GRAD_INPUT] = first;
}

static void rename_a_tensor(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].name[4] = '\0';
}

static void leave_out_the_direction(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].direction = DIRECTION_UNSPECIFIED;
}

static void invent_a_direction(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].direction = (enum direction)5;
}

static void keep_an_output(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].transferred = false;
}

static void have_no_storage(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].storage_bytes = 0;
}

static void have_a_byte_less(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].storage_bytes--;
}

static void have_a_byte_more(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].storage_bytes++;
}

static void have_negative_storage(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].storage_bytes = -1;
}

static void have_huge_storage(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].storage_bytes = INT64_MAX;
}

static void grow_the_shape(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.shape[0] = 1000;
}

static void negate_two_dims(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.shape[0] = plan->tensors[GRAD_INPUT].desc.shape[1] = -5;
}

static void overflow_the_shape(struct workspace_size_response *plan) {
  struct tensor_desc *desc = &plan->tensors[GRAD_INPUT].desc;
  desc->shape[0] = desc->shape[1] = INT64_C(1) << 32;
  plan->tensors[GRAD_INPUT].storage_bytes = 0;
}

static void raise_the_rank(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.rank = TENSOR_RANK_MAX + 1;
}

static void spread_the_elements(struct workspace_size_response *plan) {
  struct tensor_desc *desc = &plan->tensors[GRAD_INPUT].desc;
  desc->stride_count = 2;
  desc->strides[0] = 500;
  desc->strides[1] = 1;
  plan->tensors[GRAD_INPUT].storage_bytes = 4 * (4 * 500 + 5);
}

static void transpose_the_output(struct workspace_size_response *plan) {
  struct tensor_desc *desc = &plan->tensors[GRAD_INPUT].desc;
  desc->stride_count = 2;
  desc->strides[0] = 1;
  desc->strides[1] = 5;
}

static void shift_the_output(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.storage_offset = 2;
  plan->tensors[GRAD_INPUT].storage_bytes = 4 * 27;
}

static void shift_out_of_the_storage(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.storage_offset = 1000000;
}

static void pad_the_storage(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.storage_elements = 26;
  plan->tensors[GRAD_INPUT].storage_bytes = 4 * 26;
}

static void forget_the_data_type(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.data_type = DATA_TYPE_UNSPECIFIED;
}

static void send_strings(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.data_type = DATA_TYPE_STRING;
}

static void send_half_bytes(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.data_type = DATA_TYPE_INT4;
}

static void invent_a_data_type(struct workspace_size_response *plan) {
  plan->tensors[GRAD_INPUT].desc.data_type = (enum data_type)99;
}

static void change_an_inputs_shape(struct workspace_size_response *plan) {
  plan->tensors[GRAD_OUTPUT].desc.shape[0] = 5;
  plan->tensors[GRAD_OUTPUT].desc.shape[1] = 2;
}

static void change_an_inputs_type(struct workspace_size_response *plan) {
  plan->tensors[GRAD_OUTPUT].desc.data_type = DATA_TYPE_INT32;
}

static void change_an_inputs_strides(struct workspace_size_response *plan) {
  struct tensor_desc *desc = &plan->tensors[GRAD_OUTPUT].desc;
  desc->stride_count = 2;
  desc->strides[0] = 1;
  desc->strides[1] = 2;
}

static void ask_for_more_of_an_input(struct workspace_size_response *plan) {
  plan->tensors[GRAD_OUTPUT].desc.storage_elements = 1000;
  plan->tensors[GRAD_OUTPUT].storage_bytes = 4000;
}

static void inconsistent_plan_is_a_breach_of_contract(void **state) {
  (void)state;
  static spoil_plan *const ways[] = {
      omit_a_tensor,
      repeat_a_tensor,
      swap_tensors,
      rename_a_tensor,
      leave_out_the_direction,
      invent_a_direction,
      keep_an_output,
      have_no_storage,
      have_a_byte_less,
      have_a_byte_more,
      have_negative_storage,
      have_huge_storage,
      grow_the_shape,
      negate_two_dims,
      overflow_the_shape,
      raise_the_rank,
      spread_the_elements,
      transpose_the_output,
      shift_the_output,
      shift_out_of_the_storage,
      pad_the_storage,
      forget_the_data_type,
      send_strings,
      send_half_bytes,
      invent_a_data_type,
      change_an_inputs_shape,
      change_an_inputs_type,
      change_an_inputs_strides,
      ask_for_more_of_an_input,
  };
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    struct fixture fixture;
    struct status status = {0};
    fill(&fixture);
    ways[i](&fixture.plan);
    if (plan_check(&fixture.request, &fixture.plan, &status)) {
      fail_msg("way %zu is trusted", i);
    }
    assert_int_equal(status.reason, REASON_INTERNAL);
    assert_memory_equal(status.message, REPLY_BREACH, strlen(REPLY_BREACH));
  }
}

static void breach_names_the_tensor(void **state) {
  (void)state;
  struct fixture fixture;
  struct status status;
  fill(&fixture);
  fixture.plan.tensors[GRAD_INPUT].storage_bytes = 4;
  assert_false(plan_check(&fixture.request, &fixture.plan, &status));
  assert_string_equal(status.parameter, "gradInput");
  assert_string_equal(status.message, REPLY_BREACH "its plan of gradInput has 4 bytes, but describes 100");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(consistent_plan_is_trusted),
      cmocka_unit_test(strided_view_is_trusted_where_it_was_asked_for),
      cmocka_unit_test(inconsistent_plan_is_a_breach_of_contract),
      cmocka_unit_test(breach_names_the_tensor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
