#include "server/session/session_test_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct session_test_clocks clocks;

int64_t read_steady(void *context) {
  return atomic_load(&((struct session_test_clocks *)context)->steady_ms);
}

static int64_t read_unix(void *context) {
  return atomic_load(&((struct session_test_clocks *)context)->unix_ms);
}

void pass_ms(int64_t ms) {
  atomic_fetch_add(&clocks.steady_ms, ms);
  atomic_fetch_add(&clocks.unix_ms, ms);
}

struct session_table *make_table(size_t executors_max, uint8_t key) {
  struct session_options options = {
      .executors_max = executors_max,
      .ttl_default_ms = TTL_DEFAULT_MS,
      .ttl_max_ms = TTL_MAX_MS,
      .key = {key},
      .steady_ms = read_steady,
      .unix_ms = read_unix,
      .clock_context = &clocks,
  };
  struct session_table *table;
  struct status status;
  assert_true(session_table_create(&options, &table, &status));
  return table;
}

struct session_table *make_first_table(size_t executors_max) {
  atomic_store(&clocks.steady_ms, 1000);
  atomic_store(&clocks.unix_ms, 1700000000000);
  return make_table(executors_max, 1);
}

struct plan make_plan(void) {
  return (struct plan){.target = TARGET_CPU, .workspace_bytes = WORKSPACE_BYTES};
}

const uint8_t request[REQUEST_BYTES] = "a serialised request";

struct session_grant insert(struct session_table *table, bool repeatable, int64_t ttl_ms) {
  struct session_grant grant;
  struct status status;
  struct plan plan = make_plan();
  assert_true(
      session_insert(table, &plan, repeatable, ttl_ms, "me", request, REQUEST_BYTES, &grant, &status));
  return grant;
}

static enum session_hold_outcome try_hold(struct session_table *table, const struct session_grant *grant,
                                          struct executor **executor, struct status *status) {
  struct session_foreign foreign;
  return session_hold(table, grant->handle, grant->handle_bytes, "me", executor, &foreign, status);
}

struct executor *hold(struct session_table *table, const struct session_grant *grant) {
  struct executor *executor;
  struct status status;
  assert_int_equal(try_hold(table, grant, &executor, &status), SESSION_HELD);
  return executor;
}

void check_refused(struct session_table *table, const struct session_grant *grant, enum reason reason) {
  struct executor *executor;
  struct status status;
  assert_int_equal(try_hold(table, grant, &executor, &status), SESSION_REFUSED);
  assert_int_equal(status.reason, reason);
  assert_string_equal(status.parameter, "executor");
}

void check_foreign(struct session_table *table, const struct session_grant *grant) {
  struct session_foreign foreign;
  struct executor *executor;
  struct status status;
  assert_int_equal(
      session_hold(table, grant->handle, grant->handle_bytes, "me", &executor, &foreign, &status),
      SESSION_FOREIGN);
  assert_int_equal(foreign.request_bytes, REQUEST_BYTES);
  assert_memory_equal(foreign.request, request, REQUEST_BYTES);
  assert_int_equal(foreign.target, TARGET_CPU);
}

static bool try_adopt(struct session_table *table, const struct session_grant *grant,
                      struct executor **executor, struct status *status) {
  struct plan plan = make_plan();
  return session_adopt(table, grant->handle, grant->handle_bytes, "me", &plan, executor, status);
}

struct executor *adopt(struct session_table *table, const struct session_grant *grant) {
  struct executor *executor;
  struct status status;
  assert_true(try_adopt(table, grant, &executor, &status));
  return executor;
}

void check_adopt_refused(struct session_table *table, const struct session_grant *grant, enum reason reason) {
  struct executor *executor;
  struct status status;
  assert_false(try_adopt(table, grant, &executor, &status));
  assert_int_equal(status.reason, reason);
}

void destroy(struct session_table *table, const struct session_grant *grant) {
  struct status status;
  assert_true(session_destroy(table, grant->handle, grant->handle_bytes, "me", &status));
}

void check_counts(struct session_table *table, size_t executors, uint64_t created, uint64_t consumed,
                  uint64_t destroyed, uint64_t expired) {
  struct session_state state;
  session_table_get_state(table, &state);
  assert_int_equal(state.executors, executors);
  assert_int_equal(state.created, created);
  assert_int_equal(state.consumed, consumed);
  assert_int_equal(state.destroyed, destroyed);
  assert_int_equal(state.expired, expired);
  assert_int_equal(state.created, state.executors + state.consumed + state.destroyed + state.expired);
}

void use(struct session_table *table, struct executor *executor) {
  session_consume(table, executor);
  session_release(table, executor);
}
