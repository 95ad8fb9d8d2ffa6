#include "client/c/heap_hint.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BLOCKS 64
#define BLOCK_BYTES 65536

static long page_faults(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

// Allocates, touches and frees what a few messages take; the page faults that this costs.
static long cost_of_messages(void) {
  static char *blocks[BLOCKS];
  long before = page_faults();
  for (int i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(BLOCK_BYTES);
    assert_non_null(blocks[i]);
    memset(blocks[i], i, BLOCK_BYTES);
  }
  for (int i = 0; i < BLOCKS; i++) {
    free(blocks[i]);
  }
  return page_faults() - before;
}

static void freed_memory_is_used_again(void **state) {
  (void)state;
#ifdef ACLNN_SANITIZED
  skip(); // a sanitizer brings its own allocator
#endif
  (void)cost_of_messages();
  long without = cost_of_messages();
  heap_hint_keep_memory();
  (void)cost_of_messages(); // the first time the heap has to grow
  long with = cost_of_messages();
  assert_true(without > BLOCKS * BLOCK_BYTES / 4096 / 2); // else there is nothing to hint at
  assert_true(with < without / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(freed_memory_is_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
