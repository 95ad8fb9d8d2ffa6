// The connection to a server and the calls on it. The only module of the client that knows gRPC.
//
// There is no thread of our own: the thread that makes a call also waits for its events (channel_call_next;
// channel_event_queue.h tells how several do). A channel may be used by any number of threads at once; a call
// by one at a time, except that channel_cancel_all reaches it from anywhere. Calls are closed before their
// channel is.
#ifndef ACLNN_CLIENT_C_CHANNEL_H
#define ACLNN_CLIENT_C_CHANNEL_H

#include "client/c/aclnn_client.h"
#include "client/c/clock.h"
#include "client/c/lease.h"
#include "kernels/status.h"
#include "proto/wire/messages.h"
#include "proto/wire/span.h"

struct channel;
struct channel_call;

// What bounds one call of the public interface, with all that it does on the way.
struct call_scope {
  int64_t deadline_ns; // CLOCK_NEVER: none
  uint64_t cancel_generation;
  int64_t timeout_ms; // for messages
};

MUST_CHECK bool channel_open(const char *address, struct channel **channel, aclnn_error *error);
void channel_close(struct channel *channel);

// A scope that begins now and ends with the timeout (0: none) or the next channel_cancel_all.
struct call_scope channel_scope(struct channel *channel, int64_t timeout_ms);

// Whether that was done since the scope began.
bool channel_scope_is_cancelled(struct channel *channel, const struct call_scope *scope);

// Ends all calls that are under way and all scopes that were begun, with CANCELLED.
void channel_cancel_all(struct channel *channel);

// Sleeps before another try, and tells gRPC not to wait longer than that before it connects again. False if
// the scope is cancelled meanwhile or would end before.
MUST_CHECK bool channel_pause(struct channel *channel, const struct call_scope *scope, int64_t pause_ms,
                              aclnn_error *error);

// How long a call that is over waits for the rest of its writes before it breaks the connection. A slow link
// that still moves has to get a chunk through in that time.
#define CHANNEL_STUCK_AFTER_NS (ACLNN_STUCK_MS * 1000000LL)

// Ends the channel's connections at once, whatever is under way on them: for one that has stopped taking
// bytes. Later calls make a new one. Does nothing with a gRPC whose sockets can't be known
// (channel_sockets.h).
void channel_break_connections(struct channel *channel);

// The failure of a call that ran out of its scope's time. Returns false.
bool channel_fail_timed_out(const struct call_scope *scope, aclnn_error *error);

// One request, one response. *response is malloc'ed and the caller's.
MUST_CHECK bool channel_unary(struct channel *channel, const struct call_scope *scope, const char *method,
                              const struct wire_buffer *request, struct wire_buffer *response,
                              aclnn_error *error);

// ---- A call with streams both ways

enum channel_event {
  CHANNEL_SENT,     // the last message was taken, another may be sent
  CHANNEL_RECEIVED, // channel_call_message has a message
  CHANNEL_ENDED,    // the call is over, channel_call_result tells how
  CHANNEL_TIMED_OUT // nothing happened before the deadline given to channel_call_next
};

// One contiguous piece of a message. Memory with a lease is sent from where it lies and counted there until
// the transport has let go of it; memory without one is copied.
struct channel_part {
  const void *data;
  size_t size;
  struct lease *lease;
};

#define CHANNEL_PARTS_MAX 64

// With ends_at_deadline the scope's deadline is the call's own and the server learns it; else it counts only
// where it is given to channel_call_next.
MUST_CHECK bool channel_call_open(struct channel *channel, const struct call_scope *scope, const char *method,
                                  bool ends_at_deadline, struct channel_call **call, aclnn_error *error);

enum channel_send {
  CHANNEL_SEND,
  CHANNEL_SEND_WITH_NEXT, // another follows at once: small messages leave together with it, in one write
  CHANNEL_SEND_LAST,      // nothing follows
};

// Sends a message. Only when no other is being sent. True if a CHANNEL_SENT will tell when it was taken;
// false for a small one that is all that the call sends: the reply tells.
bool channel_call_send(struct channel_call *call, const struct channel_part *parts, size_t part_count,
                       enum channel_send how);
// Ends the sending side without a message. Only when nothing is being sent.
void channel_call_send_end(struct channel_call *call);

// Waits for the next event.
enum channel_event channel_call_next(struct channel_call *call, int64_t deadline_ns);

// The message of the last CHANNEL_RECEIVED, valid until channel_call_read_on, which asks for the next one.
const struct span *channel_call_message(struct channel_call *call, size_t *span_count);
void channel_call_read_on(struct channel_call *call);

// After CHANNEL_ENDED: true if the server ended the call well.
bool channel_call_result(struct channel_call *call, aclnn_error *error);
// The failure of a call that ended well, but before what was to come: `what` went wrong, unless the client
// itself cut it off, by channel_cancel_all or its deadline. gRPC drops messages then that it has received,
// but not an OK that came with them. Returns false.
bool channel_call_fail_incomplete(struct channel_call *call, const char *what, aclnn_error *error);

// Ends the call if it hasn't ended and frees it. Memory that was lent may come back later: see the lease.
void channel_call_close(struct channel_call *call);

#endif
