#include "server/npu/acl/acl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FOLDER "server/npu/acl/"

// Where it is, its libraries are found whatever else is looked for.
static bool cann_is_installed(void) {
  return access("/usr/local/Ascend", F_OK) == 0;
}

static uint32_t all_operators(void) {
  return (UINT32_C(1) << operator_count()) - 1;
}

static void assert_refused(const char *file, const char *home, const char *said) {
  struct acl_library library;
  struct status status;
  assert_false(acl_library_open(file, home, &library, &status));
  assert_int_equal(status.reason, REASON_TARGET_UNAVAILABLE);
  if (strstr(status.message, said) == NULL) {
    fail_msg("it said: %s", status.message);
  }
}

static void one_library_may_have_everything(void **state) {
  (void)state;
  struct acl_library library;
  struct status status;
  assert_true(acl_library_open(FOLDER "libtesting_all.so", NULL, &library, &status));
  assert_int_equal(library.operator_mask, all_operators());
  assert_string_equal(library.missing, "");
  void *handle = dlopen(FOLDER "libtesting_all.so", RTLD_NOW);
  assert_non_null(handle);
  void *symbol = NULL;
  memcpy(&symbol, &library.functions.aclrtMemsetAsync, sizeof symbol);
  assert_ptr_equal(symbol, dlsym(handle, "aclrtMemsetAsync"));
  for (size_t i = 0; i < operator_count(); i++) {
    memcpy(&symbol, &library.operators[i].run, sizeof symbol);
    assert_ptr_equal(symbol, dlsym(handle, operator_at(i)->npu->run_symbol));
    memcpy(&symbol, &library.operators[i].get_workspace_size, sizeof symbol);
    assert_ptr_equal(symbol, dlsym(handle, operator_at(i)->npu->workspace_symbol));
  }
  dlclose(handle);
}

static void operators_that_are_too_new_are_left_out(void **state) {
  (void)state;
  struct acl_library library;
  struct status status;
  assert_true(acl_library_open(FOLDER "libtesting_no_backward.so", NULL, &library, &status));
  for (size_t i = 0; i < operator_count(); i++) {
    bool backward = strcmp(operator_at(i)->name, "aclnnAdaptiveMaxPool2dBackward") == 0;
    assert_int_equal(library.operator_mask >> i & 1, !backward);
    assert_int_equal(library.operators[i].run == NULL, backward);
  }
  assert_string_equal(library.missing, "this CANN is too old for aclnnAdaptiveMaxPool2dBackward");
}

static void functions_that_old_ones_lack_may_be_missing(void **state) {
  (void)state;
  struct acl_library library;
  struct status status;
  assert_true(acl_library_open(FOLDER "libtesting_old.so", NULL, &library, &status));
  assert_int_equal(library.operator_mask, all_operators());
  assert_true(library.functions.aclSetAclOpExecutorRepeatable == NULL);
  assert_true(library.functions.aclrtGetVersion == NULL);
}

static void what_cannot_be_used_says_why(void **state) {
  (void)state;
  assert_refused(FOLDER "libnothing.so", NULL, "libnothing.so");
  assert_refused(FOLDER "libtesting_no_operators.so", NULL,
                 "this CANN is too old for aclnnAdaptiveMaxPool2d, aclnnAdaptiveMaxPool2dBackward, aclnnMm");
  assert_refused(FOLDER "libtesting_no_malloc.so", NULL, "no function aclrtMalloc");
  assert_refused(FOLDER "acl.h", NULL, "acl.h");
  if (!cann_is_installed()) {
    assert_refused(NULL, NULL, "libascendcl.so or libacl_rt.so");
    assert_refused(NULL, "/nowhere", "ASCEND_HOME_PATH");
  }
}

static void link_as(const char *home, const char *name, const char *library) {
  char from[PATH_MAX], to[PATH_MAX];
  char *folder = getcwd(NULL, 0);
  snprintf(from, sizeof from, "%s/" FOLDER "%s", folder, library);
  snprintf(to, sizeof to, "%s/lib64/%s", home, name);
  free(folder);
  unlink(to);
  assert_int_equal(symlink(from, to), 0);
}

// Both layouts of CANN, below ASCEND_HOME_PATH.
static void libraries_are_found_below_the_home_folder(void **state) {
  (void)state;
  if (cann_is_installed()) {
    skip();
  }
  struct acl_library library;
  struct status status;
  char home[PATH_MAX / 2], folder[PATH_MAX];
  const char *temporary = getenv("TEST_TMPDIR");
  snprintf(home, sizeof home, "%s/home.XXXXXX", temporary != NULL ? temporary : "/tmp");
  assert_non_null(mkdtemp(home));
  snprintf(folder, sizeof folder, "%s/lib64", home);
  assert_int_equal(mkdir(folder, 0700), 0);
  link_as(home, "libascendcl.so", "libtesting_old.so");
  assert_refused(NULL, home, "libnnopbase.so");
  link_as(home, "libnnopbase.so", "libtesting_no_operators.so");
  assert_refused(NULL, home, "libopapi_nn.so or libopapi.so");
  link_as(home, "libopapi.so", "libtesting_operators.so");
  assert_true(acl_library_open(NULL, home, &library, &status));
  assert_int_equal(library.operator_mask, all_operators());
  // What the first library lacks the second one has.
  assert_true(library.functions.aclSetAclOpExecutorRepeatable != NULL);
  static const char *const names[] = {"libascendcl.so", "libnnopbase.so", "libopapi.so"};
  for (size_t i = 0; i < 3; i++) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
  rmdir(home);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_library_may_have_everything),
      cmocka_unit_test(operators_that_are_too_new_are_left_out),
      cmocka_unit_test(functions_that_old_ones_lack_may_be_missing),
      cmocka_unit_test(what_cannot_be_used_says_why),
      cmocka_unit_test(libraries_are_found_below_the_home_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
