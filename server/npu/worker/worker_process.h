// For tests: the worker's binary as a process, with this test in the place of the server.
//
// Anything that goes wrong in the test's own part fails the cmocka test.
#ifndef ACLNN_SERVER_NPU_WORKER_WORKER_PROCESS_H
#define ACLNN_SERVER_NPU_WORKER_WORKER_PROCESS_H

#include "server/npu/control/message.h"

#include <sys/types.h>

#define WORKER_EMULATOR "server/npu/emulator/libaclnn_emulated.so"
#define WORKER_ARENA_BYTES ((uint64_t)8 << 20)

struct worker_process {
  pid_t pid;
  int pipe;
  int arena_descriptor;
  uint8_t *arena; // mapped
  struct control_reader reader;
  uint8_t bytes[4096]; // read but not yet looked at
  const uint8_t *data;
  size_t size;
};

// Starts it on arena_descriptor with these arguments (the last is NULL) besides --parent. `parent` 0: this
// process.
void worker_process_spawn(struct worker_process *worker, pid_t parent, const char *const *arguments);
// The same by this process, with an arena of WORKER_ARENA_BYTES.
void worker_process_start(struct worker_process *worker, const char *const *arguments);
// Kills the process if it still runs, and frees everything.
void worker_process_end(struct worker_process *worker);

void worker_process_send(struct worker_process *worker, const struct control_message *message);
void worker_process_send_bytes(struct worker_process *worker, const void *bytes, size_t count);
void worker_process_close_pipe(struct worker_process *worker);

// The next message, or false at the end of the pipe.
bool worker_process_receive(struct worker_process *worker, struct control_message *message);
// The same, and it must be of that kind.
void worker_process_expect(struct worker_process *worker, enum control_kind kind,
                           struct control_message *message);
// Waits for the end; what waitpid says.
int worker_process_wait(struct worker_process *worker);

// A new arena file.
int worker_process_make_arena(uint64_t bytes, bool sealed);

#endif
