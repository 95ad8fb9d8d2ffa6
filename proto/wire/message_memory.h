// Memory of one decoded or composed message: grows by blocks up to a limit, is given back as a whole.
//
// protobuf-c allocates many small pieces, and a small message can make it ask for a hundred times its own
// size (an empty sub-message is two bytes on the wire): here it gets at most what was allowed. One thread at
// a time; nothing of it outlives message_memory_free.
#ifndef ACLNN_PROTO_WIRE_MESSAGE_MEMORY_H
#define ACLNN_PROTO_WIRE_MESSAGE_MEMORY_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

// Most control messages fit here and need no allocation at all.
#define MESSAGE_MEMORY_FIRST_BYTES 4096

struct message_memory_block;

struct message_memory {
  ProtobufCAllocator allocator; // for protobuf-c; its free does nothing
  bool limit_reached;           // an allocation failed because of bytes_max
  bool out_of_memory;           // or because the system had none
  size_t bytes_max;
  size_t bytes; // in blocks
  struct message_memory_block *_blocks;
  unsigned char *_position;
  unsigned char *_end;
  _Alignas(16) unsigned char _first[MESSAGE_MEMORY_FIRST_BYTES];
};

// Must not be moved afterwards.
void message_memory_init(struct message_memory *memory, size_t bytes_max);
void message_memory_free(struct message_memory *memory);

// Aligned for everything, contents undefined; NULL when it would be more than bytes_max or memory runs out.
// size may be 0.
void *message_memory_take(struct message_memory *memory, size_t size);
// An array of count zeroed elements.
void *message_memory_array(struct message_memory *memory, size_t count, size_t element_bytes);

#endif
