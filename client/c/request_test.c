#include "client/c/request.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static bool build(const aclnn_call_arguments *arguments, struct operator_request *request,
                  struct status *status) {
  return request_build(arguments, ACLNN_TARGET_CPU, ACLNN_NUMERICS_EXACT, request, status);
}

static void arguments_are_copied_in_order(void **state) {
  (void)state;
  aclnn_tensor tensors[] = {
      {.name = "self",
       .data_type = ACLNN_FLOAT,
       .rank = 3,
       .shape = {2, 3, 4},
       .has_strides = true,
       .strides = {1, 2, 6},
       .storage_offset = 5,
       .storage_elements = 29},
      {.name = "outputOut", .output = true},
  };
  const int64_t size[] = {7, 8};
  const aclnn_attribute attributes[] = {
      {.name = "outputSize", .kind = ACLNN_INT_ARRAY, .values = size, .value_count = 2},
      {.name = "cubeMathType", .kind = ACLNN_INTEGER, .integer = -3},
      {.name = "alpha", .kind = ACLNN_REAL, .real = 0.5},
      {.name = "keep", .kind = ACLNN_BOOLEAN, .integer = 2},
      {.name = "mode", .kind = ACLNN_TEXT, .text = "none"},
  };
  const aclnn_call_arguments arguments = {"aclnnX", tensors, 2, attributes, 5};
  struct operator_request request;
  struct status status;
  assert_true(build(&arguments, &request, &status));
  assert_string_equal(request.operator_name, "aclnnX");
  assert_int_equal(request.target, TARGET_CPU);
  assert_int_equal(request.numerics, NUMERICS_EXACT);
  assert_int_equal(request.argument_count, 7);
  const struct tensor_desc *desc = &request.arguments[0].value.tensor;
  assert_int_equal(desc->data_type, DATA_TYPE_FLOAT);
  assert_int_equal(desc->rank, 3);
  assert_int_equal(desc->shape[2], 4);
  assert_int_equal(desc->stride_count, 3);
  assert_int_equal(desc->strides[2], 6);
  assert_int_equal(desc->storage_offset, 5);
  assert_int_equal(desc->storage_elements, 29);
  assert_true(tensor_desc_is_unspecified(&request.arguments[1].value.tensor));
  assert_int_equal(request.arguments[2].value.int_array.count, 2);
  assert_int_equal(request.arguments[2].value.int_array.values[1], 8);
  assert_int_equal(request.arguments[3].value.integer, -3);
  assert_true(request.arguments[4].value.real == 0.5);
  assert_true(request.arguments[5].value.boolean);
  assert_string_equal(request.arguments[6].value.text, "none");
}

static void check_refused(const aclnn_call_arguments *arguments, enum reason reason) {
  struct operator_request request;
  struct status status;
  assert_false(build(arguments, &request, &status));
  assert_int_equal(status.reason, reason);
}

static void what_the_wire_cannot_carry_is_refused(void **state) {
  (void)state;
  aclnn_tensor tensors[ACLNN_TENSORS_MAX + 1] = {{.name = "self", .rank = 9}};
  char long_name[ARGUMENT_TEXT_BYTES_MAX + 2];
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  const int64_t values[9] = {0};
  const aclnn_attribute too_many = {"x", ACLNN_INT_ARRAY, .values = values, .value_count = 9};
  const aclnn_attribute no_values = {"x", ACLNN_INT_ARRAY, .value_count = 1};
  const aclnn_attribute no_text = {"x", ACLNN_TEXT};
  const aclnn_attribute no_kind = {"x", 77};
  aclnn_tensor unnamed = {0};
  check_refused(NULL, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){NULL, NULL, 0, NULL, 0}, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){long_name, NULL, 0, NULL, 0}, REASON_ACLNN_ERR_PARAM_INVALID);
  check_refused(&(aclnn_call_arguments){"x", tensors, 1, NULL, 0}, REASON_ACLNN_ERR_PARAM_INVALID);
  check_refused(&(aclnn_call_arguments){"x", tensors, 17, NULL, 0}, REASON_ACLNN_ERR_PARAM_INVALID);
  check_refused(&(aclnn_call_arguments){"x", tensors, SIZE_MAX, &no_text, 2}, REASON_ACLNN_ERR_PARAM_INVALID);
  check_refused(&(aclnn_call_arguments){"x", NULL, 1, NULL, 0}, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){"x", &unnamed, 1, NULL, 0}, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){"x", NULL, 0, &too_many, 1}, REASON_ACLNN_ERR_PARAM_INVALID);
  check_refused(&(aclnn_call_arguments){"x", NULL, 0, &no_values, 1}, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){"x", NULL, 0, &no_text, 1}, REASON_ACLNN_ERR_PARAM_NULLPTR);
  check_refused(&(aclnn_call_arguments){"x", NULL, 0, &no_kind, 1}, REASON_ACLNN_ERR_PARAM_INVALID);
}

static void only_inferred_outputs_are_written_back(void **state) {
  (void)state;
  aclnn_tensor tensors[] = {
      {.name = "a", .output = true},
      {.name = "b", .output = true, .data_type = ACLNN_FLOAT, .rank = 1, .shape = {5}},
      {.name = "c"},
  };
  struct tensor_plan plans[3] = {0};
  for (size_t i = 0; i < 3; i++) {
    plans[i].desc = (struct tensor_desc){.data_type = DATA_TYPE_INT64, .rank = 2, .shape = {3, 4}};
  }
  request_write_back(plans, 3, tensors);
  assert_int_equal(tensors[0].data_type, ACLNN_INT64);
  assert_int_equal(tensors[0].rank, 2);
  assert_int_equal(tensors[0].shape[1], 4);
  assert_int_equal(tensors[1].data_type, ACLNN_FLOAT);
  assert_int_equal(tensors[1].shape[0], 5);
  assert_int_equal(tensors[2].rank, 0);
}

static void fill_operator(struct operator_info *info) {
  memset(info, 0, sizeof *info);
  const char *names[] = {"gradOutput", "self", "gradInput"};
  for (size_t i = 0; i < 3; i++) {
    strcpy(info->parameters[i].name, names[i]);
    info->parameters[i].direction = i == 2 ? DIRECTION_OUTPUT : DIRECTION_INPUT;
    info->parameters[i].shape_only = i == 1;
  }
  info->parameter_count = 3;
}

static void sizes_are_foreseen_from_the_description(void **state) {
  (void)state;
  aclnn_tensor tensors[] = {
      {.name = "self", .data_type = ACLNN_FLOAT, .rank = 2, .shape = {10, 10}},
      {.name = "gradOutput", .data_type = ACLNN_FLOAT16, .rank = 2, .shape = {2, 3}},
      {.name = "gradInput", .output = true},
  };
  const aclnn_call_arguments arguments = {"aclnnX", tensors, 3, NULL, 0};
  struct operator_request request;
  struct operator_info info;
  struct tensor_plan plans[WIRE_TENSORS_MAX];
  struct status status;
  size_t count;
  fill_operator(&info);
  assert_true(build(&arguments, &request, &status));
  assert_true(request_foresee(&request, &info, plans, &count));
  assert_int_equal(count, 3);
  assert_false(plans[0].transferred);
  assert_true(plans[1].transferred);
  assert_int_equal(plans[1].storage_bytes, 12);
  assert_int_equal(plans[2].direction, DIRECTION_OUTPUT);
  assert_false(request_foresee(&request, NULL, plans, &count));

  tensors[1].shape[0] = -2; // the server has to say what is wrong with it
  assert_true(build(&arguments, &request, &status));
  assert_false(request_foresee(&request, &info, plans, &count));
  tensors[1].shape[0] = 2;
  tensors[1].name = "grad";
  assert_true(build(&arguments, &request, &status));
  assert_false(request_foresee(&request, &info, plans, &count));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arguments_are_copied_in_order),
      cmocka_unit_test(what_the_wire_cannot_carry_is_refused),
      cmocka_unit_test(only_inferred_outputs_are_written_back),
      cmocka_unit_test(sizes_are_foreseen_from_the_description),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
