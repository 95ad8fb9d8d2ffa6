#include "kernels/parallel.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANGE_MAX 1000

struct visits {
  size_t range;
  size_t tile;
  unsigned counts[RANGE_MAX]; // not atomic: each place belongs to one slice
  atomic_size_t wrong_slices;
};

static void visit(void *context, size_t begin, size_t end) {
  struct visits *visits = context;
  if (begin >= end || end > visits->range || end - begin > visits->tile) {
    atomic_fetch_add(&visits->wrong_slices, 1);
    return;
  }
  for (size_t i = begin; i < end; i++) {
    visits->counts[i]++;
  }
}

static void assert_visits_all_once(struct parallel *parallel, size_t range, size_t tile) {
  struct visits *visits = calloc(1, sizeof *visits);
  visits->range = range;
  visits->tile = tile;
  parallel_for(parallel, range, tile, visit, visits);
  assert_int_equal(atomic_load(&visits->wrong_slices), 0);
  for (size_t i = 0; i < RANGE_MAX; i++) {
    assert_int_equal(visits->counts[i], i < range ? 1 : 0);
  }
  free(visits);
}

static void assert_all_ranges(struct parallel *parallel) {
  static const size_t ranges[] = {0, 1, 2, 7, 64, 999, RANGE_MAX};
  static const size_t tiles[] = {1, 3, 64, 5000, SIZE_MAX};
  for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
    for (size_t t = 0; t < sizeof tiles / sizeof tiles[0]; t++) {
      assert_visits_all_once(parallel, ranges[r], tiles[t]);
    }
  }
}

static void every_place_is_visited_once_for_any_number_of_threads(void **state) {
  (void)state;
  static const size_t threads[] = {1, 2, 3, 7};
  for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
    struct parallel *parallel;
    struct status status;
    assert_true(parallel_create(threads[i], &parallel, &status));
    assert_int_equal(parallel_threads(parallel), threads[i]);
    assert_all_ranges(parallel);
    parallel_destroy(parallel);
  }
}

static void without_a_pool_the_calling_thread_does_it(void **state) {
  (void)state;
  assert_int_equal(parallel_threads(NULL), 1);
  assert_all_ranges(NULL);
  parallel_destroy(NULL);
}

static void no_number_means_the_processors_of_this_process(void **state) {
  (void)state;
  struct parallel *parallel;
  struct status status;
  assert_true(parallel_create(0, &parallel, &status));
  assert_int_equal(parallel_threads(parallel), parallel_processors());
  assert_all_ranges(parallel);
  parallel_destroy(parallel);
}

static void processors_are_those_that_the_process_may_use(void **state) {
  (void)state;
  cpu_set_t before;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  assert_int_equal(parallel_processors(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) {
    ++first;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(parallel_processors(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void loops_go_on_after_a_rest(void **state) {
  (void)state;
  static const size_t threads[] = {1, 2, 7};
  for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
    struct parallel *parallel;
    struct status status;
    assert_true(parallel_create(threads[i], &parallel, &status));
    parallel_rest(parallel);
    parallel_stay_awake(parallel);
    for (int turn = 0; turn < 50; turn++) {
      parallel_rest(parallel);
      assert_visits_all_once(parallel, 64, 1);
    }
    parallel_rest(parallel);
    parallel_rest(parallel);
    parallel_destroy(parallel);
  }
  parallel_rest(NULL);
}

static void an_absurd_number_of_threads_is_refused(void **state) {
  (void)state;
  struct parallel *parallel = NULL;
  struct status status;
  assert_false(parallel_create(SIZE_MAX, &parallel, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  assert_null(parallel);
}

struct denormal_sum {
  float values[64];
};

static void halve(void *context, size_t begin, size_t end) {
  struct denormal_sum *sum = context;
  for (size_t i = begin; i < end; i++) {
    sum->values[i] *= 0.5f;
  }
}

static void denormals_are_kept_on_all_threads(void **state) {
  (void)state;
  struct parallel *parallel;
  struct status status;
  assert_true(parallel_create(3, &parallel, &status));
  struct denormal_sum sum;
  for (size_t i = 0; i < 64; i++) {
    sum.values[i] = 0x1p-140f;
  }
  parallel_for(parallel, 64, 1, halve, &sum);
  for (size_t i = 0; i < 64; i++) {
    assert_true(sum.values[i] == 0x1p-141f);
  }
  parallel_destroy(parallel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_place_is_visited_once_for_any_number_of_threads),
      cmocka_unit_test(without_a_pool_the_calling_thread_does_it),
      cmocka_unit_test(no_number_means_the_processors_of_this_process),
      cmocka_unit_test(processors_are_those_that_the_process_may_use),
      cmocka_unit_test(loops_go_on_after_a_rest),
      cmocka_unit_test(an_absurd_number_of_threads_is_refused),
      cmocka_unit_test(denormals_are_kept_on_all_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
