// Runs a fuzz target over all seeds, and over what a few simple changes make of them: so the promises of the
// fuzz targets are tested wherever there is no fuzzer.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/seeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The bytes at the end of a piece of memory of their own, so that a sanitizer sees a step too far.
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size > 0 ? size : 1);
  assert_non_null(copy);
  if (size > 0) {
    memcpy(copy, data, size);
  }
  assert_int_equal(LLVMFuzzerTestOneInput(copy, size), 0);
  free(copy);
}

static void run_seed(void *context, const char *target, const uint8_t *data, size_t size) {
  (void)target;
  run(data, size);
  ++*(size_t *)context;
}

static void run_cut(void *context, const char *target, const uint8_t *data, size_t size) {
  (void)target;
  for (size_t length = 0; length < size; length++) {
    run(data, length);
    run(data + length, size - length);
    ++*(size_t *)context;
  }
}

static void run_changed(void *context, const char *target, const uint8_t *data, size_t size) {
  (void)target;
  static const uint8_t changes[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x7f, 0xff};
  uint8_t *copy = malloc(size);
  assert_non_null(copy);
  memcpy(copy, data, size);
  for (size_t at = 0; at < size; at++) {
    for (size_t i = 0; i < sizeof changes; i++) {
      copy[at] ^= changes[i];
      run(copy, size);
      copy[at] = data[at];
      ++*(size_t *)context;
    }
  }
  free(copy);
}

static void visit_all(fuzz_seed_visitor *visit) {
  size_t count = 0;
  fuzz_seeds_visit(visit, &count);
  assert_true(count > 0);
}

static void seeds_keep_the_promises(void **state) {
  (void)state;
  visit_all(run_seed);
}

static void cut_seeds_keep_the_promises(void **state) {
  (void)state;
  visit_all(run_cut);
}

static void changed_seeds_keep_the_promises(void **state) {
  (void)state;
  visit_all(run_changed);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(seeds_keep_the_promises),
      cmocka_unit_test(cut_seeds_keep_the_promises),
      cmocka_unit_test(changed_seeds_keep_the_promises),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
