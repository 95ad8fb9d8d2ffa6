#include "client/cli/output_file.h"

#include "client/cli/npy.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float values[] = {1, 2, 3, 4, 5, 6};
static const aclnn_tensor TENSOR = {.name = "y",
                                    .output = true,
                                    .data_type = ACLNN_FLOAT,
                                    .rank = 2,
                                    .shape = {2, 3},
                                    .data = values,
                                    .data_bytes = sizeof values};

static int enter_directory(void **state) {
  (void)state;
  static char directory[] = "output_file_test_XXXXXX";
  const char *parent = getenv("TEST_TMPDIR");
  return chdir(parent == NULL ? "/tmp" : parent) != 0 || mkdtemp(directory) == NULL || chdir(directory) != 0;
}

static void check_content(const char *path) {
  struct npy_array array;
  struct failure failure;
  assert_true(npy_open(path, ACLNN_FLOAT, &array, &failure));
  assert_int_equal(array.header.rank, 2);
  assert_memory_equal(array.data, values, sizeof values);
  npy_close(&array);
}

static void tensor_is_written(void **state) {
  (void)state;
  struct output_file file;
  struct failure failure;
  assert_true(output_file_open("new.npy", &file, &failure));
  assert_true(output_file_write(&file, &TENSOR, &failure));
  output_file_abandon(&file);
  check_content("new.npy");
}

static void type_that_the_format_lacks_is_refused(void **state) {
  (void)state;
  static const int types[] = {0, 14, 17, 20, 99, -1};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    struct output_file file;
    struct failure failure;
    aclnn_tensor tensor = TENSOR;
    tensor.data_type = (aclnn_data_type)types[i];
    assert_true(output_file_open("never.npy", &file, &failure));
    assert_false(output_file_write(&file, &tensor, &failure));
    assert_non_null(strstr(failure.text, "y: a .npy file can't hold"));
    output_file_abandon(&file);
    assert_int_not_equal(access("never.npy", F_OK), 0);
  }
}

static void longer_file_is_replaced_whole(void **state) {
  (void)state;
  FILE *old = fopen("old.npy", "w");
  assert_non_null(old);
  for (int i = 0; i < 1000; i++) {
    fputs("something else", old);
  }
  fclose(old);
  struct output_file file;
  struct failure failure;
  assert_true(output_file_open("old.npy", &file, &failure));
  assert_true(output_file_write(&file, &TENSOR, &failure));
  check_content("old.npy");
}

static void abandoned_file_leaves_no_trace(void **state) {
  (void)state;
  struct output_file file;
  struct failure failure;
  assert_true(output_file_open("never.npy", &file, &failure));
  output_file_abandon(&file);
  assert_int_equal(access("never.npy", F_OK), -1);

  FILE *old = fopen("kept.npy", "w");
  assert_non_null(old);
  fputs("kept", old);
  fclose(old);
  assert_true(output_file_open("kept.npy", &file, &failure));
  output_file_abandon(&file);
  char content[8] = "";
  old = fopen("kept.npy", "r");
  assert_non_null(old);
  assert_non_null(fgets(content, sizeof content, old));
  fclose(old);
  assert_string_equal(content, "kept");
}

static void wrong_paths_show_at_once(void **state) {
  (void)state;
  struct output_file file;
  struct failure failure;
  assert_false(output_file_open("no/such/folder.npy", &file, &failure));
  assert_string_equal(failure.text, "no/such/folder.npy: No such file or directory");
  output_file_abandon(&file);
  assert_false(output_file_open(".", &file, &failure));
}

static void full_disk_is_told(void **state) {
  (void)state;
  struct output_file file;
  struct failure failure;
  assert_true(output_file_open("/dev/full", &file, &failure));
  assert_false(output_file_write(&file, &TENSOR, &failure));
  assert_string_equal(failure.text, "/dev/full: No space left on device");
  assert_int_equal(access("/dev/full", F_OK), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensor_is_written),
      cmocka_unit_test(type_that_the_format_lacks_is_refused),
      cmocka_unit_test(longer_file_is_replaced_whole),
      cmocka_unit_test(abandoned_file_leaves_no_trace),
      cmocka_unit_test(wrong_paths_show_at_once),
      cmocka_unit_test(full_disk_is_told),
  };
  return cmocka_run_group_tests(tests, enter_directory, NULL);
}
