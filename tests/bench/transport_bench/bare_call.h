// A call of the floor's client: batches with counted events, and its end.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_CALL_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_CALL_H

#include "tests/bench/transport_bench/bare.h"

struct bare_client {
  grpc_channel *channel;
  grpc_completion_queue *queue; // of streams
  void *echo, *download, *upload;
  uint8_t *buffer; // BARE_BYTES_MAX
};

struct bare_call {
  grpc_call *call;
  grpc_metadata_array initial, trailing;
  grpc_status_code status;
  grpc_slice details;
  grpc_byte_buffer *reply;
  int batches; // under way
  int64_t begin_ns;
};

void bare_call_begin(struct bare_call *call, const struct bare_client *client, void *method,
                     grpc_completion_queue *queue);

void bare_call_start(struct bare_call *call, const grpc_op *operations, size_t count, void *tag);

// Ends the program unless the call ended well; gives it back.
void bare_call_end(struct bare_call *call);

grpc_op bare_call_receive_initial_metadata(struct bare_call *call);
grpc_op bare_call_receive_status(struct bare_call *call);
grpc_op bare_call_receive(grpc_byte_buffer **message);
grpc_op bare_call_send(grpc_byte_buffer *message);

#endif
