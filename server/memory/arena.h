// The memory of all tensors: one sealed memfd, mapped once, that worker processes can map too.
//
// Address space is reserved at the start, several times the budget, so that fragmentation can't refuse what
// the budget granted. Memory is taken from the system in extents of 2 MiB multiples (fallocate, then
// MADV_COLLAPSE), stays warm for reuse and goes back when it was idle for long (arena_trim). No more of it is
// kept than a quarter above what was in blocks at the busiest moment, plus what lies on the same pages. Any
// thread. Only the first use of memory takes long (a gigabyte 0.3 s, or many times that where the machine has
// to make room first), and holds nobody else up: who can't wait asks with arena_allocate_quickly.
#ifndef ACLNN_SERVER_MEMORY_ARENA_H
#define ACLNN_SERVER_MEMORY_ARENA_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_ALIGNMENT 64

struct arena;

struct arena_block {
  uint8_t *data;      // ARENA_ALIGNMENT-aligned, contents undefined
  size_t size;        // as asked for
  uint64_t offset;    // within the memfd
  uint64_t _reserved; // private: what the block takes up
};

struct arena_state {
  uint64_t address_bytes;  // reserved address space
  uint64_t resident_bytes; // taken from the system
  uint64_t used_bytes;     // in blocks
};

// address_bytes is rounded up to 2 MiB. Fails with INTERNAL.
MUST_CHECK bool arena_create(uint64_t address_bytes, struct arena **arena, struct status *status);
void arena_destroy(struct arena *arena); // all blocks must have been freed

// size > 0. Fails with INTERNAL when the system gives no memory or the address space is used up.
MUST_CHECK bool arena_allocate(struct arena *arena, size_t size, struct arena_block *block,
                               struct status *status);

// What arena_allocate does with at most this much memory that has to be taken from the system is quick: below
// a millisecond a page as a rule, and some ten at the worst.
#define ARENA_QUICK_PAGES_MAX 2

enum arena_outcome {
  ARENA_ALLOCATED,
  ARENA_SLOW,   // it would take long; nothing was done
  ARENA_FAILED, // as arena_allocate
};
// As arena_allocate, but only where that is quick.
enum arena_outcome arena_allocate_quickly(struct arena *arena, size_t size, struct arena_block *block,
                                          struct status *status);
// Leaves *block empty; an empty block is fine.
void arena_free(struct arena *arena, struct arena_block *block);

// Gives memory back to the system that this function has seen lie idle for idle_ns or longer. One
// thread at a time.
void arena_trim(struct arena *arena, int64_t now_ns, int64_t idle_ns);

// The memfd: for worker processes. Close-on-exec, the arena's to close.
int arena_descriptor(const struct arena *arena);
uint64_t arena_address_bytes(const struct arena *arena);

// Whether that address lies in the arena.
bool arena_contains(const struct arena *arena, const void *address);

void arena_get_state(struct arena *arena, struct arena_state *state);

#endif
