// What is decided before a worker is started.
#include "server/machine_npu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool create(const struct config *config, struct backend **backend, struct status *status) {
  struct machine_npu_options options = {.config = config};
  return machine_npu_create(&options, backend, status);
}

static void off_means_none(void **unused) {
  (void)unused;
  // Files that aren't there don't matter then.
  struct config config = {.npu = CONFIG_NPU_OFF, .npu_worker = "/nowhere"};
  struct backend *backend = (struct backend *)&config;
  struct status status;
  assert_true(create(&config, &backend, &status));
  assert_null(backend);
}

static void a_missing_worker_is_a_configuration_error(void **unused) {
  (void)unused;
  struct config config = {.npu = CONFIG_NPU_EMULATED, .npu_emulated = 1, .npu_worker = "/nowhere/worker"};
  struct backend *backend;
  struct status status;
  assert_false(create(&config, &backend, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  assert_non_null(strstr(status.message, "--npu-worker: \"/nowhere/worker\""));
}

static void a_missing_library_is_a_configuration_error(void **unused) {
  (void)unused;
  struct config config = {.npu = CONFIG_NPU_EMULATED,
                          .npu_emulated = 1,
                          .npu_worker = "/bin/true",
                          .npu_library = "/nowhere/library.so"};
  struct backend *backend;
  struct status status;
  assert_false(create(&config, &backend, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  assert_non_null(strstr(status.message, "--npu-library: \"/nowhere/library.so\""));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(off_means_none),
      cmocka_unit_test(a_missing_worker_is_a_configuration_error),
      cmocka_unit_test(a_missing_library_is_a_configuration_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
