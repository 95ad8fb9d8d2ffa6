// The device's part of the worker in one process, on the emulated device.
#include "server/npu/worker/device.h"

#include "kernels/testing/operator_call.h"
#include "server/npu/worker/case_run.h"
#include "server/npu/worker/executors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EMULATOR "server/npu/emulator/libaclnn_emulated.so"

struct setting {
  struct acl_library library;
  struct device *device;
};

static void load(struct setting *setting) {
  struct status status;
  if (!acl_library_open(EMULATOR, NULL, &setting->library, &status)) {
    fail_msg("%s", status.message);
  }
}

static struct device_settings settings_with(enum transfer_way way) {
  return (struct device_settings){.sync_timeout_ms = 60000, .transfer_way = way};
}

// Environment variables, as "NAME=value" in pairs, are for this device alone.
static void open_device(struct setting *setting, enum transfer_way way, const char *name, const char *value) {
  struct status status;
  struct device_settings settings = settings_with(way);
  if (name != NULL) {
    setenv(name, value, 1);
  }
  bool opened = device_open(&setting->library, &settings, &setting->device, &status);
  if (name != NULL) {
    unsetenv(name);
  }
  if (!opened) {
    fail_msg("%s", status.message);
  }
}

// The emulated device reports what was left on it.
static void close_device(struct setting *setting) {
  struct status status;
  if (!device_close(setting->device, &status)) {
    fail_msg("%s", status.message);
  }
}

// ---- Jobs at random

static void make_forward(struct random *random, struct operator_call *call, int64_t scale) {
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  char text[96];
  int64_t n = random_between(random, 1, 4), c = random_between(random, 1, 4);
  struct int_array size = {
      .count = 2, .values = {random_between(random, 1, 6 * scale), random_between(random, 1, 6 * scale)}};
  snprintf(text, sizeof text, "%s[%lld,%lld,%lld,%lld]", types[random_between(random, 0, 3)], (long long)n,
           (long long)c, (long long)random_between(random, 1, 12 * scale),
           (long long)random_between(random, 1, 12 * scale));
  struct tensor_desc self = desc_of(text), out = desc_of(text);
  out.shape[2] = size.values[0];
  out.shape[3] = size.values[1];
  struct tensor_desc indices = out;
  indices.data_type = random_between(random, 0, 2) == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64;
  random_layout(random, &self, DIRECTION_INPUT);
  random_layout(random, &out, DIRECTION_OUTPUT);
  random_layout(random, &indices, DIRECTION_OUTPUT);
  call_begin(call, "aclnnAdaptiveMaxPool2d");
  call_add_tensor(call, "self", &self);
  call_add_int_array(call, "outputSize", &size);
  call_add_tensor(call, "outputOut", &out);
  call_add_tensor(call, "indicesOut", &indices);
  assert_true(call_plan(call));
  random_values(random, self.data_type, call->storages[0], (size_t)call_desc(call, 0)->storage_elements);
}

static void make_backward(struct random *random, struct operator_call *call, int64_t scale) {
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  char text[96];
  snprintf(text, sizeof text, "%s[%lld,%lld,%lld,%lld]", types[random_between(random, 0, 3)],
           (long long)random_between(random, 1, 4), (long long)random_between(random, 1, 4),
           (long long)random_between(random, 1, 12 * scale),
           (long long)random_between(random, 1, 12 * scale));
  struct tensor_desc self = desc_of(text), grad_output = self, indices = self, grad_input = self;
  grad_output.shape[2] = indices.shape[2] = random_between(random, 1, 6 * scale);
  grad_output.shape[3] = indices.shape[3] = random_between(random, 1, 6 * scale);
  indices.data_type = random_between(random, 0, 2) == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64;
  random_layout(random, &grad_output, DIRECTION_INPUT);
  random_layout(random, &indices, DIRECTION_INPUT);
  random_layout(random, &grad_input, DIRECTION_OUTPUT);
  call_begin(call, "aclnnAdaptiveMaxPool2dBackward");
  call_add_tensor(call, "gradOutput", &grad_output);
  call_add_tensor(call, "self", &self);
  call_add_tensor(call, "indices", &indices);
  call_add_tensor(call, "gradInput", &grad_input);
  assert_true(call_plan(call));
  random_values(random, self.data_type, call->storages[0], (size_t)call_desc(call, 0)->storage_elements);
  for (int64_t i = 0; i < call_desc(call, 2)->storage_elements; i++) {
    int64_t index = random_between(random, 0, self.shape[2] * self.shape[3]);
    if (indices.data_type == DATA_TYPE_INT64) {
      ((int64_t *)call->storages[2])[i] = index;
    } else {
      ((int32_t *)call->storages[2])[i] = (int32_t)index;
    }
  }
}

static void assert_same(struct operator_call *call, size_t parameter, const void *given) {
  const struct tensor_desc *desc = call_desc(call, parameter);
  if (desc->data_type == DATA_TYPE_INT32 || desc->data_type == DATA_TYPE_INT64) {
    assert_memory_equal(given, call->storages[parameter], (size_t)tensor_desc_storage_bytes(desc));
    return;
  }
  for (int64_t i = 0; i < desc->storage_elements; i++) {
    assert_true(value_equal(desc->data_type, given, call->storages[parameter], i));
  }
}

// On the device, then on the CPU: holes of outputs included, the storages are the same.
static void assert_like_the_cpu(struct device *device, struct operator_call *call) {
  void *storages[OPERATOR_PARAMETERS_MAX];
  struct status status;
  memcpy(storages, call->storages, sizeof storages);
  for (size_t i = 0; i < call->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &call->plan.tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT) {
      storages[tensor->parameter] =
          aligned_alloc(TENSOR_ALIGNMENT, ((size_t)tensor->storage_bytes + 63) / 64 * 64);
      memset(storages[tensor->parameter], 0x5a, (size_t)tensor->storage_bytes);
    }
  }
  if (!device_run(device, &call->plan, storages, &status)) {
    fail_msg("%s", status.message);
  }
  assert_true(call_run(call, NULL));
  for (size_t i = 0; i < call->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &call->plan.tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT) {
      assert_same(call, tensor->parameter, storages[tensor->parameter]);
      free(storages[tensor->parameter]);
    }
  }
}

static void run_jobs(struct device *device, struct random *random, int count, int64_t scale) {
  for (int i = 0; i < count; i++) {
    struct operator_call call;
    if (i % 2 == 0) {
      make_backward(random, &call, scale);
    } else {
      make_forward(random, &call, scale);
    }
    assert_like_the_cpu(device, &call);
    assert_like_the_cpu(device, &call); // with the executor of the first time
    call_end(&call);
  }
}

static void device_gives_the_bits_of_the_cpu_in_both_ways_of_copying(void **state) {
  (void)state;
  static const enum transfer_way ways[] = {TRANSFER_DIRECT, TRANSFER_STAGED, TRANSFER_MEASURED};
  struct setting setting;
  struct random random = {0};
  load(&setting);
  for (size_t i = 0; i < 3; i++) {
    open_device(&setting, ways[i], NULL, NULL);
    run_jobs(setting.device, &random, 100, 1); // more plans than the cache holds
    run_jobs(setting.device, &random, 4, 24);  // more bytes than a half of the staging buffer
    close_device(&setting);
  }
}

static void executors_that_cannot_repeat_are_made_anew(void **state) {
  (void)state;
  struct setting setting;
  struct random random = {0};
  load(&setting);
  open_device(&setting, TRANSFER_DIRECT, "ACLNN_EMULATED_REPEATABLE", "off");
  run_jobs(setting.device, &random, 20, 1);
  close_device(&setting);
  // An old CANN without those functions.
  setting.library.functions.aclSetAclOpExecutorRepeatable = NULL;
  setting.library.functions.aclDestroyAclOpExecutor = NULL;
  open_device(&setting, TRANSFER_DIRECT, NULL, NULL);
  run_jobs(setting.device, &random, 20, 1);
  close_device(&setting);
}

// How often phase 1 was called is seen by the arguments that are made for it.
static struct aclTensor *(*real_create_tensor)(const int64_t *, uint64_t, int, const int64_t *, int64_t, int,
                                               const int64_t *, uint64_t, void *);
static size_t tensors_created;

static struct aclTensor *counting_create_tensor(const int64_t *view_dims, uint64_t view_dims_num,
                                                int data_type, const int64_t *strides, int64_t offset,
                                                int format, const int64_t *storage_dims,
                                                uint64_t storage_dims_num, void *data) {
  tensors_created++;
  return real_create_tensor(view_dims, view_dims_num, data_type, strides, offset, format, storage_dims,
                            storage_dims_num, data);
}

static void plan_is_prepared_once(void **state) {
  (void)state;
  struct setting setting;
  struct random random = {0};
  struct operator_call call;
  struct status status;
  uint64_t planned = 0, again = 0;
  load(&setting);
  real_create_tensor = setting.library.functions.aclCreateTensor;
  setting.library.functions.aclCreateTensor = counting_create_tensor;
  open_device(&setting, TRANSFER_DIRECT, NULL, NULL);
  make_backward(&random, &call, 1);
  tensors_created = 0;
  assert_true(device_plan(setting.device, &call.plan, &planned, &status));
  assert_int_equal(tensors_created, 4);
  assert_true(planned > 0);
  for (int i = 0; i < 5; i++) {
    assert_like_the_cpu(setting.device, &call);
  }
  assert_true(device_plan(setting.device, &call.plan, &again, &status));
  assert_int_equal(again, planned);
  assert_int_equal(tensors_created, 4);
  // Until so many others came in between.
  struct operator_call others[EXECUTORS_MAX];
  for (size_t i = 0; i < EXECUTORS_MAX; i++) {
    char text[64];
    struct int_array size = {.count = 2, .values = {1, 1}};
    snprintf(text, sizeof text, "fp32[1,1,3,%zu]", i + 1);
    struct tensor_desc self = desc_of(text), nothing = {0};
    call_begin(&others[i], "aclnnAdaptiveMaxPool2d");
    call_add_tensor(&others[i], "self", &self);
    call_add_int_array(&others[i], "outputSize", &size);
    call_add_tensor(&others[i], "outputOut", &nothing);
    call_add_tensor(&others[i], "indicesOut", &nothing);
    assert_true(call_plan(&others[i]));
    assert_true(device_plan(setting.device, &others[i].plan, &again, &status));
    call_end(&others[i]);
  }
  tensors_created = 0;
  assert_like_the_cpu(setting.device, &call);
  assert_int_equal(tensors_created, 4);
  call_end(&call);
  close_device(&setting);
}

static void plans_alone_leave_nothing_on_the_device(void **state) {
  (void)state;
  static const char *const repeatable[] = {"on", "off"};
  struct setting setting;
  struct random random = {0};
  struct status status;
  load(&setting);
  for (size_t i = 0; i < 2; i++) {
    open_device(&setting, TRANSFER_DIRECT, "ACLNN_EMULATED_REPEATABLE", repeatable[i]);
    for (int j = 0; j < 10; j++) {
      struct operator_call call;
      uint64_t planned;
      make_backward(&random, &call, 1);
      assert_true(device_plan(setting.device, &call.plan, &planned, &status));
      assert_true(planned >= (16 << 20));
      call_end(&call);
    }
    close_device(&setting);
  }
}

static void full_device_fails_the_job_and_goes_on(void **state) {
  (void)state;
  struct setting setting;
  struct random random = {0};
  struct operator_call small, large;
  struct status status;
  load(&setting);
  open_device(&setting, TRANSFER_STAGED, "ACLNN_EMULATED_MEMORY", "25165824");
  make_backward(&random, &small, 1);
  call_begin(&large, "aclnnAdaptiveMaxPool2d");
  struct tensor_desc self = desc_of("fp32[1,1,2048,2048]"), nothing = {0};
  struct int_array size = {.count = 2, .values = {1, 1}};
  call_add_tensor(&large, "self", &self);
  call_add_int_array(&large, "outputSize", &size);
  call_add_tensor(&large, "outputOut", &nothing);
  call_add_tensor(&large, "indicesOut", &nothing);
  assert_true(call_plan(&large));
  assert_like_the_cpu(setting.device, &small);
  for (int i = 0; i < 3; i++) {
    assert_false(device_run(setting.device, &large.plan, large.storages, &status));
    assert_int_equal(status.reason, REASON_DEVICE_MEMORY);
    assert_int_equal(status.aclnn_status, 207018);
    assert_false(device_is_lost(setting.device));
    assert_like_the_cpu(setting.device, &small);
  }
  call_end(&small);
  call_end(&large);
  close_device(&setting);
}

static void refuse_open(struct setting *setting, const struct device_settings *settings, const char *said) {
  struct status status;
  assert_false(device_open(&setting->library, settings, &setting->device, &status));
  if (strstr(status.message, said) == NULL) {
    fail_msg("it said: %s", status.message);
  }
}

static const char *another_soc(void) {
  return "Ascend310P3";
}

static void unusable_devices_are_refused_with_the_reason(void **state) {
  (void)state;
  struct setting setting;
  struct device_settings settings = settings_with(TRANSFER_DIRECT);
  load(&setting);
  settings.number = 1;
  refuse_open(&setting, &settings, "there is no device 1: 1 are visible");
  settings.number = 0;
  setenv("ACLNN_EMULATED_FAULT", "stub", 1);
  refuse_open(&setting, &settings, "100039");
  setenv("ACLNN_EMULATED_FAULT", "refuse-init", 1);
  refuse_open(&setting, &settings, "507899");
  setenv("ACLNN_EMULATED_FAULT", "memory", 1);
  refuse_open(&setting, &settings, "207018");
  unsetenv("ACLNN_EMULATED_FAULT");
  settings.deterministic = true;
  struct setting old = setting;
  old.library.functions.aclrtSetSysParamOpt = NULL;
  old.library.functions.aclrtCtxSetSysParamOpt = NULL;
  refuse_open(&old, &settings, "deterministic");
  settings.deterministic = false;
  setting.library.functions.aclrtGetSocName = another_soc;
  refuse_open(&setting, &settings, "Ascend310P3");
}

static void deterministic_device_opens(void **state) {
  (void)state;
  struct setting setting;
  struct random random = {0};
  struct status status;
  struct device_settings settings = settings_with(TRANSFER_DIRECT);
  settings.deterministic = true;
  load(&setting);
  assert_true(device_open(&setting.library, &settings, &setting.device, &status));
  run_jobs(setting.device, &random, 4, 1);
  close_device(&setting);
}

static void products_are_known_by_the_beginning_of_their_name(void **state) {
  (void)state;
  assert_int_equal(device_product_of("Ascend910B4"), NPU_PRODUCT_A2);
  assert_int_equal(device_product_of("Ascend910_9391"), NPU_PRODUCT_A3);
  assert_int_equal(device_product_of("Ascend950PR_9579"), NPU_PRODUCT_950);
  assert_int_equal(device_product_of("AclnnEmulated"), NPU_PRODUCT_EMULATED);
  assert_int_equal(device_product_of("Ascend910ProB"), NPU_PRODUCT_UNKNOWN);
  assert_int_equal(device_product_of("Ascend310P3"), NPU_PRODUCT_UNKNOWN);
  assert_int_equal(device_product_of(""), NPU_PRODUCT_UNKNOWN);
}

static void cases_are_judged_by_product(void **state) {
  (void)state;
  static const char *const profiles[] = {"exact", "a2", "950"};
  struct setting setting;
  struct status status;
  load(&setting);
  for (size_t profile = 0; profile < 3; profile++) {
    size_t unjudged = 0, unserved = 0;
    open_device(&setting, TRANSFER_MEASURED, "ACLNN_EMULATED_PROFILE", profiles[profile]);
    assert_true(case_run_probes(setting.device, &setting.library, &status));
    for (size_t i = 0; i < operator_count(); i++) {
      const struct npu_binding *binding = operator_at(i)->npu;
      for (size_t j = 0; j < binding->case_count; j++) {
        struct case_result result;
        case_run(setting.device, operator_at(i), &binding->cases[j], &result);
        assert_true(result.outcome != CASE_WRONG && result.outcome != CASE_FAILED);
        unjudged += result.outcome == CASE_NOT_JUDGED;
        unserved += result.outcome == CASE_NOT_SERVED;
      }
    }
    assert_int_equal(unserved, profile == 0 ? 0 : 1);
    assert_int_equal(unjudged, profile == 0 ? 0 : profile == 1 ? 1 : 3);
    close_device(&setting);
  }
}

static void wrong_result_is_found(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  struct case_result result;
  const struct operator_definition *backward = operator_find("aclnnAdaptiveMaxPool2dBackward");
  load(&setting);
  open_device(&setting, TRANSFER_DIRECT, "ACLNN_EMULATED_FAULT", "flip");
  case_run(setting.device, backward, &backward->npu->cases[0], &result);
  assert_int_equal(result.outcome, CASE_WRONG);
  assert_non_null(strstr(result.status.message, "gradInput"));
  assert_false(case_run_probes(setting.device, &setting.library, &status));
  close_device(&setting);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_gives_the_bits_of_the_cpu_in_both_ways_of_copying),
      cmocka_unit_test(executors_that_cannot_repeat_are_made_anew),
      cmocka_unit_test(plan_is_prepared_once),
      cmocka_unit_test(plans_alone_leave_nothing_on_the_device),
      cmocka_unit_test(full_device_fails_the_job_and_goes_on),
      cmocka_unit_test(unusable_devices_are_refused_with_the_reason),
      cmocka_unit_test(deterministic_device_opens),
      cmocka_unit_test(products_are_known_by_the_beginning_of_their_name),
      cmocka_unit_test(cases_are_judged_by_product),
      cmocka_unit_test(wrong_result_is_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
