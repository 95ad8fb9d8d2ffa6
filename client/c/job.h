// One job of an Execute stream as a pure state machine: which message to send next, what a reply means.
//
// Knows no transport: it hands out messages as parts that point into the caller's tensors and takes replies
// as spans. One thread at a time. It owns its begin message, the plan that a reply brought, and the outputs
// that it allocated until job_finish gives them to the caller's tensors. The caller's tensors and what they
// point to must outlive it.
//
//   sending:    BEGIN -> [AWAIT_PLAN ->] DATA -> SENT      AWAIT_PLAN: sizes come with `accepted`
//   receiving:  AWAIT_ACCEPTED -> DATA -> DONE
#ifndef ACLNN_CLIENT_C_JOB_H
#define ACLNN_CLIENT_C_JOB_H

#include "client/c/aclnn_client.h"
#include "client/c/lease.h"
#include "proto/wire/codec_choice.h"
#include "proto/wire/execute_envelope.h"
#include "proto/wire/messages.h"

// Small tensors share a message: begin, then each tensor's piece with an envelope before it.
#define JOB_CHUNKS_PER_MESSAGE_MAX WIRE_TENSORS_MAX
#define JOB_PARTS_MAX (2 + 2 * JOB_CHUNKS_PER_MESSAGE_MAX)
// Encoded chunks share a message, until they stand for so many whole ones.
#define JOB_ENCODED_CHUNKS_MAX 4

struct message_part {
  const void *data;
  size_t size;
  bool is_tensor; // the caller's tensor, valid until the job ends; else valid until the next message
};

struct job_message {
  struct message_part parts[JOB_PARTS_MAX];
  size_t part_count;
  size_t data_bytes; // of tensors, as they travel
  uint8_t _envelopes[JOB_CHUNKS_PER_MESSAGE_MAX + 1][EXECUTE_ENVELOPE_BYTES_MAX];
  size_t _envelope_count;
};

enum job_sending { JOB_SENDING_BEGIN, JOB_SENDING_AWAIT_PLAN, JOB_SENDING_DATA, JOB_SENDING_SENT };
enum job_receiving { JOB_RECEIVING_AWAIT_ACCEPTED, JOB_RECEIVING_DATA, JOB_RECEIVING_DONE };

struct job_tensor {
  aclnn_tensor *caller; // NULL for one that isn't transferred and wasn't given
  bool transferred;
  enum direction direction;
  uint8_t *data;
  bool allocated; // `data` is ours until job_finish
  int64_t storage_bytes;
  int64_t bytes_done; // sent or received
};

struct job_options {
  int64_t chunk_bytes;       // for what is sent, already within the server's limit
  int64_t reply_chunk_bytes; // asked of the server
  codec_set codecs;          // that may be used, in both directions
};

struct job {
  struct job_options options;
  enum job_sending sending;
  enum job_receiving receiving;
  aclnn_tensor *callers_tensors;
  size_t callers_tensor_count;
  struct job_tensor tensors[WIRE_TENSORS_MAX]; // by tensor_index
  size_t tensor_count;
  bool bound; // sizes and places of all tensors are known
  // Both phases in one: `accepted` has to bring the plan for this. Else NULL.
  const struct operator_request *request;
  struct workspace_size_response reply_plan;
  struct wire_buffer begin;
  size_t send_tensor;      // where sending goes on
  codec_set server_codecs; // that the server decodes; known with the plan
  uint8_t *scratch;        // for encoded chunks, allocated when the first comes
  uint8_t *encoded;        // those of the message being sent, likewise
  struct execute_done done;
  uint64_t workspace_size;
  int64_t wire_bytes_sent, wire_bytes_received; // tensor bytes as they travelled
  struct lease lease;                           // what the transport holds of the inputs
};

void job_init(struct job *job, const struct job_options *options, aclnn_tensor *tensors, size_t tensor_count);

// A job on an executor: the plan is known and checked (plan_check), data follow at once. `tensors` are
// matched by name.
MUST_CHECK bool job_use_plan(struct job *job, const struct workspace_size_response *plan,
                             struct status *status);

// The same job again from its beginning, after its call has ended; the plan is of the same tensors.
MUST_CHECK bool job_restart(struct job *job, const struct workspace_size_response *plan,
                            struct status *status);

// A job of both phases in one. With foreseen plans (request_foresee) the inputs are sent in the first
// message; NULL: only when the server's plan has come. `tensors` are in the request's order. The request must
// outlive the job.
MUST_CHECK bool job_use_request(struct job *job, const struct operator_request *request,
                                const struct tensor_plan *foreseen, size_t foreseen_count,
                                struct status *status);

// The next message to send; false if there is none now. Data are encoded where `choice` finds that it pays;
// NULL: never.
bool job_next_message(struct job *job, struct codec_choice *choice, struct job_message *message);
bool job_is_sent(const struct job *job);

// Takes one message of the server. What breaks the contract fails with INTERNAL, what doesn't fit the
// caller's buffers with ACLNN_ERR_PARAM_INVALID.
MUST_CHECK bool job_receive(struct job *job, const struct span *spans, size_t span_count,
                            struct status *status);
bool job_is_done(const struct job *job);

// Tensor bytes, for progress; totals are 0 while not known.
void job_progress(const struct job *job, int64_t *sent, int64_t *sent_total, int64_t *received,
                  int64_t *received_total);

// Waits until the transport has let go of the inputs and releases all. With `deliver` (the job is done then)
// allocated outputs go to the caller's tensors, outputs that were left to the operator are described there
// and summary (may be NULL) is filled; else allocated outputs are freed.
void job_finish(struct job *job, bool deliver, aclnn_summary *summary);

#endif
