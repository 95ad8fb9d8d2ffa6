#include "server/npu/pool/npu_discovery.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct tree {
  char root[64];
};

static int plant(void **state) {
  struct tree *tree = calloc(1, sizeof *tree);
  strcpy(tree->root, "/tmp/npu_discovery_test.XXXXXX");
  *state = tree;
  return mkdtemp(tree->root) == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info;
  (void)kind;
  (void)walk;
  return remove(path);
}

static int cut_down(void **state) {
  struct tree *tree = *state;
  int result = nftw(tree->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  free(tree);
  return result;
}

// A file below the root, with the folders that it lies in.
static void add(const struct tree *tree, const char *file) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", tree->root, file);
  for (char *slash = path + strlen(tree->root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  int descriptor = creat(path, 0700);
  assert_true(descriptor >= 0);
  close(descriptor);
}

static void a_machine_without_devices_has_none(void **state) {
  struct tree *tree = *state;
  assert_int_equal(npu_discovery_count(tree->root, NULL, 64), 0);
  add(tree, "dev/null");
  add(tree, "dev/davinci_manager");
  add(tree, "dev/davinci");
  add(tree, "dev/davinci1x");
  assert_int_equal(npu_discovery_count(tree->root, NULL, 64), 0);
}

static void devices_are_counted(void **state) {
  struct tree *tree = *state;
  add(tree, "dev/davinci_manager");
  add(tree, "dev/davinci0");
  add(tree, "dev/davinci3");
  add(tree, "dev/davinci10");
  assert_int_equal(npu_discovery_count(tree->root, NULL, 64), 3);
  assert_int_equal(npu_discovery_count(tree->root, NULL, 2), 2);
}

static void only_visible_devices_count(void **state) {
  struct tree *tree = *state;
  static const struct {
    const char *visible;
    size_t count;
  } cases[] = {{"0", 1},   {"0,1,2,3", 4}, {"1,3", 2}, {"", 0},
               {"4", 0},   {"0,4", 1},     {"1,0", 1}, {"1,1", 1},
               {"x", 0},   {"0,x", 1},     {"-1", 0},  {"2,", 1},
               {"0 1", 1}, {"0,,1", 1},    {" 0", 0},  {"99999999999999999999", 0}};
  for (int i = 0; i < 4; i++) {
    char file[32];
    snprintf(file, sizeof file, "dev/davinci%d", i);
    add(tree, file);
  }
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(npu_discovery_count(tree->root, cases[i].visible, 64), cases[i].count);
  }
}

static void expect_found(const struct tree *tree, const char *expected) {
  char executable[PATH_MAX], path[PATH_MAX], wanted[PATH_MAX];
  struct status status;
  snprintf(executable, sizeof executable, "%s/bin/aclnn-server", tree->root);
  snprintf(wanted, sizeof wanted, "%s/bin/%s", tree->root, expected);
  assert_true(npu_discovery_find_file(executable, "npu/worker", "worker", path, &status));
  assert_string_equal(path, wanted);
}

static void files_are_found_where_they_may_lie(void **state) {
  struct tree *tree = *state;
  add(tree, "bin/aclnn-server");
  add(tree, "lib/aclnn-server/worker");
  expect_found(tree, "../lib/aclnn-server/worker");
  add(tree, "bin/worker");
  expect_found(tree, "./worker");
  add(tree, "bin/npu/worker/worker");
  expect_found(tree, "npu/worker/worker");
}

static void a_missing_file_is_told_with_its_places(void **state) {
  struct tree *tree = *state;
  char path[PATH_MAX];
  struct status status;
  assert_false(npu_discovery_find_file("/nowhere/aclnn-server", "npu/worker", "worker", path, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  assert_non_null(strstr(status.message, "worker isn't there: not in /nowhere/npu/worker"));
  (void)tree;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_machine_without_devices_has_none, plant, cut_down),
      cmocka_unit_test_setup_teardown(devices_are_counted, plant, cut_down),
      cmocka_unit_test_setup_teardown(only_visible_devices_count, plant, cut_down),
      cmocka_unit_test_setup_teardown(files_are_found_where_they_may_lie, plant, cut_down),
      cmocka_unit_test_setup_teardown(a_missing_file_is_told_with_its_places, plant, cut_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
