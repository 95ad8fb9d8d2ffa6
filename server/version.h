// What this build calls itself.
#ifndef ACLNN_SERVER_VERSION_H
#define ACLNN_SERVER_VERSION_H

#define SERVER_VERSION "0.1.0"
// Rises with every change of the wire contract that a client could want to know of.
#define SERVER_CONTRACT_REVISION 1

#endif
