#include "proto/wire/message_io.h"

#include <stdlib.h>
#include <string.h>

bool message_out_of_memory(struct status *status) {
  return status_fail(status, REASON_INTERNAL, NULL, "out of memory for a message");
}

ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *descriptor,
                                 const struct message_rules *rules, const uint8_t *data, size_t size,
                                 struct message_memory *memory, struct status *status) {
  // The bytes of strings and of skipped fields are copied once: that much is always allowed.
  size_t own_max = rules->strict ? MESSAGE_REQUEST_MEMORY_MAX : MESSAGE_RESPONSE_MEMORY_MAX;
  message_memory_init(memory, own_max + size);
  if (!message_validate(descriptor, rules, data, size, status)) {
    return NULL;
  }
  ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &memory->allocator, size, data);
  if (message != NULL) {
    return message;
  }
  if (memory->limit_reached) {
    // In a request the caller's parameters are to blame; a response has none.
    enum reason reason = rules->strict ? REASON_ACLNN_ERR_PARAM_INVALID : REASON_MESSAGE_INVALID;
    (void)status_fail(status, reason, NULL, "%s holds more than the %zu bytes that its parts may take",
                      descriptor->short_name, own_max);
  } else if (memory->out_of_memory) {
    (void)message_out_of_memory(status);
  } else {
    (void)status_fail(status, REASON_MESSAGE_INVALID, NULL, "the bytes are no message of type %s",
                      descriptor->short_name);
  }
  return NULL;
}

bool message_pack(const ProtobufCMessage *message, struct wire_buffer *out, struct status *status) {
  size_t size = protobuf_c_message_get_packed_size(message);
  uint8_t *data = malloc(size > 0 ? size : 1);
  if (data == NULL) {
    return message_out_of_memory(status);
  }
  (void)protobuf_c_message_pack(message, data);
  *out = (struct wire_buffer){.data = data, .size = size};
  return true;
}

bool message_copy_bytes(const ProtobufCBinaryData *bytes, struct wire_buffer *out, struct status *status) {
  if (bytes->len == 0) {
    *out = (struct wire_buffer){0};
    return true;
  }
  uint8_t *data = malloc(bytes->len);
  if (data == NULL) {
    return message_out_of_memory(status);
  }
  memcpy(data, bytes->data, bytes->len);
  *out = (struct wire_buffer){.data = data, .size = bytes->len};
  return true;
}
