// Puts a frame guard between the sockets and gRPC.
//
// gRPC offers no place from which to see the bytes of a connection. It gets them from recvmsg, though, which
// this module defines for the whole program: it calls the C library's, shows what came to the connection's
// guard, and reports a broken one instead of bytes that must not be read. Descriptors that aren't
// watched cost it one look at a table. That table, and the sum over all connections, are the program's: a
// function that takes the place of the C library's has no context to be given.
#ifndef ACLNN_SERVER_RPC_RECEIVE_GUARD_H
#define ACLNN_SERVER_RPC_RECEIVE_GUARD_H

#include "server/rpc/frame_guard.h"

// The descriptor of a new connection, before gRPC gets it. False: no memory, or its number isn't below
// CONNECTION_DESCRIPTORS_MAX.
bool receive_guard_watch(int descriptor);
// The connection is over, or its socket is shut down: what was found wrong with it. Nothing is read from it
// any more.
enum frame_verdict receive_guard_end(int descriptor);
// A call of the connection is over. Any thread; nothing happens if the connection is over, too, or if the
// number can't be a connection's.
void receive_guard_call_over(int descriptor);
// The calling thread handles calls and is about to ask gRPC for its next event: gRPC reads connections when
// there is none.
void receive_guard_begin_turn(void);

#endif
