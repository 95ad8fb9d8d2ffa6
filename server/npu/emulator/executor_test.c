// The life of executors: who is consumed when, who may be repeated, what the cache remembers.
#include "server/npu/emulator/device_call.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int begin(void **state) {
  (void)state;
  environment_clear();
  return 0;
}

static void one_shot_is_consumed_by_its_run(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_error_said("consumed");
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  small_call_close(&session, &call);
}

static void one_shot_is_consumed_by_a_refusal_too(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(small_call_launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  small_call_close(&session, &call);
}

static void null_executor_is_161001(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(small_call_launch(&call, NULL, 0), ACL_STATUS_NULLPTR);
  struct aclTensor **tensors = call.tensors;
  assert_int_equal(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2],
                                                                  tensors[3], NULL, &call.executor),
                   ACL_STATUS_NULLPTR);
  assert_int_equal(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2],
                                                                  tensors[3], &call.workspace_bytes, NULL),
                   ACL_STATUS_NULLPTR);
  small_call_close(&session, &call);
}

static void executor_of_another_operator_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  call.forward = true;
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_error_said("aclnnAdaptiveMaxPool2dBackward");
  call.forward = false;
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  small_call_close(&session, &call);
}

static void executor_without_phase_2_is_a_leak(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER); // it isn't repeatable
  device_call_end(&call);
  assert_int_equal(session_close(&session), ACL_STATUS_FAILURE);
  assert_error_said("1 executors");
}

static void tensor_lives_until_phase_2(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_SELF]), 0);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_error_said("self was destroyed");
  assert_int_equal(device_call_plan(&call), ACL_STATUS_INVALID);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_SELF]), ACL_STATUS_INVALID);
  call.tensors[BACKWARD_SELF] = NULL;
  small_call_close(&session, &call);
}

static void repeatable_executor_runs_until_it_is_destroyed(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(device_call_run(&call), 0);
    assert_int_equal(session_synchronize(&session), 0);
    small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  }
  assert_int_equal(small_call_launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  assert_int_equal(device_call_run(&call), 0); // that one refusal has not consumed it
  assert_int_equal(session_synchronize(&session), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_int_equal(aclSetAclOpExecutorRepeatable(NULL), ACL_STATUS_INNER_NULLPTR);
  assert_int_equal(aclDestroyAclOpExecutor(NULL), ACL_STATUS_INNER_NULLPTR);
  small_call_close(&session, &call);
}

static void tensors_of_a_repeatable_executor_outlive_it(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_INDICES]), 0);
  call.tensors[BACKWARD_INDICES] = NULL;
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  assert_error_said("indices was destroyed before the executor");
  small_call_close(&session, &call); // and no executor is left
}

static void addresses_of_a_repeatable_executor_change(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  struct aclTensor *output = call.tensors[BACKWARD_GRAD_INPUT], *indices = call.tensors[BACKWARD_INDICES];
  void *other = session_allocate(8 * sizeof(float)), *moved = session_allocate(2 * sizeof(int32_t));
  static const int32_t swapped[] = {6, 1};
  session_upload(&session, moved, swapped, sizeof swapped);
  assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, output, other), ACL_STATUS_INNER); // not yet
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclSetOutputTensorAddr(call.executor, 0, output, other), 0);
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  small_call_assert_result(&call, other);
  assert_int_equal(aclSetInputTensorAddr(call.executor, 2, indices, moved), 0);
  assert_int_equal(device_call_run(&call), 0);
  float given[8];
  assert_int_equal(session_download(&session, given, other, sizeof given), 0);
  assert_true(given[1] == 5 && given[6] == 3);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  assert_int_equal(aclrtFree(other), 0);
  assert_int_equal(aclrtFree(moved), 0);
  small_call_close(&session, &call);
}

static void wrong_address_or_index_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  struct aclOpExecutor *executor = call.executor;
  struct aclTensor *output = call.tensors[BACKWARD_GRAD_INPUT], *input = call.tensors[BACKWARD_GRAD_OUTPUT];
  char *address = call.addresses[BACKWARD_GRAD_INPUT];
  assert_int_equal(aclSetOutputTensorAddr(NULL, 0, output, address), ACL_STATUS_INNER_NULLPTR);
  assert_int_equal(aclSetOutputTensorAddr(executor, 0, NULL, address), ACL_STATUS_INNER_NULLPTR);
  assert_int_equal(aclSetOutputTensorAddr(executor, 0, output, NULL), ACL_STATUS_INNER_NULLPTR);
  assert_int_equal(aclSetOutputTensorAddr(executor, 1, output, address), ACL_STATUS_INVALID);
  assert_int_equal(aclSetInputTensorAddr(executor, 3, input, address), ACL_STATUS_INVALID);
  assert_int_equal(aclSetInputTensorAddr(executor, 1, input, address), ACL_STATUS_INVALID); // that is self
  assert_int_equal(aclSetOutputTensorAddr(executor, 0, output, address + 8), ACL_STATUS_INVALID);
  assert_int_equal(aclSetOutputTensorAddr(executor, 0, output, &session), ACL_STATUS_INVALID);
  assert_int_equal(aclDestroyAclOpExecutor(executor), 0);
  small_call_close(&session, &call);
}

static void repeating_can_be_switched_off(void **state) {
  (void)state;
  environment_set("REPEATABLE", "off");
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_error_said("ACLNN_EMULATED_REPEATABLE");
  assert_int_equal(device_call_run(&call), 0); // still good for one run
  assert_int_equal(session_synchronize(&session), 0);
  small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  small_call_close(&session, &call);
}

static void second_one_shot_comes_from_the_cache(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  uint64_t workspace_bytes = call.workspace_bytes;
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(call.workspace_bytes, workspace_bytes);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_error_said("from the cache");
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  // The determinism is part of what is remembered.
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  small_call_close(&session, &call);
}

static void repeatable_and_failed_ones_are_not_cached(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(small_call_launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(device_call_plan(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    assert_int_equal(device_call_run(&call), 0);
    assert_int_equal(session_synchronize(&session), 0);
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  }
  small_call_close(&session, &call);
}

static void cache_knows_formats_apart(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  for (size_t i = 0; i < DEVICE_CALL_TENSORS; i++) {
    const struct tensor_desc *desc = &call.descs[i];
    assert_int_equal(aclDestroyTensor(call.tensors[i]), 0);
    call.tensors[i] =
        aclCreateTensor(desc->shape, desc->rank, data_type_to_cann(desc->data_type), desc->strides, 0,
                        ACL_FORMAT_NCL, &desc->storage_elements, 1, call.addresses[i]);
  }
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  small_call_close(&session, &call);
}

static void executor_runs_on_its_own_device(void **state) {
  (void)state;
  environment_set("DEVICES", "2");
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  aclrtStream other;
  assert_int_equal(aclrtSetDevice(1), 0);
  assert_int_equal(aclrtCreateStream(&other), 0);
  assert_int_equal(aclnnAdaptiveMaxPool2dBackward(call.addresses[0], 1, call.executor, other),
                   ACL_STATUS_RT_STREAM_CONTEXT);
  assert_int_equal(aclrtDestroyStream(other), 0);
  assert_int_equal(aclrtResetDevice(1), 0);
  aclFinalize(); // the thread has left the context in which the rest could be freed
}

static void cache_can_be_switched_off(void **state) {
  (void)state;
  setenv("ACLNN_CACHE_LIMIT", "0", 1);
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  small_call_close(&session, &call);
}

// On a thread of its own: whether the call's executor can be made repeatable there.
static void *plan_elsewhere(void *argument) {
  struct device_call *call = argument;
  static aclnnStatus status;
  struct device_call own = *call;
  status = aclrtSetDevice(0);
  status = status == 0 ? device_call_plan(&own) : status;
  status = status == 0 ? aclSetAclOpExecutorRepeatable(own.executor) : status;
  status = status == 0 ? aclDestroyAclOpExecutor(own.executor) : status;
  status = status == 0 ? aclrtResetDevice(0) : status;
  return &status;
}

static void cache_is_the_threads_own(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  pthread_t thread;
  void *status;
  assert_int_equal(pthread_create(&thread, NULL, plan_elsewhere, &call), 0);
  pthread_join(thread, &status);
  assert_int_equal(*(aclnnStatus *)status, 0);
  small_call_close(&session, &call);
}

static void *plan_without_context(void *argument) {
  static aclnnStatus status;
  struct device_call own = *(struct device_call *)argument;
  status = device_call_plan(&own);
  return &status;
}

static void phase_1_needs_a_device(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  pthread_t thread;
  void *status;
  assert_int_equal(pthread_create(&thread, NULL, plan_without_context, &call), 0);
  pthread_join(thread, &status);
  assert_int_equal(*(aclnnStatus *)status, ACL_STATUS_RUNTIME_ERROR);
  small_call_close(&session, &call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(one_shot_is_consumed_by_its_run, begin),
      cmocka_unit_test_setup(one_shot_is_consumed_by_a_refusal_too, begin),
      cmocka_unit_test_setup(null_executor_is_161001, begin),
      cmocka_unit_test_setup(executor_of_another_operator_is_refused, begin),
      cmocka_unit_test_setup(executor_without_phase_2_is_a_leak, begin),
      cmocka_unit_test_setup(tensor_lives_until_phase_2, begin),
      cmocka_unit_test_setup(repeatable_executor_runs_until_it_is_destroyed, begin),
      cmocka_unit_test_setup(tensors_of_a_repeatable_executor_outlive_it, begin),
      cmocka_unit_test_setup(addresses_of_a_repeatable_executor_change, begin),
      cmocka_unit_test_setup(wrong_address_or_index_is_refused, begin),
      cmocka_unit_test_setup(repeating_can_be_switched_off, begin),
      cmocka_unit_test_setup(second_one_shot_comes_from_the_cache, begin),
      cmocka_unit_test_setup(repeatable_and_failed_ones_are_not_cached, begin),
      cmocka_unit_test_setup(cache_knows_formats_apart, begin),
      cmocka_unit_test_setup(executor_runs_on_its_own_device, begin),
      cmocka_unit_test_setup(cache_can_be_switched_off, begin),
      cmocka_unit_test_setup(cache_is_the_threads_own, begin),
      cmocka_unit_test_setup(phase_1_needs_a_device, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
