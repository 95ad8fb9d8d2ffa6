#include "client/c/lease.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdlib.h>

#define RETURNS 1000

struct returns {
  struct lease *lease;
  atomic_int returned;
};

static void *return_all(void *context) {
  struct returns *returns = context;
  for (int i = 0; i < RETURNS; i++) {
    atomic_fetch_add(&returns->returned, 1);
    lease_return(returns->lease);
  }
  return NULL;
}

static void wait_ends_with_the_last_return(void **state) {
  (void)state;
  struct lease *lease = malloc(sizeof *lease);
  assert_non_null(lease);
  lease_init(lease);
  for (int i = 0; i < 2 * RETURNS; i++) {
    lease_take(lease);
  }
  struct returns returns = {.lease = lease};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, return_all, &returns), 0);
  }
  lease_wait(lease);
  assert_int_equal(atomic_load(&returns.returned), 2 * RETURNS);
  // What was waited for may be freed at once, even if the returning thread hasn't ended.
  lease_destroy(lease);
  free(lease);
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void nothing_lent_is_nothing_to_wait_for(void **state) {
  (void)state;
  struct lease lease;
  lease_init(&lease);
  lease_wait(&lease);
  lease_take(&lease);
  lease_return(&lease);
  lease_wait(&lease);
  assert_true(lease_wait_for(&lease, 0));
  lease_destroy(&lease);
}

static void wait_may_be_bounded(void **state) {
  (void)state;
  struct lease lease;
  lease_init(&lease);
  lease_take(&lease);
  assert_false(lease_wait_for(&lease, 0));
  assert_false(lease_wait_for(&lease, 1000000));
  lease_return(&lease);
  assert_true(lease_wait_for(&lease, INT64_C(3600) * 1000000000));
  lease_destroy(&lease);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wait_ends_with_the_last_return),
      cmocka_unit_test(nothing_lent_is_nothing_to_wait_for),
      cmocka_unit_test(wait_may_be_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
