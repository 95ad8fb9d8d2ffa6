// What the environment may say, and which jobs a fault is meant for.
#include "server/npu/emulator/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct settings settings;
static struct status status;

static void clear(void) {
  static const char *const names[] = {"ACLNN_EMULATED_DEVICES", "ACLNN_EMULATED_PROFILE",
                                      "ACLNN_EMULATED_MEMORY",  "ACLNN_EMULATED_REPEATABLE",
                                      "ACLNN_EMULATED_FAULT",   "ACLNN_CACHE_LIMIT"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    unsetenv(names[i]);
  }
}

static void nothing_set_is_one_exact_device(void **state) {
  (void)state;
  clear();
  assert_true(settings_read(&settings, &status));
  assert_int_equal(settings.devices, 1);
  assert_int_equal(settings.profile, EMULATED_PROFILE_EXACT);
  assert_int_equal(settings.memory_bytes, (uint64_t)4 << 30);
  assert_true(settings.repeatable);
  assert_int_equal(settings.cache_limit, 10000);
  assert_int_equal(settings.faults.count, 0);
}

static void everything_can_be_set(void **state) {
  (void)state;
  clear();
  setenv("ACLNN_EMULATED_DEVICES", "3", 1);
  setenv("ACLNN_EMULATED_PROFILE", "950", 1);
  setenv("ACLNN_EMULATED_MEMORY", "1000", 1);
  setenv("ACLNN_EMULATED_REPEATABLE", "off", 1);
  setenv("ACLNN_EMULATED_FAULT", "crash@2,slow:ms=5", 1);
  setenv("ACLNN_CACHE_LIMIT", "0", 1);
  assert_true(settings_read(&settings, &status));
  assert_int_equal(settings.devices, 3);
  assert_int_equal(settings.profile, EMULATED_PROFILE_950);
  assert_int_equal(settings.memory_bytes, 1000);
  assert_false(settings.repeatable);
  assert_int_equal(settings.cache_limit, 0);
  assert_int_equal(settings.faults.count, 2);
  setenv("ACLNN_EMULATED_PROFILE", "a2", 1);
  assert_true(settings_read(&settings, &status));
  assert_int_equal(settings.profile, EMULATED_PROFILE_A2);
  clear();
}

static void wrong_value_is_refused_by_name(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"ACLNN_EMULATED_DEVICES", "0"},
      {"ACLNN_EMULATED_DEVICES", "65"},
      {"ACLNN_EMULATED_DEVICES", "2x"},
      {"ACLNN_EMULATED_DEVICES", ""},
      {"ACLNN_EMULATED_PROFILE", "A2"},
      {"ACLNN_EMULATED_MEMORY", "4GiB"},
      {"ACLNN_EMULATED_MEMORY", "-1"},
      {"ACLNN_EMULATED_REPEATABLE", "no"},
      {"ACLNN_CACHE_LIMIT", "99999999999999999999"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    clear();
    setenv(wrong[i][0], wrong[i][1], 1);
    assert_false(settings_read(&settings, &status));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
    assert_non_null(strstr(status.message, wrong[i][0]));
  }
  clear();
}

// Which of jobs 1 to 9 on devices 0 and 1 a text means.
struct meaning {
  const char *text;
  const char *device_0, *device_1; // a 1 for each job that is meant
};

static void fault_means_these_jobs(void **state) {
  (void)state;
  static const struct meaning meanings[] = {
      {"crash", "111111111", "111111111"},
      {"crash@3", "001000000", "001000000"},
      {"crash@3:count=2", "001100000", "001100000"},
      {"crash:count=2", "110000000", "110000000"},
      {"crash:every=4", "000100010", "000100010"},
      {"crash@2:every=3", "010010010", "010010010"},
      {"crash@2:every=3:count=2", "010010000", "010010000"},
      {"crash@1:device=1", "000000000", "100000000"},
      {"crash@1:device=0,hang@2,crash@5", "100010000", "000010000"},
      {"hang", "000000000", "000000000"},
      {"", "000000000", "000000000"},
  };
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
    struct faults faults;
    assert_true(faults_parse(meanings[i].text, &faults, &status));
    char given[2][10] = {"", ""};
    for (int32_t device = 0; device < 2; device++) {
      for (uint64_t job = 1; job <= 9; job++) {
        struct fault_occasion occasion = {.device = device, .number = job};
        given[device][job - 1] = faults_find(&faults, FAULT_CRASH, &occasion) != NULL ? '1' : '0';
      }
    }
    assert_string_equal(given[0], meanings[i].device_0);
    assert_string_equal(given[1], meanings[i].device_1);
  }
}

static void every_kind_of_fault_has_a_name(void **state) {
  (void)state;
  struct faults faults;
  assert_true(faults_parse("crash,hang,slow:ms=7,ecc,flip,memory,refuse-init,stub", &faults, &status));
  assert_int_equal(faults.count, FAULT_KINDS);
  struct fault_occasion first = {.number = 1};
  for (int kind = 0; kind < FAULT_KINDS; kind++) {
    assert_non_null(faults_find(&faults, (enum fault_kind)kind, &first));
  }
  assert_int_equal(faults_find(&faults, FAULT_SLOW, &first)->milliseconds, 7);
}

static void poison_is_known_by_the_size_of_an_output(void **state) {
  (void)state;
  struct faults faults;
  assert_true(faults_parse("crash:elements=12", &faults, &status));
  int64_t elements[] = {11, 12};
  struct fault_occasion occasion = {.number = 5, .elements = elements};
  for (size_t count = 0; count <= 2; count++) {
    occasion.element_count = count;
    assert_int_equal(faults_find(&faults, FAULT_CRASH, &occasion) != NULL, count == 2);
  }
}

static void what_is_no_fault_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"burn",          "crash@0",        "crash@",       "crash@x",
                                      "crash:count=0", "crash:every=0",  "crash:device", "crash:when=3",
                                      "stub@1",        "refuse-init@2",  "crash@1x",     "slow:ms=-1",
                                      "crash,burn",    "crash:device=a", ":device=1",    "@3"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct faults faults;
    assert_false(faults_parse(wrong[i], &faults, &status));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
  }
  char many[256] = "";
  for (int i = 0; i <= FAULTS_MAX; i++) {
    strcat(many, "crash,");
  }
  struct faults faults;
  assert_false(faults_parse(many, &faults, &status));
  assert_non_null(strstr(status.message, "more than"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_set_is_one_exact_device),
      cmocka_unit_test(everything_can_be_set),
      cmocka_unit_test(wrong_value_is_refused_by_name),
      cmocka_unit_test(fault_means_these_jobs),
      cmocka_unit_test(every_kind_of_fault_has_a_name),
      cmocka_unit_test(poison_is_known_by_the_size_of_an_output),
      cmocka_unit_test(what_is_no_fault_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
