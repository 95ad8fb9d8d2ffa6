#include "proto/wire/execute_envelope.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// From this number on fields are hints that may be ignored.
#define HINT_FIELD_MIN 1000

enum message_field { FIELD_HEAD = 1, FIELD_CHUNKS = 2, FIELD_DONE = 3 };

enum chunk_field {
  CHUNK_TENSOR_INDEX = 1,
  CHUNK_OFFSET = 2,
  CHUNK_CODEC = 3,
  CHUNK_RAW_BYTES = 4,
  CHUNK_DATA = 999,
};

static const char *message_name(enum execute_message_kind kind) {
  return kind == EXECUTE_MESSAGE_REQUEST ? "ExecuteRequest" : "ExecuteResponse";
}

static bool cut_short(const char *what, struct status *status) {
  return status_fail(status, REASON_MESSAGE_INVALID, NULL, "%s is malformed or ends early", what);
}

// A field that isn't one of ours: refused in a request unless it is a hint, skipped in a response.
static bool skip_unknown(struct span_cursor *cursor, uint32_t field, enum wire_type type, const char *message,
                         enum execute_message_kind kind, struct status *status) {
  if (kind == EXECUTE_MESSAGE_REQUEST && field < HINT_FIELD_MIN) {
    return status_fail(status, REASON_FEATURE_UNSUPPORTED, NULL, "field %" PRIu32 " of %s is not known here",
                       field, message);
  }
  // protobuf-c can't skip a group, so that control messages don't take one as a hint either.
  if (kind == EXECUTE_MESSAGE_REQUEST && type == WIRE_TYPE_START_GROUP) {
    return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                       "field %" PRIu32 " of %s is a group, which this contract doesn't have", field,
                       message);
  }
  if (!span_skip_value(cursor, field, type)) {
    return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                       "field %" PRIu32 " of %s is malformed or ends early", field, message);
  }
  return true;
}

static bool wrong_type(uint32_t field, enum wire_type type, const char *message, struct status *status) {
  return status_fail(status, REASON_MESSAGE_INVALID, NULL, "field %" PRIu32 " of %s can't have wire type %d",
                     field, message, (int)type);
}

// The bytes of a length-delimited field as a cursor of their own.
static bool take_part(struct span_cursor *cursor, const char *what, struct span_cursor *part,
                      struct status *status) {
  uint64_t size;
  if (!span_read_varint(cursor, &size)) {
    return cut_short(what, status);
  }
  if (size > span_cursor_left(cursor) || !span_take(cursor, (size_t)size, part)) {
    return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                       "%s has a length of %" PRIu64 " bytes, but only %zu follow", what, size,
                       span_cursor_left(cursor));
  }
  return true;
}

static bool read_chunk_number(struct span_cursor *cursor, uint32_t field, struct tensor_chunk *chunk,
                              struct status *status) {
  uint64_t value;
  if (!span_read_varint(cursor, &value)) {
    return cut_short("TensorChunk", status);
  }
  switch (field) {
  case CHUNK_TENSOR_INDEX:
    // A cut number would be another tensor's.
    if (value > UINT32_MAX) {
      return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                         "TensorChunk.tensor_index %" PRIu64 " has more than 32 bits", value);
    }
    chunk->tensor_index = (uint32_t)value;
    break;
  case CHUNK_OFFSET:
    chunk->offset = (int64_t)value;
    break;
  case CHUNK_CODEC:
    if (!codec_is_known(value)) {
      return status_fail(status, REASON_FEATURE_UNSUPPORTED, NULL,
                         "TensorChunk.codec %" PRId64 " is not known here", (int64_t)value);
    }
    chunk->codec = (enum codec)value;
    break;
  default:
    chunk->raw_bytes = (int64_t)value;
    break;
  }
  return true;
}

// Of a field that comes twice the last one counts, as in protobuf.
static bool read_chunk(struct span_cursor *cursor, enum execute_message_kind kind, struct tensor_chunk *chunk,
                       struct status *status) {
  *chunk = (struct tensor_chunk){.data = *cursor};
  chunk->data.total = chunk->data.consumed;
  while (span_cursor_left(cursor) > 0) {
    uint32_t field;
    enum wire_type type;
    if (!span_read_tag(cursor, &field, &type)) {
      return cut_short("TensorChunk", status);
    }
    bool ok;
    if (field == CHUNK_DATA) {
      ok = type == WIRE_TYPE_LENGTH ? take_part(cursor, "TensorChunk.data", &chunk->data, status)
                                    : wrong_type(field, type, "TensorChunk", status);
      chunk->data_bytes = span_cursor_left(&chunk->data);
    } else if (field >= CHUNK_TENSOR_INDEX && field <= CHUNK_RAW_BYTES) {
      ok = type == WIRE_TYPE_VARINT ? read_chunk_number(cursor, field, chunk, status)
                                    : wrong_type(field, type, "TensorChunk", status);
    } else {
      ok = skip_unknown(cursor, field, type, "TensorChunk", kind, status);
    }
    if (!ok) {
      return false;
    }
  }
  return true;
}

// Takes a part of which a message has at most one. protobuf would merge two of them; two begins are two jobs.
static bool take_single(struct span_cursor *cursor, const char *what, bool *has, struct span_cursor *part,
                        size_t *part_bytes, struct status *status) {
  if (*has) {
    return status_fail(status, REASON_SEQUENCE_INVALID, NULL,
                       "a message holds two of %s; it may hold one job at most", what);
  }
  if (!take_part(cursor, what, part, status)) {
    return false;
  }
  *has = true;
  *part_bytes = span_cursor_left(part);
  return true;
}

// Reads the field whose tag was just read.
static bool read_field(struct span_cursor *cursor, uint32_t field, enum wire_type type,
                       struct execute_message *message, struct status *status) {
  enum execute_message_kind kind = message->_kind;
  bool known = field == FIELD_HEAD || field == FIELD_CHUNKS ||
               (field == FIELD_DONE && kind == EXECUTE_MESSAGE_RESPONSE);
  if (!known) {
    return skip_unknown(cursor, field, type, message_name(kind), kind, status);
  }
  if (type != WIRE_TYPE_LENGTH) {
    return wrong_type(field, type, message_name(kind), status);
  }
  if (field == FIELD_HEAD) {
    return take_single(cursor,
                       kind == EXECUTE_MESSAGE_REQUEST ? "ExecuteRequest.begin" : "ExecuteResponse.accepted",
                       &message->has_head, &message->head, &message->head_bytes, status);
  }
  if (field == FIELD_DONE) {
    return take_single(cursor, "ExecuteResponse.done", &message->has_done, &message->done,
                       &message->done_bytes, status);
  }
  struct span_cursor part;
  struct tensor_chunk chunk;
  if (!take_part(cursor, "TensorChunk", &part, status) || !read_chunk(&part, kind, &chunk, status)) {
    return false;
  }
  message->chunk_count++;
  return true;
}

bool execute_message_read(enum execute_message_kind kind, const struct span *spans, size_t span_count,
                          struct execute_message *message, struct status *status) {
  struct execute_message found = {._kind = kind};
  struct span_cursor cursor;
  span_cursor_init(&cursor, spans, span_count);
  found._next = cursor;
  while (span_cursor_left(&cursor) > 0) {
    uint32_t field;
    enum wire_type type;
    if (!span_read_tag(&cursor, &field, &type)) {
      return cut_short(message_name(kind), status);
    }
    if (!read_field(&cursor, field, type, &found, status)) {
      return false;
    }
  }
  *message = found;
  return true;
}

bool execute_message_next_chunk(struct execute_message *message, struct tensor_chunk *chunk) {
  // execute_message_read saw every byte of this: a failure here would be a fault of ours.
  struct span_cursor *cursor = &message->_next;
  while (span_cursor_left(cursor) > 0) {
    uint32_t field;
    enum wire_type type;
    bool ok = span_read_tag(cursor, &field, &type);
    assert(ok);
    if (field != FIELD_CHUNKS) {
      ok = span_skip_value(cursor, field, type);
      assert(ok);
      continue;
    }
    struct status status;
    struct span_cursor part;
    ok =
        take_part(cursor, "TensorChunk", &part, &status) && read_chunk(&part, message->_kind, chunk, &status);
    assert(ok);
    return true;
  }
  return false;
}

static uint8_t *write_varint(uint8_t *out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *out++ = (uint8_t)value;
  return out;
}

static uint8_t *write_tag(uint8_t *out, uint32_t field, enum wire_type type) {
  return write_varint(out, (uint64_t)field << 3 | (uint64_t)type);
}

// proto3 leaves zeros out.
static uint8_t *write_number(uint8_t *out, uint32_t field, uint64_t value) {
  return value == 0 ? out : write_varint(write_tag(out, field, WIRE_TYPE_VARINT), value);
}

size_t execute_chunk_write_header(const struct tensor_chunk *chunk, uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX]) {
  uint8_t fields[EXECUTE_ENVELOPE_BYTES_MAX];
  uint8_t *end = fields;
  end = write_number(end, CHUNK_TENSOR_INDEX, chunk->tensor_index);
  end = write_number(end, CHUNK_OFFSET, (uint64_t)chunk->offset);
  end = write_number(end, CHUNK_CODEC, (uint64_t)chunk->codec);
  end = write_number(end, CHUNK_RAW_BYTES, (uint64_t)chunk->raw_bytes);
  end = write_tag(end, CHUNK_DATA, WIRE_TYPE_LENGTH);
  end = write_varint(end, chunk->data_bytes);

  size_t field_bytes = (size_t)(end - fields);
  uint8_t *position = write_tag(out, FIELD_CHUNKS, WIRE_TYPE_LENGTH);
  position = write_varint(position, field_bytes + chunk->data_bytes);
  memcpy(position, fields, field_bytes);
  return (size_t)(position - out) + field_bytes;
}

size_t execute_part_write_header(uint32_t field, size_t part_bytes, uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX]) {
  return (size_t)(write_varint(write_tag(out, field, WIRE_TYPE_LENGTH), part_bytes) - out);
}
