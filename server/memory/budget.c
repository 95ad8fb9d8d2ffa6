#include "server/memory/budget.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

// Waiting requests behind the first that are looked at when the first doesn't fit: keeps a release O(1).
#define BUDGET_SCAN_MAX 64
// What may overtake one blocked request, as a part of the limit. See the header.
#define BUDGET_OVERTAKING_PARTS 8

struct budget {
  struct budget_options options;
  pthread_mutex_t mutex; // guards what follows, and the private fields of waiting requests
  uint64_t reserved_bytes;
  size_t waiting;
  // In order of arrival, which is that of expiry but for the moment between reading the clock and getting the
  // lock.
  struct budget_request *first, *last;
  uint64_t overtaking_bytes; // granted past `first` since it is first
};

// Requests that were decided and not yet told, chained through _next.
struct decisions {
  struct budget_request *first, *last;
};

// The list that this thread is telling from, if it is. A callback that gives memory back, from which the next
// request is granted, whose callback gives memory back ... would otherwise nest as deep as the queue is long.
static _Thread_local struct decisions *telling;

bool budget_create(const struct budget_options *options, struct budget **budget, struct status *status) {
  struct budget *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the memory budget");
  }
  created->options = *options;
  pthread_mutex_init(&created->mutex, NULL);
  *budget = created;
  return true;
}

void budget_destroy(struct budget *budget) {
  if (budget == NULL) {
    return;
  }
  assert(budget->reserved_bytes == 0 && budget->waiting == 0);
  pthread_mutex_destroy(&budget->mutex);
  free(budget);
}

uint64_t budget_limit(const struct budget *budget) {
  return budget->options.limit_bytes;
}

static void queue_append(struct budget *budget, struct budget_request *request) {
  request->_next = NULL;
  request->_previous = budget->last;
  *(budget->last != NULL ? &budget->last->_next : &budget->first) = request;
  budget->last = request;
  request->_waiting = true;
  budget->waiting++;
}

static void queue_remove(struct budget *budget, struct budget_request *request) {
  if (budget->first == request) {
    budget->overtaking_bytes = 0;
  }
  *(request->_previous != NULL ? &request->_previous->_next : &budget->first) = request->_next;
  *(request->_next != NULL ? &request->_next->_previous : &budget->last) = request->_previous;
  request->_waiting = false;
  budget->waiting--;
}

static void decide(struct decisions *decisions, struct budget_request *request, enum budget_outcome outcome) {
  request->_outcome = outcome;
  request->_next = NULL;
  *(decisions->last != NULL ? &decisions->last->_next : &decisions->first) = request;
  decisions->last = request;
}

// Grants a waiting request if it fits and, where others wait before it, may overtake them. Under the lock.
static bool grant_one(struct budget *budget, struct budget_request *request, struct decisions *decisions) {
  bool overtakes = request != budget->first;
  uint64_t allowed = budget->options.limit_bytes - budget->reserved_bytes;
  if (overtakes) {
    uint64_t overtaking = budget->options.limit_bytes / BUDGET_OVERTAKING_PARTS - budget->overtaking_bytes;
    allowed = overtaking < allowed ? overtaking : allowed;
  }
  if (request->bytes > allowed) {
    return false;
  }
  queue_remove(budget, request);
  budget->reserved_bytes += request->bytes;
  if (overtakes) {
    budget->overtaking_bytes += request->bytes;
  }
  decide(decisions, request, BUDGET_GRANTED);
  return true;
}

// Grants all that fits: the first as long as it does, then small ones behind it. Under the lock. Afterwards
// none of those that were looked at can be granted before memory is given back or the first leaves.
static void grant(struct budget *budget, struct decisions *decisions) {
  size_t looked_at = 0;
  struct budget_request *request = budget->first;
  while (request != NULL && looked_at < BUDGET_SCAN_MAX) {
    struct budget_request *next = request->_next;
    if (!grant_one(budget, request, decisions)) {
      looked_at++;
    }
    request = next;
  }
}

// Calls back for each decision. Without the lock: callbacks may call every function of the budget.
static void tell(struct decisions *decisions) {
  if (telling != NULL) {
    // A callback of this thread brought these about: they are told when it has returned.
    if (decisions->first != NULL) {
      *(telling->last != NULL ? &telling->last->_next : &telling->first) = decisions->first;
      telling->last = decisions->last;
    }
    return;
  }
  telling = decisions;
  while (decisions->first != NULL) {
    struct budget_request *request = decisions->first;
    decisions->first = request->_next;
    if (decisions->first == NULL) {
      decisions->last = NULL;
    }
    request->decided(request, request->_outcome); // the request may be gone afterwards
  }
  telling = NULL;
}

enum budget_outcome budget_reserve(struct budget *budget, struct budget_request *request, int64_t now_ns) {
  assert(request->bytes <= budget->options.limit_bytes);
  struct decisions decisions = {NULL, NULL};
  enum budget_outcome outcome = BUDGET_WAITING;
  pthread_mutex_lock(&budget->mutex);
  int64_t expires_ns;
  if (__builtin_add_overflow(now_ns, budget->options.queue_time_max_ns, &expires_ns)) {
    expires_ns = INT64_MAX;
  }
  request->_expires_ns = expires_ns;
  queue_append(budget, request);
  // Those that wait before it were looked at when they came and whenever memory came back.
  if (grant_one(budget, request, &decisions)) {
    outcome = BUDGET_GRANTED;
  } else if (budget->waiting > budget->options.queue_max) {
    queue_remove(budget, request);
    outcome = BUDGET_QUEUE_FULL;
  }
  pthread_mutex_unlock(&budget->mutex);
  return outcome;
}

bool budget_cancel(struct budget *budget, struct budget_request *request) {
  struct decisions decisions = {NULL, NULL};
  pthread_mutex_lock(&budget->mutex);
  bool waiting = request->_waiting;
  if (waiting) {
    queue_remove(budget, request);
    grant(budget, &decisions);
  }
  pthread_mutex_unlock(&budget->mutex);
  tell(&decisions);
  return waiting;
}

void budget_release(struct budget *budget, uint64_t bytes) {
  struct decisions decisions = {NULL, NULL};
  pthread_mutex_lock(&budget->mutex);
  assert(bytes <= budget->reserved_bytes);
  budget->reserved_bytes -= bytes;
  grant(budget, &decisions);
  pthread_mutex_unlock(&budget->mutex);
  tell(&decisions);
}

int64_t budget_expire(struct budget *budget, int64_t now_ns) {
  struct decisions decisions = {NULL, NULL};
  pthread_mutex_lock(&budget->mutex);
  while (budget->first != NULL && budget->first->_expires_ns <= now_ns) {
    struct budget_request *request = budget->first;
    queue_remove(budget, request);
    decide(&decisions, request, BUDGET_TIMED_OUT);
  }
  grant(budget, &decisions);
  int64_t next_ns = budget->first != NULL ? budget->first->_expires_ns : INT64_MAX;
  pthread_mutex_unlock(&budget->mutex);
  tell(&decisions);
  return next_ns;
}

void budget_get_state(struct budget *budget, struct budget_state *state) {
  pthread_mutex_lock(&budget->mutex);
  state->limit_bytes = budget->options.limit_bytes;
  state->reserved_bytes = budget->reserved_bytes;
  state->waiting = budget->waiting;
  pthread_mutex_unlock(&budget->mutex);
}
