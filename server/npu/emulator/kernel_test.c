// What a kernel gets and what it may touch, by an operator of the test's own.
#include "kernels/emulated_device.h"

#include "server/npu/emulator/device_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUT, SIZES, NUMBER, OUTPUT, ARGUMENTS };

#define OWN_WORKSPACE_BYTES 96
#define SYSTEM_WORKSPACE_BYTES (16 << 20)

// What the operator does and what it has seen; one test at a time, and the stream is waited for.
static void (*act)(struct emulated_kernel *kernel);
static struct emulated_kernel seen;
static struct emulated_call seen_call;
static int64_t seen_sizes[2];

static int32_t check(const struct emulated_call *call) {
  return call->tensors[INPUT] == NULL ? emulated_refuse(161001, "input is a null pointer") : 0;
}

static uint64_t workspace_bytes(const struct emulated_call *call) {
  (void)call;
  return OWN_WORKSPACE_BYTES;
}

static void compute(struct emulated_kernel *kernel) {
  seen = *kernel;
  seen_call = *kernel->call;
  memcpy(seen_sizes, kernel->call->int_arrays[SIZES]->values, sizeof seen_sizes);
  if (act != NULL) {
    act(kernel);
  }
}

static const struct emulated_operator definition = {
    .name = "aclnnOfTheTest",
    .arguments = {EMULATED_INPUT, EMULATED_INT_ARRAY, EMULATED_INTEGER, EMULATED_OUTPUT},
    .argument_names = {"input", "sizes", "number", "output"},
    .argument_count = ARGUMENTS,
    .check = check,
    .workspace_bytes = workspace_bytes,
    .compute = compute,
};

struct call {
  struct session session;
  void *input_data, *output_data, *workspace;
  struct aclTensor *input, *output;
  struct aclIntArray *sizes;
  uint64_t workspace_bytes;
  struct aclOpExecutor *executor;
};

// Tensors of 4 elements of the type in storages of 6, which lie in allocations of 8.
static void open_call(struct call *call, enum data_type type) {
  const int64_t shape = 4, storage = 6, sizes[] = {7, 9};
  size_t bytes = data_type_bytes(type);
  session_open(&call->session);
  call->input_data = session_allocate(8 * bytes);
  call->output_data = session_allocate(8 * bytes);
  int number = data_type_to_cann(type);
  call->input = aclCreateTensor(&shape, 1, number, NULL, 1, 2, &storage, 1, call->input_data);
  call->output = aclCreateTensor(&shape, 1, number, NULL, 0, 2, &storage, 1, call->output_data);
  call->sizes = aclCreateIntArray(sizes, 2);
}

static aclnnStatus run_call(struct call *call) {
  const union emulated_argument arguments[ARGUMENTS] = {
      {.tensor = call->input}, {.int_array = call->sizes}, {.integer = -3}, {.tensor = call->output}};
  aclnnStatus status = emulated_plan(&definition, arguments, &call->workspace_bytes, &call->executor);
  if (status != 0) {
    return status;
  }
  call->workspace = session_allocate(call->workspace_bytes);
  status = emulated_launch(&definition, call->workspace, call->workspace_bytes, call->executor,
                           call->session.stream);
  status = status == 0 ? session_synchronize(&call->session) : status;
  assert_int_equal(aclrtFree(call->workspace), 0);
  return status;
}

static void close_call(struct call *call) {
  assert_int_equal(aclDestroyTensor(call->input), 0);
  assert_int_equal(aclDestroyTensor(call->output), 0);
  assert_int_equal(aclDestroyIntArray(call->sizes), 0);
  assert_int_equal(aclrtFree(call->input_data), 0);
  assert_int_equal(aclrtFree(call->output_data), 0);
  assert_int_equal(session_close(&call->session), 0);
}

static int begin(void **state) {
  (void)state;
  environment_clear();
  act = NULL;
  return 0;
}

static void kernel_gets_its_arguments(void **state) {
  (void)state;
  struct call call;
  open_call(&call, DATA_TYPE_FLOAT);
  assert_int_equal(run_call(&call), 0);
  assert_int_equal(call.workspace_bytes, SYSTEM_WORKSPACE_BYTES + OWN_WORKSPACE_BYTES);
  assert_int_equal(seen.workspace.byte_count, OWN_WORKSPACE_BYTES);
  assert_int_equal(seen_sizes[1], 9);
  assert_int_equal(seen_call.integers[NUMBER], -3);
  assert_int_equal(seen_call.profile, EMULATED_PROFILE_EXACT);
  close_call(&call);
}

static void determinism_ends_with_the_life_that_set_it(void **state) {
  (void)state;
  for (int life = 0; life < 2; life++) {
    struct call call;
    open_call(&call, DATA_TYPE_FLOAT);
    assert_int_equal(run_call(&call), 0);
    assert_false(seen_call.deterministic);
    assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
    assert_int_equal(run_call(&call), 0);
    assert_true(seen_call.deterministic);
    close_call(&call);
  }
}

static void missing_argument_is_the_operators_refusal(void **state) {
  (void)state;
  struct call call;
  open_call(&call, DATA_TYPE_FLOAT);
  struct aclTensor *input = call.input;
  call.input = NULL;
  assert_int_equal(run_call(&call), 161001);
  assert_error_said("input is a null pointer");
  call.input = input;
  close_call(&call);
}

// Asserts belong to the test's own thread; here a failure is a fault.
static void expect(struct emulated_kernel *kernel, bool condition) {
  if (!condition) {
    emulated_fault(kernel, "the kernel found something else than it should");
  }
}

static void read_behind_the_storage(struct emulated_kernel *kernel) {
  emulated_read(kernel, INPUT, 5);
  expect(kernel, kernel->fault[0] == '\0');
  emulated_read(kernel, INPUT, 6);
}

static void read_before_the_storage(struct emulated_kernel *kernel) {
  emulated_read(kernel, INPUT, -1);
}

static void write_behind_the_storage(struct emulated_kernel *kernel) {
  emulated_write(kernel, OUTPUT, 6, 1);
}

static void copy_from_behind_the_storage(struct emulated_kernel *kernel) {
  emulated_copy(kernel, OUTPUT, 0, INPUT, 6);
}

static void write_an_integer_far_away(struct emulated_kernel *kernel) {
  emulated_write_integer(kernel, OUTPUT, INT64_MAX, 1);
}

static void read_an_integer_far_away(struct emulated_kernel *kernel) {
  emulated_read_integer(kernel, INPUT, INT64_MIN);
}

static void kernel_may_not_leave_a_tensors_storage(void **state) {
  (void)state;
  void (*const wrong[])(struct emulated_kernel *) = {read_behind_the_storage,   read_before_the_storage,
                                                     write_behind_the_storage,  copy_from_behind_the_storage,
                                                     write_an_integer_far_away, read_an_integer_far_away};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct call call;
    open_call(&call, DATA_TYPE_FLOAT);
    act = wrong[i];
    assert_int_equal(run_call(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
    assert_error_said("outside of the device's memory");
    close_call(&call);
  }
}

static void fault_twice(struct emulated_kernel *kernel) {
  emulated_fault(kernel, "first of %d", 2);
  emulated_fault(kernel, "second");
}

static void first_fault_is_told(void **state) {
  (void)state;
  struct call call;
  open_call(&call, DATA_TYPE_FLOAT);
  act = fault_twice;
  assert_int_equal(run_call(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
  assert_error_said("aclnnOfTheTest: exception of a core: first of 2");
  close_call(&call);
}

// Writes 1.5 as a float, reads it again and copies it.
static void write_and_read(struct emulated_kernel *kernel) {
  emulated_write(kernel, OUTPUT, 2, 1.5f);
  expect(kernel, emulated_read(kernel, OUTPUT, 2) == 1.5);
  emulated_copy(kernel, OUTPUT, 3, OUTPUT, 2);
  expect(kernel, emulated_read(kernel, OUTPUT, 3) == 1.5);
}

static void write_and_read_integers(struct emulated_kernel *kernel) {
  emulated_write_integer(kernel, OUTPUT, 2, -7);
  expect(kernel, emulated_read_integer(kernel, OUTPUT, 2) == -7);
}

static void accessors_know_the_types(void **state) {
  (void)state;
  static const enum data_type floats[] = {DATA_TYPE_FLOAT, DATA_TYPE_FLOAT16, DATA_TYPE_BF16};
  static const enum data_type integers[] = {DATA_TYPE_INT32, DATA_TYPE_INT64};
  struct call call;
  for (size_t i = 0; i < 3; i++) {
    open_call(&call, floats[i]);
    act = write_and_read;
    assert_int_equal(run_call(&call), 0);
    close_call(&call);
  }
  for (size_t i = 0; i < 2; i++) {
    open_call(&call, integers[i]);
    act = write_and_read_integers;
    assert_int_equal(run_call(&call), 0);
    act = write_and_read;
    assert_int_equal(run_call(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
    assert_error_said("written as a float");
    close_call(&call);
  }
}

static void every_run_has_another_seed(void **state) {
  (void)state;
  struct call call;
  open_call(&call, DATA_TYPE_FLOAT);
  assert_int_equal(run_call(&call), 0);
  uint64_t first = seen.seed;
  assert_int_equal(run_call(&call), 0);
  assert_int_not_equal(seen.seed, first);
  close_call(&call);
}

static void elements_are_counted_with_care(void **state) {
  (void)state;
  struct emulated_tensor tensor = {.rank = 3, .shape = {2, 3, 4}};
  assert_int_equal(emulated_tensor_elements(&tensor), 24);
  tensor.shape[1] = INT64_MAX;
  assert_int_equal(emulated_tensor_elements(&tensor), -1);
  tensor.shape[2] = 0;
  assert_int_equal(emulated_tensor_elements(&tensor), 0);
  tensor.shape[0] = -1;
  assert_int_equal(emulated_tensor_elements(&tensor), -1);
  assert_int_equal(emulated_byte_count(INT64_MAX, 8), UINT64_MAX);
  assert_int_equal(emulated_byte_count(3, 8), 24);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(kernel_gets_its_arguments, begin),
      cmocka_unit_test_setup(determinism_ends_with_the_life_that_set_it, begin),
      cmocka_unit_test_setup(missing_argument_is_the_operators_refusal, begin),
      cmocka_unit_test_setup(kernel_may_not_leave_a_tensors_storage, begin),
      cmocka_unit_test_setup(first_fault_is_told, begin),
      cmocka_unit_test_setup(accessors_know_the_types, begin),
      cmocka_unit_test_setup(every_run_has_another_seed, begin),
      cmocka_unit_test_setup(elements_are_counted_with_care, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
