// A server process of its own for a test.
//
// The binary is the one that Bazel built beside the test, or $ACLNN_SERVER_BINARY. The thread that starts it
// has to outlive it. What goes wrong with it fails the test that asks.
#ifndef ACLNN_TESTS_END_TO_END_TEST_SERVER_H
#define ACLNN_TESTS_END_TO_END_TEST_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct test_server {
  pid_t pid; // 0: none
  int output;
  char address[128]; // what it listens on
};

// Starts it on `listen` ("127.0.0.1:0", "unix:PATH") with up to two more flags (NULL: none) and waits until
// it listens.
void test_server_start(struct test_server *server, const char *listen, const char *flag, const char *value);

// SIGTERM; it has to end by itself and well. Nothing if it isn't running.
void test_server_stop(struct test_server *server);

// SIGKILL.
void test_server_kill(struct test_server *server);

// Stops it from running (SIGSTOP) and lets it run on.
void test_server_freeze(const struct test_server *server);
void test_server_thaw(const struct test_server *server);

#endif
