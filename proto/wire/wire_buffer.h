// Bytes that the heap holds: a written message, or bytes that were read out of one.
#ifndef ACLNN_PROTO_WIRE_WIRE_BUFFER_H
#define ACLNN_PROTO_WIRE_WIRE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct wire_buffer {
  uint8_t *data;
  size_t size;
};

void wire_buffer_free(struct wire_buffer *buffer); // accepts an empty one; leaves it empty

#endif
