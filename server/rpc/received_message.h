// A received message of an Execute call, in the pieces in which gRPC delivered it.
//
// Belongs to one call and its queue's thread. Opened and closed for one message after the other; the list of
// pieces is kept in between.
#ifndef ACLNN_SERVER_RPC_RECEIVED_MESSAGE_H
#define ACLNN_SERVER_RPC_RECEIVED_MESSAGE_H

#include "kernels/status.h"
#include "proto/wire/execute_envelope.h"

#include <grpc/grpc.h>

struct received_message {
  grpc_byte_buffer *buffer;     // gRPC fills it in; NULL: none
  struct execute_message parts; // once opened
  size_t joined_bytes;          // of it that had to be copied into one piece first: 0, or all
  // private
  grpc_byte_buffer *_joined;
  struct span *_spans;
  size_t _span_count, _span_capacity;
};

// Reads the envelope of the message in `buffer`. Fails as execute_message_read does, or with INTERNAL.
MUST_CHECK bool received_message_open(struct received_message *message, struct status *status);

// The bytes of the begin, from the spans into memory of the caller's (parts.head_bytes long).
void received_message_copy_head(const struct received_message *message, uint8_t *head);

// Gives the message back. Fine without one.
void received_message_close(struct received_message *message);
// And the list.
void received_message_free(struct received_message *message);

#endif
