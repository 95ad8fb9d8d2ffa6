#include "tests/bench/transport_bench/bare_stream.h"

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/timing.h"

#include <stdbool.h>
#include <string.h>

// What an event is of.
static char send_tag, receive_tag, status_tag;

static void check_lengths(size_t bytes, size_t message_bytes) {
  if (bytes < 1 || bytes > BARE_BYTES_MAX || message_bytes < 1 || message_bytes > bytes) {
    command_fail("a length out of range");
  }
}

static void *next(const struct bare_client *client) {
  return grpc_completion_queue_next(client->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).tag;
}

static void begin(struct bare_call *call, const struct bare_client *client, void *method) {
  call->begin_ns = timing_now_ns();
  bare_call_begin(call, client, method, client->queue);
  const grpc_op status = bare_call_receive_status(call);
  bare_call_start(call, &status, 1, &status_tag);
  const grpc_op receive[] = {bare_call_receive_initial_metadata(call), bare_call_receive(&call->reply)};
  bare_call_start(call, receive, 2, &receive_tag);
}

static void end(struct bare_call *call) {
  bare_call_end(call);
  command_figure("seconds", (double)(timing_now_ns() - call->begin_ns) / 1e9);
}

void bare_stream_download(const struct bare_client *client, size_t bytes, size_t message_bytes) {
  check_lengths(bytes, message_bytes);
  struct bare_call call;
  begin(&call, client, client->download);
  const int64_t lengths[2] = {(int64_t)bytes, (int64_t)message_bytes};
  grpc_byte_buffer *request = bare_message((const uint8_t *)lengths, sizeof lengths);
  const grpc_op send[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA}, bare_call_send(request), {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}};
  bare_call_start(&call, send, 3, &send_tag);
  size_t received = 0;
  while (call.batches > 0) {
    void *tag = next(client);
    --call.batches;
    grpc_byte_buffer *message = call.reply;
    if (tag != &receive_tag || message == NULL) {
      continue;
    }
    // The next one may come while this one is copied.
    const grpc_op receive = bare_call_receive(&call.reply);
    bare_call_start(&call, &receive, 1, &receive_tag);
    received += bare_take_message(message, client->buffer + received, BARE_BYTES_MAX - received);
  }
  grpc_byte_buffer_destroy(request);
  if (received != bytes) {
    command_fail("%zu of %zu bytes came", received, bytes);
  }
  end(&call);
}

// Sends the next message, or after the last one that there are no more. False: that was said.
static bool send_next(struct bare_call *call, const struct bare_client *client, size_t *sent, size_t bytes,
                      size_t message_bytes) {
  if (*sent == bytes) {
    return false;
  }
  size_t length = bytes - *sent < message_bytes ? bytes - *sent : message_bytes;
  grpc_byte_buffer *message = bare_message(client->buffer + *sent, length);
  grpc_op operations[3];
  size_t count = 0;
  if (*sent == 0) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
  }
  operations[count++] = bare_call_send(message);
  *sent += length;
  if (*sent == bytes) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
  }
  bare_call_start(call, operations, count, &send_tag);
  grpc_byte_buffer_destroy(message);
  return true;
}

void bare_stream_upload(const struct bare_client *client, size_t bytes, size_t message_bytes) {
  check_lengths(bytes, message_bytes);
  struct bare_call call;
  begin(&call, client, client->upload);
  size_t sent = 0;
  bool more = send_next(&call, client, &sent, bytes, message_bytes);
  while (call.batches > 0) {
    void *tag = next(client);
    --call.batches;
    if (tag == &send_tag && more) {
      more = send_next(&call, client, &sent, bytes, message_bytes);
    }
  }
  if (call.reply == NULL) {
    command_fail("an upload without its reply");
  }
  uint8_t reply[sizeof(int64_t)];
  (void)bare_take_message(call.reply, reply, sizeof reply);
  end(&call);
}
