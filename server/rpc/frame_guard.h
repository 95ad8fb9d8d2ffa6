// Follows what one connection sends, frame by frame, and says when it must be cut.
//
// gRPC 1.51 reads whatever HTTP/2 allows: a header value without an end is read again from its beginning with
// every piece, calls that are opened and reset at once queue up without a limit, and a message is gathered up
// to the length that it announces. This knows as much of HTTP/2 as it takes to see that coming; what is
// malformed is left to gRPC. It reads frame heads, and skips over what they contain.
//
// One thread at a time; the sum of several guards may be used by all their threads.
#ifndef ACLNN_SERVER_RPC_FRAME_GUARD_H
#define ACLNN_SERVER_RPC_FRAME_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_verdict {
  FRAME_PASSES,
  FRAME_HEADERS_TOO_LONG,  // one call's headers, or in too many pieces
  FRAME_CALLS_TOO_MANY,    // opened in one turn, and not over
  FRAME_MESSAGES_TOO_LONG, // together with those of other connections
  FRAME_NOTHING_TOO_OFTEN  // frames that move nothing
};

// In words; "" for one that passes.
const char *frame_verdict_text(enum frame_verdict verdict);

// Of all connections of a server.
struct frame_guard_sum {
  atomic_int_fast64_t _oversize_bytes; // announced by messages that are longer than one may be
};

// How much of the message at which a stream stands has come.
struct frame_message {
  uint32_t prefix_bytes; // of the five before a message
  uint32_t length;       // as far as the prefix tells
  uint32_t left_bytes;
  int64_t oversize_bytes; // its share of the sum
};

struct frame_stream; // one that stands in the middle of a message

struct frame_guard {
  struct frame_guard_sum *_sum; // borrowed
  uint32_t _preface_left_bytes;
  uint8_t _head[9];
  uint32_t _head_bytes;
  // The frame under way.
  uint8_t _type, _flags;
  uint32_t _stream, _left_bytes;
  struct frame_message _message; // of its stream, if it is a DATA frame
  // The header block under way.
  uint64_t _block_bytes, _block_work;
  // Calls that were opened in this turn and of which nothing was heard since.
  uint32_t _newest_stream;
  int64_t _ahead, _forgiven_at_ns;
  int64_t _nothings, _nothings_at_ns; // frames that move nothing
  struct frame_stream *_streams;      // by number, the oldest first
};

// A connection from which nothing has come yet.
void frame_guard_init(struct frame_guard *guard, struct frame_guard_sum *sum);
// The connection is over.
void frame_guard_clear(struct frame_guard *guard);

// The next bytes from the peer, on a steady clock. After a verdict that isn't FRAME_PASSES none may follow.
enum frame_verdict frame_guard_pass(struct frame_guard *guard, const uint8_t *bytes, size_t size,
                                    int64_t now_ns);

// A call of this connection is over.
void frame_guard_call_over(struct frame_guard *guard);
// The server has handled every call that it had when it looked at its connections again.
void frame_guard_begin_turn(struct frame_guard *guard);

// Streams that are followed, as they stand in the middle of a message.
size_t frame_guard_streams(const struct frame_guard *guard);

#endif
