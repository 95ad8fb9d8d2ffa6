// A completion queue that all threads with calls on a channel share.
//
// gRPC wants a thread to poll. There is none of our own: of the threads that wait, one polls for all, hands
// the others what came for them and, when it has got what it waits for itself, leaves polling to one of them.
// A queue for each thread would be simpler, but gRPC then wakes them in turns just to poll: 32 threads made
// 10,000 small calls a second so, 13 futex calls for each.
//
// An operation's tag is a struct event_tag inside an object that a struct event_waiter stands for. Any thread
// may wait, for one waiter one at a time. Waiters have got all their events before the queue is destroyed,
// and are destroyed after it: other threads may still be about to wake them.
#ifndef ACLNN_CLIENT_C_CHANNEL_EVENT_QUEUE_H
#define ACLNN_CLIENT_C_CHANNEL_EVENT_QUEUE_H

#include "client/c/clock.h"

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct event_queue;

// One per waiter at the most of each number.
#define EVENT_NUMBERS_MAX 4

struct event_waiter {
  unsigned _came, _failed; // by number
  bool _waits;
  pthread_cond_t _changed;
  struct event_waiter *next, *prev;
};

struct event_tag {
  struct event_waiter *waiter;
  unsigned number; // below EVENT_NUMBERS_MAX
};

struct event {
  unsigned number;
  bool ok;
};

struct event_queue *event_queue_create(void); // NULL: no memory
void event_queue_destroy(struct event_queue *queue);

// A deadline of the client's clock on gRPC's.
gpr_timespec event_deadline(int64_t deadline_ns);

// For the creation of calls.
grpc_completion_queue *event_queue_completions(struct event_queue *queue);

void event_waiter_init(struct event_waiter *waiter);
void event_waiter_destroy(struct event_waiter *waiter);

// The waiter's next event, the one with the lowest number first; false at the deadline (CLOCK_NEVER: none).
// Only while a batch with a tag of the waiter's is under way.
bool event_queue_wait(struct event_queue *queue, struct event_waiter *waiter, int64_t deadline_ns,
                      struct event *event);

#endif
