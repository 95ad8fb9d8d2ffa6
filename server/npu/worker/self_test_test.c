#include "server/npu/worker/self_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EMULATOR "server/npu/emulator/libaclnn_emulated.so"

static char text[16384];

static bool run(const char *library, const char *name, const char *value) {
  struct device_settings settings = {.sync_timeout_ms = 60000, .transfer_way = TRANSFER_DIRECT};
  memset(text, 0, sizeof text);
  FILE *stream = fmemopen(text, sizeof text, "w");
  assert_non_null(stream);
  setenv(name, value, 1);
  bool right = self_test(library, NULL, &settings, stream);
  unsetenv(name);
  fclose(stream);
  return right;
}

static void assert_says(const char *what) {
  if (strstr(text, what) == NULL) {
    fail_msg("\"%s\" isn't said in:\n%s", what, text);
  }
}

static void good_device_passes(void **state) {
  (void)state;
  size_t cases = 0;
  char total[32];
  for (size_t i = 0; i < operator_count(); i++) {
    cases += operator_at(i)->npu->case_count;
  }
  assert_true(run(EMULATOR, "ACLNN_EMULATED_PROFILE", "exact"));
  snprintf(total, sizeof total, "%zu right, 0 wrong", cases);
  assert_says(total);
  assert_says("AclnnEmulated");
  assert_says("aclnnAdaptiveMaxPool2dBackward");
  assert_true(run(EMULATOR, "ACLNN_EMULATED_PROFILE", "a2"));
  assert_says("Ascend910B");
  assert_says("1 not judged on this product, 1 not served by it");
}

static void wrong_results_fail_it(void **state) {
  (void)state;
  assert_false(run(EMULATOR, "ACLNN_EMULATED_FAULT", "flip@3"));
  assert_says("WRONG");
  assert_says("1 wrong");
}

static void missing_library_fails_it(void **state) {
  (void)state;
  assert_false(run("/nowhere/libnothing.so", "ACLNN_EMULATED_FAULT", ""));
  assert_says("device 0 cannot be used");
  assert_says("/nowhere/libnothing.so");
}

// Last: what is lost isn't closed.
static void lost_device_ends_it(void **state) {
  (void)state;
  assert_false(run(EMULATOR, "ACLNN_EMULATED_FAULT", "ecc@2"));
  assert_says("507054");
  assert_says("the device failed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_device_passes),
      cmocka_unit_test(wrong_results_fail_it),
      cmocka_unit_test(missing_library_fails_it),
      cmocka_unit_test(lost_device_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
