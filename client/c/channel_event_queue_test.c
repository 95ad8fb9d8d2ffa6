#include "client/c/channel_event_queue.h"

#include "client/c/handover.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <grpc/grpc.h>

#define WAITERS 12
#define ROUNDS 400

// What has a waiter: a call that never goes anywhere. Empty batches of it bring events.
struct caller {
  struct event_queue *queue;
  grpc_call *call;
  struct event_waiter waiter;
  struct event_tag tags[EVENT_NUMBERS_MAX];
  bool impatient; // waits with deadlines that have passed
  pthread_barrier_t *barrier;
  size_t events;
  pthread_t thread;
};

struct fixture {
  struct event_queue *queue;
  grpc_channel *channel;
  pthread_barrier_t barrier;
  struct caller callers[WAITERS];
};

static int set_up(void **state) {
  static struct fixture fixture;
  grpc_init();
  fixture.queue = event_queue_create();
  fixture.channel = grpc_lame_client_channel_create("nowhere", GRPC_STATUS_UNAVAILABLE, "not a channel");
  pthread_barrier_init(&fixture.barrier, NULL, WAITERS + 1);
  for (size_t i = 0; i < WAITERS; i++) {
    struct caller *caller = &fixture.callers[i];
    *caller = (struct caller){.queue = fixture.queue, .barrier = &fixture.barrier};
    caller->call = grpc_channel_create_call(
        fixture.channel, NULL, GRPC_PROPAGATE_DEFAULTS, event_queue_completions(fixture.queue),
        grpc_slice_from_static_string("/nothing"), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    event_waiter_init(&caller->waiter);
    for (unsigned number = 0; number < EVENT_NUMBERS_MAX; number++) {
      caller->tags[number] = (struct event_tag){&caller->waiter, number};
    }
  }
  *state = &fixture;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  for (size_t i = 0; i < WAITERS; i++) {
    grpc_call_unref(fixture->callers[i].call);
  }
  grpc_channel_destroy(fixture->channel);
  event_queue_destroy(fixture->queue);
  for (size_t i = 0; i < WAITERS; i++) {
    event_waiter_destroy(&fixture->callers[i].waiter);
  }
  pthread_barrier_destroy(&fixture->barrier);
  grpc_shutdown();
  return 0;
}

static void bring(struct caller *caller, unsigned number) {
  HANDOVER_GIVE(&caller->tags[number]);
  assert_int_equal(grpc_call_start_batch(caller->call, NULL, 0, &caller->tags[number], NULL), GRPC_CALL_OK);
}

static void one_waiter_gets_its_events_lowest_number_first(void **state) {
  struct fixture *fixture = *state;
  struct caller *caller = &fixture->callers[0], *other = &fixture->callers[1];
  struct event event;
  bring(caller, 2);
  bring(caller, 0);
  bring(other, 1);
  // Polls until it has something, which may be the 2; by the time of the other's all three are there.
  assert_true(event_queue_wait(fixture->queue, &other->waiter, CLOCK_NEVER, &event));
  assert_int_equal(event.number, 1);
  assert_true(event.ok);
  assert_true(event_queue_wait(fixture->queue, &caller->waiter, CLOCK_NEVER, &event));
  assert_int_equal(event.number, 0);
  assert_true(event_queue_wait(fixture->queue, &caller->waiter, CLOCK_NEVER, &event));
  assert_int_equal(event.number, 2);
}

static void deadline_without_an_event_ends_the_wait(void **state) {
  struct fixture *fixture = *state;
  struct caller *caller = &fixture->callers[0];
  struct event event;
  assert_false(event_queue_wait(fixture->queue, &caller->waiter, 0, &event));
  bring(caller, 3);
  assert_true(event_queue_wait(fixture->queue, &caller->waiter, CLOCK_NEVER, &event));
  assert_int_equal(event.number, 3);
}

// An event that came while somebody else polled is there at once, however late it is.
static void event_that_has_come_is_given_after_the_deadline(void **state) {
  struct fixture *fixture = *state;
  struct caller *caller = &fixture->callers[0], *other = &fixture->callers[1];
  struct event event;
  bring(caller, 0);
  bring(other, 0);
  assert_true(event_queue_wait(fixture->queue, &other->waiter, CLOCK_NEVER, &event));
  assert_true(event_queue_wait(fixture->queue, &caller->waiter, 0, &event));
}

static void *take_events(void *argument) {
  struct caller *caller = argument;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(caller->barrier); // main brings events, some before and some after the waits begin
    unsigned seen = 0;
    while (seen != (1u << EVENT_NUMBERS_MAX) - 1) {
      struct event event;
      int64_t deadline_ns = caller->impatient ? 0 : CLOCK_NEVER;
      if (event_queue_wait(caller->queue, &caller->waiter, deadline_ns, &event)) {
        assert(event.ok && (seen & (1u << event.number)) == 0);
        seen |= 1u << event.number;
        caller->events++;
      }
    }
    pthread_barrier_wait(caller->barrier);
  }
  return NULL;
}

// Whoever polls leaves again and again, with an event or at a deadline: nobody is forgotten.
static void threads_that_wait_together_get_what_is_theirs(void **state) {
  struct fixture *fixture = *state;
  for (size_t i = 0; i < WAITERS; i++) {
    struct caller *caller = &fixture->callers[i];
    caller->impatient = i % 4 == 3;
    assert_int_equal(pthread_create(&caller->thread, NULL, take_events, caller), 0);
  }
  for (int round = 0; round < ROUNDS; round++) {
    pthread_barrier_wait(&fixture->barrier);
    for (unsigned number = 0; number < EVENT_NUMBERS_MAX; number++) {
      for (size_t i = 0; i < WAITERS; i++) {
        bring(&fixture->callers[(i + (size_t)round) % WAITERS], number);
      }
    }
    pthread_barrier_wait(&fixture->barrier);
  }
  for (size_t i = 0; i < WAITERS; i++) {
    pthread_join(fixture->callers[i].thread, NULL);
    assert_int_equal(fixture->callers[i].events, ROUNDS * EVENT_NUMBERS_MAX);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_waiter_gets_its_events_lowest_number_first, set_up, tear_down),
      cmocka_unit_test_setup_teardown(deadline_without_an_event_ends_the_wait, set_up, tear_down),
      cmocka_unit_test_setup_teardown(event_that_has_come_is_given_after_the_deadline, set_up, tear_down),
      cmocka_unit_test_setup_teardown(threads_that_wait_together_get_what_is_theirs, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
