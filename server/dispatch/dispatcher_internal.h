// What the files of this folder share. For them alone.
#ifndef ACLNN_SERVER_DISPATCH_DISPATCHER_INTERNAL_H
#define ACLNN_SERVER_DISPATCH_DISPATCHER_INTERNAL_H

#include "server/dispatch/dispatcher.h"
#include "server/dispatch/growth.h"

#include <pthread.h>
#include <stdatomic.h>

struct dispatcher {
  struct dispatcher_options options;
  atomic_size_t jobs; // alive
  struct growth *growth;
  struct verification *verification; // NULL: no job is verified

  // Outputs of jobs outlive them: the transport lets go of the last bytes when it likes.
  pthread_mutex_t outputs_mutex; // guards outputs
  pthread_cond_t outputs_gone;
  size_t outputs; // that hold memory, or may
};

void dispatcher_outputs_made(struct dispatcher *dispatcher);
// The last that is done for outputs; the dispatcher may be gone afterwards.
void dispatcher_outputs_gone(struct dispatcher *dispatcher);

// NULL if there is none for the target.
struct backend *dispatcher_find_backend(const struct dispatcher *dispatcher, enum target target);

// What a backend gives to somebody who asks for these numerics: the weakest that keeps the promise.
// UNSPECIFIED: it can't.
enum numerics backend_numerics_given(const struct backend *backend, enum numerics asked);

// Fails with JOB_TOO_LARGE if the plan's job could never have its memory.
MUST_CHECK bool dispatcher_check_job_bytes(const struct dispatcher *dispatcher, const struct plan *plan,
                                           struct status *status);

#endif
