// The binder, against an operator of its own: it stands for all, with a parameter of each kind.
#include "kernels/operator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LEFT, RIGHT, SIZES, SCALE, FLAG, MODE, COUNT, RESULT, PARAMETERS };

static const struct operator_parameter parameters[PARAMETERS] = {
    [LEFT] = {.name = "left", .kind = PARAMETER_KIND_TENSOR, .direction = DIRECTION_INPUT},
    [RIGHT] = {.name = "right",
               .kind = PARAMETER_KIND_TENSOR,
               .direction = DIRECTION_INPUT,
               .optional = true,
               .shape_only = true},
    [SIZES] = {.name = "sizes", .kind = PARAMETER_KIND_INT_ARRAY, .direction = DIRECTION_INPUT},
    [SCALE] = {.name = "scale", .kind = PARAMETER_KIND_REAL, .direction = DIRECTION_INPUT, .optional = true},
    [FLAG] = {.name = "flag", .kind = PARAMETER_KIND_BOOLEAN, .direction = DIRECTION_INPUT, .optional = true},
    [MODE] = {.name = "mode", .kind = PARAMETER_KIND_TEXT, .direction = DIRECTION_INPUT, .optional = true},
    [COUNT] = {.name = "count",
               .kind = PARAMETER_KIND_INTEGER,
               .direction = DIRECTION_INPUT,
               .optional = true},
    [RESULT] = {.name = "result", .kind = PARAMETER_KIND_TENSOR, .direction = DIRECTION_OUTPUT},
};

static bool infer(struct operator_arguments *arguments, struct status *status) {
  (void)status;
  struct tensor_desc *result = &arguments->values[RESULT].tensor;
  if (tensor_desc_is_unspecified(result)) {
    *result = tensor_desc_like(&arguments->values[LEFT].tensor);
  }
  return true;
}

static bool validate(const struct operator_arguments *arguments, struct status *status) {
  if (arguments->values[LEFT].tensor.rank == 5) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "left", "left has five dimensions");
  }
  return true;
}

static bool plan_on_cpu(struct plan *plan, struct status *status) {
  if (plan->arguments.values[SIZES].int_array.count == 7) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "sizes", "sizes are beyond memory");
  }
  plan->workspace_bytes = 1000 + plan->arguments.values[SIZES].int_array.count;
  plan->private_data[0] = 42;
  return true;
}

static const struct operator_definition fake = {
    .name = "aclnnFake",
    .parameters = parameters,
    .parameter_count = PARAMETERS,
    .infer = infer,
    .validate = validate,
    .plan = plan_on_cpu,
};

// In the registry's place: it isn't linked in here.
const struct operator_definition *operator_find(const char *name) {
  return strcmp(name, fake.name) == 0 ? &fake : NULL;
}

static struct argument *add(struct operator_request *request, const char *name, enum parameter_kind kind) {
  struct argument *argument = &request->arguments[request->argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = kind;
  return argument;
}

static struct argument *add_tensor(struct operator_request *request, const char *name,
                                   struct tensor_desc desc) {
  struct argument *argument = add(request, name, PARAMETER_KIND_TENSOR);
  argument->value.tensor = desc;
  return argument;
}

static const struct tensor_desc matrix = {DATA_TYPE_FLOAT, 0, 2, 0, {3, 5}};

// What is required, in an order of its own.
static struct operator_request minimal_request(void) {
  struct operator_request request = {.operator_name = "aclnnFake"};
  add_tensor(&request, "result", (struct tensor_desc){0});
  add(&request, "sizes", PARAMETER_KIND_INT_ARRAY)->value.int_array = (struct int_array){2, {4, 6}};
  add_tensor(&request, "left", matrix);
  return request;
}

static struct operator_request full_request(void) {
  struct operator_request request = {.operator_name = "aclnnFake",
                                     .target = TARGET_NPU,
                                     .numerics = NUMERICS_EXACT,
                                     .repeatable = true,
                                     .ttl_ms = 5};
  add(&request, "count", PARAMETER_KIND_INTEGER)->value.integer = -3;
  add_tensor(&request, "right", (struct tensor_desc){DATA_TYPE_BF16, FORMAT_NCHW, 2, 2, {4, 4}, {0, 1}});
  add_tensor(&request, "left", matrix);
  add(&request, "flag", PARAMETER_KIND_BOOLEAN)->value.boolean = true;
  add_tensor(&request, "result", (struct tensor_desc){DATA_TYPE_FLOAT16, 0, 1, 1, {4}, {2}, 1});
  strcpy(add(&request, "mode", PARAMETER_KIND_TEXT)->value.text, "fast");
  add(&request, "sizes", PARAMETER_KIND_INT_ARRAY)->value.int_array = (struct int_array){1, {9}};
  add(&request, "scale", PARAMETER_KIND_REAL)->value.real = 0.5;
  return request;
}

static struct plan planned(const struct operator_request *request) {
  struct plan plan;
  struct status status;
  if (!plan_create(request, &plan, &status)) {
    fail_msg("%s", status.message);
  }
  return plan;
}

// Expects a refusal that leaves the plan alone and says this.
static void assert_refused(const struct operator_request *request, enum reason reason, const char *parameter,
                           const char *said) {
  struct plan plan;
  struct plan before;
  memset(&plan, 0x5a, sizeof plan);
  memcpy(&before, &plan, sizeof plan);
  struct status status = {0};
  assert_false(plan_create(request, &plan, &status));
  assert_int_equal(status.reason, reason);
  assert_string_equal(status.parameter, parameter);
  if (strstr(status.message, said) == NULL) {
    fail_msg("\"%s\" doesn't say \"%s\"", status.message, said);
  }
  assert_memory_equal(&plan, &before, sizeof plan);
}

static void arguments_are_bound_by_name_in_any_order(void **state) {
  (void)state;
  struct operator_request request = full_request();
  struct plan plan = planned(&request);
  const struct argument_value *values = plan.arguments.values;
  assert_ptr_equal(plan.definition, &fake);
  assert_int_equal(values[LEFT].tensor.shape[1], 5);
  assert_int_equal(values[SIZES].int_array.values[0], 9);
  assert_true(values[SCALE].real == 0.5);
  assert_true(values[FLAG].boolean);
  assert_string_equal(values[MODE].text, "fast");
  assert_int_equal(values[COUNT].integer, -3);
  assert_int_equal(plan.target, TARGET_NPU);
  assert_int_equal(plan.numerics, NUMERICS_EXACT);
  assert_int_equal(plan.workspace_bytes, 1001);
  assert_int_equal(plan.private_data[0], 42);
}

static void tensors_are_counted_in_the_order_of_the_request(void **state) {
  (void)state;
  struct operator_request request = full_request();
  struct plan plan = planned(&request);
  assert_int_equal(plan.tensor_count, 3);
  static const struct plan_tensor expected[] = {
      {RIGHT, DIRECTION_INPUT, false, 8},
      {LEFT, DIRECTION_INPUT, true, 60},
      {RESULT, DIRECTION_OUTPUT, true, 16},
  };
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(plan.tensors[i].parameter, expected[i].parameter);
    assert_int_equal(plan.tensors[i].direction, expected[i].direction);
    assert_int_equal(plan.tensors[i].transferred, expected[i].transferred);
    assert_int_equal(plan.tensors[i].storage_bytes, expected[i].storage_bytes);
    assert_ptr_equal(plan_tensor_desc(&plan, i), &plan.arguments.values[expected[i].parameter].tensor);
  }
}

static void optional_arguments_may_be_absent(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  struct plan plan = planned(&request);
  for (size_t i = 0; i < PARAMETERS; i++) {
    assert_int_equal(plan.arguments.values[i].kind != PARAMETER_KIND_UNSPECIFIED, !parameters[i].optional);
  }
  assert_int_equal(plan.target, TARGET_AUTO);
  assert_int_equal(plan.numerics, NUMERICS_DEVICE);
}

static void outputs_left_out_are_inferred_and_normalised(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  struct plan plan = planned(&request);
  const struct tensor_desc *result = &plan.arguments.values[RESULT].tensor;
  assert_int_equal(result->rank, 2);
  assert_int_equal(result->strides[0], 5);
  assert_int_equal(result->storage_elements, 15);
  assert_int_equal(plan.tensors[0].storage_bytes, 60);
}

static void a_tensor_without_elements_makes_the_plan_empty(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  assert_false(planned(&request).empty);
  request.arguments[2].value.tensor.shape[0] = 0;
  assert_true(planned(&request).empty);
}

static void an_unknown_operator_is_named(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  strcpy(request.operator_name, "aclnnFak");
  assert_refused(&request, REASON_OPERATOR_UNKNOWN, "", "aclnnFak");
}

static void an_unknown_name_is_told_what_there_is(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  strcpy(request.arguments[2].name, "lefft");
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "lefft", "it takes left, right, sizes");
  strcpy(request.arguments[2].name, "");
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "", "aclnnFake has no parameter");
}

static void a_name_given_twice_is_refused(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  add_tensor(&request, "left", matrix);
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "more than once");
}

static void a_value_of_the_wrong_kind_is_refused(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  request.arguments[2].value.kind = PARAMETER_KIND_REAL;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "REAL, it must be TENSOR");
  request.arguments[2].value.kind = PARAMETER_KIND_UNSPECIFIED;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "UNSPECIFIED");
}

static void a_missing_argument_is_cann_s_null_pointer(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  request.argument_count = 2;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_NULLPTR, "left", "left is missing");
  request.argument_count = 0;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_NULLPTR, "left", "left is missing");
}

static void missing_comes_before_everything_that_is_wrong_with_the_others(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  request.arguments[2].value.tensor.data_type = DATA_TYPE_UNSPECIFIED;
  strcpy(request.arguments[1].name, "mode");
  request.arguments[1].value.kind = PARAMETER_KIND_TEXT;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_NULLPTR, "sizes", "sizes is missing");
}

static void refusals_of_the_operator_are_handed_on(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  request.arguments[2].value.tensor.rank = 5;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "five");
  request = minimal_request();
  request.arguments[1].value.int_array.count = 7;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "sizes", "beyond memory");
  request = minimal_request();
  request.arguments[2].value.tensor.shape[0] = -3;
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "negative");
}

static void an_input_is_never_inferred(void **state) {
  (void)state;
  struct operator_request request = minimal_request();
  request.arguments[2].value.tensor = (struct tensor_desc){0};
  assert_refused(&request, REASON_ACLNN_ERR_PARAM_INVALID, "left", "no data type");
}

static void a_plan_becomes_a_request_that_plans_to_the_same(void **state) {
  (void)state;
  struct operator_request requests[] = {minimal_request(), full_request()};
  for (size_t i = 0; i < 2; i++) {
    struct plan plan = planned(&requests[i]);
    struct operator_request again;
    plan_to_request(&plan, &again);
    assert_int_equal(again.argument_count, requests[i].argument_count);
    struct plan plan_again = planned(&again);
    assert_memory_equal(&plan_again.arguments, &plan.arguments, sizeof plan.arguments);
    assert_memory_equal(&plan_again.tensors, &plan.tensors, sizeof plan.tensors);
    assert_int_equal(plan_again.tensor_count, plan.tensor_count);
    assert_int_equal(plan_again.workspace_bytes, plan.workspace_bytes);
    assert_int_equal(plan_again.target, plan.target);
    assert_int_equal(plan_again.numerics, plan.numerics);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arguments_are_bound_by_name_in_any_order),
      cmocka_unit_test(tensors_are_counted_in_the_order_of_the_request),
      cmocka_unit_test(optional_arguments_may_be_absent),
      cmocka_unit_test(outputs_left_out_are_inferred_and_normalised),
      cmocka_unit_test(a_tensor_without_elements_makes_the_plan_empty),
      cmocka_unit_test(an_unknown_operator_is_named),
      cmocka_unit_test(an_unknown_name_is_told_what_there_is),
      cmocka_unit_test(a_name_given_twice_is_refused),
      cmocka_unit_test(a_value_of_the_wrong_kind_is_refused),
      cmocka_unit_test(a_missing_argument_is_cann_s_null_pointer),
      cmocka_unit_test(missing_comes_before_everything_that_is_wrong_with_the_others),
      cmocka_unit_test(refusals_of_the_operator_are_handed_on),
      cmocka_unit_test(an_input_is_never_inferred),
      cmocka_unit_test(a_plan_becomes_a_request_that_plans_to_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
