// Puts together one message of an Execute call's reply.
//
// Tensor data aren't copied: gRPC gets slices that point into the job's outputs, and each of them holds these
// until gRPC lets go of it, on whatever thread.
#ifndef ACLNN_SERVER_RPC_RESPONSE_MESSAGE_H
#define ACLNN_SERVER_RPC_RESPONSE_MESSAGE_H

#include "proto/wire/codec_choice.h"
#include "server/rpc/execute_job.h"

#include <grpc/grpc.h>

struct response_message {
  grpc_byte_buffer *buffer; // the caller's
  bool done;                // it holds the job's `done`
  size_t data_bytes;        // of tensors, as they travel
};

// accepted: the message begins with `accepted`. outputs: the job has ended well, and the message takes what
// comes next of its outputs, encoded where `choice` finds that it pays, and `done` if it takes the last.
// Fails with INTERNAL.
MUST_CHECK bool response_message_build(struct execute_job *job, bool accepted, bool outputs, int64_t now_ns,
                                       struct codec_choice *choice, struct response_message *message,
                                       struct status *status);

#endif
