#include "proto/wire/message_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16
// Blocks double in size up to this, so that a large message takes few of them.
#define BLOCK_BYTES_MAX ((size_t)256 << 10)

struct message_memory_block {
  struct message_memory_block *next;
  _Alignas(ALIGNMENT) unsigned char bytes[];
};

static void *allocate(void *context, size_t size) {
  return message_memory_take(context, size);
}

static void keep(void *context, void *pointer) {
  (void)context;
  (void)pointer;
}

void message_memory_init(struct message_memory *memory, size_t bytes_max) {
  memory->allocator = (ProtobufCAllocator){.alloc = allocate, .free = keep, .allocator_data = memory};
  memory->limit_reached = false;
  memory->out_of_memory = false;
  memory->bytes_max = bytes_max;
  memory->bytes = 0;
  memory->_blocks = NULL;
  memory->_position = memory->_first;
  memory->_end = memory->_first + sizeof memory->_first;
}

void message_memory_free(struct message_memory *memory) {
  while (memory->_blocks != NULL) {
    struct message_memory_block *next = memory->_blocks->next;
    free(memory->_blocks);
    memory->_blocks = next;
  }
  memory->_position = memory->_first;
  memory->_end = memory->_first;
}

// Makes a new block the current one. What is left of the one before stays unused.
static bool grow(struct message_memory *memory, size_t size) {
  size_t room = memory->bytes_max - memory->bytes;
  if (size > room) {
    memory->limit_reached = true;
    return false;
  }
  size_t wanted = memory->bytes < MESSAGE_MEMORY_FIRST_BYTES ? MESSAGE_MEMORY_FIRST_BYTES : memory->bytes;
  wanted = wanted > BLOCK_BYTES_MAX ? BLOCK_BYTES_MAX : wanted;
  wanted = wanted < size ? size : wanted;
  wanted = wanted > room ? room : wanted;
  struct message_memory_block *block = malloc(sizeof *block + wanted);
  if (block == NULL) {
    memory->out_of_memory = true;
    return false;
  }
  block->next = memory->_blocks;
  memory->_blocks = block;
  memory->bytes += wanted;
  memory->_position = block->bytes;
  memory->_end = block->bytes + wanted;
  return true;
}

void *message_memory_take(struct message_memory *memory, size_t size) {
  if (size > SIZE_MAX / 2) {
    memory->limit_reached = true;
    return NULL;
  }
  size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size > (size_t)(memory->_end - memory->_position) && !grow(memory, size)) {
    return NULL;
  }
  void *taken = memory->_position;
  memory->_position += size;
  return taken;
}

void *message_memory_array(struct message_memory *memory, size_t count, size_t element_bytes) {
  size_t size;
  if (__builtin_mul_overflow(count, element_bytes, &size)) {
    memory->limit_reached = true;
    return NULL;
  }
  void *array = message_memory_take(memory, size);
  if (array != NULL) {
    memset(array, 0, size);
  }
  return array;
}
