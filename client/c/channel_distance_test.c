#include "client/c/channel_distance.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void unknown_server_is_taken_for_near(void **state) {
  (void)state;
  struct channel_distance distance;
  channel_distance_init(&distance);
  assert_false(channel_distance_is_far(&distance));
  assert_true(channel_distance_is_open(&distance));
}

static void slow_replies_alone_make_it_far(void **state) {
  (void)state;
  struct channel_distance distance;
  channel_distance_init(&distance);
  channel_distance_learn(&distance, CHANNEL_FAR_NS + 1);
  assert_true(channel_distance_is_far(&distance));
  assert_true(channel_distance_is_open(&distance));
  channel_distance_learn(&distance, 40 * (int64_t)CHANNEL_FAR_NS);
  assert_true(channel_distance_is_far(&distance));
}

// Slow ones may have been computed for long.
static void one_quick_reply_makes_it_near_for_good(void **state) {
  (void)state;
  struct channel_distance distance;
  channel_distance_init(&distance);
  channel_distance_learn(&distance, 10 * (int64_t)CHANNEL_FAR_NS);
  channel_distance_learn(&distance, CHANNEL_FAR_NS);
  assert_false(channel_distance_is_far(&distance));
  assert_false(channel_distance_is_open(&distance));
  channel_distance_learn(&distance, 10 * (int64_t)CHANNEL_FAR_NS);
  assert_false(channel_distance_is_far(&distance));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_server_is_taken_for_near),
      cmocka_unit_test(slow_replies_alone_make_it_far),
      cmocka_unit_test(one_quick_reply_makes_it_near_for_good),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
