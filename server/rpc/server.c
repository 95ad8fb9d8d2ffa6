#include "server/rpc/server.h"

#include "server/rpc/execute_call.h"
#include "server/rpc/final_status.h"
#include "server/rpc/limits.h"
#include "server/rpc/queue_annotations.h"
#include "server/rpc/receive_guard.h"
#include "server/rpc/send_gather.h"
#include "server/rpc/unary_call.h"

#include <assert.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

// A connection's settings are those of its grpc_server, so there is one for each kind.
enum { WAY_NEAR, WAY_FAR, WAYS };

struct way {
  struct server *server;
  grpc_server *grpc;
  struct queue_tag shut_down;
};

// Waits for one call at a time, again and again.
struct slot {
  struct queue_tag arrived;
  struct server_queue *home;
  grpc_server *grpc;
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
};

struct server_queue {
  struct server *server;
  struct queue *queue;
  struct slot slots[WAYS][SERVER_SLOTS_PER_QUEUE];
  struct queue_tag drain;
  bool draining;
  struct server_call calls; // head of the list of living calls
  // Of this queue's calls; written by its thread alone.
  atomic_uint_fast64_t received_bytes, sent_bytes, copied_bytes;
};

struct server {
  struct server_options options;
  struct way ways[WAYS];
  grpc_server_credentials *credentials;
  struct server_queue *queues;
  // Slots, calls and notices to drain that are still out. When none is, nobody needs a connection any more.
  atomic_size_t working;
  // Those together, and gRPC's notices that it has shut down; stopped when none is.
  atomic_size_t outstanding;
  atomic_size_t open_calls;
  atomic_size_t resting_calls;
};

static void let_go(struct server *server) {
  if (atomic_fetch_sub(&server->outstanding, 1) == 1) {
    server->options.stopped(server->options.stopped_context);
  }
}

// A slot waits as long as the server runs, so the last one to end knows that it stops.
static void end_work(struct server *server) {
  if (atomic_fetch_sub(&server->working, 1) == 1) {
    // Closes the connections: gRPC would wait until each client has answered that it is to go away.
    server_cancel_calls(server);
    let_go(server);
  }
}

struct queue *server_call_queue(const struct server_call *call) {
  return call->home->queue;
}

struct service_context *server_call_context(const struct server_call *call) {
  return call->home->server->options.context;
}

int64_t server_call_now_ns(const struct server_call *call) {
  const struct server_options *options = &call->home->server->options;
  return options->clock_ns(options->clock_context);
}

void server_call_enter(struct server_queue *home, struct server_call *call) {
  call->home = home;
  const struct server_options *options = &home->server->options;
  char *peer = grpc_call_get_peer(call->call);
  call->_connection = options->identify(options->identify_context, peer, call->identity);
  gpr_free(peer);
  send_gather_call_begins(call->_connection);
  call->_next = &home->calls;
  call->_previous = home->calls._previous;
  call->_next->_previous = call;
  call->_previous->_next = call;
  atomic_fetch_add(&home->server->working, 1);
  atomic_fetch_add(&home->server->open_calls, 1);
}

bool server_call_must_drain(const struct server_call *call) {
  return call->home->draining;
}

void server_call_set_resting(struct server_call *call, bool rests) {
  atomic_size_t *resting_calls = &call->home->server->resting_calls;
  if (rests && !call->_rests) {
    atomic_fetch_add(resting_calls, 1);
    send_gather_call_ends(call->_connection);
  } else if (!rests && call->_rests) {
    atomic_fetch_sub(resting_calls, 1);
    send_gather_call_begins(call->_connection);
  }
  call->_rests = rests;
}

bool server_call_must_not_rest(const struct server_call *call) {
  return atomic_load(&call->home->server->resting_calls) > SERVER_RESTING_CALLS_MAX;
}

void server_call_leave(struct server_call *call) {
  server_call_set_resting(call, false);
  call->_next->_previous = call->_previous;
  call->_previous->_next = call->_next;
  grpc_call_unref(call->call);
  call->call = NULL;
  receive_guard_call_over(call->_connection);
  send_gather_call_ends(call->_connection);
  atomic_fetch_sub(&call->home->server->open_calls, 1);
  end_work(call->home->server);
}

void server_call_count_traffic(struct server_call *call, const struct server_traffic *more) {
  struct server_queue *home = call->home;
  atomic_fetch_add_explicit(&home->received_bytes, more->received_bytes, memory_order_relaxed);
  atomic_fetch_add_explicit(&home->sent_bytes, more->sent_bytes, memory_order_relaxed);
  atomic_fetch_add_explicit(&home->copied_bytes, more->copied_bytes, memory_order_relaxed);
}

void server_get_traffic(const struct server *server, struct server_traffic *traffic) {
  *traffic = (struct server_traffic){0};
  for (size_t i = 0; i < server->options.queue_count; ++i) {
    const struct server_queue *home = &server->queues[i];
    traffic->received_bytes += atomic_load_explicit(&home->received_bytes, memory_order_relaxed);
    traffic->sent_bytes += atomic_load_explicit(&home->sent_bytes, memory_order_relaxed);
    traffic->copied_bytes += atomic_load_explicit(&home->copied_bytes, memory_order_relaxed);
  }
}

size_t server_open_calls(const struct server *server) {
  return atomic_load(&server->open_calls);
}

static void arm_slot(struct slot *slot) {
  struct server_queue *home = slot->home;
  grpc_completion_queue *completion_queue = queue_completion_queue(home->queue);
  QUEUE_HANDS_OVER(&slot->arrived);
  grpc_call_error error = grpc_server_request_call(slot->grpc, &slot->call, &slot->details, &slot->metadata,
                                                   completion_queue, completion_queue, &slot->arrived);
  assert(error == GRPC_CALL_OK);
}

static const struct service_method *find_method(const struct server *server, const grpc_slice *path) {
  for (size_t i = 0; i < server->options.service_count; ++i) {
    const struct service *service = server->options.services[i];
    for (size_t j = 0; j < service->method_count; ++j) {
      if (grpc_slice_str_cmp(*path, service->methods[j].path) == 0) {
        return &service->methods[j];
      }
    }
  }
  return NULL;
}

static void on_arrived(struct queue_tag *tag, bool ok) {
  struct slot *slot = QUEUE_CONTAINER_OF(tag, struct slot, arrived);
  struct server_queue *home = slot->home;
  if (!ok) { // the server stops
    grpc_metadata_array_destroy(&slot->metadata);
    grpc_call_details_destroy(&slot->details);
    end_work(home->server);
    return;
  }
  grpc_call *call = slot->call;
  const struct service_method *method = find_method(home->server, &slot->details.method);
  grpc_slice_unref(slot->details.method);
  grpc_slice_unref(slot->details.host);
  slot->details.method = slot->details.host = grpc_empty_slice();
  slot->metadata.count = 0;
  arm_slot(slot);
  if (method != NULL && method->kind == METHOD_EXECUTE) {
    execute_call_start(home, call);
  } else {
    unary_call_start(home, call, method);
  }
}

static void on_drain(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct server_queue *home = QUEUE_CONTAINER_OF(tag, struct server_queue, drain);
  home->draining = true;
  struct server_call *next = NULL;
  for (struct server_call *call = home->calls._next; call != &home->calls; call = next) {
    next = call->_next; // draining may end the call
    if (call->drain != NULL) {
      call->drain(call);
    }
  }
  end_work(home->server);
}

static void on_shut_down(struct queue_tag *tag, bool ok) {
  (void)ok;
  let_go(QUEUE_CONTAINER_OF(tag, struct way, shut_down)->server);
}

// The arguments of every connection; the reasons stand in limits.h.
static grpc_server *create_grpc_server(bool far, grpc_resource_quota *quota) {
  grpc_arg arguments[] = {
      {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_HTTP2_BDP_PROBE, .value.integer = far},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
       .value.integer = (int)WIRE_MESSAGE_BYTES_MAX},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
       .value.integer = SERVER_COMPRESSION_ALGORITHMS},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
       .value.integer = 0},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_MAX_METADATA_SIZE,
       .value.integer = SERVER_METADATA_BYTES_MAX},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_MAX_CONCURRENT_STREAMS,
       .value.integer = SERVER_STREAMS_PER_CONNECTION_MAX},
      {.type = GRPC_ARG_INTEGER,
       .key = (char *)GRPC_ARG_MAX_CONNECTION_IDLE_MS,
       .value.integer = SERVER_CONNECTION_IDLE_MS},
      {.type = GRPC_ARG_POINTER,
       .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
       .value.pointer = {.p = quota, .vtable = grpc_resource_quota_arg_vtable()}},
  };
  grpc_channel_args all = {sizeof arguments / sizeof arguments[0], arguments};
  return grpc_server_create(&all, NULL);
}

static void create_grpc_servers(struct server *server) {
  const struct server_options *options = &server->options;
  grpc_resource_quota *quota = grpc_resource_quota_create("aclnn-server");
  grpc_resource_quota_resize(quota, SERVER_QUOTA_BYTES + options->waiting_jobs_max * WIRE_MESSAGE_BYTES_MAX);
  for (size_t way = 0; way < WAYS; ++way) {
    server->ways[way] = (struct way){.server = server,
                                     .grpc = create_grpc_server(way == WAY_FAR, quota),
                                     .shut_down = {.event = on_shut_down}};
  }
  grpc_resource_quota_unref(quota);
}

static bool create_queues(struct server *server, struct status *status) {
  const struct server_options *options = &server->options;
  struct queue_options queue_options = {.idle_timeout_ns = options->idle_timeout_ns,
                                        .clock_ns = options->coarse_clock_ns,
                                        .clock_context = options->clock_context};
  for (size_t i = 0; i < options->queue_count; ++i) {
    struct server_queue *home = &server->queues[i];
    home->server = server;
    home->drain.event = on_drain;
    home->calls._next = home->calls._previous = &home->calls;
    if (!queue_create(&queue_options, &home->queue, status)) {
      return false;
    }
    for (size_t way = 0; way < WAYS; ++way) {
      grpc_server_register_completion_queue(server->ways[way].grpc, queue_completion_queue(home->queue),
                                            NULL);
    }
  }
  return true;
}

bool server_create(const struct server_options *options, struct server **server, struct status *status) {
  assert(options->queue_count > 0);
  struct server *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the server");
  }
  created->options = *options;
  create_grpc_servers(created);
  created->credentials = grpc_insecure_server_credentials_create();
  created->queues = calloc(options->queue_count, sizeof *created->queues);
  if (created->queues == NULL) {
    server_destroy(created);
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the server");
  }
  if (!create_queues(created, status)) {
    server_destroy(created);
    return false;
  }
  *server = created;
  return true;
}

static void start_way(struct server *server, size_t way) {
  grpc_server_start(server->ways[way].grpc);
  for (size_t i = 0; i < server->options.queue_count; ++i) {
    struct server_queue *home = &server->queues[i];
    for (size_t j = 0; j < SERVER_SLOTS_PER_QUEUE; ++j) {
      struct slot *slot = &home->slots[way][j];
      slot->home = home;
      slot->grpc = server->ways[way].grpc;
      slot->arrived.event = on_arrived;
      grpc_call_details_init(&slot->details);
      grpc_metadata_array_init(&slot->metadata);
      atomic_fetch_add(&server->working, 1);
      arm_slot(slot);
    }
  }
}

void server_start(struct server *server) {
  for (size_t way = 0; way < WAYS; ++way) {
    start_way(server, way);
  }
}

void server_add_connection(struct server *server, int descriptor, bool far) {
  grpc_server_add_channel_from_fd(server->ways[far ? WAY_FAR : WAY_NEAR].grpc, descriptor,
                                  server->credentials);
}

void server_stop(struct server *server) {
  // All counted before the first can come back.
  atomic_fetch_add(&server->working, server->options.queue_count);
  atomic_fetch_add(&server->outstanding, 1 + WAYS);
  for (size_t i = 0; i < server->options.queue_count; ++i) {
    queue_wake(server->queues[i].queue, &server->queues[i].drain);
  }
  for (size_t way = 0; way < WAYS; ++way) {
    QUEUE_HANDS_OVER(&server->ways[way].shut_down);
    grpc_server_shutdown_and_notify(server->ways[way].grpc, queue_completion_queue(server->queues[0].queue),
                                    &server->ways[way].shut_down);
  }
}

void server_cancel_calls(struct server *server) {
  for (size_t way = 0; way < WAYS; ++way) {
    grpc_server_cancel_all_calls(server->ways[way].grpc);
  }
}

void server_destroy(struct server *server) {
  if (server == NULL) {
    return;
  }
  assert(atomic_load(&server->outstanding) == 0);
  for (size_t way = 0; way < WAYS; ++way) {
    grpc_server_destroy(server->ways[way].grpc);
  }
  grpc_server_credentials_release(server->credentials);
  for (size_t i = 0; server->queues != NULL && i < server->options.queue_count; ++i) {
    queue_destroy(server->queues[i].queue);
  }
  free(server->queues);
  free(server);
}
