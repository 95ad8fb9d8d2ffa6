#include "server/rpc/target_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// A backend of devices that are as the test says.
struct told_backend {
  struct backend base;
  struct backend_device devices[2];
  size_t count;
  uint32_t numerics_now;
};

static size_t describe_told(struct backend *base, struct backend_device *devices, size_t devices_max) {
  struct told_backend *told = (struct told_backend *)base;
  assert_true(devices_max >= told->count);
  memcpy(devices, told->devices, sizeof told->devices);
  return told->count;
}

static uint32_t told_numerics(struct backend *base) {
  return ((struct told_backend *)base)->numerics_now;
}

static void keep(struct backend *base) {
  (void)base;
}

struct fixture {
  struct backend cpu;
  struct told_backend npu;
  struct dispatcher *dispatcher;
  struct server_info info;
};

static int64_t no_clock(void *context) {
  (void)context;
  return 0;
}

static void create(struct fixture *fixture, size_t backends) {
  struct budget_options budget = {.limit_bytes = 1 << 20, .queue_max = 1, .queue_time_max_ns = 1};
  struct dispatcher_options options = {
      .backends = {&fixture->cpu, &fixture->npu.base}, .backend_count = backends, .clock_ns = no_clock};
  struct status status;
  assert_true(budget_create(&budget, &options.budget, &status));
  assert_true(arena_create(1 << 21, &options.arena, &status));
  assert_true(dispatcher_create(&options, &fixture->dispatcher, &status));
}

static int begin(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  fixture->cpu = (struct backend){.target = TARGET_CPU, .numerics = 1u << NUMERICS_EXACT, .destroy = keep};
  fixture->npu.base = (struct backend){.target = TARGET_NPU,
                                       .numerics = 1u << NUMERICS_DEVICE | 1u << NUMERICS_EXACT,
                                       .describe_devices = describe_told,
                                       .current_numerics = told_numerics,
                                       .destroy = keep};
  fixture->npu.devices[0] = (struct backend_device){"npu:0", true, "fine"};
  fixture->npu.devices[1] = (struct backend_device){"npu:1", false, "in pieces"};
  fixture->npu.count = 2;
  fixture->npu.numerics_now = 1u << NUMERICS_DEVICE;
  create(fixture, 2);
  *state = fixture;
  return 0;
}

static int end(void **state) {
  struct fixture *fixture = *state;
  dispatcher_destroy(fixture->dispatcher);
  free(fixture);
  return 0;
}

static void devices_are_told_as_they_are(void **state) {
  struct fixture *fixture = *state;
  target_report_fill(fixture->dispatcher, &fixture->info);
  assert_int_equal(fixture->info.target_count, 2);
  const struct target_info *cpu = &fixture->info.targets[0], *npu = &fixture->info.targets[1];
  assert_int_equal(cpu->target, TARGET_CPU);
  assert_true(cpu->available);
  assert_int_equal(cpu->numerics, 1u << NUMERICS_EXACT);
  assert_int_equal(cpu->device_count, 0);
  assert_int_equal(npu->target, TARGET_NPU);
  assert_true(npu->available);
  assert_int_equal(npu->numerics, 1u << NUMERICS_DEVICE);
  assert_int_equal(npu->device_count, 2);
  assert_string_equal(npu->devices[0].name, "npu:0");
  assert_true(npu->devices[0].healthy);
  assert_string_equal(npu->devices[1].detail, "in pieces");
  assert_false(npu->devices[1].healthy);
}

static void a_target_without_a_healthy_device_is_not_available(void **state) {
  struct fixture *fixture = *state;
  fixture->npu.devices[0].healthy = false;
  fixture->npu.numerics_now = 0;
  target_report_fill(fixture->dispatcher, &fixture->info);
  assert_false(fixture->info.targets[1].available);
  assert_int_equal(fixture->info.targets[1].numerics, 0);
  assert_int_equal(fixture->info.targets[1].device_count, 2);
}

static void a_target_that_is_not_configured_is_told_as_such(void **state) {
  struct fixture *fixture = *state;
  dispatcher_destroy(fixture->dispatcher);
  create(fixture, 1);
  target_report_fill(fixture->dispatcher, &fixture->info);
  assert_int_equal(fixture->info.target_count, 2);
  assert_int_equal(fixture->info.targets[1].target, TARGET_NPU);
  assert_false(fixture->info.targets[1].available);
  assert_int_equal(fixture->info.targets[1].numerics, 0);
  assert_int_equal(target_report_health(fixture->dispatcher, "npu"), TARGET_HEALTH_UNKNOWN);
  assert_int_equal(target_report_health(fixture->dispatcher, "npu:0"), TARGET_HEALTH_UNKNOWN);
}

static void health_is_asked_by_name(void **state) {
  struct fixture *fixture = *state;
  static const struct {
    const char *service;
    enum target_health health;
  } cases[] = {{"npu", TARGET_HEALTH_GOOD},     {"npu:0", TARGET_HEALTH_GOOD},
               {"npu:1", TARGET_HEALTH_BAD},    {"npu:2", TARGET_HEALTH_UNKNOWN},
               {"npu:", TARGET_HEALTH_UNKNOWN}, {"cpu", TARGET_HEALTH_UNKNOWN},
               {"NPU", TARGET_HEALTH_UNKNOWN}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    assert_int_equal(target_report_health(fixture->dispatcher, cases[i].service), cases[i].health);
  }
  fixture->npu.devices[0].healthy = false;
  assert_int_equal(target_report_health(fixture->dispatcher, "npu"), TARGET_HEALTH_BAD);
  assert_int_equal(target_report_health(fixture->dispatcher, "npu:0"), TARGET_HEALTH_BAD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(devices_are_told_as_they_are, begin, end),
      cmocka_unit_test_setup_teardown(a_target_without_a_healthy_device_is_not_available, begin, end),
      cmocka_unit_test_setup_teardown(a_target_that_is_not_configured_is_told_as_such, begin, end),
      cmocka_unit_test_setup_teardown(health_is_asked_by_name, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
