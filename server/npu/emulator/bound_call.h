// One call of an operator with its arguments resolved: what phase 1 leaves to phase 2 and to the stream.
//
// Immutable once it is made, and counted: the executor and each run that is under way hold it. Making it
// needs the emulator's lock, the rest may happen on any thread.
#ifndef ACLNN_SERVER_NPU_EMULATOR_BOUND_CALL_H
#define ACLNN_SERVER_NPU_EMULATOR_BOUND_CALL_H

#include "server/npu/emulator/emulator.h"

#include <stdatomic.h>

struct bound_call {
  const struct emulated_operator *definition;
  struct emulated_call call; // points into what follows
  int32_t device;
  const void *handles[EMULATED_ARGUMENTS_MAX]; // of the tensors
  // private
  atomic_size_t _references;
  struct emulated_tensor _tensors[EMULATED_ARGUMENTS_MAX];
  struct emulated_int_array _int_arrays[EMULATED_ARGUMENTS_MAX];
};

// 0 with a call that is held once, 161002 if a handle names nothing (any more), 561101 without memory.
int32_t bound_call_create(struct emulator *emulator, const struct emulated_operator *definition,
                          const union emulated_argument *arguments, int32_t device,
                          struct bound_call **bound);
void bound_call_hold(struct bound_call *bound);
void bound_call_release(struct bound_call *bound);

static inline bool bound_call_is_tensor(const struct bound_call *bound, size_t argument) {
  enum emulated_argument_kind kind = bound->definition->arguments[argument];
  return kind == EMULATED_INPUT || kind == EMULATED_OUTPUT;
}

// The argument's storage in bytes, or the largest number there is.
uint64_t bound_call_storage_bytes(const struct bound_call *bound, size_t argument);

// Everything that a plan depends on, as `*count` words; the caller frees them. NULL without memory.
int64_t *bound_call_key(const struct bound_call *bound, size_t *count);

#endif
