#include "kernels/adaptive_max_pool2d_backward/backward_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int64_t backward_read_index(const struct operator_call *call, int64_t flat) {
  const struct tensor_desc *desc = call_desc(call, INDICES);
  int64_t offset = tensor_desc_offset_of(desc, flat);
  return desc->data_type == DATA_TYPE_INT64 ? ((const int64_t *)call->storages[INDICES])[offset]
                                            : ((const int32_t *)call->storages[INDICES])[offset];
}

void backward_write_index(struct operator_call *call, int64_t flat, int64_t value) {
  const struct tensor_desc *desc = call_desc(call, INDICES);
  int64_t offset = tensor_desc_offset_of(desc, flat);
  if (desc->data_type == DATA_TYPE_INT64) {
    ((int64_t *)call->storages[INDICES])[offset] = value;
  } else {
    ((int32_t *)call->storages[INDICES])[offset] = (int32_t)value;
  }
}

void *backward_expected_storage(const struct operator_call *call) {
  const struct tensor_desc *grad_output = call_desc(call, GRAD_OUTPUT);
  const struct tensor_desc *grad_input = call_desc(call, GRAD_INPUT);
  int64_t elements = tensor_desc_elements(grad_input);
  float *sums = calloc((size_t)elements + 1, sizeof *sums);
  for (int64_t flat = 0; flat < tensor_desc_elements(grad_output); flat++) {
    int64_t plane = flat / plane_elements(grad_output);
    float value = value_read(grad_output->data_type, call->storages[GRAD_OUTPUT],
                             tensor_desc_offset_of(grad_output, flat));
    sums[plane * plane_elements(grad_input) + backward_read_index(call, flat)] += value;
  }
  void *storage = calloc((size_t)tensor_desc_storage_bytes(grad_input) + 1, 1);
  for (int64_t flat = 0; flat < elements; flat++) {
    value_write(grad_input->data_type, storage, tensor_desc_offset_of(grad_input, flat), sums[flat]);
  }
  free(sums);
  return storage;
}

void assert_backward_run_gives(struct operator_call *call, const struct call_pools *pools, size_t pool,
                               const struct cpu *cpu, const void *expected) {
  const struct tensor_desc *grad_input = call_desc(call, GRAD_INPUT);
  const char *path = cpu == NULL ? "no" : cpu_path_name(cpu->path);
  call->cpu = cpu;
  if (!call_run(call, pools->pools[pool])) {
    fail_msg("%s (%s)", call->status.message, path);
  }
  call->cpu = NULL;
  if (memcmp(call->storages[GRAD_INPUT], expected, (size_t)tensor_desc_storage_bytes(grad_input)) == 0) {
    return;
  }
  for (int64_t element = 0; element < grad_input->storage_elements; element++) {
    if (!value_equal(grad_input->data_type, call->storages[GRAD_INPUT], expected, element)) {
      fail_msg("element %lld with %zu threads, path %s", (long long)element, pools->threads[pool], path);
    }
  }
}

void assert_backward_runs_as_expected(struct operator_call *call, const struct call_pools *pools) {
  void *expected = backward_expected_storage(call);
  struct call_cpus here = call_cpus_here();
  for (size_t i = 0; i < CALL_POOLS; i++) {
    assert_backward_run_gives(call, pools, i, NULL, expected);
  }
  for (size_t i = 0; i < here.count; i++) {
    assert_backward_run_gives(call, pools, 0, &here.cpus[i], expected);
    assert_backward_run_gives(call, pools, 2 + i % (CALL_POOLS - 2), &here.cpus[i], expected);
  }
  free(expected);
}

int64_t backward_random_in_window(struct random *random, int64_t m, int64_t input, int64_t output) {
  return random_between(random, m * input / output, ((m + 1) * input + output - 1) / output);
}

void backward_fill_inputs(struct operator_call *call, struct random *random, enum index_choice choice) {
  const struct tensor_desc *grad_output = call_desc(call, GRAD_OUTPUT);
  const struct tensor_desc *self = call_desc(call, SELF);
  random_values(random, grad_output->data_type, call->storages[GRAD_OUTPUT],
                (size_t)grad_output->storage_elements);
  memset(call->storages[INDICES], 0xff, (size_t)tensor_desc_storage_bytes(call_desc(call, INDICES)));
  int64_t same = random_between(random, 0, plane_elements(self));
  for (int64_t flat = 0; flat < tensor_desc_elements(grad_output); flat++) {
    int64_t row = flat / columns_of(grad_output) % rows_of(grad_output);
    int64_t column = flat % columns_of(grad_output);
    int64_t index = same;
    if (choice == IN_WINDOWS) {
      index = backward_random_in_window(random, row, rows_of(self), rows_of(grad_output)) * columns_of(self) +
              backward_random_in_window(random, column, columns_of(self), columns_of(grad_output));
    } else if (choice == ANYWHERE) {
      index = random_between(random, 0, plane_elements(self));
    }
    backward_write_index(call, flat, index);
  }
}

void backward_begin(struct operator_call *call, const char *self, const char *grad_output,
                    enum data_type index_type, struct random *random) {
  call_begin(call, "aclnnAdaptiveMaxPool2dBackward");
  struct tensor_desc descs[4] = {
      [GRAD_OUTPUT] = desc_of(grad_output),
      [SELF] = desc_of(self),
      [INDICES] = desc_of(grad_output),
      [GRAD_INPUT] = desc_of(self),
  };
  descs[INDICES].data_type = index_type;
  static const char *const names[] = {"gradOutput", "self", "indices", "gradInput"};
  for (size_t i = 0; i < 4; i++) {
    if (random != NULL) {
      random_layout(random, &descs[i], i == GRAD_INPUT ? DIRECTION_OUTPUT : DIRECTION_INPUT);
    }
    call_add_tensor(call, names[i], &descs[i]);
  }
  if (!call_plan(call)) {
    fail_msg("%s of %s: %s", grad_output, self, call->status.message);
  }
}

void assert_backward_refuses_wide_index(struct operator_call *call, int64_t position) {
  struct call_cpus here = call_cpus_here();
  int64_t right = backward_read_index(call, position);
  backward_write_index(call, position, right + (INT64_C(1) << 32));
  for (size_t i = 0; i < here.count; i++) {
    call->cpu = &here.cpus[i];
    assert_false(call_run(call, NULL));
    assert_int_equal(call->status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
  }
  call->cpu = NULL;
  backward_write_index(call, position, right);
}
