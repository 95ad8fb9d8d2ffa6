// What dispatcher.c and job.c share. For these two alone.
#ifndef ACLNN_SERVER_DISPATCH_DISPATCHER_INTERNAL_H
#define ACLNN_SERVER_DISPATCH_DISPATCHER_INTERNAL_H

#include "server/dispatch/dispatcher.h"

#include <stdatomic.h>

struct dispatcher {
  struct dispatcher_options options;
  atomic_size_t jobs; // alive
};

// NULL if there is none for the target.
struct backend *dispatcher_find_backend(const struct dispatcher *dispatcher, enum target target);

// Fails with JOB_TOO_LARGE if the plan's job could never have its memory.
MUST_CHECK bool dispatcher_check_job_bytes(const struct dispatcher *dispatcher, const struct plan *plan,
                                           struct status *status);

#endif
