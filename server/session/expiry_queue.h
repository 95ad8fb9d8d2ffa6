// Things in the order in which they expire: a binary heap of moments that are embedded in the things.
//
// Adding, removing and moving one cost O(log n), looking at the first O(1). The capacity is fixed when it is
// made, so that nothing here can fail later. Not thread-safe: the session table locks.
#ifndef ACLNN_SERVER_SESSION_EXPIRY_QUEUE_H
#define ACLNN_SERVER_SESSION_EXPIRY_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct expiry {
  int64_t expires_ms;
  size_t _position; // in the heap, from 1; 0: in none
};

struct expiry_queue {
  struct expiry **_heap; // from 1
  size_t _count, _capacity;
};

// False if there is no memory. capacity > 0.
bool expiry_queue_init(struct expiry_queue *queue, size_t capacity);
void expiry_queue_clear(struct expiry_queue *queue); // frees the queue's memory, not the things

// Adds it, or moves it if it is in the queue already. There must be room.
void expiry_queue_schedule(struct expiry_queue *queue, struct expiry *expiry, int64_t expires_ms);
// No effect if it isn't in the queue.
void expiry_queue_remove(struct expiry_queue *queue, struct expiry *expiry);
// NULL if the queue is empty.
struct expiry *expiry_queue_first(const struct expiry_queue *queue);

#endif
