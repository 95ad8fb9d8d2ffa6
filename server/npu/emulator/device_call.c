#include "server/npu/emulator/device_call.h"

#include "kernels/testing/operator_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STORAGE_RANK 1

void environment_set(const char *name, const char *value) {
  char variable[64];
  snprintf(variable, sizeof variable, "ACLNN_EMULATED_%s", name);
  if (value == NULL) {
    unsetenv(variable);
  } else {
    setenv(variable, value, 1);
  }
}

void environment_clear(void) {
  static const char *const names[] = {"DEVICES", "PROFILE", "MEMORY", "REPEATABLE", "FAULT"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    environment_set(names[i], NULL);
  }
  unsetenv("ACLNN_CACHE_LIMIT");
}

void session_open(struct session *session) {
  aclFinalize(); // what a test that failed has left
  aclGetRecentErrMsg();
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclrtSetDevice(0), 0);
  assert_int_equal(aclrtCreateContext(&session->context, 0), 0);
  assert_int_equal(aclrtCreateStream(&session->stream), 0);
}

aclError session_close(struct session *session) {
  assert_int_equal(aclrtDestroyStream(session->stream), 0);
  assert_int_equal(aclrtDestroyContext(session->context), 0);
  assert_int_equal(aclrtResetDevice(0), 0);
  return aclFinalize();
}

void *session_allocate(size_t bytes) {
  void *address = NULL;
  assert_int_equal(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  return address;
}

aclError session_synchronize(struct session *session) {
  return aclrtSynchronizeStreamWithTimeout(session->stream, -1);
}

void session_upload(struct session *session, void *to, const void *from, size_t bytes) {
  assert_int_equal(aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE, session->stream), 0);
  assert_int_equal(session_synchronize(session), 0);
}

aclError session_download(struct session *session, void *to, const void *from, size_t bytes) {
  assert_int_equal(aclrtMemcpyAsync(to, bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST, session->stream), 0);
  return session_synchronize(session);
}

static struct aclTensor *make_tensor(const struct tensor_desc *desc, void *address) {
  return aclCreateTensor(desc->shape, desc->rank, data_type_to_cann(desc->data_type), desc->strides,
                         desc->storage_offset, format_to_cann(desc->format), &desc->storage_elements,
                         STORAGE_RANK, address);
}

static void begin(struct device_call *call, struct session *session, const struct tensor_desc *descs) {
  call->session = session;
  for (size_t i = 0; i < call->tensor_count; i++) {
    call->descs[i] = descs[i];
    size_t bytes = (size_t)tensor_desc_storage_bytes(&descs[i]);
    call->addresses[i] = session_allocate(bytes == 0 ? 1 : bytes);
    call->tensors[i] = make_tensor(&descs[i], call->addresses[i]);
    assert_non_null(call->tensors[i]);
  }
}

void device_call_begin_backward(struct device_call *call, struct session *session,
                                const struct tensor_desc descs[DEVICE_CALL_TENSORS]) {
  *call = (struct device_call){.tensor_count = DEVICE_CALL_TENSORS};
  begin(call, session, descs);
}

void device_call_begin_forward(struct device_call *call, struct session *session,
                               const struct tensor_desc *descs, const int64_t output_size[2]) {
  *call = (struct device_call){.forward = true, .tensor_count = 3};
  begin(call, session, descs);
  call->output_size = aclCreateIntArray(output_size, 2);
  assert_non_null(call->output_size);
}

aclnnStatus device_call_plan(struct device_call *call) {
  struct aclTensor *const *tensors = call->tensors;
  return call->forward
             ? aclnnAdaptiveMaxPool2dGetWorkspaceSize(tensors[0], call->output_size, tensors[1], tensors[2],
                                                      &call->workspace_bytes, &call->executor)
             : aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3],
                                                              &call->workspace_bytes, &call->executor);
}

aclnnStatus device_call_run(struct device_call *call) {
  if (call->workspace == NULL && call->workspace_bytes > 0) {
    call->workspace = session_allocate(call->workspace_bytes);
  }
  return (call->forward ? aclnnAdaptiveMaxPool2d : aclnnAdaptiveMaxPool2dBackward)(
      call->workspace, call->workspace_bytes, call->executor, call->session->stream);
}

aclnnStatus device_call_do(struct device_call *call) {
  aclnnStatus status = device_call_plan(call);
  if (status == 0) {
    status = device_call_run(call);
  }
  return status == 0 ? session_synchronize(call->session) : status;
}

void device_call_end(struct device_call *call) {
  for (size_t i = 0; i < call->tensor_count; i++) {
    assert_int_equal(aclDestroyTensor(call->tensors[i]), 0);
    if (call->addresses[i] != NULL) {
      assert_int_equal(aclrtFree(call->addresses[i]), 0);
    }
  }
  assert_int_equal(aclDestroyIntArray(call->output_size), 0);
  if (call->workspace != NULL) {
    assert_int_equal(aclrtFree(call->workspace), 0);
  }
}

void assert_error_said(const char *text) {
  const char *said = aclGetRecentErrMsg();
  assert_non_null(said);
  if (strstr(said, text) == NULL) {
    fail_msg("'%s' doesn't say '%s'", said, text);
  }
}

struct tensor_desc device_desc(const char *text, enum direction direction) {
  struct tensor_desc desc = desc_of(text);
  struct status status;
  assert_true(tensor_desc_normalise(&desc, direction, "tensor", &status));
  return desc;
}

void small_call_open(struct session *session, struct device_call *call) {
  const struct tensor_desc descs[] = {
      device_desc("fp32[1,1,2]", DIRECTION_INPUT), device_desc("fp32[1,2,4]", DIRECTION_INPUT),
      device_desc("int32[1,1,2]", DIRECTION_INPUT), device_desc("fp32[1,2,4]", DIRECTION_OUTPUT)};
  static const float gradients[] = {3, 5};
  static const int32_t indices[] = {1, 6};
  session_open(session);
  device_call_begin_backward(call, session, descs);
  session_upload(session, call->addresses[BACKWARD_GRAD_OUTPUT], gradients, sizeof gradients);
  session_upload(session, call->addresses[BACKWARD_INDICES], indices, sizeof indices);
}

aclnnStatus small_call_launch(struct device_call *call, void *workspace, uint64_t workspace_bytes) {
  return aclnnAdaptiveMaxPool2dBackward(workspace, workspace_bytes, call->executor, call->session->stream);
}

void small_call_assert_result(struct device_call *call, const void *address) {
  static const float expected[8] = {[1] = 3, [6] = 5};
  float given[8];
  assert_int_equal(session_download(call->session, given, address, sizeof given), 0);
  assert_memory_equal(given, expected, sizeof given);
}

void small_call_close(struct session *session, struct device_call *call) {
  device_call_end(call);
  assert_int_equal(session_close(session), 0);
}
