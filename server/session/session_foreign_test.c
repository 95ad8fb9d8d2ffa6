#include "server/session/session_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void foreign_one_shot_is_adopted_and_used_once(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  struct session_grant grant = insert(origin, false, 1000);
  check_foreign(table, &grant);
  check_foreign(table, &grant); // asking alone changes nothing
  struct executor *executor = adopt(table, &grant);
  assert_int_equal(executor_plan(executor)->workspace_bytes, WORKSPACE_BYTES);
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  check_adopt_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  session_release(table, executor);
  use(table, hold(table, &grant)); // known here now
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  check_adopt_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  destroy(table, &grant);
  check_counts(table, 0, 1, 1, 0, 0);
  pass_ms(999);
  assert_int_equal(session_table_expire(table), read_steady(&clocks) + 1); // remembered until then
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  pass_ms(1);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_adopt_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_counts(table, 0, 1, 1, 0, 0);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void foreign_handle_tells_whether_its_job_may_move(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  for (int automatic = 0; automatic < 2; automatic++) {
    struct plan plan = make_plan();
    plan.target = TARGET_NPU;
    plan.automatic = automatic;
    struct session_grant grant;
    struct session_foreign foreign = {.automatic = !automatic};
    struct executor *executor;
    struct status status;
    assert_true(session_insert(origin, &plan, false, 1000, "me", request, REQUEST_BYTES, &grant, &status));
    assert_int_equal(
        session_hold(table, grant.handle, grant.handle_bytes, "me", &executor, &foreign, &status),
        SESSION_FOREIGN);
    assert_int_equal(foreign.target, TARGET_NPU);
    assert_int_equal(foreign.automatic, automatic);
    assert_true(session_adopt(table, grant.handle, grant.handle_bytes, "me", &plan, &executor, &status));
    assert_int_equal(executor_plan(executor)->automatic, automatic);
    session_release(table, executor);
  }
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void foreign_repeatable_is_adopted_and_remembered(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  struct session_grant grant = insert(origin, true, 1000);
  check_foreign(table, &grant);
  struct executor *first = adopt(table, &grant), *second = adopt(table, &grant);
  assert_ptr_equal(first, second); // the other call's
  use(table, first);
  use(table, second);
  pass_ms(999);
  use(table, hold(table, &grant)); // renewed, as at home
  pass_ms(999);
  use(table, hold(table, &grant));
  pass_ms(1000);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_adopt_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_counts(table, 0, 1, 0, 0, 1);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void foreign_handle_destroyed_here_is_not_adopted(void **state) {
  (void)state;
  for (int adopted = 0; adopted < 2; adopted++) {
    struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
    struct session_grant once = insert(origin, false, 1000), often = insert(origin, true, 1000);
    if (adopted) {
      session_release(table, adopt(table, &once));
      session_release(table, adopt(table, &often));
    }
    for (int i = 0; i < 2; i++) {
      destroy(table, &once);
      destroy(table, &often);
    }
    check_refused(table, &once, REASON_EXECUTOR_CONSUMED);
    check_refused(table, &often, REASON_EXECUTOR_EXPIRED);
    check_adopt_refused(table, &once, REASON_EXECUTOR_CONSUMED);
    check_adopt_refused(table, &often, REASON_EXECUTOR_EXPIRED);
    check_counts(table, 0, 2 * (uint64_t)adopted, 0, 2 * (uint64_t)adopted, 0);
    session_release(origin, hold(origin, &once)); // at home it is untouched
    pass_ms(1000);
    assert_int_equal(session_table_expire(table), INT64_MAX);
    session_table_destroy(table);
    session_table_destroy(origin);
  }
}

static void held_foreign_one_shot_outlives_its_expiry(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  struct session_grant grant = insert(origin, false, 1000);
  struct executor *executor = adopt(table, &grant);
  pass_ms(1000);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  use(table, executor);
  check_counts(table, 0, 1, 1, 0, 0);
  assert_int_equal(session_table_next_expiry(table), INT64_MAX); // nothing needs to be remembered
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void expired_foreign_handle_is_not_found(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  struct session_grant once = insert(origin, false, 1000), often = insert(origin, true, 1000);
  atomic_fetch_add(&clocks.unix_ms, 1000); // only the wall clock means something to another replica
  check_refused(table, &once, REASON_EXECUTOR_EXPIRED);
  check_refused(table, &often, REASON_EXECUTOR_EXPIRED);
  check_adopt_refused(table, &once, REASON_EXECUTOR_EXPIRED);
  destroy(table, &once); // opens, so that succeeds
  assert_int_equal(session_table_next_expiry(table), INT64_MAX);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void foreign_plan_that_differs_is_not_adopted(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(10, 1);
  struct session_grant grant = insert(origin, false, 1000);
  struct plan plans[2] = {make_plan(), make_plan()};
  plans[0].target = TARGET_NPU;
  plans[1].workspace_bytes = WORKSPACE_BYTES + 1;
  for (size_t i = 0; i < 2; i++) {
    struct executor *executor;
    struct status status;
    assert_false(session_adopt(table, grant.handle, grant.handle_bytes, "me", &plans[i], &executor, &status));
    assert_int_equal(status.reason, REASON_EXECUTOR_EXPIRED);
  }
  use(table, adopt(table, &grant));
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void foreign_handles_are_limited_on_their_own(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(2, 1);
  struct session_grant grants[4];
  for (size_t i = 0; i < 4; i++) {
    grants[i] = insert(origin, false, 1000);
  }
  use(table, adopt(table, &grants[0])); // these two are remembered ...
  destroy(table, &grants[1]);
  check_adopt_refused(table, &grants[2], REASON_EXECUTOR_LIMIT);
  destroy(table, &grants[3]); // succeeds, but there is no room to remember it
  check_foreign(table, &grants[3]);
  check_adopt_refused(table, &grants[3], REASON_EXECUTOR_LIMIT);
  struct session_grant own[2] = {insert(table, false, 0), insert(table, false, 0)}; // ... and in nobody's way
  check_adopt_refused(table, &grants[2], REASON_EXECUTOR_LIMIT);
  pass_ms(1000);
  struct session_grant late = insert(origin, false, 1000);
  check_adopt_refused(table, &late, REASON_EXECUTOR_LIMIT); // the own ones fill the table
  use(table, hold(table, &own[0]));
  use(table, adopt(table, &late));
  check_counts(table, 1, 4, 3, 0, 0);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void expired_foreign_handles_make_room(void **state) {
  (void)state;
  struct session_table *origin = make_first_table(10), *table = make_table(1, 1);
  for (int round = 0; round < 3; round++) {
    struct session_grant grant = insert(origin, round == 1, 1000);
    session_release(table, adopt(table, &grant));
    pass_ms(1000);
  }
  check_counts(table, 1, 3, 0, 0, 2);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  session_table_destroy(table);
  session_table_destroy(origin);
}

static void handle_of_an_earlier_life_is_foreign(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, false, 0);
  session_table_destroy(table);
  table = make_table(10, 1);
  (void)insert(table, false, 0); // has the same id as the first in the earlier life
  check_foreign(table, &grant);
  use(table, adopt(table, &grant));
  session_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(foreign_one_shot_is_adopted_and_used_once),
      cmocka_unit_test(foreign_handle_tells_whether_its_job_may_move),
      cmocka_unit_test(foreign_repeatable_is_adopted_and_remembered),
      cmocka_unit_test(foreign_handle_destroyed_here_is_not_adopted),
      cmocka_unit_test(held_foreign_one_shot_outlives_its_expiry),
      cmocka_unit_test(expired_foreign_handle_is_not_found),
      cmocka_unit_test(foreign_plan_that_differs_is_not_adopted),
      cmocka_unit_test(foreign_handles_are_limited_on_their_own),
      cmocka_unit_test(expired_foreign_handles_make_room),
      cmocka_unit_test(handle_of_an_earlier_life_is_foreign),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
