#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BINARY_IN_RUNFILES "server/aclnn-server"

static const char *find_binary(void) {
  const char *given = getenv("ACLNN_SERVER_BINARY");
  return given == NULL || given[0] == '\0' ? BINARY_IN_RUNFILES : given;
}

// Reads lines until one tells the address.
static void read_address(struct test_server *server) {
  FILE *lines = fdopen(dup(server->output), "r");
  assert_non_null(lines);
  char line[256];
  server->address[0] = '\0';
  while (server->address[0] == '\0') {
    assert_non_null(fgets(line, sizeof line, lines)); // it ended before it listened
    sscanf(line, "listening on %127s", server->address);
  }
  fclose(lines);
}

void test_server_start(struct test_server *server, const char *listen, const char *flag, const char *value) {
  const char *binary = find_binary();
  const char *arguments[] = {binary, "--listen", listen, flag, value, NULL};
  int pipes[2];
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  pid_t pid = fork();
  assert_int_not_equal(pid, -1);
  if (pid == 0) {
    // Whatever becomes of the test, its server ends with it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(pipes[1], STDOUT_FILENO);
    execv(binary, (char **)arguments);
    _exit(127);
  }
  close(pipes[1]);
  server->pid = pid;
  server->output = pipes[0];
  read_address(server);
}

static int reap(struct test_server *server) {
  int status = 0;
  assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
  close(server->output);
  server->pid = 0;
  return status;
}

void test_server_stop(struct test_server *server) {
  if (server->pid == 0) {
    return;
  }
  assert_int_equal(kill(server->pid, SIGTERM), 0);
  assert_int_equal(reap(server), 0);
}

void test_server_kill(struct test_server *server) {
  assert_int_equal(kill(server->pid, SIGKILL), 0);
  (void)reap(server);
}

void test_server_freeze(const struct test_server *server) {
  assert_int_equal(kill(server->pid, SIGSTOP), 0);
}

void test_server_thaw(const struct test_server *server) {
  assert_int_equal(kill(server->pid, SIGCONT), 0);
}
