#include "client/c/channel.h"

#include "client/c/channel_private.h"
#include "client/c/error.h"
#include "client/c/handover.h"
#include "proto/wire/error_details.h"

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

// Below this a copy is cheaper than to lend memory and to hear that it is back.
#define LEND_BYTES_MIN ((size_t)16384)

static struct channel_call *create_call(struct channel *channel, const struct call_scope *scope,
                                        const char *method, int64_t deadline_ns, aclnn_error *error) {
  struct channel_call *call = channel_take_idle_call(channel);
  if (call == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a call");
    return NULL;
  }
  memset(call->under_way, 0, sizeof call->under_way);
  call->begun = false;
  call->headers_sent = false;
  call->sends_end_alone = false;
  call->received = NULL;
  call->span_count = 0;
  call->core_error = NULL;
  call->code = GRPC_STATUS_UNKNOWN;
  call->details = grpc_empty_slice();
  call->scope = *scope;
  call->deadline_ns = deadline_ns;
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
  grpc_channel *way = channel_distance_is_far(&channel->distance) ? channel->far : channel->near;
  call->call = grpc_channel_create_call(
      way, NULL, GRPC_PROPAGATE_DEFAULTS, event_queue_completions(channel->events),
      grpc_slice_from_static_string(method), NULL, event_deadline(deadline_ns), NULL);
  assert(call->call != NULL);
  if (!channel_enlist(call, scope->cancel_generation)) {
    grpc_call_unref(call->call);
    channel_give_idle_call(call);
    (void)channel_fail_cancelled(error);
    return NULL;
  }
  return call;
}

static void start(struct channel_call *call, enum batch batch, const grpc_op *operations, size_t count) {
  assert(!call->under_way[batch]);
  call->under_way[batch] = true;
  HANDOVER_GIVE(&call->tags[batch]);
  grpc_call_error started = grpc_call_start_batch(call->call, operations, count, &call->tags[batch], NULL);
  assert(started == GRPC_CALL_OK);
}

static grpc_op receive_status_operation(struct channel_call *call) {
  return (grpc_op){
      .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
      .data.recv_status_on_client =
          {
              .trailing_metadata = &call->trailing_metadata,
              .status = &call->code,
              .status_details = &call->details,
              .error_string = &call->core_error,
          },
  };
}

static grpc_op receive_initial_metadata_operation(struct channel_call *call) {
  return (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                   .data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata};
}

static grpc_op receive_message_operation(struct channel_call *call) {
  return (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->received};
}

bool channel_call_open(struct channel *channel, const struct call_scope *scope, const char *method,
                       bool ends_at_deadline, struct channel_call **call, aclnn_error *error) {
  int64_t deadline_ns = ends_at_deadline ? scope->deadline_ns : CLOCK_NEVER;
  struct channel_call *opened = create_call(channel, scope, method, deadline_ns, error);
  if (opened == NULL) {
    return false;
  }
  *call = opened;
  return true;
}

static void set_begun(struct channel_call *call) {
  call->begun = true;
  call->awaits_reply = channel_distance_is_open(&call->channel->distance);
  if (call->awaits_reply) {
    call->begun_ns = clock_now_ns();
  }
}

static void learn_distance(struct channel_call *call) {
  if (call->awaits_reply) {
    call->awaits_reply = false;
    channel_distance_learn(&call->channel->distance, clock_now_ns() - call->begun_ns);
  }
}

static void start_status(struct channel_call *call) {
  const grpc_op status = receive_status_operation(call);
  start(call, BATCH_STATUS, &status, 1);
}

// The first to send or to wait asks for what comes.
static void begin(struct channel_call *call) {
  if (call->begun) {
    return;
  }
  set_begun(call);
  start_status(call);
  const grpc_op receive[] = {
      receive_initial_metadata_operation(call),
      receive_message_operation(call),
  };
  start(call, BATCH_RECEIVE, receive, 2);
}

static void return_lease(void *lease) {
  HANDOVER_TAKE(lease);
  lease_return(lease);
}

static grpc_slice make_slice(const struct channel_part *part) {
  if (part->lease == NULL || part->size < LEND_BYTES_MIN) {
    return grpc_slice_from_copied_buffer(part->data, part->size);
  }
  lease_take(part->lease);
  HANDOVER_GIVE(part->lease);
  return grpc_slice_new_with_user_data((void *)part->data, part->size, return_lease, part->lease);
}

static grpc_byte_buffer *make_buffer(const struct channel_part *parts, size_t part_count) {
  assert(part_count <= CHANNEL_PARTS_MAX);
  grpc_slice slices[CHANNEL_PARTS_MAX];
  for (size_t i = 0; i < part_count; i++) {
    slices[i] = make_slice(&parts[i]);
  }
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, part_count);
  for (size_t i = 0; i < part_count; i++) {
    grpc_slice_unref(slices[i]);
  }
  return buffer;
}

static void start_sending(struct channel_call *call, grpc_byte_buffer *message, enum channel_send how) {
  begin(call);
  grpc_op operations[3];
  size_t count = 0;
  if (!call->headers_sent) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
  }
  if (message != NULL) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE,
                                    .flags = how == CHANNEL_SEND_WITH_NEXT ? GRPC_WRITE_BUFFER_HINT : 0,
                                    .data.send_message.send_message = message};
  }
  if (how == CHANNEL_SEND_LAST) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
  }
  call->headers_sent = true;
  call->sends_end_alone = message == NULL;
  start(call, BATCH_SEND, operations, count);
}

static size_t size_of_parts(const struct channel_part *parts, size_t part_count) {
  size_t size = 0;
  for (size_t i = 0; i < part_count; i++) {
    size += parts[i].size;
  }
  return size;
}

// One batch for the call's only message and the reply.
static void start_exchange(struct channel_call *call, grpc_byte_buffer *message) {
  set_begun(call);
  call->headers_sent = true;
  const grpc_op operations[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      receive_initial_metadata_operation(call),
      receive_message_operation(call),
  };
  start(call, BATCH_RECEIVE, operations, sizeof operations / sizeof operations[0]);
  start_status(call);
}

bool channel_call_send(struct channel_call *call, const struct channel_part *parts, size_t part_count,
                       enum channel_send how) {
  bool exchanged =
      how == CHANNEL_SEND_LAST && !call->begun && size_of_parts(parts, part_count) < LEND_BYTES_MIN;
  grpc_byte_buffer *buffer = make_buffer(parts, part_count);
  if (exchanged) {
    start_exchange(call, buffer);
  } else {
    start_sending(call, buffer, how);
  }
  grpc_byte_buffer_destroy(buffer);
  return !exchanged;
}

void channel_call_send_end(struct channel_call *call) {
  start_sending(call, NULL, CHANNEL_SEND_LAST);
}

static void add_span(struct channel_call *call, const uint8_t *data, size_t size) {
  if (call->span_count == call->span_capacity) {
    size_t capacity = call->span_capacity == 0 ? 64 : 2 * call->span_capacity;
    struct span *spans = realloc(call->spans, capacity * sizeof *spans);
    // A message has as many spans as gRPC has just allocated itself; there is no going on without.
    assert(spans != NULL);
    call->spans = spans;
    call->span_capacity = capacity;
  }
  call->spans[call->span_count++] = (struct span){data, size};
}

static void list_spans(struct channel_call *call) {
  call->span_count = 0;
  int readable = grpc_byte_buffer_reader_init(&call->reader, call->received);
  assert(readable == 1); // fails only for compressed buffers, which core has decompressed
  grpc_slice *slice;
  while (grpc_byte_buffer_reader_peek(&call->reader, &slice) != 0) {
    add_span(call, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
  }
}

const struct span *channel_call_message(struct channel_call *call, size_t *span_count) {
  *span_count = call->span_count;
  return call->spans;
}

static void release_message(struct channel_call *call) {
  if (call->received != NULL) {
    grpc_byte_buffer_reader_destroy(&call->reader);
    grpc_byte_buffer_destroy(call->received);
    call->received = NULL;
  }
  call->span_count = 0;
}

void channel_call_read_on(struct channel_call *call) {
  release_message(call);
  const grpc_op operation = receive_message_operation(call);
  start(call, BATCH_RECEIVE, &operation, 1);
}

static bool is_under_way(const struct channel_call *call) {
  for (size_t i = 0; i < BATCH_COUNT; i++) {
    if (call->under_way[i]) {
      return true;
    }
  }
  return false;
}

// Waits for an event of the call's. Once the status is there, all else has to follow at once; if it doesn't,
// a write is stuck in a connection that takes no more bytes, and only the end of that connection helps.
static bool wait_for_event(struct channel_call *call, int64_t deadline_ns, struct event *event) {
  struct event_queue *events = call->channel->events;
  if (call->under_way[BATCH_STATUS]) {
    return event_queue_wait(events, &call->waiter, deadline_ns, event);
  }
  if (!event_queue_wait(events, &call->waiter, call->stuck_after_ns, event)) {
    channel_break_connections(call->channel);
    (void)event_queue_wait(events, &call->waiter, CLOCK_NEVER, event);
  }
  return true;
}

enum channel_event channel_call_next(struct channel_call *call, int64_t deadline_ns) {
  begin(call);
  while (is_under_way(call)) {
    struct event event;
    if (!wait_for_event(call, deadline_ns, &event)) {
      return CHANNEL_TIMED_OUT;
    }
    enum batch batch = (enum batch)event.number;
    call->under_way[batch] = false;
    if (batch == BATCH_STATUS) {
      call->stuck_after_ns = clock_now_ns() + CHANNEL_STUCK_AFTER_NS;
    }
    if (batch == BATCH_SEND && event.ok && !call->sends_end_alone) {
      return CHANNEL_SENT;
    }
    if (batch == BATCH_RECEIVE && call->received != NULL) {
      learn_distance(call);
      list_spans(call);
      return CHANNEL_RECEIVED;
    }
    // What failed, or ended without a message, is explained by the status, which comes too.
  }
  return CHANNEL_ENDED;
}

static bool slice_is(grpc_slice slice, const char *text) {
  return GRPC_SLICE_LENGTH(slice) == strlen(text) &&
         memcmp(GRPC_SLICE_START_PTR(slice), text, strlen(text)) == 0;
}

bool channel_call_result(struct channel_call *call, aclnn_error *error) {
  assert(!call->under_way[BATCH_STATUS]);
  if (call->code == GRPC_STATUS_OK) {
    return true;
  }
  if (call->code == GRPC_STATUS_DEADLINE_EXCEEDED) {
    return channel_fail_timed_out(&call->scope, error);
  }
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  size_t length = GRPC_SLICE_LENGTH(call->details);
  if (length > STATUS_MESSAGE_BYTES_MAX) {
    length = STATUS_MESSAGE_BYTES_MAX;
  }
  memcpy(message, GRPC_SLICE_START_PTR(call->details), length);
  message[length] = '\0';
  const uint8_t *details = NULL;
  size_t size = 0;
  for (size_t i = 0; i < call->trailing_metadata.count; i++) {
    const grpc_metadata *entry = &call->trailing_metadata.metadata[i];
    if (slice_is(entry->key, ERROR_DETAILS_KEY)) {
      details = GRPC_SLICE_START_PTR(entry->value);
      size = GRPC_SLICE_LENGTH(entry->value);
    }
  }
  return error_from_call(error, (int)call->code, message, details, size);
}

bool channel_call_fail_incomplete(struct channel_call *call, const char *what, aclnn_error *error) {
  if (channel_scope_is_cancelled(call->channel, &call->scope)) {
    return channel_fail_cancelled(error);
  }
  if (clock_now_ns() >= call->deadline_ns) {
    return channel_fail_timed_out(&call->scope, error);
  }
  return error_fail(error, REASON_INTERNAL, NULL, "%s", what);
}

void channel_call_close(struct channel_call *call) {
  if (is_under_way(call)) {
    grpc_call_cancel(call->call, NULL);
  }
  while (is_under_way(call)) {
    (void)channel_call_next(call, CLOCK_NEVER);
    release_message(call);
  }
  release_message(call);
  channel_delist(call);
  grpc_call_unref(call->call);
  grpc_slice_unref(call->details);
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  gpr_free((void *)call->core_error);
  channel_give_idle_call(call);
}

// ---- Unary calls

static bool copy_message(struct channel_call *call, struct wire_buffer *response, aclnn_error *error) {
  size_t size = 0;
  for (size_t i = 0; i < call->span_count; i++) {
    size += call->spans[i].size;
  }
  uint8_t *data = malloc(size > 0 ? size : 1);
  if (data == NULL) {
    return error_fail(error, REASON_INTERNAL, NULL, "no memory for a reply of %zu bytes", size);
  }
  size_t offset = 0;
  for (size_t i = 0; i < call->span_count; i++) {
    if (call->spans[i].size > 0) {
      memcpy(data + offset, call->spans[i].data, call->spans[i].size);
      offset += call->spans[i].size;
    }
  }
  *response = (struct wire_buffer){data, size};
  return true;
}

bool channel_unary(struct channel *channel, const struct call_scope *scope, const char *method,
                   const struct wire_buffer *request, struct wire_buffer *response, aclnn_error *error) {
  struct channel_call *call = create_call(channel, scope, method, scope->deadline_ns, error);
  if (call == NULL) {
    return false;
  }
  const struct channel_part part = {request->data, request->size, NULL};
  grpc_byte_buffer *buffer = make_buffer(&part, 1);
  const grpc_op operations[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = buffer},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      receive_initial_metadata_operation(call),
      receive_message_operation(call),
      receive_status_operation(call),
  };
  set_begun(call);
  start(call, BATCH_STATUS, operations, sizeof operations / sizeof operations[0]);
  grpc_byte_buffer_destroy(buffer);
  enum channel_event event = channel_call_next(call, CLOCK_NEVER);
  assert(event == CHANNEL_ENDED);
  bool ok = channel_call_result(call, error);
  if (ok) {
    learn_distance(call);
  }
  if (ok && call->received == NULL) {
    ok = channel_call_fail_incomplete(call, "the call ended well, but without a reply", error);
  } else if (call->received != NULL) {
    list_spans(call);
    ok = ok && copy_message(call, response, error);
  }
  channel_call_close(call);
  return ok;
}
