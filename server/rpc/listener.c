#include "server/rpc/listener.h"

#include "server/rpc/limits.h"
#include "server/rpc/receive_guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

struct socket {
  struct listeners *owner;
  struct address address;
  int descriptor;
  struct stat file; // of a unix socket
  uv_poll_t poll;
  struct socket *next;
};

struct connection {
  int descriptor; // gRPC's: the N of its peer string
  int watched;    // ours, for the same socket
  struct address peer;
  bool has_uid;
  uid_t uid;
  UT_hash_handle hh;
};

struct listeners {
  struct listeners_options options;
  struct socket *sockets;
  // gRPC tells nobody that it closed a connection. It shuts the socket down first, though, which a second
  // descriptor of that socket sees as a hang-up.
  int hang_ups; // epoll
  uv_poll_t hang_ups_poll;
  bool closed;
  bool full;           // a connection was refused since there was room
  int next_descriptor; // rises, so that the N of a new peer wasn't another's a moment ago
  int spare;           // given up to accept, and close, a connection when descriptors have run out
  pthread_mutex_t mutex;
  struct connection *connections; // by descriptor; guarded by mutex
};

static int open_spare(void) {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void forget(struct listeners *listeners, struct connection *connection) {
  enum frame_verdict verdict = receive_guard_end(connection->descriptor);
  if (verdict != FRAME_PASSES) {
    char peer[ADDRESS_TEXT_BYTES_MAX];
    address_format(&connection->peer, peer);
    log_event(listeners->options.log, LOG_WARNING, "a connection was cut", LOG_TEXT("peer", peer),
              LOG_TEXT("why", frame_verdict_text(verdict)));
  }
  pthread_mutex_lock(&listeners->mutex);
  HASH_DEL(listeners->connections, connection);
  pthread_mutex_unlock(&listeners->mutex);
  // Closing doesn't end the watch as long as gRPC has the socket open.
  epoll_ctl(listeners->hang_ups, EPOLL_CTL_DEL, connection->watched, NULL);
  close(connection->watched);
  free(connection);
}

static void on_hang_ups(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  struct listeners *listeners = poll->data;
  struct epoll_event gone[64];
  int count = epoll_wait(listeners->hang_ups, gone, sizeof gone / sizeof gone[0], 0);
  for (int i = 0; i < count; ++i) {
    forget(listeners, gone[i].data.ptr);
  }
}

bool listeners_create(const struct listeners_options *options, struct listeners **listeners,
                      struct status *status) {
  struct listeners *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for listeners");
  }
  created->options = *options;
  created->next_descriptor = LISTENER_DESCRIPTOR_MIN;
  created->spare = open_spare();
  created->hang_ups = epoll_create1(EPOLL_CLOEXEC);
  int error = created->hang_ups < 0 ? -errno
                                    : uv_poll_init(options->loop, &created->hang_ups_poll, created->hang_ups);
  if (error == 0) {
    created->hang_ups_poll.data = created;
    error = uv_poll_start(&created->hang_ups_poll, UV_READABLE, on_hang_ups);
  }
  if (error != 0) {
    close(created->hang_ups);
    close(created->spare);
    free(created);
    return status_fail(status, REASON_INTERNAL, NULL, "can't watch connections: %s", uv_strerror(error));
  }
  pthread_mutex_init(&created->mutex, NULL);
  *listeners = created;
  return true;
}

size_t listeners_connections(struct listeners *listeners) {
  pthread_mutex_lock(&listeners->mutex);
  size_t count = HASH_COUNT(listeners->connections);
  pthread_mutex_unlock(&listeners->mutex);
  return count;
}

// A descriptor for gRPC whose number isn't one that a peer is known by; -1 if there is none.
static int duplicate(struct listeners *listeners, int descriptor) {
  int highest =
      LISTENER_DESCRIPTOR_MIN + (int)(LISTENER_DESCRIPTOR_SPREAD * listeners->options.connections_max);
  for (int attempts = 0; attempts < 2;) {
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, listeners->next_descriptor);
    if (copy < 0 || copy > highest) {
      if (copy >= 0) {
        close(copy);
      }
      listeners->next_descriptor = LISTENER_DESCRIPTOR_MIN;
      ++attempts;
      continue;
    }
    listeners->next_descriptor = copy + 1;
    struct connection *known = NULL;
    HASH_FIND_INT(listeners->connections, &copy, known);
    if (known == NULL) {
      return copy;
    }
    close(copy);
  }
  return -1;
}

static void set_options(int descriptor) {
  static const struct {
    int level, name, value;
  } options[] = {
      // Messages are written whole: there is nothing to wait for.
      {IPPROTO_TCP, TCP_NODELAY, 1},
      {SOL_SOCKET, SO_KEEPALIVE, 1},
      {IPPROTO_TCP, TCP_KEEPIDLE, LISTENER_KEEPALIVE_IDLE_S},
      {IPPROTO_TCP, TCP_KEEPINTVL, LISTENER_KEEPALIVE_INTERVAL_S},
      {IPPROTO_TCP, TCP_KEEPCNT, LISTENER_KEEPALIVE_COUNT},
  };
  for (size_t i = 0; i < sizeof options / sizeof options[0]; ++i) {
    // A connection without one of them is still a connection.
    (void)setsockopt(descriptor, options[i].level, options[i].name, &options[i].value,
                     sizeof options[i].value);
  }
}

static void read_peer(struct connection *connection, const struct socket *socket) {
  if (!address_is_unix(&socket->address)) {
    set_options(connection->watched);
    return;
  }
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(connection->watched, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
    connection->has_uid = true;
    connection->uid = peer.uid;
  }
}

static int64_t round_trip_ns(int descriptor) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? (int64_t)info.tcpi_rtt * 1000 : 0;
}

// Takes the accepted descriptor over. False: it was closed.
static bool take_connection(struct listeners *listeners, const struct socket *socket, int accepted,
                            const struct address *peer) {
  struct connection *connection = calloc(1, sizeof *connection);
  int copy = connection == NULL ? -1 : duplicate(listeners, accepted);
  bool guarded = copy >= 0 && receive_guard_watch(copy);
  if (!guarded) {
    goto failed;
  }
  connection->descriptor = copy;
  connection->watched = accepted;
  connection->peer = *peer;
  read_peer(connection, socket);
  struct epoll_event hang_up = {.events = EPOLLET, .data.ptr = connection};
  if (epoll_ctl(listeners->hang_ups, EPOLL_CTL_ADD, accepted, &hang_up) != 0) {
    goto failed;
  }
  pthread_mutex_lock(&listeners->mutex);
  HASH_ADD_INT(listeners->connections, descriptor, connection);
  pthread_mutex_unlock(&listeners->mutex);
  listeners->options.connected(listeners->options.context, copy, round_trip_ns(accepted));
  return true;
failed:
  if (guarded) {
    (void)receive_guard_end(copy);
  }
  if (copy >= 0) {
    close(copy);
  }
  close(accepted);
  free(connection);
  return false;
}

// With no descriptor left a waiting connection can't even be refused, and the loop would spin on it.
static void refuse_one_with_spare(struct listeners *listeners, const struct socket *socket) {
  close(listeners->spare);
  int accepted = accept4(socket->descriptor, NULL, NULL, SOCK_CLOEXEC);
  if (accepted >= 0) {
    close(accepted);
  }
  listeners->spare = open_spare();
}

static void refuse(struct listeners *listeners, const char *why) {
  if (!listeners->full) {
    log_event(listeners->options.log, LOG_WARNING, "refusing connections", LOG_TEXT("why", why),
              LOG_INTEGER("connections_max", (int64_t)listeners->options.connections_max));
  }
  listeners->full = true;
}

static void on_connection(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  struct socket *socket = poll->data;
  struct listeners *listeners = socket->owner;
  for (int i = 0; i < LISTENER_ACCEPTS_PER_TURN; ++i) {
    struct address peer = {.size = sizeof peer.socket_address};
    int accepted = accept4(socket->descriptor, (struct sockaddr *)&peer.socket_address, &peer.size,
                           SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        refuse_one_with_spare(listeners, socket);
        refuse(listeners, "no descriptors are left");
      }
      return;
    }
    if (HASH_COUNT(listeners->connections) >= listeners->options.connections_max) {
      close(accepted);
      refuse(listeners, "the limit is reached");
    } else if (take_connection(listeners, socket, accepted, &peer)) {
      listeners->full = false;
    } else {
      refuse(listeners, "no descriptors or memory are left");
    }
  }
}

static bool fail(struct status *status, const struct address *address, const char *why) {
  char text[ADDRESS_TEXT_BYTES_MAX];
  address_format(address, text);
  return status_fail(status, REASON_CONFIGURATION, NULL, "can't listen on %s: %s", text, why);
}

// Makes room for a unix socket's file where only a dead server's lies.
static bool clear_path(const struct address *address, struct status *status) {
  const char *path = address_path(address);
  struct stat file;
  if (lstat(path, &file) != 0) {
    return true; // nothing there, or bind will say what is wrong
  }
  if (!S_ISSOCK(file.st_mode)) {
    return fail(status, address, "a file that isn't a socket lies there");
  }
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) {
    return fail(status, address, strerror(errno));
  }
  int result = connect(probe, (const struct sockaddr *)&address->socket_address, address->size);
  bool dead = result != 0 && errno == ECONNREFUSED;
  close(probe);
  if (!dead) {
    return fail(status, address, "another server listens there");
  }
  if (unlink(path) != 0) {
    return fail(status, address, strerror(errno));
  }
  return true;
}

static bool open_socket(struct socket *opened, struct status *status) {
  const struct address *address = &opened->address;
  int on = 1;
  opened->descriptor =
      socket(address->socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (opened->descriptor < 0) {
    return fail(status, address, strerror(errno));
  }
  if (address_is_unix(address)) {
    if (!clear_path(address, status)) {
      return false;
    }
  } else {
    (void)setsockopt(opened->descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (bind(opened->descriptor, (const struct sockaddr *)&address->socket_address, address->size) != 0 ||
      listen(opened->descriptor, LISTENER_BACKLOG) != 0) {
    return fail(status, address, strerror(errno));
  }
  if (address_is_unix(address)) {
    (void)lstat(address_path(address), &opened->file);
  } else {
    opened->address.size = sizeof opened->address.socket_address;
    (void)getsockname(opened->descriptor, (struct sockaddr *)&opened->address.socket_address,
                      &opened->address.size);
  }
  return true;
}

bool listeners_add(struct listeners *listeners, const struct address *address, struct address *bound,
                   struct status *status) {
  struct socket *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return fail(status, address, "no memory");
  }
  opened->owner = listeners;
  opened->address = *address;
  opened->descriptor = -1;
  if (!open_socket(opened, status)) {
    goto failed;
  }
  int error = uv_poll_init(listeners->options.loop, &opened->poll, opened->descriptor);
  if (error != 0) {
    (void)fail(status, address, uv_strerror(error));
    goto failed;
  }
  opened->poll.data = opened;
  error = uv_poll_start(&opened->poll, UV_READABLE, on_connection);
  assert(error == 0);
  opened->next = listeners->sockets;
  listeners->sockets = opened;
  *bound = opened->address;
  return true;
failed:
  if (opened->descriptor >= 0) {
    close(opened->descriptor);
  }
  free(opened);
  return false;
}

static void on_socket_closed(uv_handle_t *handle) {
  free(handle->data);
}

// The file may be another server's by now.
static void remove_file(const struct socket *socket) {
  struct stat file;
  const char *path = address_path(&socket->address);
  if (lstat(path, &file) == 0 && file.st_dev == socket->file.st_dev && file.st_ino == socket->file.st_ino) {
    (void)unlink(path);
  }
}

void listeners_stop_accepting(struct listeners *listeners) {
  while (listeners->sockets != NULL) {
    struct socket *socket = listeners->sockets;
    listeners->sockets = socket->next;
    if (address_is_unix(&socket->address)) {
      remove_file(socket);
    }
    uv_poll_stop(&socket->poll);
    close(socket->descriptor);
    uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
  }
}

void listeners_disconnect(struct listeners *listeners) {
  struct connection *connection = NULL;
  struct connection *next = NULL;
  HASH_ITER(hh, listeners->connections, connection, next) {
    (void)shutdown(connection->watched, SHUT_RDWR);
  }
}

void listeners_close(struct listeners *listeners) {
  listeners_stop_accepting(listeners);
  if (!listeners->closed) {
    listeners->closed = true;
    uv_close((uv_handle_t *)&listeners->hang_ups_poll, NULL);
  }
}

void listeners_destroy(struct listeners *listeners) {
  if (listeners == NULL) {
    return;
  }
  assert(listeners->closed && listeners->sockets == NULL);
  struct connection *connection = NULL;
  struct connection *next = NULL;
  HASH_ITER(hh, listeners->connections, connection, next) {
    forget(listeners, connection);
  }
  close(listeners->hang_ups);
  if (listeners->spare >= 0) {
    close(listeners->spare);
  }
  pthread_mutex_destroy(&listeners->mutex);
  free(listeners);
}

int listeners_identify(struct listeners *listeners, const char *peer,
                       char identity[SESSION_IDENTITY_BYTES_MAX + 1]) {
  static const char prefix[] = "fd:";
  identity[0] = '\0';
  if (strncmp(peer, prefix, sizeof prefix - 1) != 0) {
    return -1;
  }
  int descriptor = atoi(peer + sizeof prefix - 1);
  pthread_mutex_lock(&listeners->mutex);
  struct connection *connection = NULL;
  HASH_FIND_INT(listeners->connections, &descriptor, connection);
  if (connection != NULL && connection->has_uid) {
    snprintf(identity, SESSION_IDENTITY_BYTES_MAX + 1, "uid:%u", (unsigned)connection->uid);
  }
  pthread_mutex_unlock(&listeners->mutex);
  return descriptor;
}
