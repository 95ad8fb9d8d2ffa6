#include "client/c/channel.h"

#include "client/c/error.h"
#include "client/c/handover.h"
#include "proto/wire/error_details.h"

#include <assert.h>
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

// Ended calls that are kept, with their queues, for the next ones: as many as threads are likely to call at
// once. More are made and freed as needed.
#define IDLE_CALLS_MAX 16
// Below this a copy is cheaper than to lend memory and to hear that it is back.
#define LEND_BYTES_MIN ((size_t)16384)
// After a lost connection gRPC tries again by itself, at most this much later.
#define RECONNECT_BACKOFF_MAX_MS 2000
#define RECONNECT_BACKOFF_MIN_MS 100
// A silent connection with a call on it is asked for a sign of life. Servers with gRPC's defaults take more
// frequent questions for abuse.
#define KEEPALIVE_TIME_MS 300000

#define NANOSECONDS_PER_SECOND 1000000000LL
#define NANOSECONDS_PER_MILLISECOND 1000000LL

// The batches that a call may have under way. Their addresses in the call are gRPC's tags.
enum batch {
  BATCH_STATUS,
  BATCH_RECEIVE, // the first one receives the initial metadata too: without it no message comes
  BATCH_SEND,    // the first one sends the initial metadata too: they leave together
  BATCH_COUNT
};

struct channel_call {
  struct channel *channel;
  grpc_completion_queue *queue;
  grpc_call *call;
  char tags[BATCH_COUNT];
  bool under_way[BATCH_COUNT];
  bool headers_sent;
  bool sends_end_alone; // BATCH_SEND carries no message: no CHANNEL_SENT for it
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
  const char *core_error;
  grpc_byte_buffer *received;
  grpc_byte_buffer_reader reader;
  struct span *spans;
  size_t span_count, span_capacity;
  struct call_scope scope;
  struct channel_call *next, *prev;
};

struct channel {
  grpc_channel *channel;
  pthread_mutex_t lock; // guards all below; never held while waiting for gRPC
  pthread_cond_t cancelled;
  uint64_t cancel_generation;
  struct channel_call *live;
  struct channel_call *idle;
  size_t idle_count;
};

int64_t channel_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NANOSECONDS_PER_SECOND + now.tv_nsec;
}

static gpr_timespec to_gpr_deadline(int64_t deadline_ns) {
  if (deadline_ns == CHANNEL_NO_DEADLINE) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  // gRPC's monotonic clock need not be the system's.
  int64_t left_ns = deadline_ns - channel_now_ns();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns, GPR_TIMESPAN));
}

// ---- Channel

static grpc_arg integer_argument(const char *key, int value) {
  return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static grpc_channel *connect_lazily(const char *address) {
  grpc_arg arguments[] = {
      // Each client has a connection of its own: what one does to it is not another's trouble.
      integer_argument(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      // gRPC's own retries would keep copies of what was sent.
      integer_argument(GRPC_ARG_ENABLE_RETRIES, 0),
      integer_argument(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MIN_MS),
      integer_argument(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MAX_MS),
      // Replies are read as they come, so the window may grow with the link.
      integer_argument(GRPC_ARG_HTTP2_BDP_PROBE, 1),
      // With keepalive on, gRPC also gives TCP this time to get sent bytes acknowledged.
      integer_argument(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_TIME_MS),
      integer_argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ACLNN_CONNECTION_TIMEOUT_MS),
  };
  grpc_channel_args list = {.num_args = sizeof arguments / sizeof arguments[0], .args = arguments};
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(address, credentials, &list);
  grpc_channel_credentials_release(credentials);
  return channel;
}

bool channel_open(const char *address, struct channel **channel, aclnn_error *error) {
  struct channel *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return error_fail(error, REASON_INTERNAL, NULL, "no memory for a client");
  }
  grpc_init();
  opened->channel = connect_lazily(address);
  if (opened->channel == NULL) {
    grpc_shutdown();
    free(opened);
    return error_fail(error, REASON_ACLNN_ERR_PARAM_INVALID, NULL, "'%s' is no address of a server", address);
  }
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&opened->cancelled, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&opened->lock, NULL);
  *channel = opened;
  return true;
}

static void free_idle_call(struct channel_call *call) {
  grpc_completion_queue_shutdown(call->queue);
  grpc_event event;
  do {
    event = grpc_completion_queue_next(call->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  } while (event.type != GRPC_QUEUE_SHUTDOWN);
  grpc_completion_queue_destroy(call->queue);
  free(call->spans);
  free(call);
}

void channel_close(struct channel *channel) {
  assert(channel->live == NULL);
  struct channel_call *call, *next;
  LL_FOREACH_SAFE(channel->idle, call, next) {
    free_idle_call(call);
  }
  grpc_channel_destroy(channel->channel);
  grpc_shutdown();
  pthread_cond_destroy(&channel->cancelled);
  pthread_mutex_destroy(&channel->lock);
  free(channel);
}

struct call_scope channel_scope(struct channel *channel, int64_t timeout_ms) {
  struct call_scope scope = {.deadline_ns = CHANNEL_NO_DEADLINE, .timeout_ms = timeout_ms};
  int64_t now_ns = channel_now_ns();
  if (timeout_ms > 0 && timeout_ms < (CHANNEL_NO_DEADLINE - now_ns) / NANOSECONDS_PER_MILLISECOND) {
    scope.deadline_ns = now_ns + timeout_ms * NANOSECONDS_PER_MILLISECOND;
  }
  pthread_mutex_lock(&channel->lock);
  scope.cancel_generation = channel->cancel_generation;
  pthread_mutex_unlock(&channel->lock);
  return scope;
}

void channel_cancel_all(struct channel *channel) {
  pthread_mutex_lock(&channel->lock);
  channel->cancel_generation++;
  pthread_cond_broadcast(&channel->cancelled);
  struct channel_call *call;
  DL_FOREACH(channel->live, call) {
    grpc_call_cancel(call->call, NULL);
  }
  pthread_mutex_unlock(&channel->lock);
}

static bool fail_cancelled(aclnn_error *error) {
  return error_from_call(error, RPC_CODE_CANCELLED, "the call was cancelled by its client", NULL, 0);
}

bool channel_fail_timed_out(const struct call_scope *scope, aclnn_error *error) {
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  snprintf(message, sizeof message, "the call did not end within its timeout of %" PRId64 " ms",
           scope->timeout_ms);
  return error_from_call(error, RPC_CODE_DEADLINE_EXCEEDED, message, NULL, 0);
}

bool channel_pause(struct channel *channel, const struct call_scope *scope, int64_t pause_ms,
                   aclnn_error *error) {
  int64_t end_ns = channel_now_ns() + pause_ms * NANOSECONDS_PER_MILLISECOND;
  if (end_ns >= scope->deadline_ns) {
    return false;
  }
  struct timespec end = {.tv_sec = end_ns / NANOSECONDS_PER_SECOND,
                         .tv_nsec = end_ns % NANOSECONDS_PER_SECOND};
  int waited = 0;
  pthread_mutex_lock(&channel->lock);
  while (channel->cancel_generation == scope->cancel_generation && waited != ETIMEDOUT) {
    waited = pthread_cond_timedwait(&channel->cancelled, &channel->lock, &end);
  }
  bool cancelled = channel->cancel_generation != scope->cancel_generation;
  pthread_mutex_unlock(&channel->lock);
  if (cancelled) {
    return fail_cancelled(error);
  }
  grpc_channel_reset_connect_backoff(channel->channel);
  return true;
}

// ---- Calls

static struct channel_call *take_idle_call(struct channel *channel) {
  pthread_mutex_lock(&channel->lock);
  struct channel_call *call = channel->idle;
  if (call != NULL) {
    LL_DELETE(channel->idle, call);
    channel->idle_count--;
  }
  pthread_mutex_unlock(&channel->lock);
  if (call != NULL) {
    return call;
  }
  call = calloc(1, sizeof *call);
  if (call != NULL) {
    call->channel = channel;
    call->queue = grpc_completion_queue_create_for_next(NULL);
  }
  return call;
}

static void give_idle_call(struct channel_call *call) {
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  bool kept = channel->idle_count < IDLE_CALLS_MAX;
  if (kept) {
    LL_PREPEND(channel->idle, call);
    channel->idle_count++;
  }
  pthread_mutex_unlock(&channel->lock);
  if (!kept) {
    free_idle_call(call);
  }
}

// Makes the call known to channel_cancel_all, unless that has already ended the scope.
static bool enlist(struct channel_call *call, uint64_t cancel_generation) {
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  bool current = channel->cancel_generation == cancel_generation;
  if (current) {
    DL_APPEND(channel->live, call);
  }
  pthread_mutex_unlock(&channel->lock);
  return current;
}

static struct channel_call *create_call(struct channel *channel, const struct call_scope *scope,
                                        const char *method, int64_t deadline_ns, aclnn_error *error) {
  struct channel_call *call = take_idle_call(channel);
  if (call == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a call");
    return NULL;
  }
  memset(call->under_way, 0, sizeof call->under_way);
  call->headers_sent = false;
  call->sends_end_alone = false;
  call->received = NULL;
  call->span_count = 0;
  call->core_error = NULL;
  call->code = GRPC_STATUS_UNKNOWN;
  call->details = grpc_empty_slice();
  call->scope = *scope;
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
  call->call = grpc_channel_create_call(channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, call->queue,
                                        grpc_slice_from_static_string(method), NULL,
                                        to_gpr_deadline(deadline_ns), NULL);
  assert(call->call != NULL);
  if (!enlist(call, scope->cancel_generation)) {
    grpc_call_unref(call->call);
    give_idle_call(call);
    (void)fail_cancelled(error);
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
  int64_t deadline_ns = ends_at_deadline ? scope->deadline_ns : CHANNEL_NO_DEADLINE;
  struct channel_call *opened = create_call(channel, scope, method, deadline_ns, error);
  if (opened == NULL) {
    return false;
  }
  const grpc_op status = receive_status_operation(opened);
  start(opened, BATCH_STATUS, &status, 1);
  const grpc_op receive[] = {
      receive_initial_metadata_operation(opened),
      receive_message_operation(opened),
  };
  start(opened, BATCH_RECEIVE, receive, 2);
  *call = opened;
  return true;
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

static void start_sending(struct channel_call *call, grpc_byte_buffer *message, bool last) {
  grpc_op operations[3];
  size_t count = 0;
  if (!call->headers_sent) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
  }
  if (message != NULL) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
  }
  if (last) {
    operations[count++] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
  }
  call->headers_sent = true;
  call->sends_end_alone = message == NULL;
  start(call, BATCH_SEND, operations, count);
}

void channel_call_send(struct channel_call *call, const struct channel_part *parts, size_t part_count,
                       bool last) {
  grpc_byte_buffer *buffer = make_buffer(parts, part_count);
  start_sending(call, buffer, last);
  grpc_byte_buffer_destroy(buffer);
}

void channel_call_send_end(struct channel_call *call) {
  start_sending(call, NULL, true);
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

enum channel_event channel_call_next(struct channel_call *call, int64_t deadline_ns) {
  while (is_under_way(call)) {
    grpc_event event = grpc_completion_queue_next(call->queue, to_gpr_deadline(deadline_ns), NULL);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
      return CHANNEL_TIMED_OUT;
    }
    assert(event.type == GRPC_OP_COMPLETE);
    HANDOVER_TAKE(event.tag);
    enum batch batch = (enum batch)((char *)event.tag - call->tags);
    call->under_way[batch] = false;
    if (batch == BATCH_SEND && event.success != 0 && !call->sends_end_alone) {
      return CHANNEL_SENT;
    }
    if (batch == BATCH_RECEIVE && call->received != NULL) {
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

void channel_call_close(struct channel_call *call) {
  if (is_under_way(call)) {
    grpc_call_cancel(call->call, NULL);
  }
  while (is_under_way(call)) {
    (void)channel_call_next(call, CHANNEL_NO_DEADLINE);
    release_message(call);
  }
  release_message(call);
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  DL_DELETE(channel->live, call);
  pthread_mutex_unlock(&channel->lock);
  grpc_call_unref(call->call);
  grpc_slice_unref(call->details);
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  gpr_free((void *)call->core_error);
  give_idle_call(call);
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
  start(call, BATCH_STATUS, operations, sizeof operations / sizeof operations[0]);
  grpc_byte_buffer_destroy(buffer);
  enum channel_event event = channel_call_next(call, CHANNEL_NO_DEADLINE);
  assert(event == CHANNEL_ENDED);
  bool ok = channel_call_result(call, error);
  if (ok && call->received == NULL) {
    ok = error_fail(error, REASON_INTERNAL, NULL, "%s ended well, but without a reply", method);
  } else if (call->received != NULL) {
    list_spans(call);
    ok = ok && copy_message(call, response, error);
  }
  channel_call_close(call);
  return ok;
}
