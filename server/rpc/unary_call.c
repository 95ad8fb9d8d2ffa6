#include "server/rpc/unary_call.h"

#include "server/rpc/final_status.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <stdlib.h>

// Received, answered and closed come back in any order; the last one frees the call.
#define UNARY_OPERATIONS 3

struct unary_call {
  struct server_call base;
  const struct service_method *method;
  struct queue_tag received, answered, closed;
  struct timer_entry receive_timer;
  bool timed_out; // and answered; what comes of the receive doesn't matter any more
  unsigned pending;
  grpc_byte_buffer *message;
  grpc_slice request;
  int cancelled;
  struct final_status status;
  grpc_byte_buffer *response;
};

static void operation_came_back(struct unary_call *unary) {
  if (--unary->pending > 0) {
    return;
  }
  server_call_leave(&unary->base);
  grpc_slice_unref(unary->request);
  final_status_free(&unary->status);
  if (unary->message != NULL) {
    grpc_byte_buffer_destroy(unary->message);
  }
  if (unary->response != NULL) {
    grpc_byte_buffer_destroy(unary->response);
  }
  free(unary);
}

static void on_closed(struct queue_tag *tag, bool ok) {
  (void)ok;
  operation_came_back(QUEUE_CONTAINER_OF(tag, struct unary_call, closed));
}

static void on_answered(struct queue_tag *tag, bool ok) {
  (void)ok; // the client may be gone
  operation_came_back(QUEUE_CONTAINER_OF(tag, struct unary_call, answered));
}

// Sends the response, if there is one, and the status.
static void send_answer(struct unary_call *unary) {
  grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
  size_t count = 1;
  if (unary->response != NULL) {
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count].data.send_message.send_message = unary->response;
    ++count;
  }
  final_status_op(&unary->status, &ops[count++]);
  queue_start_batch(unary->base.call, ops, count, &unary->answered);
}

const uint8_t *unary_call_request(const struct unary_call *call, size_t *size) {
  *size = GRPC_SLICE_LENGTH(call->request);
  return GRPC_SLICE_START_PTR(call->request);
}

const char *unary_call_identity(const struct unary_call *call) {
  return call->base.identity;
}

static void free_response(void *data) {
  free(data);
}

void unary_call_respond(struct unary_call *call, struct wire_buffer *response) {
  grpc_slice slice = response->size == 0 ? grpc_empty_slice()
                                         : grpc_slice_new(response->data, response->size, free_response);
  if (response->size == 0) {
    free(response->data);
  }
  *response = (struct wire_buffer){0};
  call->response = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  final_status_ok(&call->status);
  send_answer(call);
}

void unary_call_fail(struct unary_call *call, const struct status *failed) {
  service_log_failure(server_call_context(&call->base), failed);
  final_status_failed(&call->status, failed);
  send_answer(call);
}

void unary_call_fail_plain(struct unary_call *call, enum rpc_code code, const char *message) {
  final_status_plain(&call->status, code, message);
  send_answer(call);
}

static void on_received(struct queue_tag *tag, bool ok) {
  struct unary_call *unary = QUEUE_CONTAINER_OF(tag, struct unary_call, received);
  timer_list_disarm(&unary->receive_timer);
  if (unary->timed_out) {
    operation_came_back(unary);
    return;
  }
  if (ok && unary->message != NULL) {
    grpc_byte_buffer_reader reader;
    if (grpc_byte_buffer_reader_init(&reader, unary->message)) {
      unary->request = grpc_byte_buffer_reader_readall(&reader);
      grpc_byte_buffer_reader_destroy(&reader);
      unary->method->handle(server_call_context(&unary->base), unary);
      operation_came_back(unary);
      return;
    }
  }
  // What gRPC itself refused or lost has its status already; then this one goes nowhere.
  struct status status;
  (void)status_fail(&status, REASON_MESSAGE_INVALID, NULL,
                    "the call ended without a readable request message");
  unary_call_fail(unary, &status);
  operation_came_back(unary);
}

// The end of the call also ends the receive, and frees what has come of the message.
static void on_receive_idle(struct timer_entry *timer) {
  struct unary_call *unary = QUEUE_CONTAINER_OF(timer, struct unary_call, receive_timer);
  struct status status;
  unary->timed_out = true;
  (void)status_fail(&status, REASON_IDLE_TIMEOUT, NULL, "the request message didn't come in time");
  unary_call_fail(unary, &status);
}

void unary_call_start(struct server_queue *home, grpc_call *call, const struct service_method *method) {
  struct unary_call *unary = calloc(1, sizeof *unary);
  if (unary == NULL) {
    grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for the call", NULL);
    grpc_call_unref(call);
    return;
  }
  unary->base.call = call;
  unary->method = method;
  unary->received.event = on_received;
  unary->answered.event = on_answered;
  unary->closed.event = on_closed;
  unary->receive_timer.expired = on_receive_idle;
  unary->pending = UNARY_OPERATIONS;
  unary->request = grpc_empty_slice();
  final_status_ok(&unary->status);
  server_call_enter(home, &unary->base);
  // The notice of the end always succeeds and would make what is batched with it look so too.
  grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
  close.data.recv_close_on_server.cancelled = &unary->cancelled;
  queue_start_batch(call, &close, 1, &unary->closed);
  if (method == NULL) {
    // As gRPC answers for services that register their methods: at once, without details.
    --unary->pending;
    unary_call_fail_plain(unary, RPC_CODE_UNIMPLEMENTED, "unknown method");
    return;
  }
  grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE};
  receive.data.recv_message.recv_message = &unary->message;
  queue_arm(server_call_queue(&unary->base), &unary->receive_timer);
  queue_start_batch(call, &receive, 1, &unary->received);
}
