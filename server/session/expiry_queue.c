#include "server/session/expiry_queue.h"

#include <assert.h>
#include <stdlib.h>

bool expiry_queue_init(struct expiry_queue *queue, size_t capacity) {
  *queue = (struct expiry_queue){._capacity = capacity};
  if (capacity < SIZE_MAX) {
    queue->_heap = calloc(capacity + 1, sizeof queue->_heap[0]);
  }
  return queue->_heap != NULL;
}

void expiry_queue_clear(struct expiry_queue *queue) {
  free(queue->_heap);
  *queue = (struct expiry_queue){0};
}

static void put(struct expiry_queue *queue, size_t position, struct expiry *expiry) {
  queue->_heap[position] = expiry;
  expiry->_position = position;
}

// Puts it where its moment belongs, above or below `position`, which is free.
static void settle(struct expiry_queue *queue, size_t position, struct expiry *expiry) {
  struct expiry **heap = queue->_heap;
  while (position > 1 && heap[position / 2]->expires_ms > expiry->expires_ms) {
    put(queue, position, heap[position / 2]);
    position /= 2;
  }
  size_t child;
  while ((child = 2 * position) <= queue->_count) {
    if (child < queue->_count && heap[child + 1]->expires_ms < heap[child]->expires_ms) {
      child++;
    }
    if (heap[child]->expires_ms >= expiry->expires_ms) {
      break;
    }
    put(queue, position, heap[child]);
    position = child;
  }
  put(queue, position, expiry);
}

void expiry_queue_schedule(struct expiry_queue *queue, struct expiry *expiry, int64_t expires_ms) {
  expiry->expires_ms = expires_ms;
  size_t position = expiry->_position;
  if (position == 0) {
    assert(queue->_count < queue->_capacity);
    position = ++queue->_count;
  }
  settle(queue, position, expiry);
}

void expiry_queue_remove(struct expiry_queue *queue, struct expiry *expiry) {
  size_t position = expiry->_position;
  if (position == 0) {
    return;
  }
  expiry->_position = 0;
  struct expiry *last = queue->_heap[queue->_count--];
  if (last != expiry) {
    settle(queue, position, last);
  }
}

struct expiry *expiry_queue_first(const struct expiry_queue *queue) {
  return queue->_count > 0 ? queue->_heap[1] : NULL;
}
