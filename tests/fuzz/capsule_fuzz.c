// Capsules: what is taken lies inside the file, what is refused is refused with a reason.
#include "client/cli/capsule_file.h"
#include "tests/fuzz/fuzz_target.h"

#include <assert.h>
#include <string.h>

static void expect_inside(const uint8_t *data, size_t size, const void *storage, size_t bytes) {
  const uint8_t *start = storage;
  assert(storage == NULL || (start >= data && bytes <= size && start <= data + size - bytes));
}

static void expect_text(const char *text, size_t room) {
  assert(strnlen(text, room) < room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct capsule_file capsule;
  struct failure failure;
  if (!capsule_file_parse(data, size, &capsule, &failure)) {
    expect_text(failure.text, sizeof failure.text);
    assert(failure.text[0] != '\0');
    return 0;
  }
  assert(capsule.tensor_count + capsule.attribute_count <= ACLNN_TENSORS_MAX);
  expect_text(capsule.operator_name, sizeof capsule.operator_name);
  expect_text(capsule.device, sizeof capsule.device);
  for (size_t i = 0; i < capsule.tensor_count; i++) {
    const aclnn_tensor *tensor = &capsule.tensors[i];
    const struct capsule_tensor *recorded = &capsule.recorded[i];
    expect_text(tensor->name, sizeof recorded->name);
    assert(tensor->rank <= ACLNN_RANK_MAX);
    assert(aclnn_data_type_bytes(tensor->data_type) > 0);
    expect_inside(data, size, tensor->data, tensor->data_bytes);
    expect_inside(data, size, recorded->device, recorded->bytes);
    expect_inside(data, size, recorded->cpu, recorded->bytes);
    assert(!tensor->output || (recorded->device != NULL && recorded->cpu != NULL));
  }
  for (size_t i = 0; i < capsule.attribute_count; i++) {
    assert(capsule.attributes[i].value_count <= ATTRIBUTE_VALUES_MAX);
    expect_text(capsule.attributes[i].text, CAPSULE_TEXT_BYTES_MAX + 1);
  }
  return 0;
}
