// What the emulator gives out instead of pointers: numbers that are never used twice.
//
// CANN's callers hold opaque pointers to tensors, executors, streams and contexts. Here each is a number that
// no pointer can be (dereferencing one faults) and that names its object for as long as that lives, so that a
// stale one is found out instead of being used. The table owns nothing but its own entries. Not thread-safe:
// the emulator locks.
#ifndef ACLNN_SERVER_NPU_EMULATOR_HANDLES_H
#define ACLNN_SERVER_NPU_EMULATOR_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handle_kind {
  HANDLE_CONTEXT,
  HANDLE_STREAM,
  HANDLE_TENSOR,
  HANDLE_INT_ARRAY,
  HANDLE_EXECUTOR,
  HANDLE_HOST_MEMORY, // whose number is the address itself
  HANDLE_KINDS
};

struct handle_entry;

struct handles {
  struct handle_entry *_entries; // uthash
  uint64_t _made;                // numbers given out so far, by all that ever were
  size_t _counts[HANDLE_KINDS];
};

// A new number for the object; NULL if there is no memory.
void *handles_add(struct handles *handles, enum handle_kind kind, void *object);
// Enters an object under a number of its own; false if there is no memory or the number is taken.
bool handles_add_as(struct handles *handles, enum handle_kind kind, const void *number, void *object);
// The object, NULL if the number names none of that kind (any more).
void *handles_find(const struct handles *handles, enum handle_kind kind, const void *number);
// Like handles_find; the number names nothing afterwards.
void *handles_remove(struct handles *handles, enum handle_kind kind, const void *number);
size_t handles_count(const struct handles *handles, enum handle_kind kind);
// Removes some object of the kind and returns it, NULL if there is none left.
void *handles_remove_any(struct handles *handles, enum handle_kind kind);
// The number of some object of the kind, NULL if there is none.
void *handles_any_number(const struct handles *handles, enum handle_kind kind);

#endif
