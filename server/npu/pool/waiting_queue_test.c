#include "server/npu/pool/waiting_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ENTRIES 6

struct fixture {
  struct waiting_queue queue;
  struct waiting_entry entries[ENTRIES];
};

static void begin(struct fixture *fixture, size_t limit) {
  memset(fixture, 0, sizeof *fixture);
  fixture->queue.limit = limit;
}

static void push(struct fixture *fixture, size_t number, const char *stream) {
  fixture->entries[number].stream = stream;
  assert_true(waiting_queue_push(&fixture->queue, &fixture->entries[number]));
}

// The numbers of those that wait, in order.
static void expect(const struct fixture *fixture, const char *numbers) {
  const struct waiting_entry *entry = fixture->queue.first;
  assert_int_equal(fixture->queue.count, strlen(numbers));
  for (const char *number = numbers; *number != '\0'; number++) {
    assert_ptr_equal(entry, &fixture->entries[*number - '0']);
    entry = waiting_entry_next(entry);
  }
  assert_null(entry);
}

static bool is_due(const struct fixture *fixture, size_t number) {
  return waiting_entry_is_due(&fixture->entries[number]);
}

static void first_come_first_served(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, ENTRIES);
  for (size_t i = 0; i < 4; i++) {
    push(&fixture, i, NULL);
    assert_true(is_due(&fixture, i));
  }
  expect(&fixture, "0123");
  waiting_queue_take(&fixture.queue, &fixture.entries[1]);
  expect(&fixture, "023");
  waiting_queue_take(&fixture.queue, &fixture.entries[0]);
  waiting_queue_take(&fixture.queue, &fixture.entries[3]);
  expect(&fixture, "2");
  waiting_queue_finish(&fixture.queue, &fixture.entries[2]);
  expect(&fixture, "");
  push(&fixture, 4, NULL);
  expect(&fixture, "4");
}

static void a_full_queue_refuses(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, 2);
  push(&fixture, 0, NULL);
  push(&fixture, 1, NULL);
  assert_false(waiting_queue_push(&fixture.queue, &fixture.entries[2]));
  expect(&fixture, "01");
  waiting_queue_take(&fixture.queue, &fixture.entries[0]);
  push(&fixture, 2, NULL);
  expect(&fixture, "12");
}

static void a_queue_without_room_refuses_all(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, 0);
  assert_false(waiting_queue_push(&fixture.queue, &fixture.entries[0]));
}

static void what_is_put_back_goes_first_and_beyond_the_limit(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, 2);
  push(&fixture, 0, NULL);
  waiting_queue_take(&fixture.queue, &fixture.entries[0]);
  push(&fixture, 1, NULL);
  push(&fixture, 2, NULL);
  waiting_queue_put_back(&fixture.queue, &fixture.entries[0]);
  expect(&fixture, "012");
  waiting_queue_finish(&fixture.queue, &fixture.entries[0]);
  expect(&fixture, "12");
}

static void what_comes_again_goes_first_and_beyond_the_limit(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, 2);
  push(&fixture, 0, NULL);
  waiting_queue_finish(&fixture.queue, &fixture.entries[0]);
  push(&fixture, 1, NULL);
  push(&fixture, 2, NULL);
  waiting_queue_push_again(&fixture.queue, &fixture.entries[0]);
  expect(&fixture, "012");
}

static void what_comes_again_is_the_first_of_its_stream(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, ENTRIES);
  static const char one[] = "1", two[] = "2";
  push(&fixture, 0, one);
  push(&fixture, 1, two);
  push(&fixture, 2, one);
  push(&fixture, 3, one);
  waiting_queue_take(&fixture.queue, &fixture.entries[0]);
  waiting_queue_finish(&fixture.queue, &fixture.entries[0]);
  waiting_queue_push_again(&fixture.queue, &fixture.entries[0]);
  expect(&fixture, "0123");
  assert_true(is_due(&fixture, 0) && is_due(&fixture, 1));
  assert_false(is_due(&fixture, 2) || is_due(&fixture, 3));
  push(&fixture, 4, two);
  push(&fixture, 5, one);
  assert_false(is_due(&fixture, 4) || is_due(&fixture, 5));
  for (size_t i = 0; i < ENTRIES; i++) {
    assert_true(is_due(&fixture, i));
    waiting_queue_finish(&fixture.queue, &fixture.entries[i]);
  }
  // Alone in its stream it is like any other.
  waiting_queue_push_again(&fixture.queue, &fixture.entries[0]);
  push(&fixture, 2, one);
  assert_true(is_due(&fixture, 0));
  assert_false(is_due(&fixture, 2));
}

static void streams_keep_their_order(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, ENTRIES);
  static const char one[] = "1", two[] = "2";
  push(&fixture, 0, one);
  push(&fixture, 1, two);
  push(&fixture, 2, one);
  push(&fixture, 3, NULL);
  push(&fixture, 4, one);
  assert_true(is_due(&fixture, 0) && is_due(&fixture, 1) && is_due(&fixture, 3));
  assert_false(is_due(&fixture, 2) || is_due(&fixture, 4));
  waiting_queue_take(&fixture.queue, &fixture.entries[0]);
  assert_false(is_due(&fixture, 2));
  // Not before it left, wherever it was.
  waiting_queue_put_back(&fixture.queue, &fixture.entries[0]);
  assert_true(is_due(&fixture, 0));
  assert_false(is_due(&fixture, 2));
  waiting_queue_finish(&fixture.queue, &fixture.entries[0]);
  assert_true(is_due(&fixture, 2));
  assert_false(is_due(&fixture, 4));
}

static void who_leaves_in_between_closes_the_gap(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture, ENTRIES);
  static const char stream[] = "s";
  push(&fixture, 0, stream);
  push(&fixture, 1, stream);
  push(&fixture, 2, stream);
  waiting_queue_finish(&fixture.queue, &fixture.entries[1]);
  assert_false(is_due(&fixture, 2));
  waiting_queue_finish(&fixture.queue, &fixture.entries[0]);
  assert_true(is_due(&fixture, 2));
  waiting_queue_finish(&fixture.queue, &fixture.entries[2]);
  // The stream is forgotten.
  push(&fixture, 3, stream);
  assert_true(is_due(&fixture, 3));
  expect(&fixture, "3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_come_first_served),
      cmocka_unit_test(a_full_queue_refuses),
      cmocka_unit_test(a_queue_without_room_refuses_all),
      cmocka_unit_test(what_is_put_back_goes_first_and_beyond_the_limit),
      cmocka_unit_test(what_comes_again_goes_first_and_beyond_the_limit),
      cmocka_unit_test(what_comes_again_is_the_first_of_its_stream),
      cmocka_unit_test(streams_keep_their_order),
      cmocka_unit_test(who_leaves_in_between_closes_the_gap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
