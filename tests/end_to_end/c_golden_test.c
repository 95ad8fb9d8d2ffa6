// Every reference case through the C library, on emulated devices and on the CPU: the same bits from both.

#include "client/c/aclnn_client.h"
#include "tests/end_to_end/test_server.h"
#include "tests/golden/golden.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "tests/golden/data"

struct test_state {
  const struct golden_case *golden_case;
  aclnn_client *client;
  aclnn_target target;
};

static aclnn_tensor describe(const char *name, const struct tensor_desc *desc) {
  aclnn_tensor tensor = {.name = name, .data_type = (aclnn_data_type)desc->data_type, .rank = desc->rank};
  memcpy(tensor.shape, desc->shape, sizeof desc->shape);
  return tensor;
}

static aclnn_tensor input(const char *name, const struct golden_tensor *tensor) {
  assert_non_null(tensor);
  aclnn_tensor described = describe(name, &tensor->desc);
  described.data = (void *)tensor->data;
  described.data_bytes = tensor->bytes;
  return described;
}

// Described as expected; the library allocates its data.
static aclnn_tensor output(const char *name, const struct golden_tensor *expected) {
  assert_non_null(expected);
  aclnn_tensor described = describe(name, &expected->desc);
  described.output = true;
  return described;
}

static bool is_nan(enum data_type type, uint32_t bits) {
  switch (type) {
  case DATA_TYPE_FLOAT:
    return (bits & 0x7fffffff) > 0x7f800000;
  case DATA_TYPE_FLOAT16:
    return (bits & 0x7fff) > 0x7c00;
  case DATA_TYPE_BF16:
    return (bits & 0x7fff) > 0x7f80;
  default:
    return false;
  }
}

// Bit for bit, but that any NaN equals any NaN. Then frees what the library allocated.
static void check_output(aclnn_tensor *tensor, const struct golden_tensor *expected) {
  size_t width = data_type_bytes(expected->desc.data_type);
  assert_int_equal(tensor->data_bytes, expected->bytes);
  for (size_t at = 0; at < expected->bytes; at += width) {
    uint32_t got = 0, wanted = 0;
    const uint8_t *got_bytes = (const uint8_t *)tensor->data + at;
    const uint8_t *wanted_bytes = (const uint8_t *)expected->data + at;
    memcpy(&got, got_bytes, width < 4 ? width : 4);
    memcpy(&wanted, wanted_bytes, width < 4 ? width : 4);
    bool both_nan = is_nan(expected->desc.data_type, got) && is_nan(expected->desc.data_type, wanted);
    if (!both_nan && memcmp(got_bytes, wanted_bytes, width) != 0) {
      fail_msg("%s: element %zu is %x instead of %x", tensor->name, at / width, got, wanted);
    }
  }
  aclnn_free(tensor->data);
}

// A plan with an empty tensor is the CPU's in any case.
static void check_summary(const struct test_state *test, const aclnn_summary *summary, bool empty) {
  assert_int_equal(summary->target, empty ? ACLNN_TARGET_CPU : test->target);
  assert_int_equal(summary->numerics, ACLNN_NUMERICS_EXACT);
  assert_int_equal(summary->attempts, 1);
}

static bool is_empty(const aclnn_call_arguments *arguments) {
  for (size_t i = 0; i < arguments->tensor_count; i++) {
    for (size_t dim = 0; dim < arguments->tensors[i].rank; dim++) {
      if (arguments->tensors[i].shape[dim] == 0) {
        return true;
      }
    }
  }
  return false;
}

static void call(const struct test_state *test, const aclnn_call_arguments *arguments) {
  aclnn_error error;
  aclnn_summary summary;
  if (aclnn_call(test->client, arguments, &summary, &error) != ACLNN_OK) {
    fail_msg("%s: %s", error.reason, error.message);
  }
  check_summary(test, &summary, is_empty(arguments));
}

static void check_refused(const struct test_state *test, const aclnn_call_arguments *arguments) {
  aclnn_error error;
  assert_int_equal(aclnn_call(test->client, arguments, NULL, &error), ACLNN_FAILED);
  assert_int_equal(error.aclnn_status, 161002);
  assert_string_equal(error.reason, "ACLNN_ERR_PARAM_INVALID");
  assert_true(error.message[0] != '\0');
}

static void run_forward(const struct test_state *test) {
  const struct golden_tensor *values = golden_case_tensor(test->golden_case, "output");
  const struct golden_tensor *indices = golden_case_tensor(test->golden_case, "indices");
  aclnn_tensor tensors[] = {input("self", golden_case_tensor(test->golden_case, "self")),
                            output("outputOut", values), output("indicesOut", indices)};
  const aclnn_attribute size = {.name = "outputSize",
                                .kind = ACLNN_INT_ARRAY,
                                .values = golden_case_output_size(test->golden_case),
                                .value_count = 2};
  call(test, &(aclnn_call_arguments){"aclnnAdaptiveMaxPool2d", tensors, 3, &size, 1});
  check_output(&tensors[1], values);
  check_output(&tensors[2], indices);
}

static void run_backward(const struct test_state *test) {
  aclnn_tensor tensors[] = {input("gradOutput", golden_case_tensor(test->golden_case, "grad_output")),
                            describe("self", golden_case_self(test->golden_case)),
                            input("indices", golden_case_tensor(test->golden_case, "indices")),
                            {.name = "gradInput", .output = true}};
  const aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2dBackward", tensors, 4, NULL, 0};
  if (golden_case_expect(test->golden_case) == GOLDEN_REJECT_INDEX) {
    check_refused(test, &arguments);
    return;
  }
  call(test, &arguments);
  check_output(&tensors[3], golden_case_tensor(test->golden_case, "grad_input"));
}

static void run_refused_parameters(const struct test_state *test) {
  static const char *const names[][2] = {
      {"grad_output", "gradOutput"}, {"self", "self"}, {"indices", "indices"}, {"grad_input", "gradInput"}};
  aclnn_tensor tensors[4];
  for (size_t i = 0; i < 4; i++) {
    tensors[i] = describe(names[i][1], &golden_case_tensor(test->golden_case, names[i][0])->desc);
  }
  tensors[3].output = true;
  const aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2dBackward", tensors, 4, NULL, 0};
  aclnn_error error;
  aclnn_plan *plan;
  assert_int_equal(aclnn_get_workspace_size(test->client, &arguments, false, 0, &plan, &error), ACLNN_FAILED);
  assert_int_equal(error.aclnn_status, 161002);
}

static void run_case(void **state) {
  const struct test_state *test = *state;
  if (golden_case_expect(test->golden_case) == GOLDEN_REJECT_PARAMS) {
    run_refused_parameters(test);
  } else if (golden_case_kind(test->golden_case) == GOLDEN_FORWARD) {
    run_forward(test);
  } else {
    run_backward(test);
  }
}

static int run_all(const struct golden *golden, const char *address, aclnn_target target, const char *name) {
  const aclnn_client_options options = {
      .target_address = address, .target = target, .numerics = ACLNN_NUMERICS_EXACT, .retries = -1};
  aclnn_client *client = NULL;
  aclnn_error error;
  if (aclnn_client_open(&options, &client, &error) != ACLNN_OK) {
    return 1;
  }
  size_t count = golden_case_count(golden);
  struct CMUnitTest *tests = calloc(count, sizeof *tests);
  struct test_state *states = calloc(count, sizeof *states);
  for (size_t i = 0; i < count; i++) {
    states[i] = (struct test_state){golden_case_at(golden, i), client, target};
    tests[i] = (struct CMUnitTest){
        .name = golden_case_name(states[i].golden_case), .test_func = run_case, .initial_state = &states[i]};
  }
  int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
  free(tests);
  free(states);
  aclnn_client_close(client);
  return failed;
}

int main(void) {
  struct golden *golden;
  struct status status;
  struct test_server server;
  if (!golden_open(DIRECTORY, &golden, &status)) {
    fprintf(stderr, "%s\n", status.message);
    return 1;
  }
  test_server_start(&server, "127.0.0.1:0", "--npu", "emulated:2");
  int failed = run_all(golden, server.address, ACLNN_TARGET_NPU, "golden cases on emulated devices, from C");
  failed += run_all(golden, server.address, ACLNN_TARGET_CPU, "golden cases on the CPU, from C");
  test_server_stop(&server);
  golden_close(golden);
  return failed != 0;
}
