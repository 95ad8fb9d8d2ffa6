// The one memory budget: how many host bytes all jobs together may hold.
//
// A job reserves everything that it will need before its first tensor byte is read. What doesn't fit waits,
// first come first served, in a queue of limited length and for a limited time. The budget only counts; the
// bytes are the arena's. All functions may be called from any thread; decisions are told outside of the lock,
// on the thread whose call brought them about. A request is the caller's and must stay where it is until
// decided.
//
// Small requests may overtake the first in the queue while that doesn't fit, but not for ever: what overtakes
// one and the same request is at most an eighth of the limit in all, then everything waits for it. So a giant
// is granted at the latest when what was running, and an eighth of the limit more, has been given back.
//
// A callback may call every function here. What is granted by that is told when the callback has returned, so
// that no chain of callbacks grows deep.
#ifndef ACLNN_SERVER_MEMORY_BUDGET_H
#define ACLNN_SERVER_MEMORY_BUDGET_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget;

struct budget_options {
  uint64_t limit_bytes;
  size_t queue_max;          // requests that may wait
  int64_t queue_time_max_ns; // how long one may wait
};

enum budget_outcome {
  BUDGET_GRANTED,
  BUDGET_WAITING,
  BUDGET_QUEUE_FULL, // refused at once
  BUDGET_TIMED_OUT,  // refused after having waited
};

struct budget_request {
  uint64_t bytes;
  // Called once, and only if budget_reserve said BUDGET_WAITING and budget_cancel didn't take the request
  // back.
  void (*decided)(struct budget_request *request, enum budget_outcome outcome);
  // private
  struct budget_request *_next, *_previous;
  int64_t _expires_ns;
  enum budget_outcome _outcome;
  bool _waiting;
};

struct budget_state {
  uint64_t limit_bytes, reserved_bytes;
  size_t waiting;
};

MUST_CHECK bool budget_create(const struct budget_options *options, struct budget **budget,
                              struct status *status);
void budget_destroy(struct budget *budget); // nothing may be reserved or waiting

uint64_t budget_limit(const struct budget *budget);

// bytes must not exceed the limit (the caller refused that with JOB_TOO_LARGE).
enum budget_outcome budget_reserve(struct budget *budget, struct budget_request *request, int64_t now_ns);

// Takes a waiting request back: true, and `decided` won't be called. False: it was decided already.
bool budget_cancel(struct budget *budget, struct budget_request *request);

// Gives reserved bytes back, all or a part, and grants what fits then.
void budget_release(struct budget *budget, uint64_t bytes);

// Refuses what has waited too long; returns when to call again, or INT64_MAX when nothing waits. A call of
// budget_reserve that begins a wait tells nobody: the timer's owner calls at least every queue_time_max_ns
// / 8.
int64_t budget_expire(struct budget *budget, int64_t now_ns);

void budget_get_state(struct budget *budget, struct budget_state *state);

#endif
