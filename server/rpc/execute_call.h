// One Execute call: the shell around execute_step.h that does gRPC's operations, and owns the call's jobs.
//
// Lives on its queue's thread from execute_call_start until its last operation has come back; then it frees
// itself.
#ifndef ACLNN_SERVER_RPC_EXECUTE_CALL_H
#define ACLNN_SERVER_RPC_EXECUTE_CALL_H

#include "server/rpc/server.h"

// Takes the gRPC call over. On its queue's thread.
void execute_call_start(struct server_queue *home, grpc_call *call);

#endif
