#include "server/rpc/execute_call.h"

#include "server/rpc/execute_job.h"
#include "server/rpc/execute_step.h"
#include "server/rpc/final_status.h"
#include "server/rpc/limits.h"
#include "server/rpc/received_message.h"
#include "server/rpc/response_message.h"

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <inttypes.h>
#include <stdlib.h>

struct execute_call;

// The place of one of the (at most two) jobs.
struct job_place {
  struct execute_job job;
  uint64_t number;
  struct execute_call *call;
  struct queue_tag answered; // brings an answer to the queue's thread
  bool answer_ok;
};

// The idle time-out of one direction. It begins anew with every EXECUTE_PACE_BYTES, not with every message.
struct pace {
  struct timer_entry timer;
  int64_t moved_bytes; // since it began
};

struct execute_call {
  struct server_call base;
  struct execute_state state;
  struct job_place places[EXECUTE_JOBS_MAX]; // by job number modulo EXECUTE_JOBS_MAX
  struct received_message message;
  struct response_message sending;
  struct codec_choice choice; // for what is sent
  int64_t sending_since_ns;
  uint64_t accepted_job; // the first job whose `accepted` was not sent
  bool metadata_sent;
  int cancelled;
  struct status failure; // of state.failed_job, or why the call was cancelled
  struct final_status final;
  struct queue_tag received, sent, looked, turned, status_sent, closed;
  struct pace receiving, replying;
  int64_t sending_bytes; // of tensors, in the message under way
};

static struct job_place *place_of(struct execute_call *call, uint64_t job) {
  return &call->places[job % EXECUTE_JOBS_MAX];
}

static uint64_t last_job_number(const struct execute_call *call) {
  return call->state.first_job + call->state.job_count - 1;
}

// ---- What the core found wrong, in words

static void describe_half_close(struct execute_call *call) {
  struct job_place *place = place_of(call, call->state.failed_job);
  if (place->job.job == NULL) {
    (void)status_fail(&call->failure, REASON_TENSOR_DATA_INVALID, NULL, "the call was half-closed too early");
  } else {
    (void)execute_upload_fail_incomplete(&place->job.upload, &call->failure);
  }
}

static void describe_fault(struct execute_call *call, enum execute_fault fault) {
  static const struct {
    enum reason reason;
    const char *message;
  } faults[] = {
      [EXECUTE_FAULT_CHUNK_BEFORE_BEGIN] = {REASON_SEQUENCE_INVALID, "a chunk came before the first begin"},
      [EXECUTE_FAULT_BEGIN_TOO_EARLY] = {REASON_SEQUENCE_INVALID,
                                         "a begin came before the last byte of the job before"},
      [EXECUTE_FAULT_EMPTY_MESSAGE] = {REASON_SEQUENCE_INVALID, "a message had neither begin nor chunks"},
      [EXECUTE_FAULT_SURPLUS] = {REASON_TENSOR_DATA_INVALID,
                                 "a chunk came after the last byte of the job before, without a begin"},
      [EXECUTE_FAULT_RECEIVE_IDLE] = {REASON_IDLE_TIMEOUT, "the data of a started job didn't come in time"},
      [EXECUTE_FAULT_RESTED_TOO_LONG] =
          {REASON_IDLE_TIMEOUT, "the call rested for longer than the idle time-out, and too many do"},
      [EXECUTE_FAULT_SEND_IDLE] = {REASON_IDLE_TIMEOUT, "the reply wasn't read in time"},
  };
  if (fault == EXECUTE_FAULT_DRAINING) {
    (void)service_fail_draining(server_call_context(&call->base), &call->failure);
  } else if (fault == EXECUTE_FAULT_HALF_CLOSED_EARLY) {
    describe_half_close(call);
  } else {
    (void)status_fail(&call->failure, faults[fault].reason, NULL, "%s", faults[fault].message);
  }
}

// ---- Things to do. Each returns what follows at once.

static unsigned do_cancel(struct execute_call *call) {
  // Reaches the client ahead of data that it doesn't read; the details can't be sent this way.
  if (call->failure.reason == REASON_IDLE_TIMEOUT || call->failure.reason == REASON_INTERNAL) {
    grpc_call_cancel_with_status(call->base.call, (grpc_status_code)reason_to_rpc_code(call->failure.reason),
                                 call->failure.message, NULL);
  } else {
    grpc_call_cancel(call->base.call, NULL);
  }
  return 0;
}

static unsigned do_drop(struct execute_call *call) {
  for (size_t i = 0; i < EXECUTE_JOBS_MAX; ++i) {
    if (call->state.jobs[i].stage == EXECUTE_JOB_NONE) {
      execute_job_give_up(&call->places[i].job, call->state.jobs[i].waiting);
    }
  }
  return 0;
}

static unsigned do_consume(struct execute_call *call) {
  for (size_t i = 0; i < EXECUTE_JOBS_MAX; ++i) {
    if (call->state.jobs[i].consumed) {
      execute_job_consume(&call->places[i].job);
    }
  }
  return 0;
}

static unsigned do_receive(struct execute_call *call) {
  grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
  op.data.recv_message.recv_message = &call->message.buffer;
  queue_start_batch(call->base.call, &op, 1, &call->received);
  return 0;
}

static unsigned do_discard(struct execute_call *call) {
  received_message_close(&call->message);
  return 0;
}

// A reply's first operation carries the initial metadata along.
static size_t add_metadata_op(struct execute_call *call, grpc_op *ops) {
  if (call->metadata_sent) {
    return 0;
  }
  call->metadata_sent = true;
  ops[0] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
  return 1;
}

// All bytes of the message but those that still lie where the job's run put them.
static uint64_t bytes_outside_of_arena(const struct execute_call *call) {
  const struct arena *arena = dispatcher_arena(server_call_context(&call->base)->dispatcher);
  const grpc_slice_buffer *buffer = &call->sending.buffer->data.raw.slice_buffer;
  uint64_t bytes = 0;
  for (size_t i = 0; i < buffer->count; ++i) {
    if (!arena_contains(arena, GRPC_SLICE_START_PTR(buffer->slices[i]))) {
      bytes += GRPC_SLICE_LENGTH(buffer->slices[i]);
    }
  }
  return bytes;
}

static bool sends_outputs(struct execute_call *call) {
  return execute_job(&call->state, call->state.first_job)->stage == EXECUTE_JOB_ENDED;
}

static unsigned send_next(struct execute_call *call) {
  struct execute_state *state = &call->state;
  uint64_t number = state->first_job;
  struct job_place *place = place_of(call, number);
  bool accepted = call->accepted_job == number; // goes with the first message for its job
  int64_t passed_bytes = place->job.download.passed_bytes;
  call->choice.accepted = place->job.reply_codecs;
  if (!response_message_build(&place->job, accepted, sends_outputs(call), server_call_now_ns(&call->base),
                              &call->choice, &call->sending, &call->failure)) {
    return execute_send_failed(state);
  }
  call->accepted_job = number + 1;
  call->sending_bytes = place->job.download.passed_bytes - passed_bytes;
  struct server_traffic traffic = {.sent_bytes = call->sending.data_bytes,
                                   .copied_bytes = bytes_outside_of_arena(call)};
  server_call_count_traffic(&call->base, &traffic);
  grpc_op ops[3];
  size_t count = add_metadata_op(call, ops);
  // A small message then waits for the next one, to be written with it. Metadata would wait too, and their
  // batch with them.
  bool followed = count == 0 && call->sending.done && execute_is_followed(state);
  ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .flags = followed ? GRPC_WRITE_BUFFER_HINT : 0};
  ops[count++].data.send_message.send_message = call->sending.buffer;
  if (call->sending.done && execute_close_with_send(state)) {
    final_status_ok(&call->final);
    final_status_op(&call->final, &ops[count++]);
  }
  call->sending_since_ns = server_call_now_ns(&call->base);
  queue_start_batch(call->base.call, ops, count, &call->sent);
  return 0;
}

// What has arrived already, such as the half-close behind a call's only job or the next job of many, has its
// event in the queue by now. Once that is handled, the reply may leave together with what follows it.
static unsigned do_send(struct execute_call *call) {
  bool receiving = (call->state.pending & EXECUTE_PENDING_RECEIVE) != 0;
  bool begins = place_of(call, call->state.first_job)->job.download.passed_bytes == 0;
  if (receiving && begins && sends_outputs(call)) {
    queue_wake_call(call->base.call, &call->looked);
    return 0;
  }
  return send_next(call);
}

static unsigned do_status(struct execute_call *call) {
  if (call->state.failed_job == UINT64_MAX) {
    final_status_ok(&call->final);
  } else {
    service_log_failure(server_call_context(&call->base), &call->failure);
    status_add_metadata(&call->failure, "job", "%" PRIu64, call->state.failed_job);
    final_status_failed(&call->final, &call->failure);
  }
  grpc_op ops[2];
  size_t count = add_metadata_op(call, ops);
  final_status_op(&call->final, &ops[count]);
  queue_start_batch(call->base.call, ops, count + 1, &call->status_sent);
  return 0;
}

// A job has failed: its status becomes the call's, if it is the first to tell.
static unsigned fail_job(struct execute_call *call, uint64_t job, const struct status *status) {
  if (execute_failure_counts(&call->state, job)) {
    call->failure = *status;
  }
  return execute_failed(&call->state, job);
}

static unsigned do_begin(struct execute_call *call) {
  uint64_t number = last_job_number(call);
  struct job_place *place = place_of(call, number);
  place->number = number;
  struct status status;
  size_t size = call->message.parts.head_bytes;
  uint8_t *begin = queue_scratch(server_call_queue(&call->base), size == 0 ? 1 : size);
  if (begin == NULL) {
    (void)status_fail(&status, REASON_INTERNAL, NULL, "no memory to read a begin");
    return fail_job(call, number, &status);
  }
  received_message_copy_head(&call->message, begin);
  switch (execute_job_begin(&place->job, begin, size, &status)) {
  case JOB_READY:
    return execute_planned(&call->state, number);
  case JOB_WAITING:
    execute_job_waits(&call->state, number);
    return 0;
  case JOB_FAILED:
    break;
  }
  return fail_job(call, number, &status);
}

static unsigned do_reserve(struct execute_call *call) {
  uint64_t number = last_job_number(call);
  struct execute_job *job = &place_of(call, number)->job;
  switch (execute_job_reserve(job)) {
  case JOB_READY:
    return execute_reserved(&call->state, number);
  case JOB_WAITING:
    execute_job_waits(&call->state, number);
    return 0;
  case JOB_FAILED:
    break;
  }
  return fail_job(call, number, job_status(job->job));
}

// Copies one chunk to its place; *copied_bytes is what was written for that.
static bool take_chunk(struct execute_call *call, struct execute_job *job, const struct tensor_chunk *chunk,
                       uint64_t *copied_bytes, struct status *status) {
  uint8_t *scratch = NULL;
  size_t scratch_bytes = 0;
  if (chunk->codec != CODEC_NONE) {
    scratch_bytes = chunk->data_bytes;
    scratch = queue_scratch(server_call_queue(&call->base), scratch_bytes == 0 ? 1 : scratch_bytes);
    if (scratch == NULL) {
      return status_fail(status, REASON_INTERNAL, NULL, "no memory to decode a chunk");
    }
  }
  int64_t missing_bytes = job->upload.missing_bytes;
  if (!execute_job_take(job, chunk, scratch, scratch_bytes, status)) {
    return false;
  }
  // Encoded data may have to be joined before they are decoded.
  *copied_bytes += (uint64_t)(missing_bytes - job->upload.missing_bytes) + scratch_bytes;
  return true;
}

// Takes chunks of the message in hand, as many as one turn may. *all: none is left.
static bool take_chunks(struct execute_call *call, struct execute_job *job, uint64_t *copied_bytes, bool *all,
                        struct status *status) {
  struct execute_message *parts = &call->message.parts, ahead = *parts;
  struct tensor_chunk chunk;
  int64_t turn_bytes = 0;
  for (; execute_message_next_chunk(&ahead, &chunk); *parts = ahead) {
    if (turn_bytes >= EXECUTE_TURN_BYTES) {
      *all = false;
      return true;
    }
    int64_t missing_bytes = job->upload.missing_bytes;
    if (!take_chunk(call, job, &chunk, copied_bytes, status)) {
      return false;
    }
    int64_t taken_bytes = missing_bytes - job->upload.missing_bytes;
    turn_bytes += taken_bytes > EXECUTE_TURN_CHUNK_BYTES ? taken_bytes : EXECUTE_TURN_CHUNK_BYTES;
  }
  *all = true;
  return true;
}

static void pace_stop(struct pace *pace) {
  timer_list_disarm(&pace->timer);
  pace->moved_bytes = 0;
}

// The client has sent or read so much.
static void pace_move(struct pace *pace, int64_t bytes) {
  pace->moved_bytes += bytes;
  if (pace->moved_bytes >= EXECUTE_PACE_BYTES) {
    pace_stop(pace);
  }
}

static void pace_set(struct execute_call *call, struct pace *pace, bool timed) {
  if (!timed) {
    pace_stop(pace);
  } else if (!timer_list_is_armed(&pace->timer)) {
    queue_arm(server_call_queue(&call->base), &pace->timer);
  }
}

static unsigned do_take(struct execute_call *call) {
  uint64_t number = last_job_number(call);
  struct execute_job *job = &place_of(call, number)->job;
  struct status status;
  struct server_traffic traffic = {0};
  int64_t missing_bytes = job->upload.missing_bytes;
  bool all = false;
  traffic.copied_bytes = call->message.joined_bytes;
  call->message.joined_bytes = 0; // counts once
  if (!take_chunks(call, job, &traffic.copied_bytes, &all, &status)) {
    return fail_job(call, number, &status);
  }
  int64_t taken_bytes = missing_bytes - job->upload.missing_bytes;
  traffic.received_bytes = (uint64_t)taken_bytes;
  server_call_count_traffic(&call->base, &traffic);
  pace_move(&call->receiving, taken_bytes);
  if (!all) {
    execute_take_paused(&call->state);
    queue_yield(server_call_queue(&call->base), &call->turned);
    return 0;
  }
  return execute_taken(&call->state, job->upload.missing_bytes == 0);
}

static unsigned do_submit(struct execute_call *call) {
  uint64_t number = call->state.first_job;
  while (execute_job(&call->state, number)->stage != EXECUTE_JOB_RUNNING) {
    ++number;
  }
  struct execute_job *job = &place_of(call, number)->job;
  switch (execute_job_submit(job)) {
  case JOB_READY:
    return execute_ended(&call->state, number);
  case JOB_WAITING:
    execute_job_waits(&call->state, number);
    return 0;
  case JOB_FAILED:
    break;
  }
  return fail_job(call, number, job_status(job->job));
}

static void release(struct execute_call *call) {
  (void)do_drop(call);
  pace_stop(&call->receiving);
  pace_stop(&call->replying);
  received_message_free(&call->message);
  final_status_free(&call->final);
  server_call_leave(&call->base);
  free(call);
}

// In the order in which they are done.
static const struct {
  unsigned bit;
  unsigned (*perform)(struct execute_call *call);
} things_to_do[] = {
    {EXECUTE_DO_CANCEL, do_cancel},   {EXECUTE_DO_DROP, do_drop},       {EXECUTE_DO_DISCARD, do_discard},
    {EXECUTE_DO_CONSUME, do_consume}, {EXECUTE_DO_RECEIVE, do_receive}, {EXECUTE_DO_STATUS, do_status},
    {EXECUTE_DO_SEND, do_send},       {EXECUTE_DO_BEGIN, do_begin},     {EXECUTE_DO_RESERVE, do_reserve},
    {EXECUTE_DO_TAKE, do_take},       {EXECUTE_DO_SUBMIT, do_submit},
};

// Does what the core asks for, until nothing more follows at once.
static void step(struct execute_call *call, unsigned todo) {
  do {
    enum execute_fault fault = execute_take_fault(&call->state);
    if (fault != EXECUTE_FAULT_NONE) {
      describe_fault(call, fault);
    }
    unsigned next = 0;
    for (size_t i = 0; i < sizeof things_to_do / sizeof things_to_do[0]; ++i) {
      if (todo & things_to_do[i].bit) {
        next |= things_to_do[i].perform(call);
      }
    }
    if (todo & EXECUTE_DO_RELEASE) {
      release(call);
      return;
    }
    todo = next;
  } while (todo != 0);
  bool rests = execute_is_resting(&call->state);
  server_call_set_resting(&call->base, rests);
  pace_set(call, &call->receiving, rests || execute_receive_is_timed(&call->state));
  pace_set(call, &call->replying, execute_send_is_timed(&call->state));
}

// ---- Events

static void on_received(struct queue_tag *tag, bool ok) {
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, received);
  if (execute_is_resting(&call->state)) {
    pace_stop(&call->receiving);
  }
  if (call->message.buffer == NULL) {
    bool ended = ok && !grpc_call_failed_before_recv_message(call->base.call);
    step(call, ended ? execute_half_closed(&call->state) : execute_receive_failed(&call->state));
    return;
  }
  enum execute_content content = EXECUTE_CONTENT_NOTHING;
  struct status status;
  if (!received_message_open(&call->message, &status)) {
    content = EXECUTE_CONTENT_INVALID;
    if (execute_failure_counts(&call->state, execute_current_job(&call->state))) {
      call->failure = status;
    }
  } else if (call->message.parts.has_head) {
    content = EXECUTE_CONTENT_BEGIN;
  } else if (call->message.parts.chunk_count > 0) {
    content = EXECUTE_CONTENT_CHUNKS;
  }
  step(call, execute_received(&call->state, content));
}

static void on_sent(struct queue_tag *tag, bool ok) {
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, sent);
  pace_move(&call->replying, call->sending_bytes);
  if (call->sending.done) {
    pace_stop(&call->replying); // what comes next is another job's
  }
  grpc_byte_buffer_destroy(call->sending.buffer);
  call->sending.buffer = NULL;
  codec_choice_sent(&call->choice, call->sending.data_bytes,
                    server_call_now_ns(&call->base) - call->sending_since_ns);
  step(call, ok ? execute_sent(&call->state, call->sending.done) : execute_send_failed(&call->state));
}

static void on_looked(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, looked);
  bool listened_to = call->state.phase <= EXECUTE_FAILING;
  step(call, listened_to ? send_next(call) : execute_send_failed(&call->state));
}

static void on_turned(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, turned);
  step(call, execute_turned(&call->state));
}

static void on_status_sent(struct queue_tag *tag, bool ok) {
  (void)ok; // the notice of the end tells more
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, status_sent);
  step(call, execute_status_sent(&call->state));
}

static void on_closed(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct execute_call *call = QUEUE_CONTAINER_OF(tag, struct execute_call, closed);
  step(call, execute_closed(&call->state, call->cancelled != 0));
}

// On any thread.
static void answer_from_anywhere(struct execute_job *job, bool ok) {
  struct job_place *place = QUEUE_CONTAINER_OF(job, struct job_place, job);
  place->answer_ok = ok;
  queue_wake_call(place->call->base.call, &place->answered);
}

static unsigned handle_answer(struct execute_call *call, struct job_place *place) {
  struct execute_job *job = &place->job;
  struct status status;
  bool dropped = execute_job(&call->state, place->number)->stage == EXECUTE_JOB_NONE;
  if (job->planning != NULL) {
    if (!dropped && execute_job_finish_planning(job, place->answer_ok, &status)) {
      return execute_planned(&call->state, place->number);
    }
    if (dropped) {
      return execute_failed(&call->state, place->number);
    }
    return fail_job(call, place->number, &status);
  }
  if (!place->answer_ok) {
    return fail_job(call, place->number, job_status(job->job));
  }
  return execute_job(&call->state, place->number)->stage == EXECUTE_JOB_RESERVING
             ? execute_reserved(&call->state, place->number)
             : execute_ended(&call->state, place->number);
}

static void on_answered(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct job_place *place = QUEUE_CONTAINER_OF(tag, struct job_place, answered);
  step(place->call, handle_answer(place->call, place));
}

static void on_receive_idle(struct timer_entry *timer) {
  struct execute_call *call = QUEUE_CONTAINER_OF(timer, struct execute_call, receiving.timer);
  if (execute_receive_is_timed(&call->state)) {
    step(call, execute_receive_timed_out(&call->state));
  } else if (server_call_must_not_rest(&call->base)) {
    step(call, execute_rested_too_long(&call->state));
  } else {
    queue_arm(server_call_queue(&call->base), timer);
  }
}

static void on_send_idle(struct timer_entry *timer) {
  struct execute_call *call = QUEUE_CONTAINER_OF(timer, struct execute_call, replying.timer);
  step(call, execute_send_timed_out(&call->state));
}

static void on_drain(struct server_call *base) {
  struct execute_call *call = QUEUE_CONTAINER_OF(base, struct execute_call, base);
  step(call, execute_drain(&call->state));
}

static int64_t clock_of_call(void *context) {
  return server_call_now_ns(context);
}

void execute_call_start(struct server_queue *home, grpc_call *grpc) {
  struct execute_call *call = calloc(1, sizeof *call);
  if (call == NULL) {
    grpc_call_cancel_with_status(grpc, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for the call", NULL);
    grpc_call_unref(grpc);
    return;
  }
  call->base.call = grpc;
  call->base.drain = on_drain;
  call->received.event = on_received;
  call->sent.event = on_sent;
  call->looked.event = on_looked;
  call->turned.event = on_turned;
  call->status_sent.event = on_status_sent;
  call->closed.event = on_closed;
  call->receiving.timer.expired = on_receive_idle;
  call->replying.timer.expired = on_send_idle;
  final_status_ok(&call->final);
  codec_choice_init(&call->choice, 0, clock_of_call, &call->base);
  server_call_enter(home, &call->base);
  for (size_t i = 0; i < EXECUTE_JOBS_MAX; ++i) {
    struct job_place *place = &call->places[i];
    place->call = call;
    place->answered.event = on_answered;
    execute_job_init(&place->job, server_call_context(&call->base), call->base.identity, call,
                     answer_from_anywhere);
  }
  // The notice of the end always succeeds and would make what is batched with it look so too.
  grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
  close.data.recv_close_on_server.cancelled = &call->cancelled;
  queue_start_batch(grpc, &close, 1, &call->closed);
  step(call, execute_start(&call->state));
  if (server_call_must_drain(&call->base)) {
    step(call, execute_drain(&call->state));
  }
}
