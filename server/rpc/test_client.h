// A client for tests: one connection, calls that are driven step by step. Each step waits for its end. One
// thread.
#ifndef ACLNN_SERVER_RPC_TEST_CLIENT_H
#define ACLNN_SERVER_RPC_TEST_CLIENT_H

#include "kernels/status.h"
#include "proto/wire/messages.h"

#include <grpc/grpc.h>

struct test_client {
  grpc_channel *channel;
  grpc_completion_queue *events;
};

void test_client_open(struct test_client *client, int descriptor);
void test_client_close(struct test_client *client);

// How a call ended: failed.reason is REASON_NONE when there were no details of ours.
struct test_outcome {
  grpc_status_code code;
  struct status failed;
};

// One call from its begin to its end. Takes the request's bytes; `response` is the caller's to free.
void test_client_call(struct test_client *client, const char *path, struct wire_buffer *request,
                      struct wire_buffer *response, struct test_outcome *outcome);

struct test_stream {
  struct test_client *client;
  grpc_call *call;
  bool metadata_received;
};

void test_stream_open(struct test_stream *stream, struct test_client *client, const char *path);
// Takes the message's bytes. False: the call is over.
bool test_stream_send(struct test_stream *stream, struct wire_buffer *message);
void test_stream_half_close(struct test_stream *stream);
// The next message, the caller's to free; false: the call is over.
bool test_stream_receive(struct test_stream *stream, struct wire_buffer *message);
void test_stream_cancel(struct test_stream *stream);
// Waits for the status and frees the call.
void test_stream_finish(struct test_stream *stream, struct test_outcome *outcome);

#endif
