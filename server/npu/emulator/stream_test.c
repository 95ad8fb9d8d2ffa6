// A stream's tasks: in order, later, and no more after the first that fails.
#include "server/npu/emulator/stream.h"

#include "server/npu/acl/acl.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TASKS = 100 };

struct test_task {
  struct stream_task task;
  sem_t *gate; // waits for it, if there is one
  bool sleeps;
  int32_t status;
  int number;
  int *ran; // where its number goes
  atomic_int *destroyed;
};

static int32_t run(struct stream_task *task, struct stream *stream, char text[STREAM_TEXT_BYTES]) {
  struct test_task *test = (struct test_task *)task;
  while (test->gate != NULL && sem_wait(test->gate) != 0) {
  }
  if (test->sleeps) {
    stream_sleep(stream, -1);
  }
  if (test->ran != NULL) {
    *test->ran = test->number;
  }
  snprintf(text, STREAM_TEXT_BYTES, "task %d", test->number);
  return test->status;
}

static void destroy(struct stream_task *task) {
  atomic_fetch_add(((struct test_task *)task)->destroyed, 1);
}

static atomic_int destroyed;

static struct test_task task(int number) {
  return (struct test_task){
      .task = {.run = run, .destroy = destroy}, .number = number, .destroyed = &destroyed};
}

static void tasks_run_in_order(void **state) {
  (void)state;
  struct stream *stream = stream_create();
  assert_non_null(stream);
  struct test_task tasks[TASKS];
  int last = -1;
  atomic_store(&destroyed, 0);
  char text[STREAM_TEXT_BYTES];
  for (int i = 0; i < TASKS; i++) {
    tasks[i] = task(i);
    tasks[i].ran = &last;
    stream_submit(stream, &tasks[i].task);
  }
  assert_int_equal(stream_wait(stream, -1, text), 0);
  assert_int_equal(last, TASKS - 1);
  assert_int_equal(atomic_load(&destroyed), TASKS);
  assert_true(stream_destroy(stream));
}

static void submitting_does_not_wait(void **state) {
  (void)state;
  struct stream *stream = stream_create();
  sem_t gate;
  sem_init(&gate, 0, 0);
  int ran = 0;
  struct test_task held = task(1);
  held.gate = &gate;
  held.ran = &ran;
  stream_submit(stream, &held.task);
  char text[STREAM_TEXT_BYTES];
  assert_int_equal(stream_wait(stream, 0, text), ACL_STATUS_RT_STREAM_SYNC_TIMEOUT);
  assert_non_null(strstr(text, "0 ms"));
  sem_post(&gate);
  assert_int_equal(stream_wait(stream, -1, text), 0);
  assert_int_equal(ran, 1);
  assert_true(stream_destroy(stream));
  sem_destroy(&gate);
}

static void first_failure_stays_and_drops_the_rest(void **state) {
  (void)state;
  struct stream *stream = stream_create();
  int ran = 0;
  struct test_task tasks[3] = {task(1), task(2), task(3)};
  tasks[0].status = 507015;
  tasks[1].status = 507054;
  tasks[1].ran = &ran;
  tasks[2].ran = &ran;
  atomic_store(&destroyed, 0);
  char text[STREAM_TEXT_BYTES];
  for (size_t i = 0; i < 3; i++) {
    stream_submit(stream, &tasks[i].task);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(stream_wait(stream, -1, text), 507015);
    assert_string_equal(text, "task 1");
  }
  assert_int_equal(ran, 0);
  assert_int_equal(atomic_load(&destroyed), 3);
  assert_true(stream_destroy(stream));
}

static void destroying_wakes_who_sleeps_and_tells_what_was_left(void **state) {
  (void)state;
  struct stream *stream = stream_create();
  struct test_task tasks[2] = {task(1), task(2)};
  tasks[0].sleeps = true;
  atomic_store(&destroyed, 0);
  stream_submit(stream, &tasks[0].task);
  stream_submit(stream, &tasks[1].task);
  assert_false(stream_destroy(stream));
  assert_int_equal(atomic_load(&destroyed), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks_run_in_order),
      cmocka_unit_test(submitting_does_not_wait),
      cmocka_unit_test(first_failure_stays_and_drops_the_rest),
      cmocka_unit_test(destroying_wakes_who_sleeps_and_tells_what_was_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
