#include "tests/bench/transport_bench/bare_call.h"

#include "tests/bench/transport_bench/command.h"

#include <grpc/slice.h>
#include <grpc/support/alloc.h>

void bare_call_begin(struct bare_call *call, const struct bare_client *client, void *method,
                     grpc_completion_queue *queue) {
  call->call = grpc_channel_create_registered_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                                   method, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array_init(&call->initial);
  grpc_metadata_array_init(&call->trailing);
  call->status = GRPC_STATUS_UNKNOWN;
  call->details = grpc_empty_slice();
  call->reply = NULL;
  call->batches = 0;
}

void bare_call_start(struct bare_call *call, const grpc_op *operations, size_t count, void *tag) {
  if (grpc_call_start_batch(call->call, operations, count, tag, NULL) != GRPC_CALL_OK) {
    command_fail("a batch was refused");
  }
  ++call->batches;
}

void bare_call_end(struct bare_call *call) {
  if (call->status != GRPC_STATUS_OK) {
    char *details = grpc_slice_to_c_string(call->details);
    command_fail("a call ended with %d: %s", (int)call->status, details);
  }
  grpc_metadata_array_destroy(&call->initial);
  grpc_metadata_array_destroy(&call->trailing);
  grpc_slice_unref(call->details);
  grpc_call_unref(call->call);
}

grpc_op bare_call_receive_initial_metadata(struct bare_call *call) {
  return (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                   .data.recv_initial_metadata.recv_initial_metadata = &call->initial};
}

grpc_op bare_call_receive_status(struct bare_call *call) {
  return (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                   .data.recv_status_on_client = {.trailing_metadata = &call->trailing,
                                                  .status = &call->status,
                                                  .status_details = &call->details}};
}

grpc_op bare_call_receive(grpc_byte_buffer **message) {
  return (grpc_op){.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = message};
}

grpc_op bare_call_send(grpc_byte_buffer *message) {
  return (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
}
