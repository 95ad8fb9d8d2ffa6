#include "server/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)64 << 10)
#define BLOCKS (2 * (size_t)PROCESS_HEAP_KEPT_BYTES / BLOCK_BYTES)

static void missing_standard_descriptors_are_opened(void **state) {
  (void)state;
  int saved = dup(STDIN_FILENO);
  assert_true(saved > STDERR_FILENO);
  close(STDIN_FILENO);
  (void)process_prepare();
  int next = open("/dev/null", O_RDONLY);
  assert_true(next > STDERR_FILENO);
  close(next);
  dup2(saved, STDIN_FILENO);
  close(saved);
}

#ifndef ACLNN_SANITIZED
// Uses much memory and frees it again; a block at the end keeps the heap from shrinking by itself.
static void *fill_and_free(void) {
  char **blocks = calloc(BLOCKS, sizeof *blocks);
  assert_non_null(blocks);
  for (size_t i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(BLOCK_BYTES);
    assert_non_null(blocks[i]);
    memset(blocks[i], 1, BLOCK_BYTES);
  }
  void *last = malloc(BLOCK_BYTES);
  for (size_t i = 0; i < BLOCKS; ++i) {
    free(blocks[i]);
  }
  free(blocks);
  return last;
}
#endif

static void heap_that_a_flood_left_goes_back_at_the_second_look(void **state) {
  (void)state;
#ifdef ACLNN_SANITIZED
  skip(); // a sanitizer's heap is another
#else
  (void)process_prepare();
  void *last = fill_and_free();
  bool was_over = false;
  process_look_at_heap(&was_over);
  assert_true(was_over);
  assert_true(process_heap_kept_bytes() > PROCESS_HEAP_KEPT_BYTES);
  process_look_at_heap(&was_over);
  assert_false(was_over);
  assert_true(process_heap_kept_bytes() < PROCESS_HEAP_KEPT_BYTES / 4);
  free(last);
#endif
}

static void small_heap_is_kept(void **state) {
  (void)state;
  bool was_over = true;
  process_look_at_heap(&was_over);
  assert_false(was_over);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_heap_is_kept),
      cmocka_unit_test(missing_standard_descriptors_are_opened),
      cmocka_unit_test(heap_that_a_flood_left_goes_back_at_the_second_look),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
