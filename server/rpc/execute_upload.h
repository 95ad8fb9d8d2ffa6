// Which bytes of a job's input have arrived, and whether the next chunk may come. Pure; one thread at a time.
#ifndef ACLNN_SERVER_RPC_EXECUTE_UPLOAD_H
#define ACLNN_SERVER_RPC_EXECUTE_UPLOAD_H

#include "kernels/operator.h"
#include "proto/wire/execute_envelope.h"

struct execute_upload {
  const struct plan *plan;                         // borrowed
  int64_t received_bytes[OPERATOR_PARAMETERS_MAX]; // by tensor index
  int64_t missing_bytes;                           // of all transferred inputs
};

void execute_upload_init(struct execute_upload *upload, const struct plan *plan);

// Refuses with TENSOR_DATA_INVALID a chunk that names a wrong tensor, is empty, is longer than
// chunk_bytes_max (raw or encoded), leaves a gap, overlaps, or brings more than the tensor has.
MUST_CHECK bool execute_upload_check(const struct execute_upload *upload, const struct tensor_chunk *chunk,
                                     int64_t chunk_bytes_max, struct status *status);

// A checked chunk was decoded.
void execute_upload_advance(struct execute_upload *upload, uint32_t tensor_index, size_t decoded_bytes);

// Fills *status with what is missing; returns false.
bool execute_upload_fail_incomplete(const struct execute_upload *upload, struct status *status);

#endif
