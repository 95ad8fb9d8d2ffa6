// The one way from bytes to protobuf-c's messages and back, for the files that convert control messages.
// Any thread.
#ifndef ACLNN_PROTO_WIRE_MESSAGE_IO_H
#define ACLNN_PROTO_WIRE_MESSAGE_IO_H

#include "proto/wire/message_memory.h"
#include "proto/wire/message_validator.h"
#include "proto/wire/wire_buffer.h"

// What unpacking may allocate beside the message's own length. A few bytes on the wire can stand for a
// hundred in memory; no request that could be served comes near this. Beyond: ACLNN_ERR_PARAM_INVALID.
// Responses list every operator and device, and a client trusts its server more.
#define MESSAGE_REQUEST_MEMORY_MAX ((size_t)1 << 20)
#define MESSAGE_RESPONSE_MEMORY_MAX ((size_t)8 << 20)

// Validates and unpacks. The message lives in *memory, which this initialises in any case: the caller frees
// it whether this succeeds or not. NULL: *status says why.
MUST_CHECK ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor,
                                            const struct message_rules *rules, const uint8_t *data,
                                            size_t size, struct message_memory *memory,
                                            struct status *status);

// Packs into malloc'ed bytes.
MUST_CHECK bool message_pack(const ProtobufCMessage *message, struct wire_buffer *out, struct status *status);

// INTERNAL: for what was to be composed and found no memory. Returns false.
bool message_out_of_memory(struct status *status);

// A copy of bytes; *out is empty for none.
MUST_CHECK bool message_copy_bytes(const ProtobufCBinaryData *bytes, struct wire_buffer *out,
                                   struct status *status);

#endif
