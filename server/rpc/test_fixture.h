// What every test of whole calls begins with: a server and a client in one process. Main thread.
#ifndef ACLNN_SERVER_RPC_TEST_FIXTURE_H
#define ACLNN_SERVER_RPC_TEST_FIXTURE_H

#include "server/rpc/test_client.h"
#include "server/rpc/test_server.h"

struct test_fixture {
  struct test_server *server;
  struct test_client client;
  size_t executors_left; // that the test leaves behind on purpose
};

// For cmocka: *state is a struct test_fixture. The end checks that everything was given back.
int test_fixture_set_up(void **state);
int test_fixture_tear_down(void **state);

// Opens an Execute call.
void test_fixture_execute(struct test_fixture *fixture, struct test_stream *stream);
// The call has to end so.
void test_stream_expect_failure(struct test_stream *stream, grpc_status_code code, enum reason reason);
void test_expect_job_number(const struct status *failed, const char *number);
grpc_status_code test_fixture_health(struct test_fixture *fixture, enum health_status *health);

// Lets the server's one queue finish what it was about when the client saw a message, turns the clock, and
// has the queue look at it.
void test_fixture_let_time_pass(struct test_fixture *fixture, int64_t by_ns);

#endif
