#include "server/rpc/execute_step.h"

#include <assert.h>

static const struct execute_job_state *job_at(const struct execute_state *state, uint64_t job) {
  return &state->jobs[job % EXECUTE_JOBS_MAX];
}

struct execute_job_state *execute_job(struct execute_state *state, uint64_t job) {
  return &state->jobs[job % EXECUTE_JOBS_MAX];
}

static uint64_t end_of_jobs(const struct execute_state *state) {
  return state->first_job + state->job_count;
}

static const struct execute_job_state *last_job(const struct execute_state *state) {
  return state->job_count == 0 ? NULL : job_at(state, end_of_jobs(state) - 1);
}

static bool exists(const struct execute_state *state, uint64_t job) {
  return job >= state->first_job && job < end_of_jobs(state);
}

// True if the last job still lacks input.
static bool awaits_input(const struct execute_state *state) {
  const struct execute_job_state *last = last_job(state);
  return last != NULL && last->stage <= EXECUTE_JOB_UPLOADING;
}

uint64_t execute_current_job(const struct execute_state *state) {
  return awaits_input(state) ? end_of_jobs(state) - 1 : end_of_jobs(state);
}

bool execute_failure_counts(const struct execute_state *state, uint64_t job) {
  return state->phase <= EXECUTE_FAILING && job < state->failed_job;
}

enum execute_fault execute_take_fault(struct execute_state *state) {
  enum execute_fault fault = state->fault;
  state->fault = EXECUTE_FAULT_NONE;
  return fault;
}

// Jobs from number `job` on are no more. A dispatcher's answer may still be owed for them.
static unsigned drop_jobs(struct execute_state *state, uint64_t job) {
  unsigned todo = 0;
  while (end_of_jobs(state) > job && state->job_count > 0) {
    struct execute_job_state *last = execute_job(state, end_of_jobs(state) - 1);
    *last = (struct execute_job_state){.waiting = last->waiting};
    --state->job_count;
    todo |= EXECUTE_DO_DROP;
  }
  return todo;
}

static unsigned discard_message(struct execute_state *state) {
  bool had = state->message;
  state->message = false;
  return had ? EXECUTE_DO_DISCARD : 0;
}

static unsigned fail(struct execute_state *state, uint64_t job, enum execute_fault fault) {
  if (!execute_failure_counts(state, job)) {
    return 0;
  }
  state->phase = EXECUTE_FAILING;
  state->failed_job = job;
  state->fault = fault;
  return drop_jobs(state, job) | discard_message(state);
}

static unsigned abandon(struct execute_state *state, enum execute_fault fault) {
  if (state->phase == EXECUTE_OVER || state->phase == EXECUTE_ABANDONED) {
    return 0;
  }
  // A status that is under way comes back by itself, cancelled or not.
  state->phase = EXECUTE_ABANDONED;
  state->fault = fault;
  return EXECUTE_DO_CANCEL | drop_jobs(state, state->first_job) | discard_message(state);
}

// Executors are used up, and jobs run, once all earlier jobs ended well.
static unsigned advance_jobs(struct execute_state *state) {
  unsigned todo = 0;
  for (uint64_t number = state->first_job; number < end_of_jobs(state); ++number) {
    struct execute_job_state *job = execute_job(state, number);
    if (job->stage >= EXECUTE_JOB_UPLOADING && !job->consumed) {
      job->consumed = true;
      todo |= EXECUTE_DO_CONSUME;
    }
    if (job->stage == EXECUTE_JOB_UPLOADED) {
      job->stage = EXECUTE_JOB_RUNNING;
      todo |= EXECUTE_DO_SUBMIT;
    }
    if (job->stage != EXECUTE_JOB_ENDED) {
      break;
    }
  }
  return todo;
}

static unsigned advance_sending(struct execute_state *state) {
  if (state->job_count == 0 || (state->pending & EXECUTE_PENDING_SEND) != 0) {
    return 0;
  }
  struct execute_job_state *first = execute_job(state, state->first_job);
  bool more_input_awaited = first->stage == EXECUTE_JOB_UPLOADING && !state->message;
  if (first->stage != EXECUTE_JOB_ENDED && !(more_input_awaited && !first->accepted)) {
    return 0;
  }
  first->accepted = true;
  state->pending |= EXECUTE_PENDING_SEND;
  return EXECUTE_DO_SEND;
}

static unsigned advance_receiving(struct execute_state *state) {
  if (state->phase != EXECUTE_OPEN || state->input_ended || state->message ||
      (state->pending & EXECUTE_PENDING_RECEIVE) != 0) {
    return 0;
  }
  const struct execute_job_state *last = last_job(state);
  bool wanted = last == NULL || last->stage == EXECUTE_JOB_UPLOADING ||
                (last->stage > EXECUTE_JOB_UPLOADING && state->job_count < EXECUTE_JOBS_MAX);
  if (!wanted) {
    return 0;
  }
  state->pending |= EXECUTE_PENDING_RECEIVE;
  return EXECUTE_DO_RECEIVE;
}

static unsigned advance_ending(struct execute_state *state) {
  unsigned todo = 0;
  bool answered = state->job_count == 0 && (state->pending & EXECUTE_PENDING_SEND) == 0;
  if (state->phase == EXECUTE_OPEN && answered && state->draining && !state->input_ended) {
    todo |= fail(state, state->first_job, EXECUTE_FAULT_DRAINING);
  }
  if (answered && (state->phase == EXECUTE_FAILING || (state->phase == EXECUTE_OPEN && state->input_ended))) {
    state->phase = EXECUTE_CLOSING;
    state->pending |= EXECUTE_PENDING_STATUS;
    todo |= EXECUTE_DO_STATUS;
  }
  return todo;
}

// What follows from the state after any event.
static unsigned settle(struct execute_state *state, unsigned todo) {
  if (state->phase == EXECUTE_OPEN || state->phase == EXECUTE_FAILING) {
    todo |= advance_jobs(state);
    todo |= advance_sending(state);
    todo |= advance_ending(state);
    todo |= advance_receiving(state);
  }
  bool owed = state->jobs[0].waiting || state->jobs[1].waiting;
  if ((state->phase == EXECUTE_CLOSING || state->phase == EXECUTE_ABANDONED) && state->pending == 0 &&
      !owed) {
    state->phase = EXECUTE_OVER;
    todo |= EXECUTE_DO_RELEASE;
  }
  execute_check(state);
  return todo;
}

unsigned execute_start(struct execute_state *state) {
  *state = (struct execute_state){.failed_job = UINT64_MAX, .pending = EXECUTE_PENDING_CLOSE};
  return settle(state, 0);
}

unsigned execute_received(struct execute_state *state, enum execute_content content) {
  assert(state->pending & EXECUTE_PENDING_RECEIVE);
  state->pending &= ~(unsigned)EXECUTE_PENDING_RECEIVE;
  state->message = true;
  if (state->phase != EXECUTE_OPEN) {
    return settle(state, discard_message(state));
  }
  unsigned todo = 0;
  uint64_t current = execute_current_job(state);
  if (content == EXECUTE_CONTENT_INVALID) {
    todo = fail(state, current, EXECUTE_FAULT_NONE);
  } else if (content == EXECUTE_CONTENT_NOTHING) {
    todo = fail(state, current, EXECUTE_FAULT_EMPTY_MESSAGE);
  } else if (content == EXECUTE_CONTENT_BEGIN && awaits_input(state)) {
    todo = fail(state, current, EXECUTE_FAULT_BEGIN_TOO_EARLY);
  } else if (content == EXECUTE_CONTENT_BEGIN) {
    *execute_job(state, current) = (struct execute_job_state){.stage = EXECUTE_JOB_PLANNING};
    ++state->job_count;
    todo = EXECUTE_DO_BEGIN;
  } else if (awaits_input(state)) {
    todo = EXECUTE_DO_TAKE;
  } else {
    todo = fail(state, current, current == 0 ? EXECUTE_FAULT_CHUNK_BEFORE_BEGIN : EXECUTE_FAULT_SURPLUS);
  }
  return settle(state, todo);
}

unsigned execute_half_closed(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_RECEIVE);
  state->pending &= ~(unsigned)EXECUTE_PENDING_RECEIVE;
  state->input_ended = true;
  unsigned todo = 0;
  if (state->phase == EXECUTE_OPEN && awaits_input(state)) {
    todo = fail(state, execute_current_job(state), EXECUTE_FAULT_HALF_CLOSED_EARLY);
  }
  return settle(state, todo);
}

unsigned execute_receive_failed(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_RECEIVE);
  state->pending &= ~(unsigned)EXECUTE_PENDING_RECEIVE;
  // After our own status the client has no reason to send on.
  bool ours = state->phase == EXECUTE_CLOSING;
  return settle(state, ours ? 0 : abandon(state, EXECUTE_FAULT_NONE));
}

void execute_job_waits(struct execute_state *state, uint64_t job) {
  assert(exists(state, job) && !execute_job(state, job)->waiting);
  execute_job(state, job)->waiting = true;
}

// True if the answered job still exists, in the stage where such an answer is due.
static bool answer(struct execute_state *state, uint64_t job, enum execute_job_stage stage) {
  execute_job(state, job)->waiting = false;
  if (!exists(state, job)) {
    return false;
  }
  assert(execute_job(state, job)->stage == stage);
  return true;
}

unsigned execute_planned(struct execute_state *state, uint64_t job) {
  if (!answer(state, job, EXECUTE_JOB_PLANNING)) {
    return settle(state, EXECUTE_DO_DROP);
  }
  execute_job(state, job)->stage = EXECUTE_JOB_RESERVING;
  return settle(state, EXECUTE_DO_RESERVE);
}

unsigned execute_reserved(struct execute_state *state, uint64_t job) {
  if (!answer(state, job, EXECUTE_JOB_RESERVING)) {
    return settle(state, EXECUTE_DO_DROP);
  }
  assert(state->message);
  execute_job(state, job)->stage = EXECUTE_JOB_UPLOADING;
  return settle(state, EXECUTE_DO_TAKE);
}

unsigned execute_ended(struct execute_state *state, uint64_t job) {
  if (!answer(state, job, EXECUTE_JOB_RUNNING)) {
    return settle(state, EXECUTE_DO_DROP);
  }
  execute_job(state, job)->stage = EXECUTE_JOB_ENDED;
  return settle(state, 0);
}

unsigned execute_failed(struct execute_state *state, uint64_t job) {
  execute_job(state, job)->waiting = false;
  return settle(state, EXECUTE_DO_DROP | fail(state, job, EXECUTE_FAULT_NONE));
}

unsigned execute_taken(struct execute_state *state, bool complete) {
  assert(state->message && awaits_input(state) && (state->pending & EXECUTE_PENDING_TURN) == 0);
  if (complete) {
    execute_job(state, end_of_jobs(state) - 1)->stage = EXECUTE_JOB_UPLOADED;
  }
  return settle(state, discard_message(state));
}

void execute_take_paused(struct execute_state *state) {
  assert(state->message && awaits_input(state) && (state->pending & EXECUTE_PENDING_TURN) == 0);
  state->pending |= EXECUTE_PENDING_TURN;
}

unsigned execute_turned(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_TURN);
  state->pending &= ~(unsigned)EXECUTE_PENDING_TURN;
  return settle(state, state->message ? EXECUTE_DO_TAKE : 0);
}

bool execute_close_with_send(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_SEND);
  state->closes_with_send = state->phase == EXECUTE_OPEN && state->input_ended && state->job_count == 1;
  return state->closes_with_send;
}

bool execute_is_followed(const struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_SEND);
  return state->job_count > 1 && job_at(state, state->first_job + 1)->stage == EXECUTE_JOB_ENDED;
}

unsigned execute_sent(struct execute_state *state, bool done) {
  assert(state->pending & EXECUTE_PENDING_SEND);
  state->pending &= ~(unsigned)EXECUTE_PENDING_SEND;
  if (!done || state->job_count == 0) {
    return settle(state, 0);
  }
  struct execute_job_state *first = execute_job(state, state->first_job);
  assert(first->stage == EXECUTE_JOB_ENDED);
  *first = (struct execute_job_state){.stage = EXECUTE_JOB_NONE};
  ++state->first_job;
  --state->job_count;
  if (state->closes_with_send) {
    state->phase = EXECUTE_CLOSING;
  }
  return settle(state, EXECUTE_DO_DROP);
}

unsigned execute_send_failed(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_SEND);
  state->pending &= ~(unsigned)EXECUTE_PENDING_SEND;
  return settle(state, abandon(state, EXECUTE_FAULT_NONE));
}

unsigned execute_status_sent(struct execute_state *state) {
  assert(state->pending & EXECUTE_PENDING_STATUS);
  state->pending &= ~(unsigned)EXECUTE_PENDING_STATUS;
  return settle(state, 0);
}

unsigned execute_closed(struct execute_state *state, bool cancelled) {
  assert(state->pending & EXECUTE_PENDING_CLOSE);
  state->pending &= ~(unsigned)EXECUTE_PENDING_CLOSE;
  bool ours = (state->phase == EXECUTE_CLOSING || state->closes_with_send) && !cancelled;
  return settle(state, ours ? 0 : abandon(state, EXECUTE_FAULT_NONE));
}

unsigned execute_drain(struct execute_state *state) {
  state->draining = true;
  return settle(state, 0);
}

unsigned execute_receive_timed_out(struct execute_state *state) {
  assert(execute_receive_is_timed(state));
  return settle(state, fail(state, execute_current_job(state), EXECUTE_FAULT_RECEIVE_IDLE));
}

unsigned execute_send_timed_out(struct execute_state *state) {
  assert(execute_send_is_timed(state));
  return settle(state, abandon(state, EXECUTE_FAULT_SEND_IDLE));
}

bool execute_is_resting(const struct execute_state *state) {
  return state->phase == EXECUTE_OPEN && (state->pending & EXECUTE_PENDING_RECEIVE) != 0 &&
         state->job_count == 0;
}

unsigned execute_rested_too_long(struct execute_state *state) {
  assert(execute_is_resting(state));
  return settle(state, fail(state, execute_current_job(state), EXECUTE_FAULT_RESTED_TOO_LONG));
}

bool execute_receive_is_timed(const struct execute_state *state) {
  const struct execute_job_state *last = last_job(state);
  return state->phase == EXECUTE_OPEN && (state->pending & EXECUTE_PENDING_RECEIVE) != 0 && last != NULL &&
         last->stage == EXECUTE_JOB_UPLOADING && last->accepted;
}

bool execute_send_is_timed(const struct execute_state *state) {
  return (state->phase == EXECUTE_OPEN || state->phase == EXECUTE_FAILING) &&
         (state->pending & EXECUTE_PENDING_SEND) != 0;
}

static void check_jobs(const struct execute_state *state) {
  bool earlier_ended = true;
  for (uint64_t number = state->first_job; number < end_of_jobs(state); ++number) {
    const struct execute_job_state *job = job_at(state, number);
    bool last = number + 1 == end_of_jobs(state);
    assert(job->stage != EXECUTE_JOB_NONE);
    assert(last || job->stage > EXECUTE_JOB_UPLOADING);
    assert(job->stage < EXECUTE_JOB_RUNNING || earlier_ended);
    assert(!job->consumed || (earlier_ended && job->stage >= EXECUTE_JOB_UPLOADING));
    assert(job->consumed || job->stage < EXECUTE_JOB_RUNNING);
    assert(!job->accepted || number == state->first_job);
    assert(!job->waiting || (job->stage != EXECUTE_JOB_UPLOADING && job->stage != EXECUTE_JOB_ENDED));
    earlier_ended = earlier_ended && job->stage == EXECUTE_JOB_ENDED;
  }
}

void execute_check(const struct execute_state *state) {
  assert(state->job_count <= EXECUTE_JOBS_MAX);
  check_jobs(state);
  // One side at a time: a message is in hand, or the next one is awaited.
  assert(!state->message || (state->pending & EXECUTE_PENDING_RECEIVE) == 0);
  assert(!state->message || (state->phase == EXECUTE_OPEN && awaits_input(state)));
  // It stays until all of it is taken, or nobody wants the rest.
  assert((state->pending & EXECUTE_PENDING_TURN) == 0 || state->message || state->phase != EXECUTE_OPEN);
  assert(state->phase == EXECUTE_OPEN || state->phase == EXECUTE_ABANDONED || state->input_ended ||
         state->failed_job != UINT64_MAX || state->phase == EXECUTE_OVER);
  assert(state->failed_job == UINT64_MAX || end_of_jobs(state) <= state->failed_job);
  // After the status, or when nobody listens any more, there are no jobs.
  assert(state->phase <= EXECUTE_FAILING || (state->job_count == 0 && !state->message));
  assert(state->phase != EXECUTE_CLOSING || (state->pending & EXECUTE_PENDING_SEND) == 0);
  assert(state->phase != EXECUTE_OVER || state->pending == 0);
}
