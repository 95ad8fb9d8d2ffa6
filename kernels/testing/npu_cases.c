#include "kernels/testing/npu_cases.h"

#include "kernels/testing/operator_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void begin(struct operator_call *call, const struct operator_definition *definition,
                  const struct npu_case *npu_case) {
  call_begin(call, definition->name);
  for (size_t i = 0; i < definition->parameter_count; i++) {
    struct argument *argument = &call->request.arguments[call->request.argument_count++];
    strcpy(argument->name, definition->parameters[i].name);
    argument->value = npu_case->values[i];
  }
}

static void assert_output(const struct operator_call *call, const struct npu_case *npu_case,
                          size_t parameter) {
  const struct tensor_desc *desc = call_desc(call, parameter);
  const void *expected = npu_case->storages[parameter].data;
  if (desc->data_type == DATA_TYPE_INT32 || desc->data_type == DATA_TYPE_INT64) {
    assert_memory_equal(call->storages[parameter], expected, npu_case->storages[parameter].bytes);
    return;
  }
  for (int64_t i = 0; i < desc->storage_elements; i++) {
    if (!value_equal(desc->data_type, call->storages[parameter], expected, i)) {
      fail_msg("case \"%s\": element %lld of %s differs", npu_case->name, (long long)i,
               call->plan.definition->parameters[parameter].name);
    }
  }
}

// Of real sizes: inputs that any product must take alike.
static void assert_filled_case(struct operator_call *call, const struct npu_case *npu_case) {
  const struct npu_binding *binding = call->plan.definition->npu;
  npu_case->fill_inputs(&call->plan, call->storages);
  assert_true(call_check_inputs(call, NULL));
  struct operator_run run = {.plan = &call->plan};
  memcpy(run.storages, call->storages, sizeof run.storages);
  for (int product = NPU_PRODUCT_UNKNOWN + 1; product < NPU_PRODUCT_COUNT; product++) {
    assert_true(binding->is_comparable == NULL || binding->is_comparable(&run, product));
  }
  assert_true(call_run(call, NULL));
}

static void assert_case(const struct operator_definition *definition, const struct npu_case *npu_case) {
  struct operator_call call;
  begin(&call, definition, npu_case);
  if (!call_plan(&call)) {
    fail_msg("case \"%s\": %s", npu_case->name, call.status.message);
  }
  if (npu_case->fill_inputs != NULL) {
    assert_filled_case(&call, npu_case);
    call_end(&call);
    return;
  }
  for (size_t i = 0; i < definition->parameter_count; i++) {
    const struct npu_case_storage *storage = &npu_case->storages[i];
    assert_int_equal(storage->data != NULL, call.storages[i] != NULL);
    if (storage->data != NULL) {
      assert_int_equal(storage->bytes, tensor_desc_storage_bytes(call_desc(&call, i)));
    }
    if (storage->data != NULL && definition->parameters[i].direction == DIRECTION_INPUT) {
      memcpy(call.storages[i], storage->data, storage->bytes);
    }
  }
  assert_true(call_check_inputs(&call, NULL));
  assert_true(call_run(&call, NULL));
  for (size_t i = 0; i < definition->parameter_count; i++) {
    if (definition->parameters[i].direction == DIRECTION_OUTPUT) {
      assert_output(&call, npu_case, i);
    }
  }
  call_end(&call);
}

void npu_cases_assert(const struct operator_definition *definition) {
  assert_true(definition->npu->case_count > 0);
  for (size_t i = 0; i < definition->npu->case_count; i++) {
    assert_case(definition, &definition->npu->cases[i]);
  }
}
