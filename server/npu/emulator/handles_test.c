// Numbers that stand for objects.
#include "server/npu/emulator/handles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void number_names_its_object_until_it_is_removed(void **state) {
  (void)state;
  struct handles handles = {0};
  int first, second;
  void *a = handles_add(&handles, HANDLE_TENSOR, &first);
  void *b = handles_add(&handles, HANDLE_TENSOR, &second);
  assert_ptr_equal(handles_find(&handles, HANDLE_TENSOR, a), &first);
  assert_ptr_equal(handles_find(&handles, HANDLE_TENSOR, b), &second);
  assert_int_equal(handles_count(&handles, HANDLE_TENSOR), 2);
  assert_ptr_equal(handles_remove(&handles, HANDLE_TENSOR, a), &first);
  assert_null(handles_find(&handles, HANDLE_TENSOR, a));
  assert_null(handles_remove(&handles, HANDLE_TENSOR, a));
  assert_ptr_equal(handles_remove(&handles, HANDLE_TENSOR, b), &second);
  assert_int_equal(handles_count(&handles, HANDLE_TENSOR), 0);
}

static void number_is_of_one_kind(void **state) {
  (void)state;
  struct handles handles = {0};
  int object;
  void *number = handles_add(&handles, HANDLE_TENSOR, &object);
  assert_null(handles_find(&handles, HANDLE_EXECUTOR, number));
  assert_null(handles_remove(&handles, HANDLE_EXECUTOR, number));
  assert_non_null(handles_remove_any(&handles, HANDLE_TENSOR));
  assert_null(handles_remove_any(&handles, HANDLE_TENSOR));
}

static void numbers_are_never_used_twice(void **state) {
  (void)state;
  struct handles handles = {0};
  int object;
  uint64_t last = 0;
  for (int i = 0; i < 1000; i++) {
    void *number = handles_add(&handles, HANDLE_EXECUTOR, &object);
    assert_true((uint64_t)(uintptr_t)number > last);
    last = (uint64_t)(uintptr_t)number;
    handles_remove(&handles, HANDLE_EXECUTOR, number);
  }
}

static void own_number_is_taken_once(void **state) {
  (void)state;
  struct handles handles = {0};
  int object = 0, other = 0;
  assert_true(handles_add_as(&handles, HANDLE_HOST_MEMORY, &object, &other));
  assert_false(handles_add_as(&handles, HANDLE_HOST_MEMORY, &object, &other));
  assert_ptr_equal(handles_any_number(&handles, HANDLE_HOST_MEMORY), &object);
  assert_ptr_equal(handles_remove(&handles, HANDLE_HOST_MEMORY, &object), &other);
  assert_null(handles_any_number(&handles, HANDLE_HOST_MEMORY));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(number_names_its_object_until_it_is_removed),
      cmocka_unit_test(number_is_of_one_kind),
      cmocka_unit_test(numbers_are_never_used_twice),
      cmocka_unit_test(own_number_is_taken_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
