#include "client/c/retry.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void limit_follows_the_options(void **state) {
  (void)state;
  assert_int_equal(retry_limit(&(aclnn_client_options){.retries = 0}), RETRIES_DEFAULT);
  assert_int_equal(retry_limit(&(aclnn_client_options){.retries = 5}), 5);
  assert_int_equal(retry_limit(&(aclnn_client_options){.retries = -1}), 0);
}

static void pause_doubles_up_to_its_bound(void **state) {
  (void)state;
  assert_int_equal(retry_pause_ms(0, 0, 0), RETRY_PAUSE_FIRST_MS);
  assert_int_equal(retry_pause_ms(1, 0, 0), 2 * RETRY_PAUSE_FIRST_MS);
  assert_int_equal(retry_pause_ms(3, 0, 0), 8 * RETRY_PAUSE_FIRST_MS);
  assert_int_equal(retry_pause_ms(1000000, 0, 0), RETRY_PAUSE_MAX_MS);
}

static void server_is_given_the_time_that_it_asked_for(void **state) {
  (void)state;
  assert_int_equal(retry_pause_ms(0, 30000, 0), 30000);
  assert_int_equal(retry_pause_ms(3, 10, 0), 8 * RETRY_PAUSE_FIRST_MS);
}

static void jitter_adds_at_most_a_quarter(void **state) {
  (void)state;
  assert_in_range(retry_pause_ms(0, 0, UINT32_MAX), RETRY_PAUSE_FIRST_MS + 1, RETRY_PAUSE_FIRST_MS * 5 / 4);
  assert_true(retry_pause_ms(0, INT64_MAX / 2, UINT32_MAX) >= INT64_MAX / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limit_follows_the_options),
      cmocka_unit_test(pause_doubles_up_to_its_bound),
      cmocka_unit_test(server_is_given_the_time_that_it_asked_for),
      cmocka_unit_test(jitter_adds_at_most_a_quarter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
