// One unary call: receives its message, hands it to the service's handler, sends the answer.
#ifndef ACLNN_SERVER_RPC_UNARY_CALL_H
#define ACLNN_SERVER_RPC_UNARY_CALL_H

#include "server/rpc/server.h"

// Takes the gRPC call over; method NULL: there is none of that name. On its queue's thread.
void unary_call_start(struct server_queue *home, grpc_call *call, const struct service_method *method);

#endif
