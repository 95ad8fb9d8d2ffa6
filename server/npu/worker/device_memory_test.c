#include "server/npu/worker/device_memory.h"
#include "server/npu/worker/fake_functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static void freed_memory_is_used_again(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct device_memory memory;
  struct device_block block, other;
  struct status status;
  device_memory_init(&memory, &functions);
  assert_true(device_memory_allocate(&memory, 5000, &block, &status));
  void *address = block.address;
  device_memory_free(&memory, &block);
  assert_null(block.address);
  assert_true(device_memory_allocate(&memory, 5001, &block, &status)); // of the same class
  assert_ptr_equal(block.address, address);
  assert_true(device_memory_allocate(&memory, 5000, &other, &status)); // the first is in use
  assert_int_equal(fake->allocations, 2);
  device_memory_free(&memory, &block);
  device_memory_free(&memory, &other);
  device_memory_free(&memory, &other); // an empty block is fine
  device_memory_close(&memory);
  assert_int_equal(fake->used_bytes, 0);
}

static void blocks_are_as_large_as_asked_for_and_little_more(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct device_memory memory;
  struct device_block block;
  struct status status;
  device_memory_init(&memory, &functions);
  for (uint64_t bytes = 0; bytes < 4 * MIB; bytes = bytes * 9 / 8 + 7) {
    assert_true(device_memory_allocate(&memory, bytes, &block, &status));
    assert_true(fake->used_bytes >= bytes);
    assert_true(fake->used_bytes <= bytes + bytes / 16 + DEVICE_MEMORY_BYTES_MIN);
    device_memory_free(&memory, &block);
    device_memory_trim(&memory);
    assert_int_equal(fake->used_bytes, 0);
  }
  device_memory_close(&memory);
}

static void cache_gives_way_when_the_device_is_full(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  fake->memory_bytes = 10 * MIB;
  struct device_memory memory;
  struct device_block first, second, third;
  struct status status;
  device_memory_init(&memory, &functions);
  assert_true(device_memory_allocate(&memory, 4 * MIB, &first, &status));
  assert_true(device_memory_allocate(&memory, 3 * MIB, &second, &status));
  device_memory_free(&memory, &first);
  assert_true(device_memory_allocate(&memory, 6 * MIB, &third, &status));
  assert_int_equal(fake->used_bytes, 9 * MIB);
  // What is in use stays.
  fake->text = "no more";
  assert_false(device_memory_allocate(&memory, 4 * MIB, &first, &status));
  assert_int_equal(status.reason, REASON_DEVICE_MEMORY);
  assert_int_equal(status.aclnn_status, 207018);
  assert_non_null(strstr(status.message, "no more"));
  device_memory_free(&memory, &second);
  device_memory_free(&memory, &third);
  device_memory_close(&memory);
  assert_int_equal(fake->used_bytes, 0);
}

static void absurd_sizes_are_refused(void **state) {
  (void)state;
  struct acl_functions functions;
  fake_functions_begin(&functions);
  struct device_memory memory;
  struct device_block block;
  struct status status;
  device_memory_init(&memory, &functions);
  assert_false(device_memory_allocate(&memory, UINT64_MAX, &block, &status));
  assert_int_equal(status.reason, REASON_DEVICE_MEMORY);
  assert_false(device_memory_allocate(&memory, (uint64_t)1 << 60, &block, &status));
  assert_false(device_memory_allocate(&memory, (uint64_t)1 << 48, &block, &status));
  device_memory_close(&memory);
}

static void lost_device_is_asked_nothing(void **state) {
  (void)state;
  struct acl_functions functions;
  struct fake_state *fake = fake_functions_begin(&functions);
  struct device_memory memory;
  struct device_block block;
  struct status status;
  device_memory_init(&memory, &functions);
  assert_true(device_memory_allocate(&memory, 1000, &block, &status));
  void *address = block.address;
  size_t used = fake->used_bytes;
  device_memory_free(&memory, &block);
  device_memory_abandon(&memory);
  assert_int_equal(fake->used_bytes, used);
  functions.aclrtFree(address);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(freed_memory_is_used_again),
      cmocka_unit_test(blocks_are_as_large_as_asked_for_and_little_more),
      cmocka_unit_test(cache_gives_way_when_the_device_is_full),
      cmocka_unit_test(absurd_sizes_are_refused),
      cmocka_unit_test(lost_device_is_asked_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
