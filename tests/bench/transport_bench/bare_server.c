// bare_server ADDRESS QUEUES [CHANNEL_ARGUMENT=VALUE...]: see bare.h. Each queue has a thread.

#include "tests/bench/transport_bench/bare.h"
#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calls of a method that one queue can take over at once.
#define ECHO_SLOTS 64
#define STREAM_SLOTS 4
#define QUEUES_MAX 64

enum method { METHOD_ECHO, METHOD_DOWNLOAD, METHOD_UPLOAD, METHOD_COUNT };

static const struct {
  const char *path;
  grpc_server_register_method_payload_handling payload;
  int slots;
} methods[METHOD_COUNT] = {
    {BARE_ECHO, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, ECHO_SLOTS},
    {BARE_DOWNLOAD, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, STREAM_SLOTS},
    {BARE_UPLOAD, GRPC_SRM_PAYLOAD_NONE, STREAM_SLOTS},
};

struct server {
  grpc_server *grpc;
  void *registered[METHOD_COUNT];
  uint8_t *source; // what downloads send
  uint8_t *sink;   // where uploads go, all to the same place
};

// WAITING -> STREAMING -> LAST -> WAITING; an echo has no stream in between.
enum state { WAITING, STREAMING, LAST };

// One batch is under way at a time: the call is its tag.
struct call {
  struct server *server;
  grpc_completion_queue *queue;
  enum method method;
  enum state state;
  grpc_call *call;
  grpc_metadata_array metadata;
  gpr_timespec deadline;
  grpc_byte_buffer *message;
  size_t done, total, step;
  int cancelled;
};

static void start(struct call *call, const grpc_op *operations, size_t count) {
  if (grpc_call_start_batch(call->call, operations, count, call, NULL) != GRPC_CALL_OK) {
    command_fail("a batch was refused");
  }
}

static void wait_for_call(struct call *call) {
  call->state = WAITING;
  call->call = NULL;
  call->message = NULL;
  call->done = 0;
  grpc_byte_buffer **payload = call->method == METHOD_UPLOAD ? NULL : &call->message;
  if (grpc_server_request_registered_call(call->server->grpc, call->server->registered[call->method],
                                          &call->call, &call->deadline, &call->metadata, payload, call->queue,
                                          call->queue, call) != GRPC_CALL_OK) {
    command_fail("a request for calls was refused");
  }
}

// Sends `bytes` from `data` as the stream's last message, and the status.
static void send_last(struct call *call, const uint8_t *data, size_t bytes, bool first) {
  grpc_byte_buffer *message = bare_message(data, bytes);
  const grpc_op operations[] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server.status = GRPC_STATUS_OK},
      {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->cancelled},
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
  };
  call->state = LAST;
  start(call, operations, first ? 4 : 3);
  grpc_byte_buffer_destroy(message);
}

static void send_next(struct call *call) {
  bool first = call->done == 0;
  size_t bytes = call->total - call->done;
  const uint8_t *data = call->server->source + call->done;
  if (bytes <= call->step) {
    send_last(call, data, bytes, first);
    return;
  }
  call->done += call->step;
  grpc_byte_buffer *message = bare_message(data, call->step);
  const grpc_op operations[] = {
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
  };
  start(call, operations, first ? 2 : 1);
  grpc_byte_buffer_destroy(message);
}

static void receive_next(struct call *call, bool first) {
  const grpc_op operations[] = {
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message},
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
  };
  start(call, operations, first ? 2 : 1);
}

static size_t checked_length(int64_t length) {
  if (length < 1 || (size_t)length > BARE_BYTES_MAX) {
    command_fail("a length of %lld bytes", (long long)length);
  }
  return (size_t)length;
}

static void begin(struct call *call) {
  call->state = STREAMING;
  if (call->method == METHOD_UPLOAD) {
    receive_next(call, true);
    return;
  }
  if (call->message == NULL) { // its client has gone
    call->state = LAST;
    const grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                           .data.recv_close_on_server.cancelled = &call->cancelled};
    start(call, &close, 1);
    return;
  }
  uint8_t request[4096];
  int64_t lengths[2] = {0};
  size_t bytes = bare_take_message(call->message, request, sizeof request);
  call->message = NULL;
  memcpy(lengths, request, bytes < sizeof lengths ? bytes : sizeof lengths);
  call->total = checked_length(lengths[0]);
  if (call->method == METHOD_ECHO) {
    send_last(call, call->server->source, call->total, true);
  } else {
    call->step = checked_length(lengths[1]);
    send_next(call);
  }
}

static void take_upload(struct call *call) {
  grpc_byte_buffer *message = call->message;
  if (message == NULL) {
    send_last(call, call->server->source, sizeof(int64_t), false);
    return;
  }
  // The next one may come while this one is copied.
  receive_next(call, false);
  call->done += bare_take_message(message, call->server->sink + call->done, BARE_BYTES_MAX - call->done);
}

static void advance(struct call *call) {
  switch (call->state) {
  case WAITING:
    begin(call);
    break;
  case STREAMING:
    if (call->method == METHOD_UPLOAD) {
      take_upload(call);
    } else {
      send_next(call);
    }
    break;
  case LAST:
    grpc_call_unref(call->call);
    call->metadata.count = 0;
    wait_for_call(call);
    break;
  }
}

struct queue {
  struct server *server;
  grpc_completion_queue *completions;
  pthread_t thread;
};

static void *serve(void *argument) {
  struct queue *queue = argument;
  for (int method = 0; method < METHOD_COUNT; ++method) {
    for (int i = 0; i < methods[method].slots; ++i) {
      struct call *call = calloc(1, sizeof *call);
      if (call == NULL) {
        command_fail("no memory for calls");
      }
      call->server = queue->server;
      call->queue = queue->completions;
      call->method = (enum method)method;
      grpc_metadata_array_init(&call->metadata);
      wait_for_call(call);
    }
  }
  for (;;) {
    grpc_event event =
        grpc_completion_queue_next(queue->completions, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    advance(event.tag);
  }
  return NULL;
}

static int listen_on(grpc_server *server, const char *address) {
  grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(server, address, credentials);
  grpc_server_credentials_release(credentials);
  if (port == 0) {
    command_fail("can't listen on %s", address);
  }
  return port;
}

int main(int argument_count, char **words) {
  long queue_count = argument_count < 3 ? 0 : strtol(words[2], NULL, 10);
  if (queue_count < 1 || queue_count > QUEUES_MAX) {
    command_fail("usage: bare_server ADDRESS QUEUES [CHANNEL_ARGUMENT=VALUE...]");
  }
  warm_memory_keep_heap();
  grpc_init();
  grpc_arg arguments[BARE_ARGUMENTS_MAX];
  grpc_channel_args all = bare_arguments(words + 3, argument_count - 3, arguments);
  struct server server = {.grpc = grpc_server_create(&all, NULL),
                          .source = warm_memory_get(BARE_BYTES_MAX),
                          .sink = warm_memory_get(BARE_BYTES_MAX)};
  for (int method = 0; method < METHOD_COUNT; ++method) {
    server.registered[method] =
        grpc_server_register_method(server.grpc, methods[method].path, NULL, methods[method].payload, 0);
  }
  struct queue queues[QUEUES_MAX];
  for (long i = 0; i < queue_count; ++i) {
    queues[i].server = &server;
    queues[i].completions = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server.grpc, queues[i].completions, NULL);
  }
  int port = listen_on(server.grpc, words[1]);
  grpc_server_start(server.grpc);
  for (long i = 0; i < queue_count; ++i) {
    if (pthread_create(&queues[i].thread, NULL, serve, &queues[i]) != 0) {
      command_fail("no thread");
    }
  }
  if (strncmp(words[1], "unix:", 5) == 0) {
    command_serve_until_end(words[1]);
  } else {
    char address[128];
    snprintf(address, sizeof address, "%.*s:%d", (int)strcspn(words[1], ":"), words[1], port);
    command_serve_until_end(address);
  }
  // The threads are in the middle of calls perhaps: the process ends, nothing else does.
  _Exit(0);
}
