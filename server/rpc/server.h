// The gRPC server: completion queues with their threads, slots that wait for calls, and the calls that live.
//
// Connections are handed in by the listeners (listener.h). Each call belongs to one queue for its whole life.
// Created, started, stopped and destroyed on the main thread, in that order:
//   create, start, connections..., stop, [cancel_calls,] the stopped callback, (backends go,) destroy.
#ifndef ACLNN_SERVER_RPC_SERVER_H
#define ACLNN_SERVER_RPC_SERVER_H

#include "server/rpc/queue.h"
#include "server/rpc/service.h"

#include <grpc/grpc.h>

struct server;
struct server_queue; // a queue with its slots and calls

struct server_options {
  struct service_context *context; // borrowed
  const struct service *const *services;
  size_t service_count;
  size_t queue_count;
  size_t waiting_jobs_max; // jobs that may wait for memory: gRPC may hold a message for each
  int64_t idle_timeout_ns;
  int64_t (*clock_ns)(void *context);        // steady
  int64_t (*coarse_clock_ns)(void *context); // the same, or some ms behind it
  void *clock_context;
  // Who is behind a peer string of gRPC's; returns the connection's descriptor, or -1. Any queue thread.
  int (*identify)(void *context, const char *peer, char identity[SESSION_IDENTITY_BYTES_MAX + 1]);
  void *identify_context;
  // After server_stop: no call is left. Called once, on a queue's thread.
  void (*stopped)(void *context);
  void *stopped_context;
};

MUST_CHECK bool server_create(const struct server_options *options, struct server **server,
                              struct status *status);
void server_start(struct server *server);

// Takes the connected, non-blocking socket over. far: the way is so long that what a client sends should be
// limited by gRPC's estimate of the way, not by the window of one message.
void server_add_connection(struct server *server, int descriptor, bool far);

// Refuses new calls and tells connections to go away; they are closed when the last call is over. Execute
// calls end after the jobs they have.
void server_stop(struct server *server);
// After server_stop: cancels the calls that are left.
void server_cancel_calls(struct server *server);
// After the stopped callback, or if the server was never started. Nothing may wake a call any more. NULL is
// fine.
void server_destroy(struct server *server);

// What Execute calls have moved since the server was created.
struct server_traffic {
  uint64_t received_bytes; // of tensors, decoded
  uint64_t sent_bytes;     // of tensors, as they travelled
  uint64_t copied_bytes;   // that a processor wrote on the way of either, envelopes too
};
// Any thread.
void server_get_traffic(const struct server *server, struct server_traffic *traffic);

// Calls that have begun and aren't over.
size_t server_open_calls(const struct server *server);

// The rest is for the call objects, on their queue's thread.

struct server_call {
  struct server_queue *home;
  grpc_call *call; // owned
  char identity[SESSION_IDENTITY_BYTES_MAX + 1];
  void (*drain)(struct server_call *call); // the server stops; NULL: the call ends by itself
  // private
  bool _rests;
  int _connection;
  struct server_call *_next, *_previous;
};

struct queue *server_call_queue(const struct server_call *call);
struct service_context *server_call_context(const struct server_call *call);
int64_t server_call_now_ns(const struct server_call *call);

// Enters the call, whose `call` and `drain` are set.
void server_call_enter(struct server_queue *home, struct server_call *call);
// True when the server stopped before the call was entered: `drain` won't be called.
bool server_call_must_drain(const struct server_call *call);
// Whether the call has a receive under way that no job or limit of time stands behind.
void server_call_set_resting(struct server_call *call, bool rests);
// True if more calls rest than may do so for as long as they like.
bool server_call_must_not_rest(const struct server_call *call);
// Adds to the server's traffic.
void server_call_count_traffic(struct server_call *call, const struct server_traffic *more);
// The call is over: gives the gRPC call back. The object is the caller's to free.
void server_call_leave(struct server_call *call);

#endif
