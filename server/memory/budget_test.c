#include "server/memory/budget.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define LIMIT 1000
#define QUEUE_TIME_NS 100

// A request that remembers what was decided, and in which order.
struct client {
  struct budget_request request;
  enum budget_outcome outcome;
  int decisions;
  int rank; // among all decisions of a test, from 1
};

static int decisions_made;

static void on_decided(struct budget_request *request, enum budget_outcome outcome) {
  struct client *client = (struct client *)request;
  client->outcome = outcome;
  client->decisions++;
  client->rank = ++decisions_made;
}

static struct budget *make_budget(size_t queue_max) {
  struct budget_options options = {
      .limit_bytes = LIMIT, .queue_max = queue_max, .queue_time_max_ns = QUEUE_TIME_NS};
  struct budget *budget;
  struct status status;
  assert_true(budget_create(&options, &budget, &status));
  decisions_made = 0;
  return budget;
}

static enum budget_outcome reserve(struct budget *budget, struct client *client, uint64_t bytes,
                                   int64_t now_ns) {
  *client = (struct client){.request = {.bytes = bytes, .decided = on_decided}};
  return budget_reserve(budget, &client->request, now_ns);
}

static void check_state(struct budget *budget, uint64_t reserved_bytes, size_t waiting) {
  struct budget_state state;
  budget_get_state(budget, &state);
  assert_int_equal(state.limit_bytes, LIMIT);
  assert_int_equal(state.reserved_bytes, reserved_bytes);
  assert_int_equal(state.waiting, waiting);
}

static void what_fits_is_granted_at_once(void **state) {
  (void)state;
  struct budget *budget = make_budget(0);
  struct client all, none;
  assert_int_equal(budget_limit(budget), LIMIT);
  assert_int_equal(reserve(budget, &all, LIMIT, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &none, 0, 0), BUDGET_GRANTED);
  check_state(budget, LIMIT, 0);
  budget_release(budget, LIMIT);
  assert_int_equal(all.decisions, 0); // told by the return value alone
  check_state(budget, 0, 0);
  budget_destroy(budget);
}

static void waiting_requests_are_granted_in_order(void **state) {
  (void)state;
  struct budget *budget = make_budget(10);
  struct client holder, waiting[3];
  assert_int_equal(reserve(budget, &holder, 900, 0), BUDGET_GRANTED);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(reserve(budget, &waiting[i], 300, 0), BUDGET_WAITING);
  }
  budget_release(budget, 100); // 200 are free: not enough for the first
  check_state(budget, 800, 3);
  budget_release(budget, 200);
  check_state(budget, 900, 2);
  budget_release(budget, 600);
  check_state(budget, 900, 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(waiting[i].decisions, 1);
    assert_int_equal(waiting[i].outcome, BUDGET_GRANTED);
    assert_int_equal(waiting[i].rank, i + 1);
  }
  budget_release(budget, 900);
  check_state(budget, 0, 0);
  budget_destroy(budget);
}

static void full_queue_refuses_at_once(void **state) {
  (void)state;
  struct budget *budget = make_budget(2);
  struct client holder, first, second, third, small;
  assert_int_equal(reserve(budget, &holder, 990, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &first, 500, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &second, 500, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &third, 500, 0), BUDGET_QUEUE_FULL);
  assert_int_equal(reserve(budget, &small, 10, 0), BUDGET_GRANTED); // it needn't wait
  check_state(budget, 1000, 2);
  budget_release(budget, 1000);
  assert_int_equal(third.decisions, 0);
  check_state(budget, 1000, 0);
  budget_release(budget, 1000);
  budget_destroy(budget);
}

static void queue_of_length_zero_lets_nobody_wait(void **state) {
  (void)state;
  struct budget *budget = make_budget(0);
  struct client holder, refused;
  assert_int_equal(reserve(budget, &holder, LIMIT, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &refused, 1, 0), BUDGET_QUEUE_FULL);
  check_state(budget, LIMIT, 0);
  budget_release(budget, LIMIT);
  assert_int_equal(refused.decisions, 0);
  budget_destroy(budget);
}

static void small_requests_overtake_a_blocked_giant_only_so_far(void **state) {
  (void)state;
  struct budget *budget = make_budget(100);
  struct client holder, giant, small[20];
  assert_int_equal(reserve(budget, &holder, 500, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &giant, LIMIT, 0), BUDGET_WAITING);
  int overtaking = 0;
  for (int i = 0; i < 20; i++) {
    // Each ends before the next one comes: it isn't a lack of memory that stops them.
    if (reserve(budget, &small[i], 10, 0) == BUDGET_GRANTED) {
      overtaking++;
      budget_release(budget, 10);
    }
  }
  assert_int_equal(overtaking, LIMIT / 8 / 10);
  check_state(budget, 500, 1 + 20 - (size_t)overtaking);
  budget_release(budget, 500);
  assert_int_equal(giant.outcome, BUDGET_GRANTED);
  assert_int_equal(giant.rank, 1);
  assert_int_equal(decisions_made, 1);
  budget_release(budget, LIMIT);
  assert_int_equal(decisions_made, 1 + 20 - overtaking);
  check_state(budget, 10 * (uint64_t)(20 - overtaking), 0);
  budget_release(budget, 10 * (uint64_t)(20 - overtaking));
  budget_destroy(budget);
}

static void each_first_one_may_be_overtaken_anew(void **state) {
  (void)state;
  struct budget *budget = make_budget(100);
  struct client holder, giants[2], small;
  assert_int_equal(reserve(budget, &holder, 500, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &giants[0], LIMIT, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &giants[1], LIMIT, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &small, 125, 0), BUDGET_GRANTED);
  budget_release(budget, 125);
  assert_int_equal(reserve(budget, &small, 125, 0), BUDGET_WAITING);
  assert_true(budget_cancel(budget, &giants[0].request));
  assert_int_equal(small.outcome, BUDGET_GRANTED); // past the second giant now
  check_state(budget, 625, 1);
  budget_release(budget, 625);
  budget_release(budget, LIMIT);
  budget_destroy(budget);
}

static void who_waits_too_long_is_refused(void **state) {
  (void)state;
  struct budget *budget = make_budget(10);
  struct client holder, early, late, small;
  assert_int_equal(budget_expire(budget, 0), INT64_MAX);
  assert_int_equal(reserve(budget, &holder, 800, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &early, 900, 10), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &late, 200 + 1, 30), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &small, 190, 40), BUDGET_WAITING); // more than may overtake
  assert_int_equal(budget_expire(budget, 10 + QUEUE_TIME_NS - 1), 10 + QUEUE_TIME_NS);
  assert_int_equal(decisions_made, 0);
  assert_int_equal(budget_expire(budget, 10 + QUEUE_TIME_NS), 30 + QUEUE_TIME_NS);
  assert_int_equal(early.outcome, BUDGET_TIMED_OUT);
  assert_int_equal(decisions_made, 1);
  assert_int_equal(budget_expire(budget, 30 + QUEUE_TIME_NS), INT64_MAX);
  assert_int_equal(late.outcome, BUDGET_TIMED_OUT);
  assert_int_equal(small.outcome, BUDGET_GRANTED); // it is the first now
  check_state(budget, 990, 0);
  budget_release(budget, 990);
  assert_int_equal(decisions_made, 3);
  budget_destroy(budget);
}

static void clocks_read_out_of_order_expire_nobody_early(void **state) {
  (void)state;
  struct budget *budget = make_budget(10);
  struct client holder, first, second;
  assert_int_equal(reserve(budget, &holder, LIMIT, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &first, 1, 50), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &second, 1, 49), BUDGET_WAITING);
  assert_int_equal(budget_expire(budget, 49 + QUEUE_TIME_NS), 50 + QUEUE_TIME_NS);
  assert_int_equal(decisions_made, 0);
  assert_int_equal(budget_expire(budget, 50 + QUEUE_TIME_NS), INT64_MAX);
  assert_int_equal(decisions_made, 2);
  budget_release(budget, LIMIT);
  budget_destroy(budget);
}

static void cancelled_request_is_never_decided(void **state) {
  (void)state;
  struct budget *budget = make_budget(10);
  struct client holder, first, second, third;
  assert_int_equal(reserve(budget, &holder, 600, 0), BUDGET_GRANTED);
  assert_int_equal(reserve(budget, &first, 500, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &second, 400, 0), BUDGET_WAITING);
  assert_int_equal(reserve(budget, &third, 500, 0), BUDGET_WAITING);
  assert_true(budget_cancel(budget, &first.request));
  assert_int_equal(second.outcome, BUDGET_GRANTED); // nothing is in its way any more
  assert_false(budget_cancel(budget, &first.request));
  assert_false(budget_cancel(budget, &second.request)); // decided already
  assert_true(budget_cancel(budget, &third.request));
  check_state(budget, 1000, 0);
  budget_release(budget, 1000);
  assert_int_equal(first.decisions, 0);
  assert_int_equal(second.decisions, 1);
  assert_int_equal(third.decisions, 0);
  budget_destroy(budget);
}

// One link of a chain: whose grant gives its memory back at once, so that the next one is granted.
struct link {
  struct budget_request request;
  struct budget *budget;
  int *depth, *depth_max, *granted;
};

static void pass_on(struct budget_request *request, enum budget_outcome outcome) {
  struct link *link = (struct link *)request;
  assert_int_equal(outcome, BUDGET_GRANTED);
  *link->depth += 1;
  *link->depth_max = *link->depth > *link->depth_max ? *link->depth : *link->depth_max;
  *link->granted += 1;
  budget_release(link->budget, link->request.bytes);
  *link->depth -= 1;
}

static void callbacks_that_release_do_not_nest(void **state) {
  (void)state;
  const int count = 1000;
  struct budget *budget = make_budget((size_t)count);
  struct client holder;
  int depth = 0, depth_max = 0, granted = 0;
  assert_int_equal(reserve(budget, &holder, LIMIT, 0), BUDGET_GRANTED);
  struct link *links = calloc((size_t)count, sizeof *links);
  for (int i = 0; i < count; i++) {
    links[i] = (struct link){.request = {.bytes = LIMIT, .decided = pass_on},
                             .budget = budget,
                             .depth = &depth,
                             .depth_max = &depth_max,
                             .granted = &granted};
    assert_int_equal(budget_reserve(budget, &links[i].request, 0), BUDGET_WAITING);
  }
  budget_release(budget, LIMIT);
  assert_int_equal(granted, count); // all of them before the call returned
  assert_int_equal(depth_max, 1);
  check_state(budget, 0, 0);
  free(links);
  budget_destroy(budget);
}

#define RACERS 64
#ifdef ACLNN_SANITIZED
#define RACER_ROUNDS 200
#else
#define RACER_ROUNDS 2000
#endif

struct race {
  struct budget *budget;
  atomic_long clock_ns;
  atomic_int racing;
  atomic_long granted, cancelled, timed_out, refused, wrong;
};

struct racer {
  struct race *race;
  uint64_t random;
};

// On the heap, freed as soon as it is decided: a second decision would be seen by the sanitizers.
struct racing_request {
  struct budget_request request;
  enum budget_outcome outcome;
  sem_t decided;
};

static void on_race_decided(struct budget_request *request, enum budget_outcome outcome) {
  struct racing_request *racing = (struct racing_request *)request;
  racing->outcome = outcome;
  sem_post(&racing->decided);
}

static void race_once(struct racer *racer) {
  struct race *race = racer->race;
  racer->random = racer->random * 6364136223846793005u + 1442695040888963407u;
  uint64_t random = racer->random >> 33;
  struct racing_request *racing = calloc(1, sizeof *racing);
  racing->request.decided = on_race_decided;
  racing->request.bytes = 1 + random % (random % 7 == 0 ? LIMIT : LIMIT / 16);
  sem_init(&racing->decided, 0, 0);
  uint64_t bytes = racing->request.bytes;
  enum budget_outcome outcome = budget_reserve(race->budget, &racing->request, atomic_load(&race->clock_ns));
  bool cancelled = false;
  if (outcome == BUDGET_WAITING) {
    cancelled = random % 3 == 0 && budget_cancel(race->budget, &racing->request);
    if (!cancelled) {
      while (sem_wait(&racing->decided) != 0) {
      }
      outcome = racing->outcome;
    }
  }
  sem_destroy(&racing->decided);
  free(racing);
  if (cancelled) {
    atomic_fetch_add(&race->cancelled, 1);
  } else if (outcome == BUDGET_GRANTED) {
    atomic_fetch_add(&race->granted, 1);
    if (random % 5 == 0) {
      sched_yield();
    }
    budget_release(race->budget, bytes / 2);
    budget_release(race->budget, bytes - bytes / 2);
  } else {
    atomic_fetch_add(outcome == BUDGET_TIMED_OUT    ? &race->timed_out
                     : outcome == BUDGET_QUEUE_FULL ? &race->refused
                                                    : &race->wrong,
                     1);
  }
}

static void *run_racer(void *argument) {
  struct racer *racer = argument;
  for (int i = 0; i < RACER_ROUNDS; i++) {
    race_once(racer);
  }
  atomic_fetch_sub(&racer->race->racing, 1);
  return NULL;
}

static void racing_threads_are_each_decided_once(void **state) {
  (void)state;
  struct race race = {.budget = make_budget(RACERS / 2)};
  struct racer racers[RACERS];
  pthread_t threads[RACERS];
  atomic_store(&race.racing, RACERS);
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (struct racer){.race = &race, .random = (uint64_t)i + 1};
    assert_int_equal(pthread_create(&threads[i], NULL, run_racer, &racers[i]), 0);
  }
  while (atomic_load(&race.racing) > 0) {
    budget_expire(race.budget, atomic_fetch_add(&race.clock_ns, 7));
    sched_yield();
  }
  for (int i = 0; i < RACERS; i++) {
    pthread_join(threads[i], NULL);
  }
  check_state(race.budget, 0, 0);
  assert_int_equal(race.wrong, 0);
  assert_int_equal(race.granted + race.cancelled + race.timed_out + race.refused, RACERS * RACER_ROUNDS);
  assert_true(race.granted > 0);
  budget_destroy(race.budget);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fits_is_granted_at_once),
      cmocka_unit_test(waiting_requests_are_granted_in_order),
      cmocka_unit_test(full_queue_refuses_at_once),
      cmocka_unit_test(queue_of_length_zero_lets_nobody_wait),
      cmocka_unit_test(small_requests_overtake_a_blocked_giant_only_so_far),
      cmocka_unit_test(each_first_one_may_be_overtaken_anew),
      cmocka_unit_test(who_waits_too_long_is_refused),
      cmocka_unit_test(clocks_read_out_of_order_expire_nobody_early),
      cmocka_unit_test(cancelled_request_is_never_decided),
      cmocka_unit_test(callbacks_that_release_do_not_nest),
      cmocka_unit_test(racing_threads_are_each_decided_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
