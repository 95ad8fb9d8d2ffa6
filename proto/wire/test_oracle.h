// The chunks of an Execute message as protobuf-c reads them, for comparison with the envelope's own reading.
// For tests alone.
#ifndef ACLNN_PROTO_WIRE_TEST_ORACLE_H
#define ACLNN_PROTO_WIRE_TEST_ORACLE_H

#include "proto/wire/execute_envelope.h"

// Freed with oracle_free; chunks' cursors stand in memory of this struct's.
struct oracle {
  size_t chunk_count;
  struct tensor_chunk *chunks;
  struct span *_spans;
  void *_message;
};

// False if protobuf-c doesn't take the message: it looks into the head and done, which the envelope does not.
bool oracle_read(enum execute_message_kind kind, const uint8_t *data, size_t size, struct oracle *oracle);
void oracle_free(struct oracle *oracle);

#endif
