// The sockets of a channel's connections, so that a stuck one can be shut down.
//
// gRPC has no way to give up a connection whose peer has stopped taking bytes in the middle of a write:
// deadline and cancel end the call, but the written memory stays lent and the batch open until the socket
// fails. gRPC does show each new socket to a "socket mutator" (GRPC_ARG_SOCKET_MUTATOR), whose layout it
// doesn't publish; it has been the same from 2016 on and is used only with the core version that it was
// checked against. With any other there are no sockets to be had, and a stuck call waits for TCP to give up.
//
// A socket is remembered by number and inode, not held: gRPC closes it when it likes, and a number that
// belongs to another file by then is left alone. Counted references, any thread.
#ifndef ACLNN_CLIENT_C_CHANNEL_SOCKETS_H
#define ACLNN_CLIENT_C_CHANNEL_SOCKETS_H

#include <grpc/grpc.h>

struct channel_sockets;

// With one reference. NULL if this gRPC isn't the one that is known, or there is no memory.
struct channel_sockets *channel_sockets_create(void);
// Gives a reference back; accepts NULL.
void channel_sockets_release(struct channel_sockets *sockets);

// The channel argument that makes gRPC show its sockets. gRPC takes references of its own.
grpc_arg channel_sockets_argument(struct channel_sockets *sockets);

// Shuts down all sockets that are still open.
void channel_sockets_break(struct channel_sockets *sockets);

#endif
