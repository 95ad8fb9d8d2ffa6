// Processes that aren't workers at all: what their ends look like.
#include "server/npu/pool/worker_process.h"

#include <assert.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
  uv_loop_t loop;
  uv_timer_t alive; // the processes don't keep the loop alive
  int arena;
  struct worker_process *process;
  size_t messages;
  struct control_message last;
  bool broken, ended;
  char why[256];
  int64_t exit_status;
  int signal_number;
};

static void on_hang(uv_timer_t *timer) {
  (void)timer;
  abort();
}

static int begin(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  uv_loop_init(&fixture->loop);
  uv_timer_init(&fixture->loop, &fixture->alive);
  uv_timer_start(&fixture->alive, on_hang, 60000, 0);
  fixture->arena = open("/dev/null", O_RDONLY | O_CLOEXEC);
  *state = fixture;
  return 0;
}

static int end(void **state) {
  struct fixture *fixture = *state;
  uv_close((uv_handle_t *)&fixture->alive, NULL);
  uv_run(&fixture->loop, UV_RUN_DEFAULT);
  int busy = uv_loop_close(&fixture->loop);
  close(fixture->arena);
  free(fixture);
  return busy;
}

static void on_message(void *context, const struct control_message *message) {
  struct fixture *fixture = context;
  fixture->messages++;
  fixture->last = *message;
}

static void on_broken(void *context, const char *why) {
  struct fixture *fixture = context;
  assert_false(fixture->broken || fixture->ended);
  fixture->broken = true;
  snprintf(fixture->why, sizeof fixture->why, "%s", why == NULL ? "" : why);
}

static void on_ended(void *context, int64_t exit_status, int signal_number) {
  struct fixture *fixture = context;
  assert_false(fixture->ended);
  fixture->ended = true;
  fixture->exit_status = exit_status;
  fixture->signal_number = signal_number;
}

static bool start(struct fixture *fixture, const char *file, const char *script, struct status *status) {
  char *arguments[] = {(char *)file, (char *)"-c", (char *)script, NULL};
  struct worker_process_options options = {
      .loop = &fixture->loop,
      .arguments = arguments,
      .arena_descriptor = fixture->arena,
      .callbacks = {.message = on_message, .broken = on_broken, .ended = on_ended, .context = fixture}};
  return worker_process_start(&options, &fixture->process, status);
}

static void run_shell(struct fixture *fixture, const char *script) {
  struct status status;
  if (!start(fixture, "/bin/sh", script, &status)) {
    fail_msg("%s", status.message);
  }
}

static void await_end(struct fixture *fixture) {
  while (!fixture->ended) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
}

static void an_exit_status_is_told(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "exit 3");
  await_end(fixture);
  assert_int_equal(fixture->exit_status, 3);
  assert_int_equal(fixture->signal_number, 0);
}

static void a_signal_is_told(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "kill -SEGV $$");
  await_end(fixture);
  assert_int_equal(fixture->signal_number, SIGSEGV);
}

static void a_killed_process_says_nothing_more(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "read line; echo nonsense >&0; exec sleep 1000");
  assert_true(worker_process_id(fixture->process) > 0);
  worker_process_kill(fixture->process);
  await_end(fixture);
  assert_int_equal(fixture->signal_number, SIGKILL);
  assert_false(fixture->broken);
  assert_int_equal(fixture->messages, 0);
}

// What a process starts inherits its pipe, and the arena for which a pipe of the test's stands here: at its
// end nobody holds that any more.
static void expect_nobody_left(struct fixture *fixture, const char *script, bool kill_it) {
  int held[2], keeps = fixture->arena;
  assert_int_equal(pipe2(held, O_CLOEXEC), 0);
  fixture->arena = held[1];
  run_shell(fixture, script);
  fixture->arena = keeps;
  close(held[1]);
  while (fixture->messages == 0) {
    uv_run(&fixture->loop, UV_RUN_ONCE); // it has started its child
  }
  if (kill_it) {
    worker_process_kill(fixture->process);
  }
  await_end(fixture);
  char byte;
  assert_int_equal(read(held[0], &byte, 1), 0);
  close(held[0]);
}

#define SAYS_PONG "printf '\\010\\0\\0\\0\\024\\0\\0\\0\\007\\0\\0\\0\\0\\0\\0\\0' >&0"

static void children_go_with_a_process_that_exits(void **state) {
  struct fixture *fixture = *state;
  expect_nobody_left(fixture, "exec 5<&0; sleep 1000 <&5 & " SAYS_PONG "; exit 3", false);
  assert_int_equal(fixture->exit_status, 3);
}

static void children_go_with_a_process_that_is_killed(void **state) {
  struct fixture *fixture = *state;
  expect_nobody_left(fixture, "exec 5<&0; sleep 1000 <&5 & " SAYS_PONG "; wait", true);
  assert_int_equal(fixture->signal_number, SIGKILL);
}

// One that has left the group isn't found, but it holds nothing up. It lives until its input ends.
static void a_child_that_keeps_the_pipe_holds_nothing_up(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "exec 5<&0; setsid sh -c \"" SAYS_PONG "; exec cat >/dev/null\" <&5 & wait");
  while (fixture->messages == 0) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
  kill(worker_process_id(fixture->process), SIGTERM);
  await_end(fixture);
  assert_int_equal(fixture->signal_number, SIGTERM);
  assert_false(fixture->broken);
}

// The last message of a process is read though the process is gone: a whole PONG, then the end.
static void last_words_are_heard(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, SAYS_PONG "; exit 1");
  await_end(fixture);
  assert_int_equal(fixture->messages, 1);
  assert_int_equal(fixture->last.kind, CONTROL_PONG);
  assert_int_equal(fixture->last.pong.sequence, 7);
  assert_int_equal(fixture->exit_status, 1);
}

static void nonsense_is_told_at_once(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "echo nonsense, a line of it >&0; exec sleep 1000");
  while (!fixture->broken) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
  assert_non_null(strstr(fixture->why, "control message"));
  assert_false(fixture->ended);
  worker_process_kill(fixture->process);
  await_end(fixture);
}

static void a_closed_pipe_is_told_at_once(void **state) {
  struct fixture *fixture = *state;
  run_shell(fixture, "exec 0<&-; exec sleep 1000");
  while (!fixture->broken) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
  assert_string_equal(fixture->why, "");
  worker_process_kill(fixture->process);
  await_end(fixture);
}

static void a_message_arrives_and_sending_to_the_dead_is_harmless(void **state) {
  struct fixture *fixture = *state;
  // It knows a PING by its last bytes.
  run_shell(fixture, "dd bs=16 count=1 status=none <&0 | od -An -tu1 | tr -s ' ' | grep -q '9 0 0 0 0 0 0 "
                     "0$' && exit 5; exit 6");
  struct control_message ping = {.kind = CONTROL_PING, .ping = {.sequence = 9}};
  worker_process_send(fixture->process, &ping);
  while (!fixture->broken && !fixture->ended) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
  if (!fixture->ended) {
    worker_process_send(fixture->process, &ping);
  }
  await_end(fixture);
  assert_int_equal(fixture->exit_status, 5);
}

static void a_program_that_is_not_there_fails(void **state) {
  struct fixture *fixture = *state;
  struct status status;
  assert_false(start(fixture, "/nowhere/worker", "", &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
  assert_non_null(strstr(status.message, "/nowhere/worker"));
  uv_run(&fixture->loop, UV_RUN_NOWAIT);
  assert_false(fixture->ended || fixture->broken);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_exit_status_is_told, begin, end),
      cmocka_unit_test_setup_teardown(a_signal_is_told, begin, end),
      cmocka_unit_test_setup_teardown(a_killed_process_says_nothing_more, begin, end),
      cmocka_unit_test_setup_teardown(children_go_with_a_process_that_exits, begin, end),
      cmocka_unit_test_setup_teardown(children_go_with_a_process_that_is_killed, begin, end),
      cmocka_unit_test_setup_teardown(a_child_that_keeps_the_pipe_holds_nothing_up, begin, end),
      cmocka_unit_test_setup_teardown(last_words_are_heard, begin, end),
      cmocka_unit_test_setup_teardown(nonsense_is_told_at_once, begin, end),
      cmocka_unit_test_setup_teardown(a_closed_pipe_is_told_at_once, begin, end),
      cmocka_unit_test_setup_teardown(a_message_arrives_and_sending_to_the_dead_is_harmless, begin, end),
      cmocka_unit_test_setup_teardown(a_program_that_is_not_there_fails, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
