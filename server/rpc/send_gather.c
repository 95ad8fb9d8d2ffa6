#include "server/rpc/send_gather.h"

#include "server/rpc/c_library.h"
#include "server/rpc/limits.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>

enum { NO_DESCRIPTOR = -1 };

// Calls with something to do, by the descriptor of their connection.
static atomic_uint calls[CONNECTION_DESCRIPTORS_MAX];

static _Thread_local bool handles_event;
static _Thread_local int held = NO_DESCRIPTOR;
static _Thread_local unsigned replies; // that were held back since the last that wasn't
static _Thread_local int64_t held_since_ns;
static _Thread_local bool held_in_event; // there was nothing before

static bool is_in_range(int descriptor) {
  return descriptor >= 0 && descriptor < CONNECTION_DESCRIPTORS_MAX;
}

void send_gather_call_begins(int descriptor) {
  if (is_in_range(descriptor)) {
    atomic_fetch_add_explicit(&calls[descriptor], 1, memory_order_relaxed);
  }
}

void send_gather_call_ends(int descriptor) {
  if (is_in_range(descriptor)) {
    unsigned before = atomic_fetch_sub_explicit(&calls[descriptor], 1, memory_order_relaxed);
    assert(before > 0);
  }
}

void send_gather_begin_event(void) {
  handles_event = true;
}

void send_gather_end_event(int64_t now_ns) {
  handles_event = false;
  if (held_in_event) {
    held_in_event = false;
    held_since_ns = now_ns;
  } else if (held != NO_DESCRIPTOR && now_ns - held_since_ns >= SEND_GATHER_NS_MAX) {
    send_gather_release();
  }
}

bool send_gather_holds(void) {
  return held != NO_DESCRIPTOR;
}

void send_gather_release(void) {
  if (held == NO_DESCRIPTOR) {
    return;
  }
  // Setting it, even again, sends what is held. The connection may be gone, or not be TCP's, which holds
  // nothing back.
  int on = 1;
  (void)setsockopt(held, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  held = NO_DESCRIPTOR;
  replies = 0;
}

static bool may_be_held(int descriptor, size_t size) {
  return handles_event && size <= SEND_GATHER_BYTES_MAX && is_in_range(descriptor) &&
         atomic_load_explicit(&calls[descriptor], memory_order_relaxed) > 1;
}

int send_gather_flags(int descriptor, size_t size, int flags) {
  if (held != descriptor) {
    send_gather_release();
  }
  if (!may_be_held(descriptor, size) || replies + 1 >= SEND_GATHER_REPLIES_MAX) {
    held = NO_DESCRIPTOR; // goes with these
    replies = 0;
    return flags;
  }
  held_in_event = held_in_event || replies == 0;
  held = descriptor;
  ++replies;
  return flags | MSG_MORE;
}

static size_t message_bytes(const struct msghdr *message) {
  size_t size = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    size += message->msg_iov[i].iov_len;
  }
  return size;
}

typedef ssize_t send_function(int descriptor, const struct msghdr *message, int flags);

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
  static c_library_function c_library;
  send_function *next = (send_function *)c_library_find(&c_library, "sendmsg");
  if (handles_event) {
    flags = send_gather_flags(descriptor, message_bytes(message), flags);
  }
  return next(descriptor, message, flags);
}
