// Where blocks lie: a best-fit allocator of offsets, without any memory behind them.
//
// The space is a chain of ranges in order of address, each taken or free; two free ones never touch. A
// request gets the smallest free range that is large enough, the lowest among equals, so that low addresses
// are used again and again and the top of the space stays untouched. Taking costs O(log n) in the number of
// free ranges and is deterministic. Not thread-safe: the arena locks.
#ifndef ACLNN_SERVER_MEMORY_ADDRESS_SPACE_H
#define ACLNN_SERVER_MEMORY_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stdint.h>

// Every range begins at a multiple of this and is a multiple of it long.
#define ADDRESS_SPACE_GRANULE_BYTES 64

struct address_space;

struct address_range {
  uint64_t offset, bytes;
  // private
  bool _free;
  uint32_t _priority;
  struct address_range *_before, *_after; // neighbours by address
  struct address_range *_left, *_right;   // the tree of free ranges
};

// bytes: a positive multiple of the granule. NULL if there is no memory.
struct address_space *address_space_create(uint64_t bytes);
// All ranges must have been given back.
void address_space_destroy(struct address_space *space);

// bytes > 0, rounded up to the granule. The range is the space's, until it is given back. NULL if nothing
// fits (or there is no memory for the range itself).
struct address_range *address_space_take(struct address_space *space, uint64_t bytes);
void address_space_give(struct address_space *space, struct address_range *range);

// Aborts if the chain or the tree is broken; for tests.
void address_space_check(const struct address_space *space);

#endif
