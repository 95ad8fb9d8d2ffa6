// What waits for a device: bounded, first come first served, streams in order.
//
// Entries are embedded in what waits and owned by the caller. An entry belongs to the queue from push to
// finish: first it waits, then it was taken (it is on a device), perhaps it is put back. Main thread only.
#ifndef ACLNN_SERVER_NPU_POOL_WAITING_QUEUE_H
#define ACLNN_SERVER_NPU_POOL_WAITING_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct waiting_entry {
  const void *stream;  // NULL: in no order with others
  int64_t deadline_ns; // of the wait
  // private
  bool _waits;
  struct waiting_entry *_previous, *_next;               // among those that wait
  struct waiting_entry *_stream_previous, *_stream_next; // among all with a stream
  struct waiting_entry *_before, *_after;                // neighbours in its own stream
};

struct waiting_queue {
  size_t limit; // of those that wait
  size_t count;
  struct waiting_entry *first; // that waits, NULL: none
  struct waiting_entry *_last;
  struct waiting_entry *_stream_last;
};

// False if the queue is full.
bool waiting_queue_push(struct waiting_queue *queue, struct waiting_entry *entry);
// One that had left comes once more and takes the place that it had: before all others, in its stream too.
// The limit doesn't hold for it.
void waiting_queue_push_again(struct waiting_queue *queue, struct waiting_entry *entry);
// The next one that waits, NULL: none.
struct waiting_entry *waiting_entry_next(const struct waiting_entry *entry);
// Whether it is its turn: nothing that came before in its stream is left.
bool waiting_entry_is_due(const struct waiting_entry *entry);
// It doesn't wait any more, but its stream waits for it.
void waiting_queue_take(struct waiting_queue *queue, struct waiting_entry *entry);
// One that was taken waits again, before all others; the limit doesn't hold for it.
void waiting_queue_put_back(struct waiting_queue *queue, struct waiting_entry *entry);
// It leaves for good, from wherever it is.
void waiting_queue_finish(struct waiting_queue *queue, struct waiting_entry *entry);

#endif
