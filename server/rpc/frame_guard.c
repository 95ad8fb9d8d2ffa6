#include "server/rpc/frame_guard.h"

#include "proto/wire/execute_envelope.h"
#include "server/rpc/limits.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum {
  FRAME_DATA = 0,
  FRAME_HEADERS = 1,
  FRAME_RST_STREAM = 3,
  FRAME_WINDOW_UPDATE = 8,
  FRAME_CONTINUATION = 9
};
enum { FLAG_END_STREAM = 1 };
enum { FRAME_HEAD_BYTES = 9, PREFACE_BYTES = 24, MESSAGE_PREFIX_BYTES = 5 };

struct frame_stream {
  uint32_t number;
  struct frame_message message;
  UT_hash_handle hh;
};

const char *frame_verdict_text(enum frame_verdict verdict) {
  static const char *const texts[] = {
      [FRAME_PASSES] = "",
      [FRAME_HEADERS_TOO_LONG] = "a call's headers are too long, or come in too many pieces",
      [FRAME_CALLS_TOO_MANY] = "too many calls were opened before earlier ones were over",
      [FRAME_MESSAGES_TOO_LONG] = "messages announce far more than they may hold",
      [FRAME_NOTHING_TOO_OFTEN] = "too many frames that move nothing",
  };
  return texts[verdict];
}

void frame_guard_init(struct frame_guard *guard, struct frame_guard_sum *sum) {
  *guard = (struct frame_guard){._sum = sum, ._preface_left_bytes = PREFACE_BYTES};
}

// ---- Messages

static bool is_between_messages(const struct frame_message *message) {
  return message->prefix_bytes == 0 && message->left_bytes == 0;
}

static void end_message(struct frame_guard *guard, struct frame_message *message) {
  atomic_fetch_sub(&guard->_sum->_oversize_bytes, message->oversize_bytes);
  *message = (struct frame_message){0};
}

static void remove_stream(struct frame_guard *guard, struct frame_stream *stream) {
  HASH_DEL(guard->_streams, stream);
  free(stream);
}

static struct frame_stream *find_stream(struct frame_guard *guard, uint32_t number) {
  struct frame_stream *stream = NULL;
  HASH_FIND(hh, guard->_streams, &number, sizeof number, stream);
  return stream;
}

// The stream's message becomes the guard's.
static void take_message(struct frame_guard *guard) {
  struct frame_stream *stream = find_stream(guard, guard->_stream);
  guard->_message = (struct frame_message){0};
  if (stream != NULL) {
    guard->_message = stream->message;
    remove_stream(guard, stream);
  }
}

// Without memory the stream is forgotten, and its next bytes are taken for a prefix: they may get the
// connection cut, which has the same reason then.
static void keep_message(struct frame_guard *guard) {
  if (HASH_COUNT(guard->_streams) >= FRAME_STREAMS_MAX) {
    end_message(guard, &guard->_streams->message);
    remove_stream(guard, guard->_streams);
  }
  struct frame_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) {
    end_message(guard, &guard->_message);
    return;
  }
  stream->number = guard->_stream;
  stream->message = guard->_message;
  HASH_ADD(hh, guard->_streams, number, sizeof stream->number, stream);
}

void frame_guard_clear(struct frame_guard *guard) {
  end_message(guard, &guard->_message);
  struct frame_stream *stream = NULL;
  struct frame_stream *next = NULL;
  HASH_ITER(hh, guard->_streams, stream, next) {
    end_message(guard, &stream->message);
    remove_stream(guard, stream);
  }
}

static enum frame_verdict begin_message(struct frame_guard *guard) {
  struct frame_message *message = &guard->_message;
  *message = (struct frame_message){.left_bytes = message->length};
  if (message->left_bytes <= WIRE_MESSAGE_BYTES_MAX) {
    return FRAME_PASSES;
  }
  message->oversize_bytes = message->left_bytes;
  int64_t others = atomic_fetch_add(&guard->_sum->_oversize_bytes, message->oversize_bytes);
  return others + message->oversize_bytes > FRAME_OVERSIZE_BYTES_MAX ? FRAME_MESSAGES_TOO_LONG : FRAME_PASSES;
}

static enum frame_verdict pass_data(struct frame_guard *guard, const uint8_t *bytes, size_t size) {
  struct frame_message *message = &guard->_message;
  enum frame_verdict verdict = FRAME_PASSES;
  while (size > 0 && verdict == FRAME_PASSES) {
    size_t taken = 1;
    if (message->left_bytes > 0) {
      taken = size < message->left_bytes ? size : message->left_bytes;
      message->left_bytes -= (uint32_t)taken;
      if (message->left_bytes == 0) {
        end_message(guard, message);
      }
    } else {
      // The first is gRPC's flag of compression, which the length shifts out.
      message->length = message->length << 8 | *bytes;
      if (++message->prefix_bytes == MESSAGE_PREFIX_BYTES) {
        verdict = begin_message(guard);
      }
    }
    bytes += taken;
    size -= taken;
  }
  return verdict;
}

static void end_stream(struct frame_guard *guard) {
  take_message(guard);
  end_message(guard, &guard->_message);
}

size_t frame_guard_streams(const struct frame_guard *guard) {
  return HASH_COUNT(guard->_streams);
}

// ---- Calls

// Whole intervals since *at_ns, which is set past them.
static int64_t intervals_since(int64_t *at_ns, int64_t interval_ns, int64_t now_ns) {
  int64_t intervals = (now_ns - *at_ns) / interval_ns;
  *at_ns += intervals * interval_ns;
  return intervals;
}

static void take_off(int64_t *count, int64_t due) {
  *count -= due < *count ? due : *count;
}

static enum frame_verdict open_call(struct frame_guard *guard, int64_t now_ns) {
  if (guard->_stream <= guard->_newest_stream) {
    return FRAME_PASSES; // trailers, or gRPC's to refuse
  }
  guard->_newest_stream = guard->_stream;
  take_off(&guard->_ahead, intervals_since(&guard->_forgiven_at_ns, FRAME_CALL_FORGIVEN_NS, now_ns));
  return ++guard->_ahead > FRAME_CALLS_AHEAD_MAX ? FRAME_CALLS_TOO_MANY : FRAME_PASSES;
}

void frame_guard_call_over(struct frame_guard *guard) {
  take_off(&guard->_ahead, 1);
}

void frame_guard_begin_turn(struct frame_guard *guard) {
  guard->_ahead = 0;
}

// ---- Frames

static enum frame_verdict pass_headers(struct frame_guard *guard, size_t size) {
  guard->_block_bytes += size;
  guard->_block_work += guard->_block_bytes;
  return guard->_block_bytes > FRAME_BLOCK_BYTES_MAX || guard->_block_work > FRAME_BLOCK_WORK_MAX
             ? FRAME_HEADERS_TOO_LONG
             : FRAME_PASSES;
}

// Settings, pings, empty data and the like: each is cheap, but gRPC does something for it.
static enum frame_verdict pass_nothing(struct frame_guard *guard, int64_t now_ns) {
  take_off(&guard->_nothings, intervals_since(&guard->_nothings_at_ns, FRAME_NOTHING_FORGIVEN_NS, now_ns));
  return ++guard->_nothings > FRAME_NOTHINGS_MAX ? FRAME_NOTHING_TOO_OFTEN : FRAME_PASSES;
}

static enum frame_verdict begin_frame(struct frame_guard *guard, int64_t now_ns) {
  const uint8_t *head = guard->_head;
  guard->_left_bytes = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
  guard->_type = head[3];
  guard->_flags = head[4];
  guard->_stream =
      ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) & INT32_MAX;
  switch (guard->_type) {
  case FRAME_DATA:
    take_message(guard);
    return guard->_left_bytes > 0 || (guard->_flags & FLAG_END_STREAM) ? FRAME_PASSES
                                                                       : pass_nothing(guard, now_ns);
  case FRAME_HEADERS:
    guard->_block_bytes = guard->_block_work = 0;
    return open_call(guard, now_ns);
  case FRAME_CONTINUATION:
    return pass_headers(guard, 0);
  case FRAME_RST_STREAM:
    end_stream(guard);
    return FRAME_PASSES;
  case FRAME_WINDOW_UPDATE:
    return FRAME_PASSES;
  default:
    return pass_nothing(guard, now_ns);
  }
}

static enum frame_verdict pass_payload(struct frame_guard *guard, const uint8_t *bytes, size_t size) {
  guard->_left_bytes -= (uint32_t)size;
  switch (guard->_type) {
  case FRAME_DATA:
    return pass_data(guard, bytes, size);
  case FRAME_HEADERS:
  case FRAME_CONTINUATION:
    return pass_headers(guard, size);
  default:
    return FRAME_PASSES;
  }
}

static void end_frame(struct frame_guard *guard) {
  guard->_head_bytes = 0;
  if (guard->_type != FRAME_DATA) {
    return;
  }
  if (guard->_flags & FLAG_END_STREAM) {
    end_message(guard, &guard->_message);
  } else if (!is_between_messages(&guard->_message)) {
    keep_message(guard);
  }
  guard->_message = (struct frame_message){0};
}

enum frame_verdict frame_guard_pass(struct frame_guard *guard, const uint8_t *bytes, size_t size,
                                    int64_t now_ns) {
  enum frame_verdict verdict = FRAME_PASSES;
  while (size > 0 && verdict == FRAME_PASSES) {
    size_t taken = 0;
    if (guard->_preface_left_bytes > 0) {
      taken = size < guard->_preface_left_bytes ? size : guard->_preface_left_bytes;
      guard->_preface_left_bytes -= (uint32_t)taken;
    } else if (guard->_head_bytes < FRAME_HEAD_BYTES) {
      taken = 1;
      guard->_head[guard->_head_bytes++] = *bytes;
      if (guard->_head_bytes == FRAME_HEAD_BYTES) {
        verdict = begin_frame(guard, now_ns);
      }
    } else {
      taken = size < guard->_left_bytes ? size : guard->_left_bytes;
      verdict = pass_payload(guard, bytes, taken);
    }
    if (verdict == FRAME_PASSES && guard->_head_bytes == FRAME_HEAD_BYTES && guard->_left_bytes == 0) {
      end_frame(guard);
    }
    bytes += taken;
    size -= taken;
  }
  return verdict;
}
