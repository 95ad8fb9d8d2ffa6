// gRPC as a library: started before everything else of server/rpc, stopped after it. Main thread.
#ifndef ACLNN_SERVER_RPC_LIBRARY_H
#define ACLNN_SERVER_RPC_LIBRARY_H

void rpc_library_start(void);
// Waits until gRPC's own threads and memory are gone.
void rpc_library_stop(void);

#endif
