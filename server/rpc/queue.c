#include "server/rpc/queue.h"

#include "server/rpc/limits.h"
#include "server/rpc/queue_annotations.h"
#include "server/rpc/receive_guard.h"
#include "server/rpc/send_gather.h"

#include <assert.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>

struct queue {
  struct queue_options options;
  grpc_completion_queue *completion_queue;
  // A call that never goes anywhere: empty batches of it wake the thread (the C API has no other way).
  grpc_channel *wake_channel;
  grpc_call *wake_call;
  pthread_t thread;
  struct timer_list timers;
  gpr_timespec wake; // gRPC's time when a timer that was the next expires, if has_wake; later ones look then
  bool has_wake;
  struct queue_tag *yielding, **yielding_end; // in the order in which they get their turns
  uint8_t *scratch;
  size_t scratch_bytes;
};

grpc_completion_queue *queue_completion_queue(struct queue *queue) {
  return queue->completion_queue;
}

static int64_t now_ns(const struct queue *queue) {
  return queue->options.clock_ns(queue->options.clock_context);
}

// On gRPC's clock, when the thread has something to do even if nothing comes.
static gpr_timespec next_deadline(struct queue *queue) {
  if (queue->yielding != NULL || send_gather_holds()) {
    return gpr_inf_past(GPR_CLOCK_MONOTONIC); // gRPC still looks once
  }
  int64_t next = timer_list_next(&queue->timers);
  if (next == INT64_MAX) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  if (!queue->has_wake) {
    int64_t left = next - now_ns(queue);
    queue->wake =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left < 0 ? 0 : left, GPR_TIMESPAN));
    queue->has_wake = true;
  }
  return queue->wake;
}

static void handle(const grpc_event *event) {
  struct queue_tag *tag = event->tag;
  QUEUE_TAKES_OVER(tag);
  send_gather_begin_event();
  tag->event(tag, event->success != 0);
}

static void give_a_turn(struct queue *queue) {
  send_gather_release();
  struct queue_tag *tag = queue->yielding;
  queue->yielding = tag->_next;
  if (queue->yielding == NULL) {
    queue->yielding_end = &queue->yielding;
  }
  tag->event(tag, true);
}

static void *run(void *argument) {
  struct queue *queue = argument;
  unsigned events = 0; // since the last turn
  for (;;) {
    receive_guard_begin_turn(); // gRPC reads when it has no event
    grpc_event event = grpc_completion_queue_next(queue->completion_queue, next_deadline(queue), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    if (event.type == GRPC_OP_COMPLETE) {
      handle(&event);
    } else {
      send_gather_release(); // nothing came that could add to it
      queue->has_wake = false;
    }
    int64_t now = now_ns(queue);
    send_gather_end_event(now);
    timer_list_expire(&queue->timers, now);
    ++events;
    if (queue->yielding != NULL && (event.type == GRPC_QUEUE_TIMEOUT || events >= QUEUE_EVENTS_BEFORE_TURN)) {
      events = 0;
      give_a_turn(queue);
    }
  }
}

bool queue_create(const struct queue_options *options, struct queue **queue, struct status *status) {
  struct queue *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a completion queue");
  }
  created->options = *options;
  created->yielding_end = &created->yielding;
  timer_list_init(&created->timers, options->idle_timeout_ns);
  created->completion_queue = grpc_completion_queue_create_for_next(NULL);
  int error = pthread_create(&created->thread, NULL, run, created);
  if (error != 0) {
    grpc_completion_queue_shutdown(created->completion_queue);
    (void)run(created);
    grpc_completion_queue_destroy(created->completion_queue);
    free(created);
    return status_fail(status, REASON_INTERNAL, NULL, "can't start a thread for calls: error %d", error);
  }
  created->wake_channel = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "not a channel");
  created->wake_call = grpc_channel_create_call(
      created->wake_channel, NULL, GRPC_PROPAGATE_DEFAULTS, created->completion_queue,
      grpc_slice_from_static_string("/wake"), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  *queue = created;
  return true;
}

void queue_destroy(struct queue *queue) {
  if (queue == NULL) {
    return;
  }
  grpc_call_unref(queue->wake_call);
  grpc_channel_destroy(queue->wake_channel);
  grpc_completion_queue_shutdown(queue->completion_queue);
  pthread_join(queue->thread, NULL);
  assert(timer_list_next(&queue->timers) == INT64_MAX && queue->yielding == NULL);
  grpc_completion_queue_destroy(queue->completion_queue);
  free(queue->scratch);
  free(queue);
}

void queue_start_batch(grpc_call *call, const grpc_op *ops, size_t count, struct queue_tag *tag) {
  QUEUE_HANDS_OVER(tag);
  grpc_call_error error = grpc_call_start_batch(call, ops, count, tag, NULL);
  assert(error == GRPC_CALL_OK);
}

void queue_wake_call(grpc_call *call, struct queue_tag *tag) {
  // The event may be handled, and the call given up, before start_batch has returned.
  grpc_call_ref(call);
  queue_start_batch(call, NULL, 0, tag);
  grpc_call_unref(call);
}

void queue_wake(struct queue *queue, struct queue_tag *tag) {
  queue_start_batch(queue->wake_call, NULL, 0, tag);
}

void queue_yield(struct queue *queue, struct queue_tag *tag) {
  tag->_next = NULL;
  *queue->yielding_end = tag;
  queue->yielding_end = &tag->_next;
}

void queue_arm(struct queue *queue, struct timer_entry *timer) {
  timer_list_arm(&queue->timers, timer, now_ns(queue));
}

uint8_t *queue_scratch(struct queue *queue, size_t size) {
  if (size > queue->scratch_bytes) {
    uint8_t *grown = realloc(queue->scratch, size);
    if (grown == NULL) {
      return NULL;
    }
    queue->scratch = grown;
    queue->scratch_bytes = size;
  }
  return queue->scratch;
}
