#include "server/npu/pool/waiting_queue.h"

#include <assert.h>

static void join_stream(struct waiting_queue *queue, struct waiting_entry *entry) {
  entry->_before = entry->_after = NULL;
  if (entry->stream == NULL) {
    return;
  }
  struct waiting_entry *before = queue->_stream_last;
  while (before != NULL && before->stream != entry->stream) {
    before = before->_stream_previous;
  }
  entry->_before = before;
  if (before != NULL) {
    before->_after = entry;
  }
  entry->_stream_previous = queue->_stream_last;
  entry->_stream_next = NULL;
  if (queue->_stream_last != NULL) {
    queue->_stream_last->_stream_next = entry;
  }
  queue->_stream_last = entry;
}

// Before all others of its stream.
static void join_stream_first(struct waiting_queue *queue, struct waiting_entry *entry) {
  struct waiting_entry *after = NULL;
  for (struct waiting_entry *other = queue->_stream_last; entry->stream != NULL && other != NULL;
       other = other->_stream_previous) {
    after = other->stream == entry->stream ? other : after;
  }
  if (after == NULL) {
    join_stream(queue, entry);
    return;
  }
  entry->_before = NULL;
  entry->_after = after;
  after->_before = entry;
  entry->_stream_next = after;
  entry->_stream_previous = after->_stream_previous;
  if (entry->_stream_previous != NULL) {
    entry->_stream_previous->_stream_next = entry;
  }
  after->_stream_previous = entry;
}

static void leave_stream(struct waiting_queue *queue, struct waiting_entry *entry) {
  if (entry->stream == NULL) {
    return;
  }
  if (entry->_before != NULL) {
    entry->_before->_after = entry->_after;
  }
  if (entry->_after != NULL) {
    entry->_after->_before = entry->_before;
  }
  if (entry->_stream_previous != NULL) {
    entry->_stream_previous->_stream_next = entry->_stream_next;
  }
  if (entry->_stream_next != NULL) {
    entry->_stream_next->_stream_previous = entry->_stream_previous;
  } else {
    queue->_stream_last = entry->_stream_previous;
  }
}

static void insert(struct waiting_queue *queue, struct waiting_entry *entry, struct waiting_entry *previous) {
  struct waiting_entry *next = previous == NULL ? queue->first : previous->_next;
  entry->_previous = previous;
  entry->_next = next;
  *(previous == NULL ? &queue->first : &previous->_next) = entry;
  *(next == NULL ? &queue->_last : &next->_previous) = entry;
  entry->_waits = true;
  queue->count++;
}

bool waiting_queue_push(struct waiting_queue *queue, struct waiting_entry *entry) {
  if (queue->count >= queue->limit) {
    return false;
  }
  join_stream(queue, entry);
  insert(queue, entry, queue->_last);
  return true;
}

void waiting_queue_push_again(struct waiting_queue *queue, struct waiting_entry *entry) {
  join_stream_first(queue, entry);
  insert(queue, entry, NULL);
}

struct waiting_entry *waiting_entry_next(const struct waiting_entry *entry) {
  return entry->_next;
}

bool waiting_entry_is_due(const struct waiting_entry *entry) {
  return entry->_before == NULL;
}

void waiting_queue_take(struct waiting_queue *queue, struct waiting_entry *entry) {
  assert(entry->_waits);
  *(entry->_previous == NULL ? &queue->first : &entry->_previous->_next) = entry->_next;
  *(entry->_next == NULL ? &queue->_last : &entry->_next->_previous) = entry->_previous;
  entry->_waits = false;
  queue->count--;
}

void waiting_queue_put_back(struct waiting_queue *queue, struct waiting_entry *entry) {
  assert(!entry->_waits);
  insert(queue, entry, NULL);
}

void waiting_queue_finish(struct waiting_queue *queue, struct waiting_entry *entry) {
  if (entry->_waits) {
    waiting_queue_take(queue, entry);
  }
  leave_stream(queue, entry);
}
