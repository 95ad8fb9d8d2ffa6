// One worker process and the pipe to it.
//
// Everything on the thread of the loop, which must live as long as the process: the worker asks the kernel to
// be killed when it ends. The object frees itself after `ended`, the last of its callbacks. Neither the
// process nor the pipe keeps the loop alive.
#ifndef ACLNN_SERVER_NPU_POOL_WORKER_PROCESS_H
#define ACLNN_SERVER_NPU_POOL_WORKER_PROCESS_H

#include "kernels/status.h"
#include "server/npu/control/message.h"

#include <uv.h>

struct worker_process;

struct worker_process_callbacks {
  // A message came. Not after worker_process_kill.
  void (*message)(void *context, const struct control_message *message);
  // Nothing more will come: the pipe was closed (why is NULL), or the worker doesn't speak as it must. Once
  // at most, and not after worker_process_kill.
  void (*broken)(void *context, const char *why);
  // The process was reaped, what it had started was killed, and everything that it had written was read.
  void (*ended)(void *context, int64_t exit_status, int signal_number);
  void *context;
};

struct worker_process_options {
  uv_loop_t *loop;
  char **arguments;     // the program first; up to NULL
  char **environment;   // up to NULL; NULL: the server's own
  int arena_descriptor; // becomes CONTROL_ARENA_DESCRIPTOR there
  struct worker_process_callbacks callbacks;
};

// Fails with INTERNAL; then nothing is called, but the loop must still be run to close what was open.
MUST_CHECK bool worker_process_start(const struct worker_process_options *options,
                                     struct worker_process **process, struct status *status);
void worker_process_send(struct worker_process *process, const struct control_message *message);
// Whether messages can still reach it, as far as is known.
bool worker_process_listens(const struct worker_process *process);
// SIGKILL, for what it has started, too.
void worker_process_kill(struct worker_process *process);
int worker_process_id(const struct worker_process *process);

#endif
