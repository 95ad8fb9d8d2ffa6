#include "server/rpc/timer_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct counted {
  struct timer_entry timer;
  int expired;
  int order;
  struct timer_entry *disarms; // another timer that goes when this one expires
};

// Numbers expiries in the order in which they came.
static int next_order(void) {
  static int order;
  return ++order;
}

static void on_expired(struct timer_entry *timer) {
  struct counted *counted = (struct counted *)timer;
  assert_false(timer_list_is_armed(timer));
  ++counted->expired;
  counted->order = next_order();
  if (counted->disarms != NULL) {
    timer_list_disarm(counted->disarms);
  }
}

static void timers_expire_in_order_and_once(void **unused) {
  (void)unused;
  struct timer_list list;
  struct counted first = {.timer.expired = on_expired};
  struct counted second = {.timer.expired = on_expired};
  timer_list_init(&list, 100);
  assert_int_equal(timer_list_next(&list), INT64_MAX);
  timer_list_arm(&list, &first.timer, 0);
  timer_list_arm(&list, &second.timer, 10);
  assert_int_equal(timer_list_next(&list), 100);
  timer_list_expire(&list, 99);
  assert_int_equal(first.expired, 0);
  timer_list_expire(&list, 100);
  assert_int_equal(first.expired, 1);
  assert_int_equal(second.expired, 0);
  timer_list_expire(&list, 1000);
  timer_list_expire(&list, 2000);
  assert_int_equal(first.expired, 1);
  assert_int_equal(second.expired, 1);
  assert_true(first.order < second.order);
}

static void armed_again_starts_anew(void **unused) {
  (void)unused;
  struct timer_list list;
  struct counted first = {.timer.expired = on_expired};
  struct counted second = {.timer.expired = on_expired};
  timer_list_init(&list, 100);
  timer_list_arm(&list, &first.timer, 0);
  timer_list_arm(&list, &second.timer, 10);
  timer_list_arm(&list, &first.timer, 20);
  assert_int_equal(timer_list_next(&list), 110);
  timer_list_expire(&list, 119);
  assert_int_equal(first.expired, 0);
  assert_int_equal(second.expired, 1);
  timer_list_disarm(&first.timer);
  timer_list_disarm(&first.timer);
  timer_list_expire(&list, 1000);
  assert_int_equal(first.expired, 0);
}

static void expiring_timer_may_disarm_another(void **unused) {
  (void)unused;
  struct timer_list list;
  struct counted second = {.timer.expired = on_expired};
  struct counted first = {.timer.expired = on_expired, .disarms = &second.timer};
  timer_list_init(&list, 100);
  timer_list_arm(&list, &first.timer, 0);
  timer_list_arm(&list, &second.timer, 0);
  timer_list_expire(&list, 100);
  assert_int_equal(first.expired, 1);
  assert_int_equal(second.expired, 0);
  assert_int_equal(timer_list_next(&list), INT64_MAX);
}

static void longest_times_do_not_overflow(void **unused) {
  (void)unused;
  struct timer_list list;
  struct counted timer = {.timer.expired = on_expired};
  timer_list_init(&list, INT64_MAX - 1);
  timer_list_arm(&list, &timer.timer, 1000);
  timer_list_expire(&list, INT64_MAX - 1);
  assert_int_equal(timer.expired, 0);
  timer_list_disarm(&timer.timer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_expire_in_order_and_once),
      cmocka_unit_test(armed_again_starts_anew),
      cmocka_unit_test(expiring_timer_may_disarm_another),
      cmocka_unit_test(longest_times_do_not_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
