// The sockets that the server listens on, and the connections that came through them.
//
// gRPC's own listeners give no access to their sockets; these do, which gives a limit on connections, the uid
// of peers on unix sockets, and a guard over what peers send (receive_guard.h). Everything happens on the
// thread of the libuv loop unless said otherwise.
// The life cycle: create, add..., [stop_accepting,] close, let the loop run until nothing is left in it,
// destroy.
#ifndef ACLNN_SERVER_RPC_LISTENER_H
#define ACLNN_SERVER_RPC_LISTENER_H

#include "kernels/status.h"
#include "server/observe/log.h"
#include "server/rpc/address.h"
#include "server/session/session_table.h"

#include <uv.h>

struct listeners;

struct listeners_options {
  uv_loop_t *loop;        // borrowed
  const struct log *log;  // borrowed
  size_t connections_max; // a further one is closed at once
  // A new connection; takes its non-blocking descriptor over. The round trip is that of TCP's handshake, 0 on
  // a unix socket: a proxy hides what is behind it.
  void (*connected)(void *context, int descriptor, int64_t round_trip_ns);
  void *context;
};

MUST_CHECK bool listeners_create(const struct listeners_options *options, struct listeners **listeners,
                                 struct status *status);

// Listens on the address from now on. A unix socket's file that a dead server left is replaced. `bound` gets
// the address with its real port. Fails with CONFIGURATION.
MUST_CHECK bool listeners_add(struct listeners *listeners, const struct address *address,
                              struct address *bound, struct status *status);

// Closes the sockets and removes their files; connections stay. Can be called again.
void listeners_stop_accepting(struct listeners *listeners);
// Ends all connections, whatever is under way on them: gRPC alone would first wait until a peer that doesn't
// read has taken what was written. Can be called again.
void listeners_disconnect(struct listeners *listeners);
// Also stops watching connections. Can be called again.
void listeners_close(struct listeners *listeners);
void listeners_destroy(struct listeners *listeners); // NULL is fine

// Connections that gRPC hasn't closed yet.
size_t listeners_connections(struct listeners *listeners);

// Who is behind gRPC's peer string of such a connection, "fd:N": "uid:M" for a peer on a unix socket, else
// "". Returns N, or -1. Any thread, until listeners_destroy.
int listeners_identify(struct listeners *listeners, const char *peer,
                       char identity[SESSION_IDENTITY_BYTES_MAX + 1]);

#endif
