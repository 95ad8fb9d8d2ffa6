// Every reference case, straight against the operators: each is a test of its own, run with both types of
// indices wherever the values allow it, without a pool and on pools of several sizes, on each code path.
#include "kernels/testing/operator_call.h"
#include "tests/golden/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIRECTORY "tests/golden/data"

enum { GRAD_OUTPUT, BACKWARD_SELF, INDICES, GRAD_INPUT };
enum { FORWARD_SELF, OUTPUT_SIZE, OUTPUT_OUT, INDICES_OUT };

// What each test gets: its case, and the pools that all share.
struct test_state {
  const struct golden_case *golden_case;
  const struct call_pools *pools;
};

static int64_t index_at(const struct tensor_desc *desc, const void *data, int64_t position) {
  return desc->data_type == DATA_TYPE_INT64 ? ((const int64_t *)data)[position]
                                            : ((const int32_t *)data)[position];
}

// Copies the indices in another type; false if a value doesn't fit it.
static bool copy_indices(const struct golden_tensor *tensor, enum data_type to_type, void *to) {
  for (int64_t i = 0; i < tensor_desc_elements(&tensor->desc); i++) {
    int64_t value = index_at(&tensor->desc, tensor->data, i);
    if (to_type == DATA_TYPE_INT64) {
      ((int64_t *)to)[i] = value;
    } else if (value < INT32_MIN || value > INT32_MAX) {
      return false;
    } else {
      ((int32_t *)to)[i] = (int32_t)value;
    }
  }
  return true;
}

static void plan_or_fail(struct operator_call *call) {
  if (!call_plan(call)) {
    fail_msg("refused: %s", call->status.message);
  }
}

// Plans a backward with indices of that type and gives it its inputs; false if the indices don't fit the
// type.
static bool begin_backward(struct operator_call *call, const struct golden_case *golden_case,
                           enum data_type index_type) {
  const struct golden_tensor *grad_output = golden_case_tensor(golden_case, "grad_output");
  const struct golden_tensor *indices = golden_case_tensor(golden_case, "indices");
  assert_true(grad_output != NULL && indices != NULL);
  struct tensor_desc indices_desc = indices->desc;
  indices_desc.data_type = index_type;
  call_begin(call, "aclnnAdaptiveMaxPool2dBackward");
  call_add_tensor(call, "gradOutput", &grad_output->desc);
  call_add_tensor(call, "self", golden_case_self(golden_case));
  call_add_tensor(call, "indices", &indices_desc);
  call_add_tensor(call, "gradInput", &(struct tensor_desc){0});
  plan_or_fail(call);
  memcpy(call->storages[GRAD_OUTPUT], grad_output->data, grad_output->bytes);
  return copy_indices(indices, index_type, call->storages[INDICES]);
}

static void assert_values(const struct tensor_desc *desc, const void *given,
                          const struct golden_tensor *expected, const char *what) {
  assert_int_equal(tensor_desc_storage_bytes(desc), expected->bytes);
  for (int64_t i = 0; i < tensor_desc_elements(desc); i++) {
    if (!value_equal(desc->data_type, given, expected->data, i)) {
      fail_msg("%s: element %lld is %a instead of %a", what, (long long)i,
               (double)value_read(desc->data_type, given, i),
               (double)value_read(desc->data_type, expected->data, i));
    }
  }
}

static void check_backward(const struct test_state *test, struct operator_call *call) {
  const struct golden_tensor *expected = golden_case_tensor(test->golden_case, "grad_input");
  assert_non_null(expected);
  for (size_t i = 0; i < CALL_POOLS; i++) {
    assert_true(call_check_inputs(call, test->pools->pools[i]));
    if (!call_run(call, test->pools->pools[i])) {
      fail_msg("failed: %s", call->status.message);
    }
    assert_values(call_desc(call, GRAD_INPUT), call->storages[GRAD_INPUT], expected, "gradInput");
  }
  struct call_cpus here = call_cpus_here();
  for (size_t i = 0; i < here.count; i++) {
    call->cpu = &here.cpus[i];
    assert_true(call_run(call, test->pools->pools[i % CALL_POOLS]));
    assert_values(call_desc(call, GRAD_INPUT), call->storages[GRAD_INPUT], expected,
                  cpu_path_name(here.cpus[i].path));
  }
  call->cpu = NULL;
}

static void check_index_refused(const struct test_state *test, struct operator_call *call) {
  char position[32];
  snprintf(position, sizeof position, "%lld", (long long)golden_case_bad_position(test->golden_case));
  for (size_t i = 0; i < 2 * CALL_POOLS; i++) {
    struct parallel *pool = test->pools->pools[i / 2];
    call->status = (struct status){0};
    assert_false(i % 2 == 0 ? call_run(call, pool) : call_check_inputs(call, pool));
    assert_int_equal(call->status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
    assert_string_equal(call->status.parameter, "indices");
    assert_string_equal(call_metadata(call, "position"), position);
    assert_string_equal(call_metadata(call, "value"), golden_case_bad_value(test->golden_case));
  }
}

static void run_backward(const struct test_state *test) {
  static const enum data_type types[] = {DATA_TYPE_INT32, DATA_TYPE_INT64};
  size_t done = 0;
  for (size_t i = 0; i < 2; i++) {
    struct operator_call call;
    if (begin_backward(&call, test->golden_case, types[i])) {
      if (golden_case_expect(test->golden_case) == GOLDEN_OK) {
        check_backward(test, &call);
      } else {
        check_index_refused(test, &call);
      }
      done++;
    }
    call_end(&call);
  }
  assert_true(done > 0);
}

// The index of a window with NaN may be that of any NaN in it, says the case. Ours are defined more narrowly,
// and agree with the data: the last.
static void assert_indices(const struct test_state *test, const struct operator_call *call) {
  const struct golden_tensor *expected = golden_case_tensor(test->golden_case, "indices");
  const struct tensor_desc *desc = call_desc(call, INDICES_OUT);
  assert_non_null(expected);
  for (int64_t i = 0; i < tensor_desc_elements(desc); i++) {
    int64_t given = index_at(desc, call->storages[INDICES_OUT], i);
    int64_t wanted = index_at(&expected->desc, expected->data, i);
    if (given != wanted) {
      fail_msg("index %lld is %lld instead of %lld%s", (long long)i, (long long)given, (long long)wanted,
               golden_case_allows_any_nan(test->golden_case) ? ", perhaps of another NaN" : "");
    }
  }
}

static void run_forward(const struct test_state *test) {
  static const enum data_type types[] = {DATA_TYPE_INT32, DATA_TYPE_INT64};
  const struct golden_tensor *self = golden_case_tensor(test->golden_case, "self");
  const struct golden_tensor *output = golden_case_tensor(test->golden_case, "output");
  const int64_t *size = golden_case_output_size(test->golden_case);
  assert_true(self != NULL && output != NULL);
  for (size_t i = 0; i < 2; i++) {
    struct operator_call call;
    struct tensor_desc indices = output->desc;
    indices.data_type = types[i];
    call_begin(&call, "aclnnAdaptiveMaxPool2d");
    call_add_tensor(&call, "self", &self->desc);
    call_add_int_array(&call, "outputSize", &(struct int_array){2, {size[0], size[1]}});
    call_add_tensor(&call, "outputOut", &(struct tensor_desc){0});
    call_add_tensor(&call, "indicesOut", &indices);
    plan_or_fail(&call);
    memcpy(call.storages[FORWARD_SELF], self->data, self->bytes);
    for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
      struct cpu cpu = {.path = path};
      call.cpu = &cpu;
      for (size_t pool = 0; pool < CALL_POOLS && cpu_path_is_available(path); pool++) {
        assert_true(call_run(&call, test->pools->pools[pool]));
        assert_values(call_desc(&call, OUTPUT_OUT), call.storages[OUTPUT_OUT], output, "outputOut");
        assert_indices(test, &call);
      }
    }
    call_end(&call);
  }
}

static void run_refused_params(const struct test_state *test) {
  static const char *const names[][2] = {
      {"grad_output", "gradOutput"}, {"self", "self"}, {"indices", "indices"}, {"grad_input", "gradInput"}};
  struct operator_call call;
  call_begin(&call, "aclnnAdaptiveMaxPool2dBackward");
  for (size_t i = 0; i < 4; i++) {
    const struct golden_tensor *tensor = golden_case_tensor(test->golden_case, names[i][0]);
    assert_non_null(tensor);
    call_add_tensor(&call, names[i][1], &tensor->desc);
  }
  assert_false(plan_create(&call.request, &call.plan, &call.status));
  assert_int_equal(call.status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
  assert_int_equal(call.status.aclnn_status, 161002);
}

static void run_case(void **state) {
  const struct test_state *test = *state;
  if (golden_case_expect(test->golden_case) == GOLDEN_REJECT_PARAMS) {
    run_refused_params(test);
  } else if (golden_case_kind(test->golden_case) == GOLDEN_FORWARD) {
    run_forward(test);
  } else {
    run_backward(test);
  }
}

int main(void) {
  struct golden *golden;
  struct status status;
  if (!golden_open(DIRECTORY, &golden, &status)) {
    fprintf(stderr, "%s\n", status.message);
    return 1;
  }
  void *pools;
  if (call_pools_create(&pools) != 0) {
    return 1;
  }
  size_t count = golden_case_count(golden);
  struct CMUnitTest *tests = calloc(count, sizeof *tests);
  struct test_state *states = calloc(count, sizeof *states);
  for (size_t i = 0; i < count; i++) {
    states[i] = (struct test_state){golden_case_at(golden, i), pools};
    tests[i] = (struct CMUnitTest){
        .name = golden_case_name(states[i].golden_case), .test_func = run_case, .initial_state = &states[i]};
  }
  int failed = _cmocka_run_group_tests("golden", tests, count, NULL, NULL);
  printf("golden cases: %zu\n", count);
  free(tests);
  free(states);
  call_pools_destroy(&pools);
  golden_close(golden);
  return failed != 0;
}
