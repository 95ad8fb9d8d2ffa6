#include "kernels/operator_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNITS_MAX 100000

static const struct operator_definition fake = {.name = "aclnnFake"};

static struct parallel *create_pool(size_t threads) {
  struct parallel *pool;
  struct status status;
  assert_true(parallel_create(threads, &pool, &status));
  return pool;
}

struct visits {
  size_t units;
  unsigned counts[UNITS_MAX]; // not atomic: each unit belongs to one task
  atomic_bool slot_taken[OPERATOR_RUN_SLOTS_MAX];
  atomic_size_t mistakes;
  atomic_size_t calls;
  atomic_bool *cancel_at_first_call; // NULL for never
};

static void visit(void *context, size_t slot, size_t begin, size_t end) {
  struct visits *visits = context;
  if (slot >= operator_run_slots(visits->units) || begin >= end || end > visits->units ||
      atomic_exchange(&visits->slot_taken[slot], true)) {
    atomic_fetch_add(&visits->mistakes, 1);
    return;
  }
  for (size_t unit = begin; unit < end; unit++) {
    visits->counts[unit]++;
  }
  atomic_fetch_add(&visits->calls, 1);
  if (visits->cancel_at_first_call != NULL) {
    atomic_store(visits->cancel_at_first_call, true);
  }
  atomic_store(&visits->slot_taken[slot], false);
}

static void every_unit_is_done_once_and_slots_are_never_shared(void **state) {
  (void)state;
  static const size_t threads[] = {1, 2, 7, 70};
  static const size_t units[] = {0, 1, 2, 63, 64, 65, 1000, UNITS_MAX};
  static const int64_t unit_elements[] = {1, 100, 1000000, INT64_MAX};
  struct plan plan = {.definition = &fake};
  for (size_t t = 0; t < 4; t++) {
    struct parallel *pool = create_pool(threads[t]);
    struct operator_run run = {.plan = &plan, .parallel = t == 0 ? NULL : pool};
    for (size_t i = 0; i < 32; i++) {
      struct visits *visits = calloc(1, sizeof *visits);
      struct status status;
      visits->units = units[i / 4];
      assert_true(operator_run_units(&run, visits->units, unit_elements[i % 4], visit, visits, &status));
      assert_int_equal(atomic_load(&visits->mistakes), 0);
      for (size_t unit = 0; unit < UNITS_MAX; unit++) {
        assert_int_equal(visits->counts[unit], unit < visits->units);
      }
      free(visits);
    }
    parallel_destroy(pool);
  }
}

static void slots_are_bounded_however_many_units_there_are(void **state) {
  (void)state;
  assert_int_equal(operator_run_slots(0), 0);
  assert_int_equal(operator_run_slots(5), 5);
  assert_int_equal(operator_run_slots(SIZE_MAX), OPERATOR_RUN_SLOTS_MAX);
}

static void small_units_are_done_many_at_once(void **state) {
  (void)state;
  struct plan plan = {.definition = &fake};
  struct operator_run run = {.plan = &plan};
  struct visits *visits = calloc(1, sizeof *visits);
  struct status status;
  visits->units = 1000;
  assert_true(operator_run_units(&run, visits->units, 3, visit, visits, &status));
  assert_int_equal(atomic_load(&visits->calls), 1);
  free(visits);
}

static void a_cancelled_loop_stops_between_slices(void **state) {
  (void)state;
  atomic_bool cancelled = false;
  struct plan plan = {.definition = &fake};
  struct operator_run run = {.plan = &plan, .cancelled = &cancelled};
  struct visits *visits = calloc(1, sizeof *visits);
  struct status status;
  visits->units = UNITS_MAX;
  visits->cancel_at_first_call = &cancelled;
  assert_false(operator_run_units(&run, visits->units, 1000000, visit, visits, &status));
  assert_int_equal(status.reason, REASON_CANCELLED);
  assert_non_null(strstr(status.message, "aclnnFake"));
  assert_int_equal(atomic_load(&visits->calls), 1);
  free(visits);
}

// A plan with one output of that description, and its storage filled with ones.
static void *begin_output(struct plan *plan, struct operator_run *run, struct tensor_desc desc) {
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_OUTPUT, "x", &status));
  *plan = (struct plan){.definition = &fake};
  plan->arguments.values[0].tensor = desc;
  *run = (struct operator_run){.plan = plan};
  size_t bytes = (size_t)tensor_desc_storage_bytes(&desc);
  run->storages[0] = malloc(bytes + 1);
  memset(run->storages[0], 1, bytes);
  return run->storages[0];
}

static void a_storage_is_zeroed_to_its_last_byte(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 255, 256 * 1024, 256 * 1024 + 1, 1000003};
  struct parallel *pool = create_pool(3);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct plan plan;
    struct operator_run run;
    struct status status;
    unsigned char *storage =
        begin_output(&plan, &run, (struct tensor_desc){DATA_TYPE_INT8, 0, 1, 0, {sizes[i]}});
    run.parallel = pool;
    assert_true(operator_run_zero(&run, 0, &status));
    for (int64_t byte = 0; byte < sizes[i]; byte++) {
      assert_int_equal(storage[byte], 0);
    }
    free(storage);
  }
  parallel_destroy(pool);
}

static void only_a_storage_with_holes_is_zeroed(void **state) {
  (void)state;
  struct plan plan;
  struct operator_run run;
  struct status status;
  unsigned char *storage =
      begin_output(&plan, &run, (struct tensor_desc){DATA_TYPE_INT8, 0, 2, 2, {3, 2}, {1, 3}});
  assert_true(operator_run_zero_holes(&run, 0, &status));
  assert_int_equal(storage[0], 1);
  free(storage);
  storage = begin_output(&plan, &run, (struct tensor_desc){DATA_TYPE_INT8, 0, 2, 2, {3, 2}, {3, 1}});
  assert_true(operator_run_zero_holes(&run, 0, &status));
  assert_memory_equal(storage, "\0\0\0\0\0\0\0\0", 8);
  free(storage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_unit_is_done_once_and_slots_are_never_shared),
      cmocka_unit_test(slots_are_bounded_however_many_units_there_are),
      cmocka_unit_test(small_units_are_done_many_at_once),
      cmocka_unit_test(a_cancelled_loop_stops_between_slices),
      cmocka_unit_test(a_storage_is_zeroed_to_its_last_byte),
      cmocka_unit_test(only_a_storage_with_holes_is_zeroed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
