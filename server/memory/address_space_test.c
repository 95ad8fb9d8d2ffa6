#include "server/memory/address_space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define GRANULE ((uint64_t)ADDRESS_SPACE_GRANULE_BYTES)

static struct address_range *take(struct address_space *space, uint64_t bytes) {
  struct address_range *range = address_space_take(space, bytes);
  assert_non_null(range);
  address_space_check(space);
  return range;
}

static void give(struct address_space *space, struct address_range *range) {
  address_space_give(space, range);
  address_space_check(space);
}

static void sizes_are_rounded_up_and_lie_side_by_side(void **state) {
  (void)state;
  struct address_space *space = address_space_create(16 * GRANULE);
  struct address_range *first = take(space, 1), *second = take(space, GRANULE + 1), *third = take(space, 64);
  assert_int_equal(first->offset, 0);
  assert_int_equal(first->bytes, GRANULE);
  assert_int_equal(second->offset, GRANULE);
  assert_int_equal(second->bytes, 2 * GRANULE);
  assert_int_equal(third->offset, 3 * GRANULE);
  give(space, first);
  give(space, third);
  give(space, second);
  address_space_destroy(space);
}

static void smallest_hole_that_fits_is_taken(void **state) {
  (void)state;
  struct address_space *space = address_space_create(100 * GRANULE);
  // Holes of 5, 3, 4 and 3 granules, between pieces that stay.
  const uint64_t holes[] = {5, 3, 4, 3};
  struct address_range *hole[4], *wall[4];
  for (size_t i = 0; i < 4; i++) {
    hole[i] = take(space, holes[i] * GRANULE);
    wall[i] = take(space, GRANULE);
  }
  uint64_t offsets[4];
  for (size_t i = 0; i < 4; i++) {
    offsets[i] = hole[i]->offset;
    give(space, hole[i]);
  }
  struct address_range *four = take(space, 4 * GRANULE);
  assert_int_equal(four->offset, offsets[2]);
  struct address_range *three = take(space, 3 * GRANULE);
  assert_int_equal(three->offset, offsets[1]); // the lower of two
  struct address_range *two = take(space, 2 * GRANULE);
  assert_int_equal(two->offset, offsets[3]);
  struct address_range *six = take(space, 6 * GRANULE);
  assert_int_equal(six->offset, wall[3]->offset + GRANULE);
  struct address_range *all[] = {four, three, two, six, wall[0], wall[1], wall[2], wall[3]};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    give(space, all[i]);
  }
  address_space_destroy(space);
}

static void given_back_neighbours_become_one(void **state) {
  (void)state;
  // Whatever the order in which they are given back.
  const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  struct address_space *space = address_space_create(3 * GRANULE);
  for (size_t order = 0; order < 6; order++) {
    struct address_range *ranges[3];
    for (size_t i = 0; i < 3; i++) {
      ranges[i] = take(space, GRANULE);
    }
    assert_null(address_space_take(space, 1));
    for (size_t i = 0; i < 3; i++) {
      give(space, ranges[orders[order][i]]);
    }
    struct address_range *whole = take(space, 3 * GRANULE);
    assert_int_equal(whole->offset, 0);
    give(space, whole);
  }
  address_space_destroy(space);
}

static void what_does_not_fit_in_one_piece_is_refused(void **state) {
  (void)state;
  struct address_space *space = address_space_create(4 * GRANULE);
  struct address_range *ranges[4];
  for (size_t i = 0; i < 4; i++) {
    ranges[i] = take(space, GRANULE);
  }
  give(space, ranges[0]);
  give(space, ranges[2]);
  assert_null(address_space_take(space, 2 * GRANULE));
  assert_null(address_space_take(space, 5 * GRANULE));
  assert_null(address_space_take(space, UINT64_MAX));
  give(space, ranges[1]);
  struct address_range *three = take(space, 3 * GRANULE);
  give(space, three);
  give(space, ranges[3]);
  address_space_destroy(space);
}

#define MODEL_GRANULES 512
#define MODEL_RANGES 128

static uint64_t random_next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

// The place that best fit must choose, found the slow way: -1 if there is none.
static int model_best_fit(const bool *taken, int granules) {
  int best = -1, best_length = MODEL_GRANULES + 1;
  for (int begin = 0; begin < MODEL_GRANULES;) {
    int end = begin;
    while (end < MODEL_GRANULES && !taken[end]) {
      end++;
    }
    if (end - begin >= granules && end - begin < best_length) {
      best = begin;
      best_length = end - begin;
    }
    begin = end + 1;
  }
  return best;
}

static void random_use_agrees_with_a_plain_model(void **state) {
  (void)state;
  bool taken[MODEL_GRANULES] = {false};
  struct address_range *ranges[MODEL_RANGES] = {NULL};
  struct address_space *space = address_space_create(MODEL_GRANULES * GRANULE);
  uint64_t random = 42;
  size_t refused = 0;
  for (int step = 0; step < 20000; step++) {
    size_t i = random_next(&random) % MODEL_RANGES;
    if (ranges[i] == NULL) {
      int granules = 1 + (int)(random_next(&random) % (random_next(&random) % 32 + 1));
      int expected = model_best_fit(taken, granules);
      ranges[i] = address_space_take(space, (uint64_t)granules * GRANULE);
      assert_int_equal(ranges[i] != NULL, expected >= 0);
      refused += ranges[i] == NULL;
      if (ranges[i] != NULL) {
        assert_int_equal(ranges[i]->offset, (uint64_t)expected * GRANULE);
        assert_int_equal(ranges[i]->bytes, (uint64_t)granules * GRANULE);
      }
    }
    bool value = true;
    struct address_range range = ranges[i] != NULL ? *ranges[i] : (struct address_range){0};
    if (random_next(&random) % 2 == 0 && ranges[i] != NULL) {
      address_space_give(space, ranges[i]);
      ranges[i] = NULL;
      value = false;
    }
    for (uint64_t granule = 0; granule < range.bytes / GRANULE; granule++) {
      taken[range.offset / GRANULE + granule] = value;
    }
    if (step % 64 == 0) {
      address_space_check(space);
    }
  }
  assert_true(refused > 0); // the model was driven to its limits
  for (size_t i = 0; i < MODEL_RANGES; i++) {
    if (ranges[i] != NULL) {
      give(space, ranges[i]);
    }
  }
  address_space_destroy(space);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_rounded_up_and_lie_side_by_side),
      cmocka_unit_test(smallest_hole_that_fits_is_taken),
      cmocka_unit_test(given_back_neighbours_become_one),
      cmocka_unit_test(what_does_not_fit_in_one_piece_is_refused),
      cmocka_unit_test(random_use_agrees_with_a_plain_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
