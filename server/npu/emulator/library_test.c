// The library as its users meet it: by dlopen and dlsym.
#include "server/npu/acl/acl.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LIBRARY "server/npu/emulator/libaclnn_emulated.so"
#define OLD_LIBRARY "server/npu/emulator/libaclnn_emulated_old.so"

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail_msg("%s", dlerror());
  }
  return library;
}

#define ASSERT_EXPORTED(type, name, arguments) assert_non_null(dlsym(library, #name));

static void every_function_is_exported(void **state) {
  (void)state;
  void *library = open_library(LIBRARY);
  ACL_FUNCTIONS(ASSERT_EXPORTED)
  assert_non_null(dlsym(library, "aclnnAdaptiveMaxPool2dGetWorkspaceSize"));
  assert_non_null(dlsym(library, "aclnnAdaptiveMaxPool2d"));
  assert_non_null(dlsym(library, "aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize"));
  assert_non_null(dlsym(library, "aclnnAdaptiveMaxPool2dBackward"));
  dlclose(library);
}

static void nothing_of_its_own_is_exported(void **state) {
  (void)state;
  void *library = open_library(LIBRARY);
  assert_null(dlsym(library, "emulated_plan"));
  assert_null(dlsym(library, "tensor_desc_normalise"));
  assert_null(dlsym(library, "adaptive_max_pool2d"));
  dlclose(library);
}

static void old_library_lacks_the_backward_alone(void **state) {
  (void)state;
  void *library = open_library(OLD_LIBRARY);
  ACL_FUNCTIONS(ASSERT_EXPORTED)
  assert_non_null(dlsym(library, "aclnnAdaptiveMaxPool2d"));
  assert_null(dlsym(library, "aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize"));
  assert_null(dlsym(library, "aclnnAdaptiveMaxPool2dBackward"));
  dlclose(library);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_function_is_exported),
      cmocka_unit_test(nothing_of_its_own_is_exported),
      cmocka_unit_test(old_library_lacks_the_backward_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
