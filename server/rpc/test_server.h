// A server for tests, without sockets of its own: its backend runs jobs when the test says so, its clock is
// the test's, and connections are socket pairs. Main thread.
#ifndef ACLNN_SERVER_RPC_TEST_SERVER_H
#define ACLNN_SERVER_RPC_TEST_SERVER_H

#include "server/rpc/server.h"

#define TEST_SERVER_MEMORY_BYTES ((uint64_t)64 << 20)
#define TEST_SERVER_IDLE_NS (INT64_C(60) * 1000000000)

struct test_server;

struct test_server *test_server_start(void);
// Refuses new calls from now on; optional.
void test_server_begin_to_stop(struct test_server *server);
// Stops it and checks that nothing is left: no call, no memory, no executor but `executors`.
void test_server_stop(struct test_server *server, size_t executors);

// The client's end of a new connection.
int test_server_connect(struct test_server *server);

struct service_context *test_server_context(struct test_server *server);

// From now on jobs that are submitted stay with the backend until released, but the next so many; then they
// run.
void test_server_hold_jobs(struct test_server *server, size_t but);
void test_server_release_jobs(struct test_server *server);
// Waits until so many jobs are held.
void test_server_await_held(struct test_server *server, size_t jobs);

// From now on each run begins with this, on the thread that runs it.
void test_server_watch_runs(struct test_server *server, void (*runs)(void *context), void *context);

// There is an NPU too: it gives the CPU's bits as numerics DEVICE, but its next so many runs are lost with
// it.
void test_server_lose_device(struct test_server *server, int runs);

// Waits until so many jobs wait for memory.
void test_server_await_queued(struct test_server *server, size_t jobs);
// Waits until so many calls are open.
void test_server_await_calls(struct test_server *server, size_t calls);

void test_server_get_traffic(struct test_server *server, struct server_traffic *traffic);

void test_server_turn_clock(struct test_server *server, int64_t by_ns);

#endif
