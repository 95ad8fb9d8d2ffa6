// A message as it arrives: a list of byte spans that are not joined.
//
// The cursor reads protobuf's primitives across span borders without copying. Borrowed memory: spans and what
// they point to must outlive the cursor. Any thread, one at a time per cursor.
#ifndef ACLNN_PROTO_WIRE_SPAN_H
#define ACLNN_PROTO_WIRE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPAN_MUST_CHECK __attribute__((warn_unused_result))

struct span {
  const uint8_t *data; // may be NULL when size is 0
  size_t size;
};

struct span_cursor {
  const struct span *spans;
  size_t span_count;
  size_t span;     // position among spans
  size_t offset;   // within that span
  size_t consumed; // bytes before the cursor since span_cursor_init
  size_t total;
};

// No message of the contract has groups; whoever sends them as hints has no use for more.
#define SPAN_GROUP_DEPTH_MAX 16

enum wire_type {
  WIRE_TYPE_VARINT = 0,
  WIRE_TYPE_FIXED64 = 1,
  WIRE_TYPE_LENGTH = 2,
  WIRE_TYPE_START_GROUP = 3,
  WIRE_TYPE_END_GROUP = 4,
  WIRE_TYPE_FIXED32 = 5,
};

void span_cursor_init(struct span_cursor *cursor, const struct span *spans, size_t span_count);

// Bytes that are left.
size_t span_cursor_left(const struct span_cursor *cursor);

// Each returns false, and leaves the cursor anywhere, if the bytes end early or are malformed (a varint of
// more than 10 bytes or more than 64 bits, a field number of 0 or above 2^29-1, a reserved wire type).
SPAN_MUST_CHECK bool span_read_varint(struct span_cursor *cursor, uint64_t *value);
SPAN_MUST_CHECK bool span_read_tag(struct span_cursor *cursor, uint32_t *field, enum wire_type *type);
SPAN_MUST_CHECK bool span_read_bytes(struct span_cursor *cursor, void *destination, size_t size);
SPAN_MUST_CHECK bool span_skip(struct span_cursor *cursor, size_t size);
// The next `size` bytes as a cursor of their own that ends after them; *cursor goes on behind them.
SPAN_MUST_CHECK bool span_take(struct span_cursor *cursor, size_t size, struct span_cursor *part);
// Skips the value of a field whose tag was read; groups are skipped as a whole, nested at most
// SPAN_GROUP_DEPTH_MAX deep.
SPAN_MUST_CHECK bool span_skip_value(struct span_cursor *cursor, uint32_t field, enum wire_type type);

#endif
