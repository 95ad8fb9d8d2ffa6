#include "proto/wire/message_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void pieces_are_aligned_and_apart(void **state) {
  (void)state;
  struct message_memory memory;
  message_memory_init(&memory, 1 << 20);
  unsigned char *pieces[200];
  for (size_t i = 0; i < 200; i++) {
    pieces[i] = message_memory_take(&memory, i);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    memset(pieces[i], (int)i, i);
  }
  for (size_t i = 0; i < 200; i++) {
    for (size_t byte = 0; byte < i; byte++) {
      assert_int_equal(pieces[i][byte], i);
    }
  }
  message_memory_free(&memory);
}

static void a_small_message_needs_no_block(void **state) {
  (void)state;
  struct message_memory memory;
  message_memory_init(&memory, 0);
  assert_non_null(message_memory_take(&memory, MESSAGE_MEMORY_FIRST_BYTES));
  assert_int_equal(memory.bytes, 0);
  assert_false(memory.limit_reached);
  message_memory_free(&memory);
}

static void more_than_the_limit_is_not_given(void **state) {
  (void)state;
  struct message_memory memory;
  size_t limit = 100000;
  message_memory_init(&memory, limit);
  size_t taken = 0;
  while (message_memory_take(&memory, 160) != NULL) {
    taken += 160;
    assert_true(taken <= limit + MESSAGE_MEMORY_FIRST_BYTES);
  }
  assert_true(memory.limit_reached);
  assert_false(memory.out_of_memory);
  assert_true(memory.bytes <= limit);
  // Little is lost between blocks.
  assert_true(taken > limit / 2);
  message_memory_free(&memory);
}

static void one_piece_larger_than_the_limit_is_not_given(void **state) {
  (void)state;
  struct message_memory memory;
  message_memory_init(&memory, 10000);
  assert_null(message_memory_take(&memory, 10001));
  assert_true(memory.limit_reached);
  assert_non_null(message_memory_take(&memory, 10000));
  assert_null(message_memory_take(&memory, SIZE_MAX));
  assert_null(message_memory_take(&memory, SIZE_MAX - 8));
  assert_null(message_memory_array(&memory, SIZE_MAX / 2, 3));
  message_memory_free(&memory);
}

static void arrays_are_zeroed(void **state) {
  (void)state;
  struct message_memory memory;
  message_memory_init(&memory, 100000);
  for (int round = 0; round < 3; round++) {
    unsigned char *dirty = message_memory_take(&memory, 64);
    memset(dirty, 0xff, 64);
    message_memory_free(&memory);
    message_memory_init(&memory, 100000);
    unsigned char *array = message_memory_array(&memory, 8, 8);
    assert_non_null(array);
    for (size_t i = 0; i < 64; i++) {
      assert_int_equal(array[i], 0);
    }
  }
  message_memory_free(&memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_aligned_and_apart),
      cmocka_unit_test(a_small_message_needs_no_block),
      cmocka_unit_test(more_than_the_limit_is_not_given),
      cmocka_unit_test(one_piece_larger_than_the_limit_is_not_given),
      cmocka_unit_test(arrays_are_zeroed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
