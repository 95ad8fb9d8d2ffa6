#include "kernels/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void the_widest_available_path_is_found(void **state) {
  (void)state;
  struct cpu cpu;
  cpu_detect(&cpu);
  assert_true(cpu_path_is_available(cpu.path));
  for (enum cpu_path path = cpu.path + 1; path < CPU_PATH_COUNT; path++) {
    assert_false(cpu_path_is_available(path));
  }
  assert_true(0 < cpu.l1_bytes && cpu.l1_bytes < cpu.l2_bytes && cpu.l2_bytes < cpu.l3_bytes);
}

static void available_paths_are_known_by_name(void **state) {
  (void)state;
  struct status status;
  for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
    enum cpu_path parsed = CPU_PATH_COUNT;
    bool available = cpu_path_is_available(path);
    assert_int_equal(cpu_path_parse(cpu_path_name(path), &parsed, &status), available);
    assert_int_equal(parsed, available ? path : CPU_PATH_COUNT);
  }
}

static void a_wrong_name_is_told_what_there_is(void **state) {
  (void)state;
  struct status status;
  enum cpu_path path;
  assert_false(cpu_path_parse("mmx", &path, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  assert_non_null(strstr(status.message, "mmx"));
  assert_non_null(strstr(status.message, "scalar"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_widest_available_path_is_found),
      cmocka_unit_test(available_paths_are_known_by_name),
      cmocka_unit_test(a_wrong_name_is_told_what_there_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
