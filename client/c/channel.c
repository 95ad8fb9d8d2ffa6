#include "client/c/channel.h"

#include "client/c/channel_private.h"
#include "client/c/error.h"
#include "proto/wire/error_details.h"

#include <assert.h>
#include <grpc/grpc_security.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

// After a lost connection gRPC tries again by itself, at most this much later.
#define RECONNECT_BACKOFF_MAX_MS 2000
#define RECONNECT_BACKOFF_MIN_MS 100
// A silent connection with a call on it is asked for a sign of life. Servers with gRPC's defaults take more
// frequent questions for abuse.
#define KEEPALIVE_TIME_MS 300000
#define KEEPALIVE_TIMEOUT_MS 20000

static grpc_arg integer_argument(const char *key, int value) {
  return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

static grpc_channel *connect_lazily(const char *address, bool far, struct channel_sockets *sockets) {
  grpc_arg arguments[] = {
      // Each client has a connection of its own: what one does to it is not another's trouble.
      integer_argument(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      // gRPC's own retries would keep copies of what was sent.
      integer_argument(GRPC_ARG_ENABLE_RETRIES, 0),
      integer_argument(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MIN_MS),
      integer_argument(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, RECONNECT_BACKOFF_MAX_MS),
      integer_argument(GRPC_ARG_HTTP2_BDP_PROBE, far),
      // With keepalive on, gRPC also gives TCP this time to get sent bytes acknowledged.
      integer_argument(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_TIME_MS),
      integer_argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
      channel_sockets_argument(sockets), // last, as it may be left out
  };
  size_t count = sizeof arguments / sizeof arguments[0];
  grpc_channel_args list = {.num_args = sockets == NULL ? count - 1 : count, .args = arguments};
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(address, credentials, &list);
  grpc_channel_credentials_release(credentials);
  return channel;
}

static void destroy_channels(struct channel *channel) {
  if (channel->near != NULL) {
    grpc_channel_destroy(channel->near);
  }
  if (channel->far != NULL) {
    grpc_channel_destroy(channel->far);
  }
}

bool channel_open(const char *address, struct channel **channel, aclnn_error *error) {
  struct channel *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return error_fail(error, REASON_INTERNAL, NULL, "no memory for a client");
  }
  grpc_init();
  opened->events = event_queue_create();
  if (opened->events == NULL) {
    grpc_shutdown();
    free(opened);
    return error_fail(error, REASON_INTERNAL, NULL, "no memory for a client");
  }
  opened->sockets = channel_sockets_create();
  channel_distance_init(&opened->distance);
  opened->near = connect_lazily(address, false, opened->sockets);
  opened->far = connect_lazily(address, true, opened->sockets);
  if (opened->near == NULL || opened->far == NULL) {
    destroy_channels(opened);
    channel_sockets_release(opened->sockets);
    event_queue_destroy(opened->events);
    grpc_shutdown();
    free(opened);
    return error_fail(error, REASON_ACLNN_ERR_PARAM_INVALID, NULL, "'%s' is no address of a server", address);
  }
  clock_init_condition(&opened->cancelled);
  pthread_mutex_init(&opened->lock, NULL);
  *channel = opened;
  return true;
}

static void free_idle_call(struct channel_call *call) {
  event_waiter_destroy(&call->waiter);
  free(call->spans);
  free(call);
}

void channel_close(struct channel *channel) {
  assert(channel->live == NULL);
  destroy_channels(channel);
  event_queue_destroy(channel->events);
  struct channel_call *call, *next;
  LL_FOREACH_SAFE(channel->idle, call, next) {
    free_idle_call(call);
  }
  channel_sockets_release(channel->sockets);
  grpc_shutdown();
  pthread_cond_destroy(&channel->cancelled);
  pthread_mutex_destroy(&channel->lock);
  free(channel);
}

struct call_scope channel_scope(struct channel *channel, int64_t timeout_ms) {
  struct call_scope scope = {.deadline_ns = CLOCK_NEVER, .timeout_ms = timeout_ms};
  int64_t now_ns = clock_now_ns();
  if (timeout_ms > 0 && timeout_ms < (CLOCK_NEVER - now_ns) / NANOSECONDS_PER_MILLISECOND) {
    scope.deadline_ns = now_ns + timeout_ms * NANOSECONDS_PER_MILLISECOND;
  }
  pthread_mutex_lock(&channel->lock);
  scope.cancel_generation = channel->cancel_generation;
  pthread_mutex_unlock(&channel->lock);
  return scope;
}

bool channel_scope_is_cancelled(struct channel *channel, const struct call_scope *scope) {
  pthread_mutex_lock(&channel->lock);
  bool cancelled = channel->cancel_generation != scope->cancel_generation;
  pthread_mutex_unlock(&channel->lock);
  return cancelled;
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

bool channel_fail_cancelled(aclnn_error *error) {
  return error_from_call(error, RPC_CODE_CANCELLED, "the call was cancelled by its client", NULL, 0);
}

bool channel_fail_timed_out(const struct call_scope *scope, aclnn_error *error) {
  char message[STATUS_MESSAGE_BYTES_MAX + 1];
  snprintf(message, sizeof message, "the call did not end within its timeout of %" PRId64 " ms",
           scope->timeout_ms);
  return error_from_call(error, RPC_CODE_DEADLINE_EXCEEDED, message, NULL, 0);
}

void channel_break_connections(struct channel *channel) {
  if (channel->sockets != NULL) {
    channel_sockets_break(channel->sockets);
  }
}

bool channel_pause(struct channel *channel, const struct call_scope *scope, int64_t pause_ms,
                   aclnn_error *error) {
  int64_t end_ns = clock_now_ns() + pause_ms * NANOSECONDS_PER_MILLISECOND;
  if (end_ns >= scope->deadline_ns) {
    return false;
  }
  bool in_time = true;
  pthread_mutex_lock(&channel->lock);
  while (channel->cancel_generation == scope->cancel_generation && in_time) {
    in_time = clock_wait(&channel->cancelled, &channel->lock, end_ns);
  }
  bool cancelled = channel->cancel_generation != scope->cancel_generation;
  pthread_mutex_unlock(&channel->lock);
  if (cancelled) {
    return channel_fail_cancelled(error);
  }
  grpc_channel_reset_connect_backoff(channel->near);
  grpc_channel_reset_connect_backoff(channel->far);
  return true;
}

// ---- Lists of calls

struct channel_call *channel_take_idle_call(struct channel *channel) {
  pthread_mutex_lock(&channel->lock);
  struct channel_call *call = channel->idle;
  if (call != NULL) {
    LL_DELETE(channel->idle, call);
  }
  pthread_mutex_unlock(&channel->lock);
  if (call != NULL) {
    return call;
  }
  call = calloc(1, sizeof *call);
  if (call != NULL) {
    call->channel = channel;
    event_waiter_init(&call->waiter);
    for (unsigned i = 0; i < BATCH_COUNT; i++) {
      call->tags[i] = (struct event_tag){&call->waiter, i};
    }
  }
  return call;
}

void channel_give_idle_call(struct channel_call *call) {
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  LL_PREPEND(channel->idle, call);
  pthread_mutex_unlock(&channel->lock);
}

bool channel_enlist(struct channel_call *call, uint64_t cancel_generation) {
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  bool current = channel->cancel_generation == cancel_generation;
  if (current) {
    DL_APPEND(channel->live, call);
  }
  pthread_mutex_unlock(&channel->lock);
  return current;
}

void channel_delist(struct channel_call *call) {
  struct channel *channel = call->channel;
  pthread_mutex_lock(&channel->lock);
  DL_DELETE(channel->live, call);
  pthread_mutex_unlock(&channel->lock);
}
