#include "server/observe/log.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t fixed_time(void) {
  return INT64_C(1700000000123);
}

struct fixture {
  int pipe[2];
  struct log log;
};

static int set_up(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  assert_int_equal(pipe(fixture->pipe), 0);
  fixture->log = (struct log){.descriptor = fixture->pipe[1], .level = LOG_INFO, .unix_ms = fixed_time};
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  close(fixture->pipe[0]);
  close(fixture->pipe[1]);
  free(fixture);
  return 0;
}

// All that was written so far.
static void read_all(struct fixture *fixture, char *text, size_t text_bytes) {
  close(fixture->pipe[1]);
  fixture->pipe[1] = -1;
  size_t size = 0;
  ssize_t result;
  while ((result = read(fixture->pipe[0], text + size, text_bytes - 1 - size)) > 0) {
    size += (size_t)result;
  }
  text[size] = '\0';
}

static void a_line_is_one_json_object(void **state) {
  struct fixture *fixture = *state;
  log_event(&fixture->log, LOG_WARNING, "say \"hello\"\n", LOG_TEXT("text", "tab\t"), LOG_TEXT("none", NULL),
            LOG_INTEGER("large", INT64_MAX));
  char text[512];
  read_all(fixture, text, sizeof text);
  assert_string_equal(text, "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warning\","
                            "\"message\":\"say \\\"hello\\\"\\n\",\"text\":\"tab\\t\",\"none\":null,"
                            "\"large\":9223372036854775807}\n");
}

static void lines_below_the_level_are_left_out(void **state) {
  struct fixture *fixture = *state;
  log_write(&fixture->log, LOG_DEBUG, "hidden", NULL, 0);
  log_write(&fixture->log, LOG_INFO, "shown", NULL, 0);
  char text[512];
  read_all(fixture, text, sizeof text);
  assert_null(strstr(text, "hidden"));
  assert_non_null(strstr(text, "shown"));
}

enum { WRITERS = 4, LINES = 50 };

static void *write_lines(void *argument) {
  const struct log *log = argument;
  for (int i = 0; i < LINES; ++i) {
    log_event(log, LOG_INFO, "a line of some length, so that mixing would show", LOG_INTEGER("number", i));
  }
  return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state) {
  struct fixture *fixture = *state;
  pthread_t writers[WRITERS];
  for (int i = 0; i < WRITERS; ++i) {
    assert_int_equal(pthread_create(&writers[i], NULL, write_lines, &fixture->log), 0);
  }
  for (int i = 0; i < WRITERS; ++i) {
    pthread_join(writers[i], NULL);
  }
  static char text[64 * 1024];
  read_all(fixture, text, sizeof text);
  int lines = 0;
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    cJSON *parsed = cJSON_Parse(line);
    assert_non_null(parsed);
    cJSON_Delete(parsed);
    ++lines;
  }
  assert_int_equal(lines, WRITERS * LINES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_line_is_one_json_object, set_up, tear_down),
      cmocka_unit_test_setup_teardown(lines_below_the_level_are_left_out, set_up, tear_down),
      cmocka_unit_test_setup_teardown(lines_of_several_threads_do_not_mix, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
