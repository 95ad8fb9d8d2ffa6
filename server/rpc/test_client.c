#include "server/rpc/test_client.h"

#include "proto/wire/error_details.h"

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

// Generous: what takes longer hangs.
#define PATIENCE_SECONDS 60

static gpr_timespec patience(void) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(PATIENCE_SECONDS, GPR_TIMESPAN));
}

void test_client_open(struct test_client *client, int descriptor) {
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  // Nothing is read ahead: what the server could send is what the test received, and little more.
  grpc_arg no_probe = {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_HTTP2_BDP_PROBE, .value.integer = 0};
  grpc_channel_args arguments = {1, &no_probe};
  client->channel = grpc_channel_create_from_fd("test", descriptor, credentials, &arguments);
  grpc_channel_credentials_release(credentials);
  client->events = grpc_completion_queue_create_for_pluck(NULL);
}

void test_client_close(struct test_client *client) {
  grpc_channel_destroy(client->channel);
  grpc_completion_queue_shutdown(client->events);
  grpc_completion_queue_destroy(client->events);
}

// Runs one batch to its end; the tag is the batch's own place on the stack.
static bool run_batch(struct test_client *client, grpc_call *call, const grpc_op *ops, size_t count) {
  int tag;
  grpc_call_error error = grpc_call_start_batch(call, ops, count, &tag, NULL);
  assert(error == GRPC_CALL_OK);
  grpc_event event = grpc_completion_queue_pluck(client->events, &tag, patience(), NULL);
  assert(event.type == GRPC_OP_COMPLETE);
  return event.success != 0;
}

static grpc_byte_buffer *to_byte_buffer(struct wire_buffer *bytes) {
  grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes->data, bytes->size);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  free(bytes->data);
  *bytes = (struct wire_buffer){0};
  return buffer;
}

// Takes the byte buffer.
static void from_byte_buffer(grpc_byte_buffer *buffer, struct wire_buffer *bytes) {
  grpc_byte_buffer_reader reader;
  int readable = grpc_byte_buffer_reader_init(&reader, buffer);
  assert(readable);
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  bytes->size = GRPC_SLICE_LENGTH(slice);
  bytes->data = malloc(bytes->size + 1);
  assert(bytes->data != NULL);
  memcpy(bytes->data, GRPC_SLICE_START_PTR(slice), bytes->size);
  grpc_slice_unref(slice);
  grpc_byte_buffer_reader_destroy(&reader);
  grpc_byte_buffer_destroy(buffer);
}

void test_stream_open(struct test_stream *stream, struct test_client *client, const char *path) {
  *stream = (struct test_stream){.client = client};
  grpc_slice method = grpc_slice_from_copied_string(path);
  grpc_slice host = grpc_slice_from_static_string("test");
  stream->call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->events,
                                          method, &host, patience(), NULL);
  grpc_slice_unref(method);
  grpc_op begin = {.op = GRPC_OP_SEND_INITIAL_METADATA};
  (void)run_batch(client, stream->call, &begin, 1);
}

bool test_stream_send(struct test_stream *stream, struct wire_buffer *message) {
  grpc_byte_buffer *buffer = to_byte_buffer(message);
  grpc_op send = {.op = GRPC_OP_SEND_MESSAGE};
  send.data.send_message.send_message = buffer;
  bool ok = run_batch(stream->client, stream->call, &send, 1);
  grpc_byte_buffer_destroy(buffer);
  return ok;
}

void test_stream_half_close(struct test_stream *stream) {
  grpc_op close = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
  (void)run_batch(stream->client, stream->call, &close, 1);
}

bool test_stream_receive(struct test_stream *stream, struct wire_buffer *message) {
  grpc_byte_buffer *buffer = NULL;
  grpc_metadata_array metadata;
  grpc_metadata_array_init(&metadata);
  grpc_op ops[2] = {{.op = GRPC_OP_RECV_MESSAGE}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
  ops[0].data.recv_message.recv_message = &buffer;
  ops[1].data.recv_initial_metadata.recv_initial_metadata = &metadata;
  (void)run_batch(stream->client, stream->call, ops, stream->metadata_received ? 1 : 2);
  stream->metadata_received = true;
  grpc_metadata_array_destroy(&metadata);
  if (buffer == NULL) {
    return false;
  }
  from_byte_buffer(buffer, message);
  return true;
}

void test_stream_cancel(struct test_stream *stream) {
  grpc_call_cancel(stream->call, NULL);
}

void test_stream_finish(struct test_stream *stream, struct test_outcome *outcome) {
  grpc_metadata_array trailers;
  grpc_metadata_array_init(&trailers);
  grpc_slice message = grpc_empty_slice();
  const char *error_string = NULL; // isn't written on success
  // gRPC holds everything back until somebody asks for the initial metadata.
  grpc_metadata_array metadata;
  grpc_metadata_array_init(&metadata);
  grpc_op ops[2] = {{.op = GRPC_OP_RECV_STATUS_ON_CLIENT}, {.op = GRPC_OP_RECV_INITIAL_METADATA}};
  ops[0].data.recv_status_on_client.trailing_metadata = &trailers;
  ops[0].data.recv_status_on_client.status = &outcome->code;
  ops[0].data.recv_status_on_client.status_details = &message;
  ops[0].data.recv_status_on_client.error_string = &error_string;
  ops[1].data.recv_initial_metadata.recv_initial_metadata = &metadata;
  (void)run_batch(stream->client, stream->call, ops, stream->metadata_received ? 1 : 2);
  grpc_metadata_array_destroy(&metadata);
  char *text = grpc_slice_to_c_string(message);
  const uint8_t *details = NULL;
  size_t details_bytes = 0;
  for (size_t i = 0; i < trailers.count; ++i) {
    if (grpc_slice_str_cmp(trailers.metadata[i].key, ERROR_DETAILS_KEY) == 0) {
      details = GRPC_SLICE_START_PTR(trailers.metadata[i].value);
      details_bytes = GRPC_SLICE_LENGTH(trailers.metadata[i].value);
    }
  }
  error_details_read((int)outcome->code, text, details, details_bytes, &outcome->failed, NULL);
  gpr_free(text);
  gpr_free((void *)error_string);
  grpc_slice_unref(message);
  grpc_metadata_array_destroy(&trailers);
  grpc_call_unref(stream->call);
  stream->call = NULL;
}

void test_client_call(struct test_client *client, const char *path, struct wire_buffer *request,
                      struct wire_buffer *response, struct test_outcome *outcome) {
  struct test_stream stream;
  test_stream_open(&stream, client, path);
  (void)test_stream_send(&stream, request);
  test_stream_half_close(&stream);
  *response = (struct wire_buffer){0};
  (void)test_stream_receive(&stream, response);
  test_stream_finish(&stream, outcome);
}
