#include "server/npu/worker/arena_mapping.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static int make_file(uint64_t bytes, int seals) {
  int descriptor = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(descriptor >= 0);
  assert_int_equal(ftruncate(descriptor, (off_t)bytes), 0);
  assert_int_equal(fcntl(descriptor, F_ADD_SEALS, seals), 0);
  return descriptor;
}

static void bytes_are_those_of_the_file(void **state) {
  (void)state;
  struct arena_mapping mapping;
  struct status status;
  int descriptor = make_file(4 * MIB, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  assert_true(arena_mapping_open(descriptor, 4 * MIB, &mapping, &status));
  assert_int_equal(mapping.bytes, 4 * MIB);
  assert_int_equal((uintptr_t)mapping.data % (2 * MIB), 0);
  mapping.data[4 * MIB - 1] = 77;
  uint8_t byte = 0;
  assert_int_equal(pread(descriptor, &byte, 1, (off_t)(4 * MIB - 1)), 1);
  assert_int_equal(byte, 77);
  arena_mapping_close(&mapping);
  assert_null(mapping.data);
  close(descriptor);
}

// Other memory may lie at its address by now.
static bool has_arena(void) {
  char line[512];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    found = found || strstr(line, "memfd:test") != NULL;
  }
  if (maps != NULL) {
    fclose(maps);
  }
  return found || maps == NULL;
}

static void a_forked_process_has_no_arena(void **state) {
  (void)state;
  struct arena_mapping mapping;
  struct status status;
  int descriptor = make_file(4 * MIB, F_SEAL_SHRINK);
  assert_true(arena_mapping_open(descriptor, 4 * MIB, &mapping, &status));
  assert_true(has_arena());
  pid_t child = fork();
  if (child == 0) {
    _exit(has_arena() ? 1 : 0);
  }
  int result = -1;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_int_equal(result, 0);
  arena_mapping_close(&mapping);
  close(descriptor);
}

static void assert_refused(int descriptor, uint64_t bytes, const char *said) {
  struct arena_mapping mapping;
  struct status status;
  assert_false(arena_mapping_open(descriptor, bytes, &mapping, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  assert_non_null(strstr(status.message, said));
}

static void files_that_could_vanish_underneath_are_refused(void **state) {
  (void)state;
  int open_file = make_file(4 * MIB, F_SEAL_GROW);
  assert_refused(open_file, 4 * MIB, "sealed");
  close(open_file);
  int sealed = make_file(4 * MIB, F_SEAL_SHRINK);
  assert_refused(sealed, 4 * MIB + 1, "4194304 bytes");
  assert_refused(sealed, 2 * MIB, "announced were 2097152");
  assert_refused(sealed, 0, "announced were 0");
  assert_refused(sealed, UINT64_MAX, "announced were");
  close(sealed);
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  assert_refused(pipes[0], 4 * MIB, "no arena");
  close(pipes[0]);
  close(pipes[1]);
  assert_refused(pipes[0], 4 * MIB, "no arena");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_those_of_the_file),
      cmocka_unit_test(a_forked_process_has_no_arena),
      cmocka_unit_test(files_that_could_vanish_underneath_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
