#include "server/rpc/receive_guard.h"

#include "server/rpc/c_library.h"
#include "server/rpc/limits.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

struct watched {
  pthread_mutex_t mutex; // gRPC reads a connection on one thread at a time, but ends it on another
  bool open;
  ino_t socket;
  enum frame_verdict verdict;
  uint64_t turn; // in which it was read last
  struct frame_guard guard;
};

// By descriptor. An entry stays, for the next connection of that number: gRPC may be reading when the end of
// a connection is noticed.
static _Atomic(struct watched *) watched_sockets[CONNECTION_DESCRIPTORS_MAX];
static struct frame_guard_sum sum;

// Of this thread, and unlike those of others; 0 on threads that have none.
static _Thread_local uint64_t turn;

static struct watched *find(int descriptor) {
  return descriptor < 0 || descriptor >= CONNECTION_DESCRIPTORS_MAX
             ? NULL
             : atomic_load_explicit(&watched_sockets[descriptor], memory_order_acquire);
}

static struct watched *find_or_create(int descriptor) {
  struct watched *watched = find(descriptor);
  if (watched == NULL && descriptor < CONNECTION_DESCRIPTORS_MAX) {
    watched = calloc(1, sizeof *watched);
    if (watched != NULL) {
      pthread_mutex_init(&watched->mutex, NULL);
      atomic_store_explicit(&watched_sockets[descriptor], watched, memory_order_release);
    }
  }
  return watched;
}

// 0 if it can't be known.
static ino_t socket_number(int descriptor) {
  struct stat file;
  return fstat(descriptor, &file) == 0 ? file.st_ino : 0;
}

bool receive_guard_watch(int descriptor) {
  assert(descriptor >= 0);
  struct watched *watched = find_or_create(descriptor);
  if (watched == NULL) {
    return false;
  }
  pthread_mutex_lock(&watched->mutex);
  assert(!watched->open);
  watched->open = true;
  watched->socket = socket_number(descriptor);
  watched->verdict = FRAME_PASSES;
  frame_guard_init(&watched->guard, &sum);
  pthread_mutex_unlock(&watched->mutex);
  return true;
}

enum frame_verdict receive_guard_end(int descriptor) {
  struct watched *watched = find(descriptor);
  assert(watched != NULL);
  pthread_mutex_lock(&watched->mutex);
  watched->open = false;
  frame_guard_clear(&watched->guard);
  enum frame_verdict verdict = watched->verdict;
  pthread_mutex_unlock(&watched->mutex);
  return verdict;
}

void receive_guard_call_over(int descriptor) {
  struct watched *watched = find(descriptor);
  if (watched == NULL) {
    return;
  }
  pthread_mutex_lock(&watched->mutex);
  if (watched->open) {
    frame_guard_call_over(&watched->guard);
  }
  pthread_mutex_unlock(&watched->mutex);
}

void receive_guard_begin_turn(void) {
  static atomic_uint_fast64_t threads;
  if (turn == 0) {
    turn = (atomic_fetch_add(&threads, 1) + 1) << 40;
  }
  ++turn;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool passes(struct watched *watched, int descriptor, const struct msghdr *message, size_t size) {
  pthread_mutex_lock(&watched->mutex);
  int64_t now = now_ns();
  if (turn != 0 && watched->turn != turn) {
    watched->turn = turn;
    frame_guard_begin_turn(&watched->guard);
  }
  for (size_t i = 0; size > 0 && watched->open && watched->verdict == FRAME_PASSES; ++i) {
    const struct iovec *piece = &message->msg_iov[i];
    size_t bytes = size < piece->iov_len ? size : piece->iov_len;
    watched->verdict = frame_guard_pass(&watched->guard, piece->iov_base, bytes, now);
    size -= bytes;
  }
  // The number may be another's between gRPC's close and receive_guard_end.
  bool passes =
      !watched->open || watched->verdict == FRAME_PASSES || socket_number(descriptor) != watched->socket;
  pthread_mutex_unlock(&watched->mutex);
  return passes;
}

typedef ssize_t receive_function(int descriptor, struct msghdr *message, int flags);

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags) {
  static c_library_function c_library;
  receive_function *next = (receive_function *)c_library_find(&c_library, "recvmsg");
  ssize_t size = next(descriptor, message, flags);
  struct watched *watched = find(descriptor);
  if (size > 0 && watched != NULL && !(flags & (MSG_PEEK | MSG_ERRQUEUE)) &&
      !passes(watched, descriptor, message, (size_t)size)) {
    errno = EPROTO; // its text reaches the client, if anything does
    return -1;
  }
  return size;
}
