// The pure core of an Execute call: what has happened so far, and what is to be done next.
//
// One call is (begin chunk*)* up and (accepted chunk* done)* down. The shell (execute_call.h) tells each
// event through one function, which changes the state and returns a set of things to do, each named by one
// bit; the shell does them and tells how they went as the next event. No function here blocks, allocates or
// knows gRPC. The state belongs to its call and is used by the call's queue thread alone.
//
// Jobs are numbered from 0. At most two exist at a time: the first one not yet answered in full, and one that
// is read ahead. Only the last may lack input, so a message in hand always belongs to the last job.
#ifndef ACLNN_SERVER_RPC_EXECUTE_STEP_H
#define ACLNN_SERVER_RPC_EXECUTE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The job that is answered and the one that is read ahead.
#define EXECUTE_JOBS_MAX 2

// One job:
//
//   NONE --begin--> PLANNING --planned--> RESERVING --reserved--> UPLOADING --last byte--> UPLOADED
//    ^                 |                      |                       |                        |
//    |<-----------failed or dropped-----------+-----------------------+       all earlier jobs ended well
//    |                                                                                         v
//    +<-------------------------------done sent------------------------------- ENDED <--- RUNNING
enum execute_job_stage {
  EXECUTE_JOB_NONE = 0,
  EXECUTE_JOB_PLANNING,  // its begin was read; its executor is looked up, or it is planned
  EXECUTE_JOB_RESERVING, // waits for its memory; its first message is in hand
  EXECUTE_JOB_UPLOADING, // has its memory, lacks input
  EXECUTE_JOB_UPLOADED,  // has its input, an earlier job hasn't ended
  EXECUTE_JOB_RUNNING,
  EXECUTE_JOB_ENDED, // ended well; its responses are sent when it is the first job
};

// The call:
//
//   OPEN --a job fails--> FAILING --earlier jobs answered--> CLOSING --all operations back--> OVER
//    |  \                    |                                  ^                              ^
//    |   +--half-closed, all jobs answered----------------------+                              |
//    +----client gone or stuck, from any phase --> ABANDONED ----------all operations back-----+
enum execute_phase {
  EXECUTE_OPEN = 0,
  EXECUTE_FAILING,   // jobs before failed_job are still answered; nothing more is read
  EXECUTE_CLOSING,   // the status was handed to gRPC
  EXECUTE_ABANDONED, // nobody will be answered; what is pending comes back
  EXECUTE_OVER,      // EXECUTE_DO_RELEASE was said
};

// What the core itself finds wrong. The shell makes a status of it.
enum execute_fault {
  EXECUTE_FAULT_NONE = 0,
  EXECUTE_FAULT_CHUNK_BEFORE_BEGIN,
  EXECUTE_FAULT_BEGIN_TOO_EARLY,
  EXECUTE_FAULT_EMPTY_MESSAGE,
  EXECUTE_FAULT_SURPLUS,           // chunks after the last byte of the job before, without a begin
  EXECUTE_FAULT_HALF_CLOSED_EARLY, // before the last byte
  EXECUTE_FAULT_RECEIVE_IDLE,
  EXECUTE_FAULT_RESTED_TOO_LONG,
  EXECUTE_FAULT_SEND_IDLE,
  EXECUTE_FAULT_DRAINING,
};

// Things to do, in the order in which the shell does them. At most one of the four marked * is in a set: they
// may be answered at once.
enum execute_todo {
  EXECUTE_DO_CANCEL = 1 << 0,  // cancel the gRPC call; with the fault's status if there is one
  EXECUTE_DO_DROP = 1 << 1,    // give up what jobs of stage NONE still have
  EXECUTE_DO_DISCARD = 1 << 2, // free the message in hand
  EXECUTE_DO_CONSUME = 1 << 3, // consume the executors of jobs that are marked so
  EXECUTE_DO_RECEIVE = 1 << 4, // start receiving a message
  EXECUTE_DO_SEND = 1 << 5,    // send the next message of the first job
  EXECUTE_DO_STATUS = 1 << 6,  // send the status: the failure, or OK
  EXECUTE_DO_BEGIN = 1 << 7,   // * plan the last job from the message in hand
  EXECUTE_DO_RESERVE = 1 << 8, // * ask for the last job's memory
  EXECUTE_DO_TAKE = 1 << 9,    // * copy the chunks of the message in hand
  EXECUTE_DO_SUBMIT = 1 << 10, // * run the job that is RUNNING
  EXECUTE_DO_RELEASE = 1 << 11,
};

// What is under way and comes back: gRPC's operations, and the queue's next turn.
enum execute_pending {
  EXECUTE_PENDING_RECEIVE = 1 << 0,
  EXECUTE_PENDING_SEND = 1 << 1,
  EXECUTE_PENDING_STATUS = 1 << 2,
  EXECUTE_PENDING_CLOSE = 1 << 3, // the notice that the call is over for gRPC
  EXECUTE_PENDING_TURN = 1 << 4,  // to take the rest of the message that was in hand
};

struct execute_job_state {
  enum execute_job_stage stage;
  bool waiting;  // an answer of the dispatcher is owed, also after the job was dropped
  bool accepted; // a message with its `accepted` was handed to gRPC
  bool consumed; // its executor is used up
};

struct execute_state {
  enum execute_phase phase;
  enum execute_fault fault; // set by a step that found one; the shell takes it with execute_take_fault
  bool input_ended;         // the client half-closed
  bool message;             // a received message is in hand
  bool draining;
  bool closes_with_send;                           // the message under way takes the status OK along
  uint64_t first_job;                              // number of the first job that isn't answered in full
  unsigned job_count;                              // jobs first_job .. first_job + job_count - 1 exist
  struct execute_job_state jobs[EXECUTE_JOBS_MAX]; // by number modulo EXECUTE_JOBS_MAX
  uint64_t failed_job;                             // UINT64_MAX: none
  unsigned pending;                                // of enum execute_pending
};

// What a received message holds.
enum execute_content {
  EXECUTE_CONTENT_INVALID, // isn't readable: the shell knows why
  EXECUTE_CONTENT_NOTHING,
  EXECUTE_CONTENT_BEGIN, // and perhaps chunks
  EXECUTE_CONTENT_CHUNKS,
};

// Each returns what to do (enum execute_todo).

// The call has begun. The shell has started the notice of its end already.
unsigned execute_start(struct execute_state *state);

// EXECUTE_DO_RECEIVE came back with a message (in hand from now on), at the half-close, or not at all.
unsigned execute_received(struct execute_state *state, enum execute_content content);
unsigned execute_half_closed(struct execute_state *state);
unsigned execute_receive_failed(struct execute_state *state);

// Answers to EXECUTE_DO_BEGIN, _RESERVE and _SUBMIT, for the job of that number. The shell says
// execute_job_waits first when the answer will come later.
void execute_job_waits(struct execute_state *state, uint64_t job);
unsigned execute_planned(struct execute_state *state, uint64_t job);
unsigned execute_reserved(struct execute_state *state, uint64_t job);
unsigned execute_ended(struct execute_state *state, uint64_t job);
// The job failed in whatever it was doing. Whether this failure is the one to tell: execute_failure_counts,
// asked before.
unsigned execute_failed(struct execute_state *state, uint64_t job);

// EXECUTE_DO_TAKE: all chunks of the message were copied. complete: the job has all its input.
unsigned execute_taken(struct execute_state *state, bool complete);
// Or only some of them: the rest is for another turn of the queue, which the shell asks for and tells of.
void execute_take_paused(struct execute_state *state);
unsigned execute_turned(struct execute_state *state);

// For the message of an EXECUTE_DO_SEND that holds its job's last byte: whether the status OK has to go with
// it, because no further job will come. There is no EXECUTE_DO_STATUS then.
bool execute_close_with_send(struct execute_state *state);

// Likewise: whether the next job has ended well too, so that its messages follow at once.
bool execute_is_followed(const struct execute_state *state);

// EXECUTE_DO_SEND came back; done: the message held the job's last byte and its `done`.
unsigned execute_sent(struct execute_state *state, bool done);
unsigned execute_send_failed(struct execute_state *state);

// EXECUTE_DO_STATUS came back, however.
unsigned execute_status_sent(struct execute_state *state);

// The notice that the call is over; cancelled: without our status having reached the client.
unsigned execute_closed(struct execute_state *state, bool cancelled);

// The server stops: a call that rests between jobs ends now, another after the jobs it has.
unsigned execute_drain(struct execute_state *state);

// The operation under way took too long. Only while execute_receive_is_timed or execute_send_is_timed.
unsigned execute_receive_timed_out(struct execute_state *state);
unsigned execute_send_timed_out(struct execute_state *state);

// Whether the idle time-out applies to the receive under way: a started job awaits data and its client knows
// that it may send.
bool execute_receive_is_timed(const struct execute_state *state);
bool execute_send_is_timed(const struct execute_state *state);

// Whether the receive under way is for a job that hasn't begun, and no other is there.
bool execute_is_resting(const struct execute_state *state);
// A call that rests gives way to others. Only while execute_is_resting.
unsigned execute_rested_too_long(struct execute_state *state);

// True if a failure of this job would be the one that ends the call.
bool execute_failure_counts(const struct execute_state *state, uint64_t job);

// The number of the job that a message in hand or on its way belongs to, if it has a begin or not: the last
// job while it lacks input, else the next one.
uint64_t execute_current_job(const struct execute_state *state);

// The fault found by the last step, once.
enum execute_fault execute_take_fault(struct execute_state *state);

struct execute_job_state *execute_job(struct execute_state *state, uint64_t job);

// Asserts what must hold between events.
void execute_check(const struct execute_state *state);

#endif
