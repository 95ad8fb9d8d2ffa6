// Everything about a launch that a device would punish.
#include "server/npu/emulator/device_call.h"
#include "server/npu/emulator/stream.h"

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
  return 0;
}

static void workspace_must_be_what_phase_1_asked_for(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  for (int wrong = 0; wrong < 6; wrong++) {
    assert_int_equal(device_call_plan(&call), 0);
    uint64_t bytes = call.workspace_bytes;
    assert_true(bytes > 16 << 20);
    char *workspace = session_allocate(bytes - (wrong == 1));
    char *given = workspace;
    switch (wrong) {
    case 0: // less by its own words
      assert_int_equal(small_call_launch(&call, workspace, bytes - 1), ACL_STATUS_INVALID);
      break;
    case 1: // less than said
      assert_int_equal(small_call_launch(&call, workspace, bytes), ACL_STATUS_INVALID);
      break;
    case 2: // not aligned
      assert_int_equal(small_call_launch(&call, workspace + 16, bytes), ACL_STATUS_INVALID);
      break;
    case 3: // aligned, but it ends too late
      assert_int_equal(small_call_launch(&call, workspace + 32, bytes), ACL_STATUS_INVALID);
      break;
    case 4: // of the host
      given = malloc(bytes);
      assert_int_equal(small_call_launch(&call, given, bytes), ACL_STATUS_INVALID);
      free(given);
      break;
    default: // freed before
      assert_int_equal(aclrtFree(workspace), 0);
      assert_int_equal(small_call_launch(&call, workspace, bytes), ACL_STATUS_INVALID);
      workspace = NULL;
    }
    assert_true(workspace == NULL || aclrtFree(workspace) == 0);
  }
  small_call_close(&session, &call);
}

static void tensor_must_lie_in_device_memory(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_OUTPUT];
  float host[2] __attribute__((aligned(32))) = {1, 2};
  void *const wrong[] = {host, (char *)call.addresses[BACKWARD_GRAD_OUTPUT] + 4};
  struct aclTensor *right = call.tensors[BACKWARD_GRAD_OUTPUT];
  for (size_t i = 0; i < 2; i++) {
    call.tensors[BACKWARD_GRAD_OUTPUT] =
        aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, wrong[i]);
    assert_int_equal(device_call_plan(&call), ACL_STATUS_INVALID);
    assert_error_said(i == 0 ? "no address of a device" : "no multiple of 32");
    assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_OUTPUT]), 0);
  }
  call.tensors[BACKWARD_GRAD_OUTPUT] = right;
  small_call_close(&session, &call);
}

static void view_must_stay_in_its_storage(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
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
    assert_error_said("leaves its storage");
    assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_OUTPUT]), 0);
  }
  call.tensors[BACKWARD_GRAD_OUTPUT] = right;
  small_call_close(&session, &call);
}

static void output_in_its_workspace_is_refused(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  char *workspace = session_allocate(call.workspace_bytes);
  assert_int_equal(small_call_launch(&call, workspace, call.workspace_bytes), 0);
  assert_int_equal(session_synchronize(&session), 0);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_INPUT];
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_INPUT]), 0);
  call.tensors[BACKWARD_GRAD_INPUT] =
      aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, workspace + 64);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(small_call_launch(&call, workspace, call.workspace_bytes), ACL_STATUS_INVALID);
  assert_error_said("gradInput lies in the workspace");
  assert_int_equal(aclrtFree(workspace), 0);
  small_call_close(&session, &call);
}

// The kernel meets memory that was freed while the call waited for its turn; `freed` is the tensor.
static void assert_fault_when_freed(size_t freed, const char *said) {
  environment_set("FAULT", "slow");
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  void **address = freed < DEVICE_CALL_TENSORS ? &call.addresses[freed] : &call.workspace;
  assert_int_equal(aclrtFree(*address), 0);
  *address = NULL;
  sem_post(&gate);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION);
  assert_error_said(said);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION); // for good
  small_call_close(&session, &call);
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
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  char host[64];
  void *device = session_allocate(64);
  assert_int_equal(aclrtMemcpyAsync(host, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, session.stream), 0);
  assert_int_equal(aclrtFree(device), 0);
  sem_post(&gate);
  assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_DEVICE_MEMORY);
  assert_error_said("freed before its turn");
  small_call_close(&session, &call);
}

static void nothing_is_there_before_synchronize(void **state) {
  (void)state;
  environment_set("FAULT", "slow");
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
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
  small_call_close(&session, &call);
}

static void overrun_is_an_exception_at_synchronize(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(aclrtFree(call.addresses[BACKWARD_GRAD_INPUT]), 0);
  call.addresses[BACKWARD_GRAD_INPUT] = NULL;
  void *shorter = session_allocate(8 * sizeof(float) - 1);
  assert_int_equal(aclDestroyTensor(call.tensors[BACKWARD_GRAD_INPUT]), 0);
  const struct tensor_desc *desc = &call.descs[BACKWARD_GRAD_INPUT];
  call.tensors[BACKWARD_GRAD_INPUT] =
      aclCreateTensor(desc->shape, desc->rank, 0, NULL, 0, 2, desc->shape, desc->rank, shorter);
  assert_int_equal(device_call_do(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
  assert_error_said("element 7 of argument 3");
  assert_int_equal(aclrtFree(shorter), 0);
  small_call_close(&session, &call);
}

static void index_outside_of_its_plane_is_an_exception_at_synchronize(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1, 8, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct session session;
    struct device_call call;
    small_call_open(&session, &call);
    session_upload(&session, call.addresses[BACKWARD_INDICES], &wrong[i], sizeof wrong[i]);
    assert_int_equal(device_call_plan(&call), 0);
    assert_int_equal(device_call_run(&call), 0); // nobody knows yet
    assert_int_equal(session_synchronize(&session), ACL_STATUS_RT_AICORE_EXCEPTION);
    assert_error_said("outside of its plane");
    small_call_close(&session, &call);
  }
}

// A shape-only input needs no more memory than an address, unless it is strided.
static void self_is_read_only_if_strided(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
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
  small_call_close(&session, &call);
}

static void jobs_queue_up_behind_one_another(void **state) {
  (void)state;
  struct session session;
  struct device_call call;
  small_call_open(&session, &call);
  assert_int_equal(device_call_plan(&call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call.executor), 0);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(device_call_run(&call), 0);
  }
  assert_int_equal(aclDestroyAclOpExecutor(call.executor), 0); // runs under way hold what they need
  assert_int_equal(session_synchronize(&session), 0);
  small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  small_call_close(&session, &call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(workspace_must_be_what_phase_1_asked_for, begin),
      cmocka_unit_test_setup(tensor_must_lie_in_device_memory, begin),
      cmocka_unit_test_setup(view_must_stay_in_its_storage, begin),
      cmocka_unit_test_setup(output_in_its_workspace_is_refused, begin),
      cmocka_unit_test_setup(use_after_free_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(copy_of_freed_memory_is_an_error_at_synchronize, begin),
      cmocka_unit_test_setup(nothing_is_there_before_synchronize, begin),
      cmocka_unit_test_setup(overrun_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(index_outside_of_its_plane_is_an_exception_at_synchronize, begin),
      cmocka_unit_test_setup(self_is_read_only_if_strided, begin),
      cmocka_unit_test_setup(jobs_queue_up_behind_one_another, begin),
  };
  sem_init(&gate, 0, 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
