// Every reference case through the emulated device's C functions: in its profile `exact` its bits are those
// of numerics EXACT, and an index outside its plane is an exception at synchronise.
#include "kernels/testing/operator_call.h"
#include "server/npu/emulator/device_call.h"
#include "tests/golden/golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIRECTORY "tests/golden/data"

// One device for all cases, with a workspace that grows as it must: each in fresh memory would take most of
// the time under a sanitizer.
struct device {
  struct session session;
  void *workspace;
  uint64_t workspace_bytes;
};

struct test_state {
  const struct golden_case *golden_case;
  struct device *device;
};

static struct tensor_desc planned(struct tensor_desc desc, enum direction direction) {
  struct status status;
  desc.format = desc.rank == 3 ? FORMAT_NCL : FORMAT_NCHW;
  if (!tensor_desc_normalise(&desc, direction, "tensor", &status)) {
    fail_msg("%s", status.message);
  }
  return desc;
}

// Both phases.
static aclnnStatus run_call(struct device *device, struct device_call *call) {
  assert_int_equal(device_call_plan(call), 0);
  if (call->workspace_bytes > device->workspace_bytes) {
    assert_true(device->workspace == NULL || aclrtFree(device->workspace) == 0);
    device->workspace = session_allocate(call->workspace_bytes);
    device->workspace_bytes = call->workspace_bytes;
  }
  call->workspace = device->workspace;
  assert_int_equal(device_call_run(call), 0);
  call->workspace = NULL;
  return session_synchronize(call->session);
}

static void *download(struct device_call *call, size_t tensor) {
  size_t bytes = (size_t)tensor_desc_storage_bytes(&call->descs[tensor]);
  void *data = malloc(bytes + 1);
  if (bytes > 0) {
    assert_int_equal(session_download(call->session, data, call->addresses[tensor], bytes), 0);
  }
  return data;
}

static void upload(struct device_call *call, size_t tensor, const struct golden_tensor *golden_tensor) {
  if (golden_tensor->bytes > 0) {
    session_upload(call->session, call->addresses[tensor], golden_tensor->data, golden_tensor->bytes);
  }
}

static void assert_output(struct device_call *call, size_t tensor, const struct golden_tensor *expected) {
  const struct tensor_desc *desc = &call->descs[tensor];
  assert_int_equal(tensor_desc_storage_bytes(desc), expected->bytes);
  void *given = download(call, tensor);
  for (int64_t i = 0; i < tensor_desc_elements(desc); i++) {
    if (!value_equal(desc->data_type, given, expected->data, i)) {
      fail_msg("element %lld of tensor %zu differs", (long long)i, tensor);
    }
  }
  free(given);
}

static bool is_nan_at(const struct tensor_desc *desc, const void *data, int64_t position) {
  return isnan(value_read(desc->data_type, data, position)) != 0;
}

static int64_t index_at(enum data_type data_type, const void *data, int64_t position) {
  return data_type == DATA_TYPE_INT64 ? ((const int64_t *)data)[position] : ((const int32_t *)data)[position];
}

// Where any NaN of a window may be named, the value there must be one.
static void assert_indices(struct device_call *call, const struct golden_case *golden_case) {
  const struct golden_tensor *expected = golden_case_tensor(golden_case, "indices");
  const struct golden_tensor *self = golden_case_tensor(golden_case, "self");
  const struct tensor_desc *desc = &call->descs[FORWARD_INDICES_OUT], *input = &call->descs[FORWARD_SELF];
  void *data = download(call, FORWARD_INDICES_OUT);
  int64_t windows = golden_case_output_size(golden_case)[0] * golden_case_output_size(golden_case)[1];
  int64_t plane_elements = input->shape[input->rank - 2] * input->shape[input->rank - 1];
  for (int64_t i = 0; i < tensor_desc_elements(desc); i++) {
    int64_t plane = i / windows * plane_elements;
    int64_t given = index_at(desc->data_type, data, i);
    int64_t wanted = index_at(expected->desc.data_type, expected->data, i);
    bool any = golden_case_allows_any_nan(golden_case) && is_nan_at(input, self->data, plane + wanted) &&
               given >= 0 && given < plane_elements && is_nan_at(input, self->data, plane + given);
    if (given != wanted && !any) {
      fail_msg("index %lld is %lld instead of %lld", (long long)i, (long long)given, (long long)wanted);
    }
  }
  free(data);
}

static void run_forward(struct device *device, const struct golden_case *golden_case,
                        enum data_type index_type) {
  const struct golden_tensor *output = golden_case_tensor(golden_case, "output");
  const struct golden_tensor *indices = golden_case_tensor(golden_case, "indices");
  const struct golden_tensor *self = golden_case_tensor(golden_case, "self");
  assert_true(output != NULL && indices != NULL && self != NULL);
  struct tensor_desc indices_desc = indices->desc;
  indices_desc.data_type = index_type;
  struct tensor_desc descs[] = {planned(self->desc, DIRECTION_INPUT), planned(output->desc, DIRECTION_OUTPUT),
                                planned(indices_desc, DIRECTION_OUTPUT)};
  struct device_call call;
  device_call_begin_forward(&call, &device->session, descs, golden_case_output_size(golden_case));
  upload(&call, FORWARD_SELF, self);
  assert_int_equal(run_call(device, &call), 0);
  assert_output(&call, FORWARD_OUTPUT_OUT, output);
  assert_indices(&call, golden_case);
  device_call_end(&call);
}

static void run_backward(struct device *device, const struct golden_case *golden_case) {
  const struct golden_tensor *grad_output = golden_case_tensor(golden_case, "grad_output");
  const struct golden_tensor *indices = golden_case_tensor(golden_case, "indices");
  assert_true(grad_output != NULL && indices != NULL);
  struct tensor_desc self = *golden_case_self(golden_case);
  struct tensor_desc descs[] = {planned(grad_output->desc, DIRECTION_INPUT), planned(self, DIRECTION_INPUT),
                                planned(indices->desc, DIRECTION_INPUT),
                                planned(tensor_desc_like(&self), DIRECTION_OUTPUT)};
  struct device_call call;
  device_call_begin_backward(&call, &device->session, descs);
  upload(&call, BACKWARD_GRAD_OUTPUT, grad_output);
  upload(&call, BACKWARD_INDICES, indices);
  aclnnStatus status = run_call(device, &call);
  if (golden_case_expect(golden_case) == GOLDEN_REJECT_INDEX) {
    assert_int_equal(status, ACL_STATUS_RT_AICORE_EXCEPTION);
    // That was this stream's last job.
    assert_int_equal(aclrtDestroyStream(device->session.stream), 0);
    assert_int_equal(aclrtCreateStream(&device->session.stream), 0);
  } else {
    assert_int_equal(status, 0);
    // CANN leaves the output of an empty call as it was.
    if (call.workspace_bytes > 0) {
      assert_output(&call, BACKWARD_GRAD_INPUT, golden_case_tensor(golden_case, "grad_input"));
    }
  }
  device_call_end(&call);
}

static void run_case(void **state) {
  const struct test_state *test = *state;
  if (golden_case_kind(test->golden_case) == GOLDEN_FORWARD) {
    run_forward(test->device, test->golden_case, DATA_TYPE_INT64);
    run_forward(test->device, test->golden_case, DATA_TYPE_INT32);
  } else {
    run_backward(test->device, test->golden_case);
  }
}

int main(void) {
  struct golden *golden;
  struct status status;
  if (!golden_open(DIRECTORY, &golden, &status)) {
    fprintf(stderr, "%s\n", status.message);
    return 1;
  }
  environment_clear();
  size_t count = 0;
  struct device device = {0};
  session_open(&device.session);
  struct CMUnitTest *tests = calloc(golden_case_count(golden), sizeof *tests);
  struct test_state *states = calloc(golden_case_count(golden), sizeof *states);
  for (size_t i = 0; i < golden_case_count(golden); i++) {
    const struct golden_case *golden_case = golden_case_at(golden, i);
    // Descriptions alone are judged by phase 1, where a device is more lenient than we are.
    if (golden_case_expect(golden_case) != GOLDEN_REJECT_PARAMS) {
      states[count] = (struct test_state){golden_case, &device};
      tests[count] = (struct CMUnitTest){
          .name = golden_case_name(golden_case), .test_func = run_case, .initial_state = &states[count]};
      count++;
    }
  }
  int failed = _cmocka_run_group_tests("golden cases on the emulated device", tests, count, NULL, NULL);
  bool leaked =
      (device.workspace != NULL && aclrtFree(device.workspace) != 0) || session_close(&device.session) != 0;
  free(tests);
  free(states);
  golden_close(golden);
  return failed != 0 || leaked;
}
