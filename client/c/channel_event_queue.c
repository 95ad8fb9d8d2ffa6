#include "client/c/channel_event_queue.h"

#include "client/c/handover.h"

#include <assert.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <utlist.h>

// Threads that one look at the queue wakes, and the one that goes on polling.
#define WAKES_MAX 32

struct event_queue {
  grpc_completion_queue *completions;
  pthread_mutex_t lock; // guards all below and the waiters; never held while polling
  bool polled;
  struct event_waiter *waiting; // the threads that don't poll
};

gpr_timespec event_deadline(int64_t deadline_ns) {
  if (deadline_ns == CLOCK_NEVER) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  // gRPC's monotonic clock need not be the system's.
  int64_t left_ns = deadline_ns - clock_now_ns();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns, GPR_TIMESPAN));
}

struct event_queue *event_queue_create(void) {
  struct event_queue *queue = calloc(1, sizeof *queue);
  if (queue != NULL) {
    queue->completions = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&queue->lock, NULL);
  }
  return queue;
}

void event_queue_destroy(struct event_queue *queue) {
  assert(queue->waiting == NULL && !queue->polled);
  grpc_completion_queue_shutdown(queue->completions);
  grpc_event event = grpc_completion_queue_next(queue->completions, event_deadline(CLOCK_NEVER), NULL);
  assert(event.type == GRPC_QUEUE_SHUTDOWN);
  grpc_completion_queue_destroy(queue->completions);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
}

grpc_completion_queue *event_queue_completions(struct event_queue *queue) {
  return queue->completions;
}

void event_waiter_init(struct event_waiter *waiter) {
  *waiter = (struct event_waiter){0};
  clock_init_condition(&waiter->_changed);
}

void event_waiter_destroy(struct event_waiter *waiter) {
  assert(waiter->_came == 0 && !waiter->_waits);
  pthread_cond_destroy(&waiter->_changed);
}

static struct event take(struct event_waiter *waiter) {
  struct event event = {.number = (unsigned)__builtin_ctz(waiter->_came)};
  unsigned bit = 1u << event.number;
  event.ok = (waiter->_failed & bit) == 0;
  waiter->_came &= ~bit;
  waiter->_failed &= ~bit;
  return event;
}

// Threads to be woken once the lock is free: else they would only wait for it.
struct wakes {
  struct event_waiter *waiters[WAKES_MAX + 1];
  size_t count;
};

static void add_wake(struct wakes *wakes, struct event_waiter *waiter) {
  waiter->_waits = false;
  wakes->waiters[wakes->count++] = waiter;
}

// The lock isn't held: a waiter may have got its event meanwhile, and its next one is woken for nothing.
static void wake_all(struct wakes *wakes) {
  for (size_t i = 0; i < wakes->count; i++) {
    pthread_cond_signal(&wakes->waiters[i]->_changed);
  }
  wakes->count = 0;
}

// Gives the event to whom it belongs.
static void deliver(const grpc_event *event, struct wakes *wakes) {
  assert(event->type == GRPC_OP_COMPLETE);
  HANDOVER_TAKE(event->tag);
  const struct event_tag *tag = event->tag;
  struct event_waiter *waiter = tag->waiter;
  unsigned bit = 1u << tag->number;
  assert((waiter->_came & bit) == 0);
  waiter->_came |= bit;
  waiter->_failed |= event->success != 0 ? 0 : bit;
  if (waiter->_waits) {
    add_wake(wakes, waiter);
  }
}

// What there is now, without waiting.
static grpc_event look(struct event_queue *queue) {
  return grpc_completion_queue_next(queue->completions, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
}

// Polls for all until `self` has an event. The lock is held, but not meanwhile. False at the deadline.
static bool poll_for_all(struct event_queue *queue, const struct event_waiter *self, int64_t deadline_ns,
                         struct wakes *wakes) {
  bool in_time = true;
  queue->polled = true;
  while (self->_came == 0 && in_time) {
    pthread_mutex_unlock(&queue->lock);
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    if (wakes->count > 0 && wakes->count < WAKES_MAX) {
      // Most calls end with two events that come together, and one wake is enough for both.
      event = look(queue);
    }
    if (event.type == GRPC_QUEUE_TIMEOUT) {
      wake_all(wakes);
      event = grpc_completion_queue_next(queue->completions, event_deadline(deadline_ns), NULL);
    }
    pthread_mutex_lock(&queue->lock);
    in_time = event.type != GRPC_QUEUE_TIMEOUT;
    if (in_time) {
      deliver(&event, wakes);
    }
  }
  queue->polled = false;
  return in_time;
}

// Waits until there is an event or nobody polls. The lock is held, but not meanwhile. False at the deadline.
static bool let_others_poll(struct event_queue *queue, struct event_waiter *waiter, int64_t deadline_ns) {
  DL_APPEND(queue->waiting, waiter);
  waiter->_waits = true;
  bool in_time = clock_wait(&waiter->_changed, &queue->lock, deadline_ns);
  waiter->_waits = false;
  DL_DELETE(queue->waiting, waiter);
  return in_time;
}

bool event_queue_wait(struct event_queue *queue, struct event_waiter *waiter, int64_t deadline_ns,
                      struct event *event) {
  struct wakes wakes = {.count = 0};
  bool in_time = true;
  pthread_mutex_lock(&queue->lock);
  while (waiter->_came == 0 && in_time) {
    in_time = queue->polled ? let_others_poll(queue, waiter, deadline_ns)
                            : poll_for_all(queue, waiter, deadline_ns, &wakes);
  }
  bool came = waiter->_came != 0;
  if (came) {
    *event = take(waiter);
  }
  if (!queue->polled && queue->waiting != NULL) {
    add_wake(&wakes, queue->waiting); // it polls from now on
  }
  pthread_mutex_unlock(&queue->lock);
  wake_all(&wakes);
  return came;
}
