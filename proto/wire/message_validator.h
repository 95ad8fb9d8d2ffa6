// Looks at the raw bytes of a message before protobuf-c does.
//
// protobuf-c takes what the contract refuses: it keeps unknown fields, stores unknown enum values, and
// doesn't look into strings. This walks the bytes along the message's descriptor and tells what is wrong with
// them. It needs no memory; any thread.
//
// In every message, whoever reads it, these are MESSAGE_INVALID: bytes that end early or are malformed, a
// known field with a wire type that it can't have, a string that isn't UTF-8 or holds a NUL, a 32-bit number
// with more bits, a group, messages nested deeper than MESSAGE_DEPTH_MAX, and a sub-message that may be there
// once and comes twice: protobuf merges the two, other decoders take the last, and no encoder writes it. In a
// strict reading unknown field numbers below MESSAGE_HINT_FIELD_MIN and unknown enum values are
// FEATURE_UNSUPPORTED. Of scalars that come twice, and of several members of a oneof, the last one counts.
#ifndef ACLNN_PROTO_WIRE_MESSAGE_VALIDATOR_H
#define ACLNN_PROTO_WIRE_MESSAGE_VALIDATOR_H

#include "kernels/status.h"

#include <protobuf-c/protobuf-c.h>

// Fields from this number on are hints that any receiver may ignore.
#define MESSAGE_HINT_FIELD_MIN 1000
// The contract's deepest message has four levels; a recursive one must not use up the stack.
#define MESSAGE_DEPTH_MAX 16

struct message_rules {
  bool strict;
  // An enum field whose unknown values are nevertheless skipped; NULL for none.
  const ProtobufCMessageDescriptor *open_message;
  const char *open_field;
};

MUST_CHECK bool message_validate(const ProtobufCMessageDescriptor *descriptor,
                                 const struct message_rules *rules, const uint8_t *data, size_t size,
                                 struct status *status);

#endif
