// The life of executors, and everything about a launch that a device would punish.
#include "kernels/testing/operator_call.h"
#include "server/npu/emulator/device_call.h"
#include "server/npu/emulator/stream.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A slow job is slow until the test lets it go: the linker sends its sleep here.
static sem_t gate;

void __wrap_stream_sleep(struct stream *stream, int64_t milliseconds);

void __wrap_stream_sleep(struct stream *stream, int64_t milliseconds) {
  (void)stream;
  (void)milliseconds;
  while (sem_wait(&gate) != 0) {
  }
}

static int begin(void **state) {
  (void)state;
  environment_clear();
  unsetenv("ACLNN_CACHE_LIMIT");
  return 0;
}

static void assert_said(const char *text) {
  const char *said = aclGetRecentErrMsg();
  assert_non_null(said);
  if (strstr(said, text) == NULL) {
    fail_msg("'%s' doesn't say '%s'", said, text);
  }
}

static struct tensor_desc described(const char *text, enum direction direction) {
  struct tensor_desc desc = desc_of(text);
  struct status status;
  assert_true(tensor_desc_normalise(&desc, direction, "tensor", &status));
  return desc;
}

// One plane of 2 by 4, pooled to 1 by 2: gradients 3 and 5 go to places 1 and 6.
static void begin_call(struct device_call *call, struct session *session) {
  const struct tensor_desc descs[] = {
      described("fp32[1,1,2]", DIRECTION_INPUT), described("fp32[1,2,4]", DIRECTION_INPUT),
      described("int32[1,1,2]", DIRECTION_INPUT), described("fp32[1,2,4]", DIRECTION_OUTPUT)};
  static const float gradients[] = {3, 5};
  static const int32_t indices[] = {1, 6};
  device_call_begin_backward(call, session, descs);
  session_upload(session, call->addresses[BACKWARD_GRAD_OUTPUT], gradients, sizeof gradients);
  session_upload(session, call->addresses[BACKWARD_INDICES], indices, sizeof indices);
}

static void open_call(struct session *session, struct device_call *call) {
  session_open(session);
  begin_call(call, session);
}

static void close_call(struct session *session, struct device_call *call) {
  device_call_end(call);
  assert_int_equal(session_close(session), 0);
}

static void assert_result(struct device_call *call, const void *address) {
  static const float expected[8] = {[1] = 3, [6] = 5};
  float given[8];
  assert_int_equal(session_download(call->session, given, address, sizeof given), 0);
  assert_memory_equal(given, expected, sizeof given);
}

static aclnnStatus launch(struct device_call *call, void *workspace, uint64_t workspace_bytes) {
  return aclnnAdaptiveMaxPool2dBackward(workspace, workspace_bytes, call->executor, call->session->stream);
}

static void one_shot_is_consumed_by_its_run(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_said("consumed");
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  close_call(&session, &call);
}

static void one_shot_is_consumed_by_a_refusal_too(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  close_call(&session, &call);
}

static void null_executor_is_161001(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(launch(&call, NULL, 0), ACL_STATUS_NULLPTR);
  struct aclTensor **tensors = call.tensors;
  assert_int_equal(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2],
                                                                  tensors[3], NULL, &call.executor),
                   ACL_STATUS_NULLPTR);
  assert_int_equal(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2],
                                                                  tensors[3], &call.workspace_bytes, NULL),
                   ACL_STATUS_NULLPTR);
  close_call(&session, &call);
}

static void executor_of_another_operator_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  call.forward = true;
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_said("aclnnAdaptiveMaxPool2dBackward");
  call.forward = false;
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  close_call(&session, &call);
}

static void executor_without_phase_2_is_a_leak(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER); // it isn't repeatable
  device_call_end(&call);
  assert_int_equal(session_close(&session), ACL_STATUS_FAILURE);
  assert_said("1 executors");
}

static void workspace_must_be_what_phase_1_asked_for(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  for (int wrong = 0; wrong < 6; wrong++) {
    assert_int_equal(device_call_plan(&call), 0);
    uint64_t bytes = call.workspace_bytes;
    assert_true(bytes > 16 << 20);
    char *workspace = session_allocate(bytes - (wrong == 1));
    char *given = workspace;
    switch (wrong) {
    case 0: // less by its own words
      assert_int_equal(launch(&call, workspace, bytes - 1), ACL_STATUS_INVALID);
      break;
    case 1: // less than said
      assert_int_equal(launch(&call, workspace, bytes), ACL_STATUS_INVALID);
      break;
    case 2: // not aligned
      assert_int_equal(launch(&call, workspace + 16, bytes), ACL_STATUS_INVALID);
      break;
    case 3: // aligned, but it ends too late
      assert_int_equal(launch(&call, workspace + 32, bytes), ACL_STATUS_INVALID);
      break;
    case 4: // of the host
      given = malloc(bytes);
      assert_int_equal(launch(&call, given, bytes), ACL_STATUS_INVALID);
      free(given);
      break;
    default: // freed before
      assert_int_equal(aclrtFree(workspace), 0);
      assert_int_equal(launch(&call, workspace, bytes), ACL_STATUS_INVALID);
      workspace = NULL;
    }
    assert_true(workspace == NULL || aclrtFree(workspace) == 0);
  }
  close_call(&session, &call);
}

static void tensor_must_lie_in_device_memory(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_OUTPUT];
  float host[2] __attribute__((aligned(32))) = {1, 2};
  void *const wrong[] = {host, (char *)call.addresses[BACKWARD_GRAD_OUTPUT] + 4};
  struct aclTensor *right = call.tensors[BACKWARD_GRAD_OUTPUT];
  for (size_t i = 0; i < 2; i++) {
    call.tensors[BACKWARD_GRAD_OUTPUT] =
        aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, wrong[i]);
    assert_int_equal(device_call_plan(&call), ACL_STATUS_INVALID);
    assert_said(i == 0 ? "no address of a device" : "no multiple of 32");
    assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_OUTPUT]), 0);
  }
  call.tensors[BACKWARD_GRAD_OUTPUT] = right;
  close_call(&session, &call);
}

static void view_must_stay_in_its_storage(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_OUTPUT];
  struct aclTensor *right = call.tensors[BACKWARD_GRAD_OUTPUT];
  const int64_t strides[] = {2, 2, 2}, backwards[] = {2, 2, -1};
  for (int i = 0; i < 3; i++) {
    call.tensors[BACKWARD_GRAD_OUTPUT] =
        aclCreateTensor(desc->shape, desc->rank, 0,
                        i == 0   ? strides
                        : i == 1 ? backwards
                                 : NULL,
                        i == 2, 2, desc->shape, desc->rank, call.addresses[BACKWARD_GRAD_OUTPUT]);
    assert_int_equal(device_call_plan(&call), ACL_STATUS_INVALID);
    assert_said("leaves its storage");
    assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_OUTPUT]), 0);
  }
  call.tensors[BACKWARD_GRAD_OUTPUT] = right;
  close_call(&session, &call);
}

static void tensor_lives_until_phase_2(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_SELF]), 0);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_said("self was destroyed");
  assert_int_equal(device_call_plan(&call), ACL_STATUS_INVALID);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_SELF]), ACL_STATUS_INVALID);
  call.tensors[BACKWARD_SELF] = NULL;
  close_call(&session, &call);
}

static void output_in_its_workspace_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  char *workspace = session_allocate(call.workspace_bytes);
  assert_int_equal(launch(&call, workspace, call.workspace_bytes), 0);
  assert_int_equal(session_synchronize(&session), 0);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_INPUT];
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_INPUT]), 0);
  call.tensors[BACKWARD_GRAD_INPUT] =
      aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, workspace + 64);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(launch(&call, workspace, call.workspace_bytes), ACL_STATUS_INVALID);
  assert_said("gradInput lies in the workspace");
  assert_int_equal(aclrtFree(workspace), 0);
  close_call(&session, &call);
}

// The kernel meets memory that was freed while the call waited for its turn; `freed` is the tensor.
static void assert_fault_when_freed(size_t freed, const char *said) {
  environment_set("FAULT", "slow");
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  void **address = freed < DEVICE_CALL_TENSORS ? &call.addresses[freed] : &call.workspace;
  assert_int_equal(aclrtFree(*address), 0);
  *address = NULL;
  sem_post(&gate);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION);
  assert_said(said);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION); // for good
  close_call(&session, &call);
}

static void use_after_free_is_an_exception_at_synchronize(void **state) {
  (void)state;
  assert_fault_when_freed(BACKWARD_GRAD_OUTPUT, "argument 0");
  assert_fault_when_freed(BACKWARD_INDICES, "argument 2");
  assert_fault_when_freed(BACKWARD_GRAD_INPUT, "argument 3");
  assert_fault_when_freed(DEVICE_CALL_TENSORS, "the workspace");
}

static void copy_of_freed_memory_is_an_error_at_synchronize(void **state) {
  (void)state;
  environment_set("FAULT", "slow");
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  char host[64];
  void *device = session_allocate(64);
  assert_int_equal(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, session.stream), 0);
  assert_int_equal(aclrtFree(device), 0);
  sem_post(&gate);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_DEVICE_MEMORY);
  assert_said("freed before its turn");
  close_call(&session, &call);
}

static void nothing_is_there_before_synchronize(void **state) {
  (void)state;
  environment_set("FAULT", "slow");
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  float host[8] = {0};
  assert_int_equal(aclrtMemcpyAsync(host, sizeof host, call.addresses[BACKWARD_GRAD_INPUT], sizeof host,
                                    ACL_MEMCPY_DEVICE_TO_HOST, session.stream),
                   0);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(session.stream, 0), ACL_STATUS_RT_STREAM_SYNC_TIMEOUT);
  assert_true(host[1] == 0 && host[6] == 0);
  sem_post(&gate);
  assert_int_equal(session_synchronize(&session), 0);
  assert_true(host[1] == 3 && host[6] == 5);
  close_call(&session, &call);
}

static void overrun_is_an_exception_at_synchronize(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(aclrtFree(call.addresses[BACKWARD_GRAD_INPUT]), 0);
  call.addresses[BACKWARD_GRAD_INPUT] = NULL;
  void *shorter = session_allocate(8 * sizeof(float) - 1);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_INPUT]), 0);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_INPUT];
  call.tensors[BACKWARD_GRAD_INPUT] =
      aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, shorter);
  assert_int_equal(device_call_do(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
  assert_said("element 7 of argument 3");
  assert_int_equal(aclrtFree(shorter), 0);
  close_call(&session, &call);
}

static void index_outside_of_its_plane_is_an_exception_at_synchronize(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1, 8, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct session session;
    struct device_call call;
    open_call(&session, &call);
    session_upload(&session, call.addresses[BACKWARD_INDICES], &wrong[i], sizeof wrong[i]);
    assert_int_equal(device_call_plan(&call), 0);
    assert_int_equal(device_call_run(&call), 0); // nobody knows yet
    assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION);
    assert_said("outside of its plane");
    close_call(&session, &call);
  }
}

// A shape-only input needs no more memory than an address, unless it is strided.
static void self_is_read_only_if_strided(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  void *tiny = session_allocate(1);
  const int64_t strides[] = {16, 4, 1}, storage = 1000;
  struct aclTensor *right = call.tensors[BACKWARD_SELF];
  for (int strided = 0; strided < 2; strided++) {
    const struct tensor_desc *desc = &call.descs[BACKWARD_SELF];
    int64_t shifted[] = {strides[0], strides[1] + strided, strides[2]};
    call.tensors[BACKWARD_SELF] =
        aclCreateTensor(desc->shape, desc->rank, 0, shifted, 0, 2, &storage, 1, tiny);
    assert_int_equal(device_call_do(&call), strided ? ACL_STATUS_RT_AICORE_EXCEPTION : 0);
    assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_SELF]), 0);
  }
  call.tensors[BACKWARD_SELF] = right;
  assert_int_equal(aclrtFree(tiny), 0);
  close_call(&session, &call);
}

static void repeatable_executor_runs_until_it_is_destroyed(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(device_call_run(&call), 0);
    assert_int_equal(session_synchronize(&session), 0);
    assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  }
  assert_int_equal(launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  assert_int_equal(device_call_run(&call), 0); // that one refusal has not consumed it
  assert_int_equal(session_synchronize(&session), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_int_equal(aclSetAclOpExecutorRepeatable(NULL), ACL_STATUS_INNER_NULLPTR);
  assert_int_equal(aclDestroyAclOpExecutor(NULL), ACL_STATUS_INNER_NULLPTR);
  close_call(&session, &call);
}

static void tensors_of_a_repeatable_executor_outlive_it(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_INDICES]), 0);
  call.tensors[BACKWARD_INDICES] = NULL;
  assert_int_equal(device_call_run(&call), ACL_STATUS_INNER);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), ACL_STATUS_INNER);
  assert_said("indices was destroyed before the executor");
  close_call(&session, &call); // and no executor is left
}

static void addresses_of_a_repeatable_executor_change(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
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
  assert_result(&call, other);
  assert_int_equal(aclSetInputTensorAddr(call.executor, 2, indices, moved), 0);
  assert_int_equal(device_call_run(&call), 0);
  float given[8];
  assert_int_equal(session_download(&session, given, other, sizeof given), 0);
  assert_true(given[1] == 5 && given[6] == 3);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  assert_int_equal(aclrtFree(other), 0);
  assert_int_equal(aclrtFree(moved), 0);
  close_call(&session, &call);
}

static void wrong_address_or_index_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
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
  close_call(&session, &call);
}

static void repeating_can_be_switched_off(void **state) {
  (void)state;
  environment_set("REPEATABLE", "off");
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_said("ACLNN_EMULATED_REPEATABLE");
  assert_int_equal(device_call_run(&call), 0); // still good for one run
  assert_int_equal(session_synchronize(&session), 0);
  assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  close_call(&session, &call);
}

static void second_one_shot_comes_from_the_cache(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  uint64_t workspace_bytes = call.workspace_bytes;
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(call.workspace_bytes, workspace_bytes);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), ACL_STATUS_INNER);
  assert_said("from the cache");
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(session_synchronize(&session), 0);
  assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  // The determinism is part of what is remembered.
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  close_call(&session, &call);
}

static void repeatable_and_failed_ones_are_not_cached(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(device_call_plan(&call), 0);
    assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
    assert_int_equal(device_call_run(&call), 0);
    assert_int_equal(session_synchronize(&session), 0);
    assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  }
  close_call(&session, &call);
}

static void cache_can_be_switched_off(void **state) {
  (void)state;
  setenv("ACLNN_CACHE_LIMIT", "0", 1);
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0);
  close_call(&session, &call);
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
  open_call(&session, &call);
  assert_int_equal(device_call_do(&call), 0);
  pthread_t thread;
  void *status;
  assert_int_equal(pthread_create(&thread, NULL, plan_elsewhere, &call), 0);
  pthread_join(thread, &status);
  assert_int_equal(*(aclnnStatus *)status, 0);
  close_call(&session, &call);
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
  open_call(&session, &call);
  pthread_t thread;
  void *status;
  assert_int_equal(pthread_create(&thread, NULL, plan_without_context, &call), 0);
  pthread_join(thread, &status);
  assert_int_equal(*(aclnnStatus *)status, ACL_STATUS_RUNTIME_ERROR);
  close_call(&session, &call);
}

static void jobs_queue_up_behind_one_another(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  open_call(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(device_call_run(&call), 0);
  }
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0); // runs under way hold what they need
  assert_int_equal(session_synchronize(&session), 0);
  assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  close_call(&session, &call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(one_shot_is_consumed_by_its_run, begin),
      cmocka_unit_test_setup(one_shot_is_consumed_by_a_refusal_too, begin),
      cmocka_unit_test_setup(null_executor_is_161001, begin),
      cmocka_unit_test_setup(executor_of_another_operator_is_refused, begin),
      cmocka_unit_test_setup(executor_without_phase_2_is_a_leak, begin),
      cmocka_unit_test_setup(workspace_must_be_what_phase_1_asked_for, begin),
      cmocka_unit_test_setup(tensor_must_lie_in_device_memory, begin),
      cmocka_unit_test_setup(view_must_stay_in_its_storage, begin),
      cmocka_unit_test_setup(tensor_lives_until_phase_2, begin),
      cmocka_unit_test_setup(output_in_its_workspace_is_refused, begin),
      cmocka_unit_test_setup(use_after_free_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(copy_of_freed_memory_is_an_error_at_synchronize, begin),
      cmocka_unit_test_setup(nothing_is_there_before_synchronize, begin),
      cmocka_unit_test_setup(overrun_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(index_outside_of_its_plane_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(self_is_read_only_if_strided, begin),
      cmocka_unit_test_setup(repeatable_executor_runs_until_it_is_destroyed, begin),
      cmocka_unit_test_setup(tensors_of_a_repeatable_executor_outlive_it, begin),
      cmocka_unit_test_setup(addresses_of_a_repeatable_executor_change, begin),
      cmocka_unit_test_setup(wrong_address_or_index_is_refused, begin),
      cmocka_unit_test_setup(repeating_can_be_switched_off, begin),
      cmocka_unit_test_setup(second_one_shot_comes_from_the_cache, begin),
      cmocka_unit_test_setup(repeatable_and_failed_ones_are_not_cached, begin),
      cmocka_unit_test_setup(cache_can_be_switched_off, begin),
      cmocka_unit_test_setup(cache_is_the_threads_own, begin),
      cmocka_unit_test_setup(phase_1_needs_a_device, begin),
      cmocka_unit_test_setup(jobs_queue_up_behind_one_another, begin),
  };
  sem_init(&gate, 0, 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
