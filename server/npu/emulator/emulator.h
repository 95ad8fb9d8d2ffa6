// The state behind the emulator's functions, and its one lock.
//
// A library with a C interface such as CANN's has one state per process; all of it is here, but for what
// belongs to a thread (error texts, the current context, the executor cache). Every function of the interface
// takes the lock, works, and gives it back; what waits for a stream gives it back first. Objects that handles
// name are only touched under the lock. Streams' threads never take it.
#ifndef ACLNN_SERVER_NPU_EMULATOR_EMULATOR_H
#define ACLNN_SERVER_NPU_EMULATOR_EMULATOR_H

#include "server/npu/emulator/handles.h"
#include "server/npu/emulator/memory.h"
#include "server/npu/emulator/settings.h"
#include "server/npu/emulator/stream.h"

struct emulator {
  bool initialised;
  uint64_t generation; // how often it was initialised
  struct settings settings;
  struct memory *memory;
  struct handles handles;
  uint64_t jobs;        // phase-2 calls accepted so far
  uint64_t allocations; // calls of aclrtMalloc so far
  int64_t determinism;  // ACL_OPT_DETERMINISTIC, of the whole process
  uint64_t host_bytes;  // pinned memory of the host
  size_t waiting;       // calls that wait for a stream without the lock
  void *default_contexts[SETTINGS_DEVICES_MAX];
};

// A context: what a thread must have before it does anything with a device. Streams belong to one.
struct context {
  int32_t device;
  size_t references; // calls of aclrtSetDevice that hold a device's default context; 0 for others
  size_t streams;
};

struct emulator *emulator_lock(void);
void emulator_unlock(void);

// Both under the lock: 0, or the refusal with its text. `function` is the caller's name for the text.
int32_t emulator_check_initialised(const struct emulator *emulator, const char *function);
int32_t emulator_current_context(struct emulator *emulator, const char *function, struct context **context);

// The calling thread's context handle, NULL for none: for stream.c's check that a stream is of this context.
void *emulator_current_context_handle(void);

// A stream with the context that it belongs to; what a stream's handle names.
struct owned_stream {
  struct stream *stream;
  void *context; // its handle
  int32_t device;
  size_t users; // calls that wait for it without the lock
};

// Under the lock: the stream that the handle names, if the thread may use it.
int32_t emulator_find_stream(struct emulator *emulator, const char *function, const void *handle,
                             struct owned_stream **stream);

// Under the lock: destroys objects that are left at aclFinalize.
void executors_destroy_left(struct emulator *emulator);
void streams_destroy_left(struct emulator *emulator);
void tensors_destroy_left(struct emulator *emulator);
void host_memory_destroy_left(struct emulator *emulator);

#endif
