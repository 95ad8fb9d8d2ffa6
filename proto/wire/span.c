#include "proto/wire/span.h"

#include <string.h>

#define FIELD_NUMBER_MAX ((1u << 29) - 1)
// A tag has 32 bits: five bytes of seven.
#define TAG_BYTES_MAX 5

void span_cursor_init(struct span_cursor *cursor, const struct span *spans, size_t span_count) {
  size_t total = 0;
  for (size_t i = 0; i < span_count; i++) {
    total += spans[i].size;
  }
  *cursor = (struct span_cursor){.spans = spans, .span_count = span_count, .total = total};
}

size_t span_cursor_left(const struct span_cursor *cursor) {
  return cursor->total - cursor->consumed;
}

// Steps to a span that still has bytes. Only called while bytes are left, so there is one.
static const uint8_t *current_bytes(struct span_cursor *cursor, size_t *available) {
  while (cursor->offset == cursor->spans[cursor->span].size) {
    cursor->span++;
    cursor->offset = 0;
  }
  const struct span *span = &cursor->spans[cursor->span];
  size_t in_span = span->size - cursor->offset;
  size_t left = span_cursor_left(cursor);
  *available = in_span < left ? in_span : left;
  return span->data + cursor->offset;
}

static bool read_byte(struct span_cursor *cursor, uint8_t *byte) {
  if (span_cursor_left(cursor) == 0) {
    return false;
  }
  size_t available;
  *byte = *current_bytes(cursor, &available);
  cursor->offset++;
  cursor->consumed++;
  return true;
}

bool span_read_varint(struct span_cursor *cursor, uint64_t *value) {
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    uint8_t byte;
    if (!read_byte(cursor, &byte)) {
      return false;
    }
    // The tenth byte holds the topmost bit alone.
    if (shift == 63 && byte > 1) {
      return false;
    }
    result |= (uint64_t)(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool span_read_tag(struct span_cursor *cursor, uint32_t *field, enum wire_type *type) {
  size_t start = cursor->consumed;
  uint64_t tag;
  if (!span_read_varint(cursor, &tag) || cursor->consumed - start > TAG_BYTES_MAX) {
    return false;
  }
  uint64_t number = tag >> 3;
  unsigned wire = (unsigned)(tag & 7);
  if (number == 0 || number > FIELD_NUMBER_MAX || wire > WIRE_TYPE_FIXED32) {
    return false;
  }
  *field = (uint32_t)number;
  *type = (enum wire_type)wire;
  return true;
}

bool span_read_bytes(struct span_cursor *cursor, void *destination, size_t size) {
  if (size > span_cursor_left(cursor)) {
    return false;
  }
  uint8_t *out = destination;
  while (size > 0) {
    size_t available;
    const uint8_t *bytes = current_bytes(cursor, &available);
    size_t part = available < size ? available : size;
    memcpy(out, bytes, part);
    out += part;
    size -= part;
    cursor->offset += part;
    cursor->consumed += part;
  }
  return true;
}

bool span_skip(struct span_cursor *cursor, size_t size) {
  if (size > span_cursor_left(cursor)) {
    return false;
  }
  while (size > 0) {
    size_t available;
    (void)current_bytes(cursor, &available);
    size_t part = available < size ? available : size;
    size -= part;
    cursor->offset += part;
    cursor->consumed += part;
  }
  return true;
}

bool span_take(struct span_cursor *cursor, size_t size, struct span_cursor *part) {
  struct span_cursor start = *cursor;
  if (!span_skip(cursor, size)) {
    return false;
  }
  start.total = start.consumed + size;
  *part = start;
  return true;
}

// Skips a value that is no group.
static bool skip_plain_value(struct span_cursor *cursor, enum wire_type type) {
  uint64_t value;
  switch (type) {
  case WIRE_TYPE_VARINT:
    return span_read_varint(cursor, &value);
  case WIRE_TYPE_FIXED64:
    return span_skip(cursor, 8);
  case WIRE_TYPE_FIXED32:
    return span_skip(cursor, 4);
  case WIRE_TYPE_LENGTH:
    return span_read_varint(cursor, &value) && value <= SIZE_MAX && span_skip(cursor, (size_t)value);
  case WIRE_TYPE_START_GROUP:
  case WIRE_TYPE_END_GROUP:
    break;
  }
  return false;
}

bool span_skip_value(struct span_cursor *cursor, uint32_t field, enum wire_type type) {
  if (type != WIRE_TYPE_START_GROUP) {
    return skip_plain_value(cursor, type);
  }
  // The numbers of the groups that are open: each has to be closed by its own.
  uint32_t open[SPAN_GROUP_DEPTH_MAX] = {field};
  size_t depth = 1;
  while (depth > 0) {
    if (!span_read_tag(cursor, &field, &type)) {
      return false;
    }
    if (type == WIRE_TYPE_START_GROUP) {
      if (depth == SPAN_GROUP_DEPTH_MAX) {
        return false;
      }
      open[depth++] = field;
    } else if (type == WIRE_TYPE_END_GROUP) {
      if (open[--depth] != field) {
        return false;
      }
    } else if (!skip_plain_value(cursor, type)) {
      return false;
    }
  }
  return true;
}
