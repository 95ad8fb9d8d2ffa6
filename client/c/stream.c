#include "client/c/stream.h"

#include "client/c/error.h"
#include "client/c/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

// How long a well-ended stream waits for the server's status before it cancels: the results are there
// already.
#define CLOSE_PATIENCE_NS 1000000000LL

// Small jobs are held back, to be sent in one write, while so many others are at the server: it has enough to
// do until they come.
#define BUSY_JOBS 8
#define HELD_JOBS_MAX 8
// Inputs and outputs of such a job, together.
#define SMALL_JOB_BYTES_MAX 4096

static_assert(CHANNEL_PARTS_MAX >= JOB_PARTS_MAX, "a job's message fits into one of the channel's");

struct stream_job {
  struct job *job;
  aclnn_plan *plan; // NULL: it can't be sent again
  struct stream_job *next, *prev;
};

struct aclnn_stream {
  aclnn_client *client;
  struct call_scope opened;  // a cancel since then is meant for this stream
  struct channel_call *call; // NULL once the stream has failed
  struct stream_job *jobs;   // in order: first those that are done, then those at the server, then the held
  struct stream_job *held;   // the first of those that weren't sent yet
  unsigned held_count;
  unsigned jobs_at_server; // sent and not done
  bool sending;            // a message is on its way to gRPC
  size_t sending_bytes;    // of its tensor data
  int64_t sending_since_ns;
  struct codec_choice choice; // for what is sent
  bool sent_last;
  aclnn_error failure; // code 0: none
  int retries;         // so many without a result in between
  int tried;           // since the last result
  bool planned_anew;   // since the last result
  aclnn_error told;    // what the server refused with since then
};

static int64_t now(void *context) {
  (void)context;
  return clock_now_ns();
}

bool stream_open(aclnn_client *client, const struct call_scope *scope, bool ends_at_deadline,
                 aclnn_stream **stream, aclnn_error *error) {
  aclnn_stream *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    return error_fail(error, REASON_INTERNAL, NULL, "no memory for a stream");
  }
  opened->client = client;
  opened->opened = *scope;
  codec_choice_init(&opened->choice, 0, now, NULL);
  if (!channel_call_open(client->channel, scope, SERVICE_METHOD("Execute"), ends_at_deadline, &opened->call,
                         error)) {
    free(opened);
    return false;
  }
  *stream = opened;
  return true;
}

aclnn_client *stream_client(const aclnn_stream *stream) {
  return stream->client;
}

static void free_job(aclnn_stream *stream, struct stream_job *entry, bool deliver, aclnn_summary *summary) {
  DL_DELETE(stream->jobs, entry);
  if (!lease_wait_for(&entry->job->lease, CHANNEL_STUCK_AFTER_NS)) {
    channel_break_connections(stream->client->channel);
  }
  job_finish(entry->job, deliver, summary);
  free(entry->job);
  free(entry);
}

// Ends the call; the failure is kept.
static bool fail(aclnn_stream *stream, aclnn_error *error) {
  stream->failure = *error;
  channel_call_close(stream->call);
  stream->call = NULL;
  return false;
}

static void forget_held(aclnn_stream *stream) {
  stream->held = NULL;
  stream->held_count = 0;
}

// The failure stays: jobs that aren't done are released.
static bool give_up(aclnn_stream *stream, aclnn_error *error) {
  struct stream_job *entry, *next;
  forget_held(stream);
  DL_FOREACH_SAFE(stream->jobs, entry, next) {
    if (!job_is_done(entry->job)) {
      free_job(stream, entry, false, NULL);
    }
  }
  *error = stream->failure;
  return false;
}

static struct job *first_undone(aclnn_stream *stream) {
  struct stream_job *entry;
  DL_FOREACH(stream->jobs, entry) {
    if (!job_is_done(entry->job)) {
      return entry->job;
    }
  }
  return NULL;
}

static void report_progress(const aclnn_stream *stream, const struct job *job) {
  const aclnn_client_options *options = &stream->client->options;
  if (options->progress != NULL) {
    int64_t sent, sent_total, received, received_total;
    job_progress(job, &sent, &sent_total, &received, &received_total);
    options->progress(options->progress_context, sent, sent_total, received, received_total);
  }
}

static bool receive(aclnn_stream *stream, aclnn_error *error) {
  size_t span_count;
  const struct span *spans = channel_call_message(stream->call, &span_count);
  struct job *job = first_undone(stream);
  struct status status;
  if (job == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "the server sent a result that no job waits for");
    return fail(stream, error);
  }
  if (!job_receive(job, spans, span_count, &status)) {
    (void)error_from_status(error, &status);
    return fail(stream, error);
  }
  if (job_is_done(job)) {
    stream->jobs_at_server--;
    stream->tried = 0;
    stream->told.reason[0] = '\0';
    stream->planned_anew = false;
  }
  report_progress(stream, job);
  if (!stream->sent_last || first_undone(stream) != NULL) {
    channel_call_read_on(stream->call);
  }
  return true;
}

static bool ended(aclnn_stream *stream, aclnn_error *error) {
  if (channel_call_result(stream->call, error)) {
    (void)channel_call_fail_incomplete(stream->call, "the server ended the stream before its jobs", error);
  }
  return fail(stream, error);
}

// Waits for one event and does what it asks for.
static bool step(aclnn_stream *stream, const struct call_scope *scope, aclnn_error *error) {
  switch (channel_call_next(stream->call, scope->deadline_ns)) {
  case CHANNEL_SENT:
    stream->sending = false;
    codec_choice_sent(&stream->choice, stream->sending_bytes, clock_now_ns() - stream->sending_since_ns);
    return true;
  case CHANNEL_RECEIVED:
    return receive(stream, error);
  case CHANNEL_TIMED_OUT:
    (void)channel_fail_timed_out(scope, error);
    return fail(stream, error);
  case CHANNEL_ENDED:
    break;
  }
  return ended(stream, error);
}

static void send_message(aclnn_stream *stream, struct job *job, const struct job_message *message,
                         enum channel_send how) {
  struct channel_part parts[JOB_PARTS_MAX];
  for (size_t i = 0; i < message->part_count; i++) {
    const struct message_part *part = &message->parts[i];
    parts[i] = (struct channel_part){part->data, part->size, part->is_tensor ? &job->lease : NULL};
  }
  stream->sending_since_ns = clock_now_ns();
  stream->sending_bytes = message->data_bytes;
  stream->sending = channel_call_send(stream->call, parts, message->part_count, how);
  stream->sent_last = how == CHANNEL_SEND_LAST;
  report_progress(stream, job);
}

static bool refuse(aclnn_stream *stream, struct job *job, aclnn_error *error) {
  job_finish(job, false, NULL);
  free(job);
  *error = stream->failure;
  return false;
}

static struct stream_job *append(aclnn_stream *stream, struct job *job, aclnn_plan *plan,
                                 aclnn_error *error) {
  struct stream_job *entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    job_finish(job, false, NULL);
    free(job);
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a job");
    return NULL;
  }
  entry->job = job;
  entry->plan = plan;
  DL_APPEND(stream->jobs, entry);
  return entry;
}

// `how` counts for the last of the job's messages.
static bool send_job(aclnn_stream *stream, struct job *job, enum channel_send how,
                     const struct call_scope *scope, aclnn_error *error) {
  struct job_message message;
  while (!job_is_sent(job)) {
    if (!stream->sending && job_next_message(job, &stream->choice, &message)) {
      send_message(stream, job, &message, job_is_sent(job) ? how : CHANNEL_SEND);
    } else if (!step(stream, scope, error)) {
      return false;
    }
  }
  stream->jobs_at_server++;
  return true;
}

static bool must_hold(const aclnn_stream *stream) {
  return stream->jobs_at_server > BUSY_JOBS && stream->held_count < HELD_JOBS_MAX;
}

static bool is_small(const struct job *job) {
  int64_t sent, sent_total, received, received_total;
  job_progress(job, &sent, &sent_total, &received, &received_total);
  return sent_total + received_total <= SMALL_JOB_BYTES_MAX;
}

static void hold_job(aclnn_stream *stream, struct stream_job *entry) {
  if (stream->held == NULL) {
    stream->held = entry;
  }
  stream->held_count++;
}

static bool send_held(aclnn_stream *stream, bool last, const struct call_scope *scope, aclnn_error *error) {
  struct stream_job *entry = stream->held;
  forget_held(stream);
  for (; entry != NULL; entry = entry->next) {
    enum channel_send how = entry->next != NULL ? CHANNEL_SEND_WITH_NEXT
                            : last              ? CHANNEL_SEND_LAST
                                                : CHANNEL_SEND;
    if (!send_job(stream, entry->job, how, scope, error)) {
      return false;
    }
  }
  return true;
}

// ---- Sending again what has no result

// The executors of jobs that aren't done may be gone: one-shots were perhaps consumed, and of what the server
// doesn't know it needs another plan.
static void mark_stale_plans(aclnn_stream *stream, bool unknown_to_server) {
  struct stream_job *entry;
  DL_FOREACH(stream->jobs, entry) {
    if (!job_is_done(entry->job) && (unknown_to_server || !entry->plan->request.repeatable)) {
      entry->plan->stale = true;
    }
  }
}

static bool restart_job(aclnn_stream *stream, struct stream_job *entry, const struct call_scope *scope,
                        aclnn_error *error) {
  struct status status;
  if (entry->plan->stale && !plan_renew(stream->client, scope, entry->plan, error)) {
    return fail(stream, error);
  }
  if (!job_restart(entry->job, &entry->plan->response, &status)) {
    (void)error_from_status(error, &status);
    return fail(stream, error);
  }
  return send_job(stream, entry->job, CHANNEL_SEND, scope, error);
}

static bool send_again(aclnn_stream *stream, const struct call_scope *scope, aclnn_error *error) {
  stream->sending = false;
  stream->jobs_at_server = 0;
  forget_held(stream);
  if (!channel_call_open(stream->client->channel, scope, SERVICE_METHOD("Execute"), false, &stream->call,
                         error)) {
    stream->failure = *error;
    return false;
  }
  struct stream_job *entry;
  DL_FOREACH(stream->jobs, entry) {
    // A job that was sent again already can be done by now, but not one of those after it.
    if (!job_is_done(entry->job) && !restart_job(stream, entry, scope, error)) {
      return false;
    }
  }
  return true;
}

// Waits until sending again may help; false if it won't, or mustn't be tried.
static bool await_retry(aclnn_stream *stream, const struct call_scope *scope, bool unknown_to_server) {
  if (stream->tried >= stream->retries ||
      channel_scope_is_cancelled(stream->client->channel, &stream->opened)) {
    return false;
  }
  return unknown_to_server
             ? !stream->planned_anew
             : client_pause_before_retry(stream->client, scope, stream->tried, &stream->failure);
}

// After a failure: sends again what has no result, as often as it may. False if the failure stays.
static bool recover(aclnn_stream *stream, const struct call_scope *scope, aclnn_error *error) {
  do {
    bool unknown_to_server = error_is_unknown_executor(&stream->failure);
    if (!await_retry(stream, scope, unknown_to_server)) {
      error_prefer_told(&stream->failure, &stream->told);
      return give_up(stream, error);
    }
    if (!unknown_to_server) {
      error_remember(&stream->told, &stream->failure);
    }
    stream->tried++;
    stream->planned_anew = stream->planned_anew || unknown_to_server;
    mark_stale_plans(stream, unknown_to_server);
  } while (!send_again(stream, scope, error));
  return true;
}

void stream_retry(aclnn_stream *stream, int retries) {
  stream->retries = retries;
}

bool stream_submit(aclnn_stream *stream, struct job *job, aclnn_plan *plan, bool last,
                   const struct call_scope *scope, aclnn_error *error) {
  assert(!stream->sent_last && (plan != NULL || stream->retries <= 0));
  if (stream->call == NULL) {
    return refuse(stream, job, error);
  }
  struct stream_job *entry = append(stream, job, plan, error);
  if (entry == NULL) {
    return false;
  }
  hold_job(stream, entry);
  if (!last && is_small(job) && must_hold(stream)) {
    return true;
  }
  return send_held(stream, last, scope, error) || recover(stream, scope, error);
}

bool stream_wait(aclnn_stream *stream, const struct call_scope *scope, aclnn_summary *summary,
                 aclnn_error *error) {
  if (stream->jobs == NULL && stream->call != NULL) {
    return error_fail(error, REASON_SEQUENCE_INVALID, NULL, "there is no job to wait for");
  }
  while (stream->jobs == NULL || !job_is_done(stream->jobs->job)) {
    if (stream->call == NULL) {
      *error = stream->failure;
      return false;
    }
    bool ok = must_hold(stream) || send_held(stream, false, scope, error);
    if (!(ok && step(stream, scope, error)) && !recover(stream, scope, error)) {
      return false;
    }
  }
  free_job(stream, stream->jobs, true, summary);
  return true;
}

// Ends the sending side and lets the server finish the call; what it says no longer matters.
static void end_politely(aclnn_stream *stream) {
  struct call_scope patience = {.deadline_ns = clock_now_ns() + CLOSE_PATIENCE_NS};
  aclnn_error ignored;
  while (stream->call != NULL && stream->sending) {
    if (!step(stream, &patience, &ignored)) {
      return;
    }
  }
  if (!stream->sent_last) {
    channel_call_send_end(stream->call);
  }
  while (channel_call_next(stream->call, patience.deadline_ns) == CHANNEL_RECEIVED) {
    channel_call_read_on(stream->call);
  }
}

void stream_close(aclnn_stream *stream) {
  if (stream->call != NULL && stream->jobs == NULL) {
    end_politely(stream);
  }
  if (stream->call != NULL) {
    channel_call_close(stream->call);
  }
  struct stream_job *entry, *next;
  DL_FOREACH_SAFE(stream->jobs, entry, next) {
    free_job(stream, entry, false, NULL);
  }
  free(stream);
}
