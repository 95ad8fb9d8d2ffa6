// What a channel and its calls know of each other. For channel.c and channel_call.c only.
#ifndef ACLNN_CLIENT_C_CHANNEL_PRIVATE_H
#define ACLNN_CLIENT_C_CHANNEL_PRIVATE_H

#include "client/c/channel.h"
#include "client/c/channel_distance.h"
#include "client/c/channel_event_queue.h"
#include "client/c/channel_sockets.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <pthread.h>

// The batches that a call may have under way: numbers of its events. The status, which says that nothing
// else comes, is the last to be looked at.
enum batch {
  BATCH_SEND,    // the first one sends the initial metadata too: they leave together
  BATCH_RECEIVE, // the first one receives the initial metadata too: without it no message comes
  BATCH_STATUS,
  BATCH_COUNT
};

struct channel_call {
  struct channel *channel;
  grpc_call *call;
  struct event_waiter waiter;
  struct event_tag tags[BATCH_COUNT];
  bool under_way[BATCH_COUNT];
  bool begun;        // receives
  bool awaits_reply; // that tells how far the server is
  int64_t begun_ns;  // if so
  bool headers_sent;
  bool sends_end_alone;   // BATCH_SEND carries no message: no CHANNEL_SENT for it
  int64_t stuck_after_ns; // once the status is there: when what is still under way counts as stuck
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
  int64_t deadline_ns; // at which gRPC ends the call
  struct channel_call *next, *prev;
};

struct channel {
  grpc_channel *near, *far; // the one that connects is chosen call by call: see channel_distance.h
  struct channel_distance distance;
  struct event_queue *events;
  struct channel_sockets *sockets; // NULL: not to be had from this gRPC
  pthread_mutex_t lock;            // guards all below; never held while waiting for gRPC
  pthread_cond_t cancelled;
  uint64_t cancel_generation;
  struct channel_call *live;
  struct channel_call
      *idle; // ended ones, kept for the next until the channel closes: see channel_event_queue.h
};

bool channel_fail_cancelled(aclnn_error *error);

// A call without a grpc_call: one that has ended or a new one. NULL if there is no memory.
struct channel_call *channel_take_idle_call(struct channel *channel);
void channel_give_idle_call(struct channel_call *call);

// Makes the call known to channel_cancel_all, unless that has already ended the scope.
bool channel_enlist(struct channel_call *call, uint64_t cancel_generation);
void channel_delist(struct channel_call *call);

#endif
