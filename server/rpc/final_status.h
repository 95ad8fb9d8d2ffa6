// The status that ends a call: code, message and error details as gRPC wants them.
//
// Lives in the call object until the operation that sends it has come back. One thread at a time.
#ifndef ACLNN_SERVER_RPC_FINAL_STATUS_H
#define ACLNN_SERVER_RPC_FINAL_STATUS_H

#include "kernels/status.h"
#include "proto/wire/error_details.h"

#include <grpc/grpc.h>

struct final_status {
  grpc_status_code code;
  grpc_slice message;
  grpc_metadata details;
  size_t details_count; // 0 or 1
};

void final_status_ok(struct final_status *final);
// Cannot fail: when there is no memory for the details, code and message go alone.
void final_status_failed(struct final_status *final, const struct status *failed);
void final_status_plain(struct final_status *final, enum rpc_code code, const char *message);
void final_status_free(struct final_status *final);

// Fills in the operation.
void final_status_op(struct final_status *final, grpc_op *op);

#endif
