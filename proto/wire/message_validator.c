#include "proto/wire/message_validator.h"

#include "proto/wire/span.h"
#include "proto/wire/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// Which fields of a message were there, a bit per position in the descriptor.
#define FIELDS_MAX 64

struct walk {
  const struct message_rules *rules;
  struct status *status;
  const ProtobufCMessageDescriptor *message;
  struct span_cursor cursor; // ends with the message
  uint64_t seen;
  unsigned depth;
};

static bool walk_message(struct walk *walk);

static bool invalid_field(struct walk *walk, const ProtobufCFieldDescriptor *field, const char *what) {
  return status_fail(walk->status, REASON_MESSAGE_INVALID, NULL, "%s.%s %s", walk->message->short_name,
                     field->name, what);
}

static enum wire_type wire_type_of(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_SFIXED32:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_FLOAT:
    return WIRE_TYPE_FIXED32;
  case PROTOBUF_C_TYPE_SFIXED64:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_DOUBLE:
    return WIRE_TYPE_FIXED64;
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE:
    return WIRE_TYPE_LENGTH;
  default:
    return WIRE_TYPE_VARINT;
  }
}

// Skips a field that the descriptor doesn't have.
static bool walk_unknown(struct walk *walk, uint32_t number, enum wire_type type) {
  const char *message = walk->message->short_name;
  if (walk->rules->strict && number < MESSAGE_HINT_FIELD_MIN) {
    return status_fail(walk->status, REASON_FEATURE_UNSUPPORTED, NULL,
                       "field %" PRIu32 " of %s is not known here", number, message);
  }
  if (type == WIRE_TYPE_START_GROUP || type == WIRE_TYPE_END_GROUP) {
    return status_fail(walk->status, REASON_MESSAGE_INVALID, NULL,
                       "field %" PRIu32 " of %s is a group, which this contract doesn't have", number,
                       message);
  }
  if (!span_skip_value(&walk->cursor, number, type)) {
    return status_fail(walk->status, REASON_MESSAGE_INVALID, NULL,
                       "field %" PRIu32 " of %s is malformed or ends early", number, message);
  }
  return true;
}

static bool check_enum(struct walk *walk, const ProtobufCFieldDescriptor *field, int64_t value) {
  const struct message_rules *rules = walk->rules;
  if (!rules->strict || (value >= INT32_MIN && value <= INT32_MAX &&
                         protobuf_c_enum_descriptor_get_value(field->descriptor, (int)value) != NULL)) {
    return true;
  }
  if (walk->message == rules->open_message && strcmp(field->name, rules->open_field) == 0) {
    return true;
  }
  return status_fail(walk->status, REASON_FEATURE_UNSUPPORTED, NULL,
                     "%s.%s has the value %" PRId64 ", which is not known here", walk->message->short_name,
                     field->name, value);
}

// One number, from the message itself or from a packed field.
static bool walk_number(struct walk *walk, const ProtobufCFieldDescriptor *field,
                        struct span_cursor *cursor) {
  enum wire_type type = wire_type_of(field->type);
  if (type != WIRE_TYPE_VARINT) {
    return span_skip(cursor, type == WIRE_TYPE_FIXED64 ? 8 : 4) || invalid_field(walk, field, "ends early");
  }
  uint64_t value;
  if (!span_read_varint(cursor, &value)) {
    return invalid_field(walk, field, "is malformed or ends early");
  }
  int64_t number = (int64_t)value;
  switch (field->type) {
  case PROTOBUF_C_TYPE_ENUM:
    return check_enum(walk, field, number);
  case PROTOBUF_C_TYPE_INT32:
    return (number >= INT32_MIN && number <= INT32_MAX) ||
           invalid_field(walk, field, "has more than 32 bits");
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_SINT32:
    return value <= UINT32_MAX || invalid_field(walk, field, "has more than 32 bits");
  default:
    return true;
  }
}

static bool walk_packed(struct walk *walk, const ProtobufCFieldDescriptor *field, struct span_cursor *part) {
  while (span_cursor_left(part) > 0) {
    if (!walk_number(walk, field, part)) {
      return false;
    }
  }
  return true;
}

static bool walk_string(struct walk *walk, const ProtobufCFieldDescriptor *field,
                        const struct span_cursor *part) {
  // The message is one span, so the string lies in one piece.
  size_t size = span_cursor_left(part);
  const char *text = (const char *)part->spans[0].data + part->consumed;
  if (size == 0) {
    return true;
  }
  if (memchr(text, '\0', size) != NULL) {
    return invalid_field(walk, field, "holds a NUL");
  }
  return utf8_is_valid(text, size) || invalid_field(walk, field, "is not valid UTF-8");
}

static bool walk_sub_message(struct walk *walk, const ProtobufCFieldDescriptor *field,
                             const struct span_cursor *part) {
  if (walk->depth + 1 == MESSAGE_DEPTH_MAX) {
    return invalid_field(walk, field, "is nested too deeply");
  }
  struct walk inner = {.rules = walk->rules,
                       .status = walk->status,
                       .message = field->descriptor,
                       .cursor = *part,
                       .depth = walk->depth + 1};
  return walk_message(&inner);
}

// Notes that the field is there; false if it is a sub-message that may not come again.
static bool note_field(struct walk *walk, const ProtobufCFieldDescriptor *field) {
  const ProtobufCFieldDescriptor *fields = walk->message->fields;
  uint64_t bit = UINT64_C(1) << (field - fields);
  if (field->type == PROTOBUF_C_TYPE_MESSAGE && field->label != PROTOBUF_C_LABEL_REPEATED &&
      (walk->seen & bit) != 0) {
    return false;
  }
  if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
    // It replaces the other members of its oneof.
    for (unsigned i = 0; i < walk->message->n_fields; i++) {
      if ((fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
          fields[i].quantifier_offset == field->quantifier_offset) {
        walk->seen &= ~(UINT64_C(1) << i);
      }
    }
  }
  walk->seen |= bit;
  return true;
}

static bool walk_known(struct walk *walk, const ProtobufCFieldDescriptor *field, enum wire_type type) {
  enum wire_type expected = wire_type_of(field->type);
  bool packed =
      field->label == PROTOBUF_C_LABEL_REPEATED && expected != WIRE_TYPE_LENGTH && type == WIRE_TYPE_LENGTH;
  if (type != expected && !packed) {
    return invalid_field(walk, field, "has a wire type that it can't have");
  }
  if (!note_field(walk, field)) {
    return invalid_field(walk, field, "is given twice");
  }
  if (type != WIRE_TYPE_LENGTH) {
    return walk_number(walk, field, &walk->cursor);
  }
  uint64_t size;
  struct span_cursor part;
  if (!span_read_varint(&walk->cursor, &size)) {
    return invalid_field(walk, field, "is malformed or ends early");
  }
  if (size > span_cursor_left(&walk->cursor) || !span_take(&walk->cursor, (size_t)size, &part)) {
    return invalid_field(walk, field, "is longer than the message around it");
  }
  if (packed) {
    return walk_packed(walk, field, &part);
  }
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING:
    return walk_string(walk, field, &part);
  case PROTOBUF_C_TYPE_MESSAGE:
    return walk_sub_message(walk, field, &part);
  default:
    return true;
  }
}

static bool walk_message(struct walk *walk) {
  assert(walk->message->n_fields <= FIELDS_MAX);
  while (span_cursor_left(&walk->cursor) > 0) {
    uint32_t number;
    enum wire_type type;
    if (!span_read_tag(&walk->cursor, &number, &type)) {
      return status_fail(walk->status, REASON_MESSAGE_INVALID, NULL,
                         "%s is malformed or ends early at byte %zu", walk->message->short_name,
                         walk->cursor.consumed);
    }
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(walk->message, number);
    if (!(field == NULL ? walk_unknown(walk, number, type) : walk_known(walk, field, type))) {
      return false;
    }
  }
  return true;
}

bool message_validate(const ProtobufCMessageDescriptor *descriptor, const struct message_rules *rules,
                      const uint8_t *data, size_t size, struct status *status) {
  struct span span = {.data = data, .size = size};
  struct walk walk = {.rules = rules, .status = status, .message = descriptor};
  span_cursor_init(&walk.cursor, &span, 1);
  return walk_message(&walk);
}
