#include "server/npu/pool/device_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static const struct device_policy_limits limits = {.start_ns = 120 * SECOND,
                                                   .heartbeat_ns = 4 * SECOND,
                                                   .job_ns = 60 * SECOND,
                                                   .backoff_first_ns = 100 * MS,
                                                   .backoff_max_ns = 5 * SECOND,
                                                   .deaths_max = 8,
                                                   .revival_ns = 60 * SECOND};

struct fixture {
  struct device_policy policy;
  int64_t now_ns;
};

static void begin(struct fixture *fixture) {
  fixture->now_ns = 1000 * SECOND;
  device_policy_init(&fixture->policy, &limits, fixture->now_ns);
}

static enum device_demand tick(struct fixture *fixture) {
  const char *why = NULL;
  enum device_demand demand = device_policy_tick(&fixture->policy, fixture->now_ns, &why);
  assert_true((why != NULL) == (demand == DEVICE_DEMAND_KILL));
  return demand;
}

static void expect_kill(struct fixture *fixture, const char *expected) {
  const char *why = NULL;
  assert_int_equal(device_policy_tick(&fixture->policy, fixture->now_ns, &why), DEVICE_DEMAND_KILL);
  assert_non_null(strstr(why, expected));
}

static void start(struct fixture *fixture) {
  assert_int_equal(tick(fixture), DEVICE_DEMAND_START);
  device_policy_started(&fixture->policy, fixture->now_ns);
  assert_int_equal(fixture->policy.state, DEVICE_STARTING);
}

static void bring_up(struct fixture *fixture) {
  start(fixture);
  device_policy_ready(&fixture->policy, fixture->now_ns);
  assert_int_equal(fixture->policy.state, DEVICE_UP);
}

static void die(struct fixture *fixture, bool blamed) {
  device_policy_lost(&fixture->policy, blamed);
  assert_int_equal(fixture->policy.state, DEVICE_ENDING);
  assert_int_equal(tick(fixture), DEVICE_DEMAND_NOTHING);
  device_policy_reaped(&fixture->policy, fixture->now_ns);
}

// Goes to when something is due, and checks that nothing is due a moment before.
static int64_t go_on(struct fixture *fixture) {
  int64_t next_ns = device_policy_next_ns(&fixture->policy);
  int64_t delay_ns = next_ns - fixture->now_ns;
  assert_true(delay_ns > 0 && next_ns != INT64_MAX);
  fixture->now_ns = next_ns - 1;
  assert_int_equal(tick(fixture), DEVICE_DEMAND_NOTHING);
  fixture->now_ns = next_ns;
  return delay_ns;
}

static void answer(struct fixture *fixture) {
  assert_true(
      device_policy_pong(&fixture->policy, device_policy_ping_sequence(&fixture->policy), fixture->now_ns));
}

// ---- Starts

static void the_first_start_is_due_at_once(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  assert_int_equal(fixture.policy.state, DEVICE_DOWN);
  assert_true(device_policy_has_hope(&fixture.policy));
  assert_int_equal(device_policy_next_ns(&fixture.policy), fixture.now_ns);
  bring_up(&fixture);
  assert_int_equal(fixture.policy.restarts, 0);
}

static void backoff_doubles_up_to_its_limit(void **unused) {
  (void)unused;
  static const int64_t expected_ms[] = {100, 200, 400, 800, 1600, 3200, 5000};
  struct fixture fixture;
  begin(&fixture);
  for (size_t i = 0; i < sizeof expected_ms / sizeof expected_ms[0]; i++) {
    bring_up(&fixture);
    die(&fixture, true);
    assert_int_equal(fixture.policy.state, DEVICE_DOWN);
    assert_int_equal(go_on(&fixture), expected_ms[i] * MS);
  }
  start(&fixture);
  assert_int_equal(fixture.policy.restarts, 7);
}

static void eight_deaths_give_a_device_up(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  for (int i = 0; i < 8; i++) {
    assert_true(device_policy_has_hope(&fixture.policy));
    start(&fixture);
    die(&fixture, true);
    if (i < 7) {
      go_on(&fixture);
    }
  }
  assert_int_equal(fixture.policy.state, DEVICE_GIVEN_UP);
  assert_false(device_policy_has_hope(&fixture.policy));
}

static void fail_starts(struct fixture *fixture, int count) {
  for (int i = 0; i < count; i++) {
    assert_int_equal(tick(fixture), DEVICE_DEMAND_START);
    device_policy_start_failed(&fixture->policy, fixture->now_ns);
    if (i < count - 1) {
      go_on(fixture);
    }
  }
}

static void starts_that_fail_are_deaths(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  fail_starts(&fixture, 8);
  assert_int_equal(fixture.policy.state, DEVICE_GIVEN_UP);
  assert_int_equal(fixture.policy.restarts, 0);
}

static void a_device_that_was_given_up_is_tried_again_slowly(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  fail_starts(&fixture, 8);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(go_on(&fixture), 60 * SECOND);
    start(&fixture);
    // Nobody waits for it meanwhile.
    assert_false(device_policy_has_hope(&fixture.policy));
    die(&fixture, true);
    assert_int_equal(fixture.policy.state, DEVICE_GIVEN_UP);
  }
  go_on(&fixture);
  bring_up(&fixture);
  assert_true(device_policy_has_hope(&fixture.policy));
}

static void one_finished_job_forgives_all_deaths(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  fail_starts(&fixture, 7);
  go_on(&fixture);
  bring_up(&fixture);
  device_policy_job_began(&fixture.policy, fixture.now_ns);
  device_policy_job_ended(&fixture.policy);
  device_policy_job_finished(&fixture.policy);
  die(&fixture, true);
  assert_int_equal(fixture.policy.state, DEVICE_DOWN);
  assert_int_equal(fixture.policy.deaths, 1);
  assert_int_equal(go_on(&fixture), 100 * MS);
}

static void being_up_alone_forgives_nothing(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  fail_starts(&fixture, 7);
  go_on(&fixture);
  bring_up(&fixture);
  die(&fixture, true);
  assert_int_equal(fixture.policy.state, DEVICE_GIVEN_UP);
}

static void deaths_under_a_poisonous_job_are_not_counted(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  for (int i = 0; i < 20; i++) {
    bring_up(&fixture);
    die(&fixture, false);
    assert_int_equal(fixture.policy.deaths, 0);
    assert_int_equal(go_on(&fixture), 100 * MS);
  }
}

static void a_forgiven_death_does_not_count(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  device_policy_forgive(&fixture.policy, fixture.now_ns); // none to forgive
  fail_starts(&fixture, 7);
  device_policy_forgive(&fixture.policy, fixture.now_ns);
  assert_int_equal(fixture.policy.deaths, 6);
  go_on(&fixture);
  bring_up(&fixture);
  die(&fixture, true);
  assert_int_equal(fixture.policy.state, DEVICE_DOWN);
}

static void forgiveness_brings_a_given_up_device_back(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  fail_starts(&fixture, 8);
  assert_int_equal(fixture.policy.state, DEVICE_GIVEN_UP);
  device_policy_forgive(&fixture.policy, fixture.now_ns);
  assert_true(device_policy_has_hope(&fixture.policy));
  bring_up(&fixture);
}

// ---- Judging a process

static void a_start_has_a_limit(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  start(&fixture);
  int64_t end_ns = fixture.now_ns + limits.start_ns;
  // It never answers: before the first answer only the limit of the start counts.
  while (fixture.now_ns < end_ns - SECOND) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  }
  go_on(&fixture);
  assert_int_equal(fixture.now_ns, end_ns);
  expect_kill(&fixture, "ready in time");
}

static void pings_come_four_times_in_a_timeout(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  for (uint64_t i = 1; i <= 100; i++) {
    assert_int_equal(go_on(&fixture), SECOND);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
    assert_int_equal(device_policy_ping_sequence(&fixture.policy), i);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_NOTHING);
    answer(&fixture);
  }
}

static void a_worker_that_falls_silent_is_killed(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  answer(&fixture);
  int64_t first_ns = fixture.now_ns + SECOND;
  for (int i = 0; i < 4; i++) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  }
  go_on(&fixture);
  assert_int_equal(fixture.now_ns - first_ns, limits.heartbeat_ns);
  expect_kill(&fixture, "doesn't answer");
}

static void a_worker_that_is_silent_from_the_moment_it_is_ready_is_killed(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  start(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING); // it is loading and doesn't answer
  device_policy_ready(&fixture.policy, fixture.now_ns);
  for (int i = 0; i < 3; i++) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  }
  go_on(&fixture);
  expect_kill(&fixture, "doesn't answer");
}

static void a_silent_worker_is_killed_while_it_starts_too(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  start(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  answer(&fixture);
  for (int i = 0; i < 4; i++) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  }
  go_on(&fixture);
  expect_kill(&fixture, "doesn't answer");
}

// The server itself was held up: the worker had no ping to answer.
static void a_server_that_was_held_up_accuses_nobody(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  answer(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  fixture.now_ns += 1000 * SECOND;
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_NOTHING);
  answer(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
}

static void a_late_answer_counts(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 3; i++) {
      go_on(&fixture);
      assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
    }
    // Only the first of the three.
    uint64_t sequence = device_policy_ping_sequence(&fixture.policy);
    assert_true(device_policy_pong(&fixture.policy, sequence - 2, fixture.now_ns));
    assert_true(device_policy_pong(&fixture.policy, sequence, fixture.now_ns));
  }
}

static void answers_nobody_asked_for_are_refused(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  assert_false(device_policy_pong(&fixture.policy, 0, fixture.now_ns));
  assert_false(device_policy_pong(&fixture.policy, 1, fixture.now_ns));
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  assert_false(device_policy_pong(&fixture.policy, 2, fixture.now_ns));
  assert_true(device_policy_pong(&fixture.policy, 1, fixture.now_ns));
  assert_false(device_policy_pong(&fixture.policy, 1, fixture.now_ns));
}

static void a_new_process_begins_with_fresh_pings(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  for (int i = 0; i < 3; i++) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  }
  die(&fixture, true);
  go_on(&fixture);
  bring_up(&fixture);
  go_on(&fixture);
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
  assert_int_equal(device_policy_ping_sequence(&fixture.policy), 1);
}

static void a_job_has_a_limit(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  fixture.now_ns += 500 * MS;
  device_policy_job_began(&fixture.policy, fixture.now_ns);
  int64_t end_ns = fixture.now_ns + limits.job_ns;
  while (device_policy_next_ns(&fixture.policy) < end_ns) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
    answer(&fixture);
  }
  go_on(&fixture);
  assert_int_equal(fixture.now_ns, end_ns);
  expect_kill(&fixture, "longer than jobs may");
}

static void an_ended_job_has_no_limit(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  device_policy_job_began(&fixture.policy, fixture.now_ns);
  device_policy_job_ended(&fixture.policy);
  for (int i = 0; i < 200; i++) {
    go_on(&fixture);
    assert_int_equal(tick(&fixture), DEVICE_DEMAND_PING);
    answer(&fixture);
  }
}

// ---- Quarantine

static void a_quarantined_device_ends_and_stays_down(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  assert_false(device_policy_is_quarantined(&fixture.policy));
  device_policy_quarantine(&fixture.policy);
  assert_true(device_policy_is_quarantined(&fixture.policy));
  assert_false(device_policy_has_hope(&fixture.policy));
  die(&fixture, true);
  assert_int_equal(fixture.policy.state, DEVICE_QUARANTINED);
  fixture.now_ns += 100000 * SECOND;
  assert_int_equal(tick(&fixture), DEVICE_DEMAND_NOTHING);
  assert_int_equal(device_policy_next_ns(&fixture.policy), INT64_MAX);
}

static void a_device_without_a_process_is_quarantined_at_once(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  die(&fixture, true);
  device_policy_quarantine(&fixture.policy);
  assert_int_equal(fixture.policy.state, DEVICE_QUARANTINED);
  assert_false(device_policy_has_process(&fixture.policy));
}

static void quarantine_reaches_a_process_that_is_ending(void **unused) {
  (void)unused;
  struct fixture fixture;
  begin(&fixture);
  bring_up(&fixture);
  device_policy_lost(&fixture.policy, true);
  device_policy_quarantine(&fixture.policy);
  assert_int_equal(fixture.policy.state, DEVICE_ENDING);
  device_policy_reaped(&fixture.policy, fixture.now_ns);
  assert_int_equal(fixture.policy.state, DEVICE_QUARANTINED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_start_is_due_at_once),
      cmocka_unit_test(backoff_doubles_up_to_its_limit),
      cmocka_unit_test(eight_deaths_give_a_device_up),
      cmocka_unit_test(starts_that_fail_are_deaths),
      cmocka_unit_test(a_device_that_was_given_up_is_tried_again_slowly),
      cmocka_unit_test(one_finished_job_forgives_all_deaths),
      cmocka_unit_test(being_up_alone_forgives_nothing),
      cmocka_unit_test(deaths_under_a_poisonous_job_are_not_counted),
      cmocka_unit_test(a_forgiven_death_does_not_count),
      cmocka_unit_test(forgiveness_brings_a_given_up_device_back),
      cmocka_unit_test(a_start_has_a_limit),
      cmocka_unit_test(pings_come_four_times_in_a_timeout),
      cmocka_unit_test(a_worker_that_falls_silent_is_killed),
      cmocka_unit_test(a_worker_that_is_silent_from_the_moment_it_is_ready_is_killed),
      cmocka_unit_test(a_silent_worker_is_killed_while_it_starts_too),
      cmocka_unit_test(a_server_that_was_held_up_accuses_nobody),
      cmocka_unit_test(a_late_answer_counts),
      cmocka_unit_test(answers_nobody_asked_for_are_refused),
      cmocka_unit_test(a_new_process_begins_with_fresh_pings),
      cmocka_unit_test(a_job_has_a_limit),
      cmocka_unit_test(an_ended_job_has_no_limit),
      cmocka_unit_test(a_quarantined_device_ends_and_stays_down),
      cmocka_unit_test(a_device_without_a_process_is_quarantined_at_once),
      cmocka_unit_test(quarantine_reaches_a_process_that_is_ending),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
