#include "server/session/session_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void grant_tells_ttl_and_expiry(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  const int64_t asked[] = {0, 1, TTL_MAX_MS, TTL_MAX_MS + 1, INT64_MAX};
  const int64_t granted[] = {TTL_DEFAULT_MS, 1, TTL_MAX_MS, TTL_MAX_MS, TTL_MAX_MS};
  for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
    struct session_grant grant = insert(table, false, asked[i]);
    assert_int_equal(grant.ttl_ms, granted[i]);
    assert_int_equal(grant.expire_unix_ms, 1700000000000 + granted[i]);
    assert_true(grant.handle_bytes > REQUEST_BYTES && grant.handle_bytes <= SESSION_HANDLE_BYTES_MAX);
  }
  session_table_destroy(table);
}

static void negative_ttl_is_refused(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant;
  struct status status;
  struct plan plan = make_plan();
  assert_false(session_insert(table, &plan, false, -1, "me", request, REQUEST_BYTES, &grant, &status));
  assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
  assert_string_equal(status.parameter, "ttl_ms");
  check_counts(table, 0, 0, 0, 0, 0);
  session_table_destroy(table);
}

static void request_too_large_for_a_handle_is_an_error(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  const size_t sizes[] = {SESSION_HANDLE_BYTES_MAX - 1, SESSION_HANDLE_BYTES_MAX + 1};
  uint8_t *large = calloc(1, SESSION_HANDLE_BYTES_MAX + 1);
  for (size_t i = 0; i < 2; i++) {
    struct session_grant grant;
    struct status status;
    struct plan plan = make_plan();
    assert_false(session_insert(table, &plan, false, 0, "me", large, sizes[i], &grant, &status));
    assert_int_equal(status.reason, REASON_INTERNAL);
  }
  check_counts(table, 0, 0, 0, 0, 0);
  free(large);
  session_table_destroy(table);
}

static void held_executor_has_its_plan(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant once = insert(table, false, 0), often = insert(table, true, 0);
  struct executor *one_shot = hold(table, &once), *repeatable = hold(table, &often);
  assert_int_equal(executor_plan(one_shot)->workspace_bytes, WORKSPACE_BYTES);
  assert_false(executor_is_repeatable(one_shot));
  assert_true(executor_is_repeatable(repeatable));
  session_release(table, one_shot);
  session_release(table, repeatable);
  check_counts(table, 2, 2, 0, 0, 0);
  session_table_destroy(table);
}

static void one_shot_is_used_once(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, false, 0);
  struct executor *executor = hold(table, &grant);
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED); // held by another job
  session_release(table, executor);                       // which gives it back
  executor = hold(table, &grant);
  session_consume(table, executor);
  check_counts(table, 0, 1, 1, 0, 0);
  session_consume(table, executor); // once is enough
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  assert_int_equal(executor_plan(executor)->workspace_bytes, WORKSPACE_BYTES); // the hold stays
  session_release(table, executor);
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  pass_ms(TTL_DEFAULT_MS - 1);
  check_refused(table, &grant, REASON_EXECUTOR_CONSUMED);
  pass_ms(1);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_counts(table, 0, 1, 1, 0, 0);
  session_table_destroy(table);
}

static void repeatable_is_used_often_and_at_once(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, true, 0);
  struct executor *first = hold(table, &grant), *second = hold(table, &grant);
  assert_ptr_equal(first, second);
  use(table, first);
  use(table, second);
  use(table, hold(table, &grant));
  check_counts(table, 1, 1, 0, 0, 0);
  session_table_destroy(table);
}

static void each_use_renews_a_repeatable(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, true, 1000);
  for (int i = 0; i < 5; i++) {
    pass_ms(999);
    assert_int_equal(session_table_expire(table), read_steady(&clocks) + 1);
    use(table, hold(table, &grant));
    assert_int_equal(session_table_next_expiry(table), read_steady(&clocks) + 1000);
  }
  pass_ms(1000);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_counts(table, 0, 1, 0, 0, 1);
  session_table_destroy(table);
}

static void expired_handle_is_not_found(void **state) {
  (void)state;
  for (int timer = 0; timer < 2; timer++) { // whether the timer or the next caller notices first
    for (int repeatable = 0; repeatable < 2; repeatable++) {
      struct session_table *table = make_first_table(10);
      struct session_grant grant = insert(table, repeatable, 50);
      pass_ms(49);
      assert_int_equal(session_table_expire(table), 1050);
      session_release(table, hold(table, &grant));
      pass_ms(repeatable ? 50 : 1);
      if (timer) {
        assert_int_equal(session_table_expire(table), INT64_MAX);
        check_counts(table, 0, 1, 0, 0, 1);
      }
      check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
      assert_int_equal(session_table_expire(table), INT64_MAX);
      check_counts(table, 0, 1, 0, 0, 1);
      session_table_destroy(table);
    }
  }
}

static void wall_clock_does_not_expire_own_handles(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant used = insert(table, false, 0), kept = insert(table, false, 0);
  use(table, hold(table, &used));
  atomic_fetch_add(&clocks.unix_ms, 1000000000); // somebody sets it
  check_refused(table, &used, REASON_EXECUTOR_CONSUMED);
  session_release(table, hold(table, &kept));
  atomic_fetch_sub(&clocks.unix_ms, 2000000000);
  atomic_fetch_add(&clocks.steady_ms, TTL_DEFAULT_MS);
  check_refused(table, &used, REASON_EXECUTOR_EXPIRED);
  check_refused(table, &kept, REASON_EXECUTOR_EXPIRED);
  session_table_destroy(table);
}

static void expiry_does_not_touch_a_held_one_shot(void **state) {
  (void)state;
  for (int timer = 0; timer < 2; timer++) {
    for (int consumed = 0; consumed < 2; consumed++) {
      struct session_table *table = make_first_table(10);
      struct session_grant grant = insert(table, false, 50);
      struct executor *executor = hold(table, &grant);
      pass_ms(50);
      if (timer) {
        assert_int_equal(session_table_expire(table), INT64_MAX);
      }
      check_refused(table, &grant, REASON_EXECUTOR_CONSUMED); // still held
      check_counts(table, 1, 1, 0, 0, 0);
      assert_int_equal(executor_plan(executor)->workspace_bytes, WORKSPACE_BYTES);
      if (consumed) {
        session_consume(table, executor);
      }
      session_release(table, executor);
      check_counts(table, 0, 1, consumed, 0, !consumed); // gone, if nobody ever asks for it again
      check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
      assert_int_equal(session_table_expire(table), INT64_MAX);
      check_counts(table, 0, 1, consumed, 0, !consumed);
      session_table_destroy(table);
    }
  }
}

static void expired_repeatable_stays_with_its_jobs(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, true, 50);
  struct executor *first = hold(table, &grant), *second = hold(table, &grant);
  pass_ms(50);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  check_refused(table, &grant, REASON_EXECUTOR_EXPIRED);
  check_counts(table, 0, 1, 0, 0, 1);
  session_release(table, first);
  assert_int_equal(executor_plan(second)->workspace_bytes, WORKSPACE_BYTES);
  use(table, second);
  check_counts(table, 0, 1, 0, 0, 1);
  session_table_destroy(table);
}

static void destroyed_executor_is_gone(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant once = insert(table, false, 0), often = insert(table, true, 0);
  for (int i = 0; i < 2; i++) { // again is fine
    destroy(table, &once);
    destroy(table, &often);
    check_counts(table, 0, 2, 0, 2, 0);
    check_refused(table, &once, REASON_EXECUTOR_CONSUMED);
    check_refused(table, &often, REASON_EXECUTOR_EXPIRED);
  }
  pass_ms(TTL_DEFAULT_MS);
  check_refused(table, &once, REASON_EXECUTOR_EXPIRED);
  destroy(table, &once);
  assert_int_equal(session_table_next_expiry(table), INT64_MAX);
  session_table_destroy(table);
}

static void destroy_does_not_touch_a_held_executor(void **state) {
  (void)state;
  for (int consumed = 0; consumed < 2; consumed++) {
    struct session_table *table = make_first_table(10);
    struct session_grant once = insert(table, false, 0), often = insert(table, true, 0);
    struct executor *one_shot = hold(table, &once), *repeatable = hold(table, &often);
    destroy(table, &once);
    destroy(table, &often);
    assert_int_equal(executor_plan(one_shot)->workspace_bytes, WORKSPACE_BYTES);
    assert_int_equal(executor_plan(repeatable)->workspace_bytes, WORKSPACE_BYTES);
    if (consumed) {
      session_consume(table, one_shot);
    }
    session_release(table, one_shot);
    session_release(table, repeatable);
    check_refused(table, &once, REASON_EXECUTOR_CONSUMED); // giving it back doesn't bring it back
    check_refused(table, &often, REASON_EXECUTOR_EXPIRED);
    check_counts(table, 0, 2, 0, 2, 0);
    session_table_destroy(table);
  }
}

// All three functions that take a handle must refuse it alike.
static void check_never_opens(struct session_table *table, const uint8_t *handle, size_t bytes,
                              const char *identity, enum reason reason) {
  struct session_foreign foreign;
  struct executor *executor;
  struct status status;
  struct plan plan = make_plan();
  assert_int_equal(session_hold(table, handle, bytes, identity, &executor, &foreign, &status),
                   SESSION_REFUSED);
  assert_int_equal(status.reason, reason);
  assert_false(session_adopt(table, handle, bytes, identity, &plan, &executor, &status));
  assert_int_equal(status.reason, reason);
  assert_false(session_destroy(table, handle, bytes, identity, &status));
  assert_int_equal(status.reason, reason);
}

static void handle_of_another_identity_does_not_open(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  struct session_grant grant = insert(table, false, 0);
  const char *others[] = {"", "m", "mee", "ME", "you"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    check_never_opens(table, grant.handle, grant.handle_bytes, others[i], REASON_EXECUTOR_INVALID);
  }
  session_release(table, hold(table, &grant)); // its owner still has it
  session_table_destroy(table);
}

static void handle_that_was_not_sealed_here_does_not_open(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10), *stranger = make_table(10, 2);
  struct session_grant grant = insert(table, false, 0), strange = insert(stranger, false, 0);
  check_never_opens(table, strange.handle, strange.handle_bytes, "me", REASON_EXECUTOR_INVALID);
  for (size_t i = 0; i < grant.handle_bytes; i++) {
    grant.handle[i] ^= 0x10;
    check_never_opens(table, grant.handle, grant.handle_bytes, "me",
                      i == 0 ? REASON_EXECUTOR_EXPIRED : REASON_EXECUTOR_INVALID);
    grant.handle[i] ^= 0x10;
    check_never_opens(table, grant.handle, i, "me", REASON_EXECUTOR_INVALID); // cut short
  }
  check_never_opens(table, grant.handle, SESSION_HANDLE_BYTES_MAX + 1, "me", REASON_EXECUTOR_INVALID);
  session_release(table, hold(table, &grant));
  session_table_destroy(stranger);
  session_table_destroy(table);
}

static void full_table_refuses_with_advice(void **state) {
  (void)state;
  struct session_table *table = make_first_table(3);
  struct session_grant grants[3], refused;
  struct status status;
  struct plan plan = make_plan();
  const int64_t ttls[] = {500, 20000, 300};
  for (size_t i = 0; i < 3; i++) {
    grants[i] = insert(table, false, ttls[i]);
  }
  assert_false(session_insert(table, &plan, false, 0, "me", request, REQUEST_BYTES, &refused, &status));
  assert_int_equal(status.reason, REASON_EXECUTOR_LIMIT);
  assert_int_equal(status.retry_after_ms, 300); // when the first expires
  pass_ms(299);
  assert_false(session_insert(table, &plan, false, 0, "me", request, REQUEST_BYTES, &refused, &status));
  assert_int_equal(status.retry_after_ms, 50); // not at once
  pass_ms(1);
  (void)insert(table, false, 0); // takes the place of the expired one, timer or not
  use(table, hold(table, &grants[0]));
  (void)insert(table, true, 0);
  assert_false(session_insert(table, &plan, false, 0, "me", request, REQUEST_BYTES, &refused, &status));
  assert_int_equal(status.retry_after_ms, 1000); // not too late either
  destroy(table, &grants[1]);
  (void)insert(table, false, 0);
  check_counts(table, 3, 6, 1, 1, 1);
  session_table_destroy(table);
}

static void next_expiry_follows_what_is_inserted(void **state) {
  (void)state;
  struct session_table *table = make_first_table(10);
  assert_int_equal(session_table_next_expiry(table), INT64_MAX);
  (void)insert(table, false, 500);
  assert_int_equal(session_table_next_expiry(table), 1500);
  struct session_grant early = insert(table, false, 100);
  assert_int_equal(session_table_next_expiry(table), 1100);
  destroy(table, &early);
  assert_int_equal(session_table_next_expiry(table), 1500);
  session_table_destroy(table);
}

static void many_that_expire_together_expire_once_each(void **state) {
  (void)state;
  const size_t count = 100000;
  struct session_table *table = make_first_table(count);
  for (size_t i = 0; i < count; i++) {
    (void)insert(table, i % 2 == 0, 5000);
  }
  pass_ms(4999);
  assert_int_equal(session_table_expire(table), 6000);
  check_counts(table, count, count, 0, 0, 0);
  pass_ms(1);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  check_counts(table, 0, count, 0, 0, count);
  assert_int_equal(session_table_expire(table), INT64_MAX);
  check_counts(table, 0, count, 0, 0, count);
  session_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grant_tells_ttl_and_expiry),
      cmocka_unit_test(negative_ttl_is_refused),
      cmocka_unit_test(request_too_large_for_a_handle_is_an_error),
      cmocka_unit_test(held_executor_has_its_plan),
      cmocka_unit_test(one_shot_is_used_once),
      cmocka_unit_test(repeatable_is_used_often_and_at_once),
      cmocka_unit_test(each_use_renews_a_repeatable),
      cmocka_unit_test(expired_handle_is_not_found),
      cmocka_unit_test(wall_clock_does_not_expire_own_handles),
      cmocka_unit_test(expiry_does_not_touch_a_held_one_shot),
      cmocka_unit_test(expired_repeatable_stays_with_its_jobs),
      cmocka_unit_test(destroyed_executor_is_gone),
      cmocka_unit_test(destroy_does_not_touch_a_held_executor),
      cmocka_unit_test(handle_of_another_identity_does_not_open),
      cmocka_unit_test(handle_that_was_not_sealed_here_does_not_open),
      cmocka_unit_test(full_table_refuses_with_advice),
      cmocka_unit_test(next_expiry_follows_what_is_inserted),
      cmocka_unit_test(many_that_expire_together_expire_once_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
