#include "server/session/expiry_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT 500

static void empty_queue_has_no_first(void **state) {
  (void)state;
  struct expiry_queue queue;
  struct expiry alone = {0};
  assert_true(expiry_queue_init(&queue, 1));
  assert_null(expiry_queue_first(&queue));
  expiry_queue_remove(&queue, &alone); // isn't in it
  expiry_queue_schedule(&queue, &alone, 5);
  assert_ptr_equal(expiry_queue_first(&queue), &alone);
  expiry_queue_schedule(&queue, &alone, 7); // moved, not added again
  assert_int_equal(expiry_queue_first(&queue)->expires_ms, 7);
  expiry_queue_remove(&queue, &alone);
  expiry_queue_remove(&queue, &alone);
  assert_null(expiry_queue_first(&queue));
  expiry_queue_clear(&queue);
}

static void capacity_beyond_all_memory_is_refused(void **state) {
  (void)state;
  struct expiry_queue queue;
  assert_false(expiry_queue_init(&queue, SIZE_MAX));
  expiry_queue_clear(&queue);
}

// The first among those that are in, found the slow way.
static int64_t model_first(const struct expiry *things, const int *in) {
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < COUNT; i++) {
    if (in[i] && things[i].expires_ms < first) {
      first = things[i].expires_ms;
    }
  }
  return first;
}

static void first_is_always_the_earliest(void **state) {
  (void)state;
  struct expiry_queue queue;
  struct expiry things[COUNT] = {{0}};
  int in[COUNT] = {0};
  uint64_t random = 11;
  assert_true(expiry_queue_init(&queue, COUNT));
  for (int step = 0; step < 20000; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t i = (random >> 33) % COUNT;
    in[i] = (random >> 60) % 3 != 0;
    if (in[i]) {
      expiry_queue_schedule(&queue, &things[i], (int64_t)((random >> 43) % 300)); // many at the same time
    } else {
      expiry_queue_remove(&queue, &things[i]);
    }
    const struct expiry *first = expiry_queue_first(&queue);
    assert_int_equal(first != NULL ? first->expires_ms : INT64_MAX, model_first(things, in));
  }
  int64_t last = INT64_MIN;
  struct expiry *first;
  size_t left = 0, taken = 0;
  for (size_t i = 0; i < COUNT; i++) {
    left += in[i] != 0;
  }
  while ((first = expiry_queue_first(&queue)) != NULL) {
    assert_true(first->expires_ms >= last);
    last = first->expires_ms;
    expiry_queue_remove(&queue, first);
    taken++;
  }
  assert_int_equal(taken, left);
  expiry_queue_clear(&queue);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(empty_queue_has_no_first),
      cmocka_unit_test(capacity_beyond_all_memory_is_refused),
      cmocka_unit_test(first_is_always_the_earliest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
