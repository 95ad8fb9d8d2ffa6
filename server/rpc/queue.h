// A completion queue with its one thread: everything that belongs to a queue happens on that thread.
//
// An operation's tag is a struct queue_tag inside the object that started it; its event function is called on
// the queue's thread. The queue also keeps that thread's idle timers and its scratch memory. Created and
// destroyed by the server that owns it.
#ifndef ACLNN_SERVER_RPC_QUEUE_H
#define ACLNN_SERVER_RPC_QUEUE_H

#include "kernels/status.h"
#include "server/rpc/timer_list.h"

#include <grpc/grpc.h>

struct queue;

struct queue_tag {
  void (*event)(struct queue_tag *tag, bool ok);
  struct queue_tag *_next; // private: of those that yield
};

// The object that a tag, timer or list node is part of.
#define QUEUE_CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct queue_options {
  int64_t idle_timeout_ns;
  int64_t (*clock_ns)(void *context); // steady; read with every event
  void *clock_context;
};

MUST_CHECK bool queue_create(const struct queue_options *options, struct queue **queue,
                             struct status *status);
// No operation may be started on the queue from here on. Delivers the events that are left and ends the
// thread. NULL is fine.
void queue_destroy(struct queue *queue);

grpc_completion_queue *queue_completion_queue(struct queue *queue);

// Starts a batch of `call`, which is bound to this queue. Any thread, but one at a time per call and
// direction.
void queue_start_batch(grpc_call *call, const grpc_op *ops, size_t count, struct queue_tag *tag);
// Delivers the event of `tag` on the thread of the queue to which `call` is bound. Any thread.
void queue_wake_call(grpc_call *call, struct queue_tag *tag);
// The same for a queue. Any thread, before queue_destroy.
void queue_wake(struct queue *queue, struct queue_tag *tag);

// The rest is for the queue's thread.

// Delivers the event of `tag` in another turn: when the thread has looked at its connections, and what came
// from there and was waiting before was handled, or so much of it that the others have had their share. A
// tag that was woken would come back before any connection is looked at.
void queue_yield(struct queue *queue, struct queue_tag *tag);
void queue_arm(struct queue *queue, struct timer_entry *timer);
// At least `size` bytes, valid until the event function returns; NULL if there is no memory.
uint8_t *queue_scratch(struct queue *queue, size_t size);

#endif
