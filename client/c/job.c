#include "client/c/job.h"

#include "client/c/output_memory.h"
#include "client/c/plan_check.h"
#include "client/c/reply_breach.h"
#include "client/c/request.h"
#include "proto/wire/codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void job_init(struct job *job, const struct job_options *options, aclnn_tensor *tensors,
              size_t tensor_count) {
  memset(job, 0, sizeof *job);
  job->options = *options;
  job->callers_tensors = tensors;
  job->callers_tensor_count = tensor_count;
  lease_init(&job->lease);
}

static aclnn_tensor *find_callers_tensor(struct job *job, const char *name) {
  for (size_t i = 0; i < job->callers_tensor_count; i++) {
    if (job->callers_tensors[i].name != NULL && strcmp(job->callers_tensors[i].name, name) == 0) {
      return &job->callers_tensors[i];
    }
  }
  return NULL;
}

static bool check_room(const struct job_tensor *tensor, const char *name, struct status *status) {
  const aclnn_tensor *caller = tensor->caller;
  if (caller->data == NULL && tensor->direction == DIRECTION_OUTPUT) {
    return true;
  }
  if (caller->data == NULL && tensor->storage_bytes > 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, name, "%s: data is NULL", name);
  }
  if (caller->data_bytes < (uint64_t)tensor->storage_bytes) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                       "%s: data_bytes is %zu, but its storage has %" PRId64 " bytes", name,
                       caller->data_bytes, tensor->storage_bytes);
  }
  return true;
}

static bool allocate_output(struct job_tensor *tensor, const char *name, struct status *status) {
  tensor->data = output_memory_allocate((size_t)tensor->storage_bytes);
  if (tensor->data == NULL) {
    return status_fail(status, REASON_INTERNAL, name, "%s: no memory for %" PRId64 " bytes", name,
                       tensor->storage_bytes);
  }
  tensor->allocated = true;
  return true;
}

// Joins one planned tensor with the caller's.
static bool bind_tensor(struct job *job, struct job_tensor *tensor, const struct tensor_plan *plan,
                        struct status *status) {
  tensor->direction = plan->direction;
  tensor->transferred = plan->transferred;
  tensor->storage_bytes = plan->storage_bytes;
  tensor->caller = find_callers_tensor(job, plan->name);
  if (tensor->caller == NULL) {
    if (!plan->transferred) {
      return true;
    }
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, plan->name,
                       "%s is part of the plan, but no tensor of that name is given", plan->name);
  }
  if (tensor->caller->output != (plan->direction == DIRECTION_OUTPUT)) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, plan->name,
                       "%s is given as an %s, but it is an %s of the operator", plan->name,
                       tensor->caller->output ? "output" : "input",
                       tensor->caller->output ? "input" : "output");
  }
  if (!plan->transferred) {
    return true;
  }
  if (!check_room(tensor, plan->name, status)) {
    return false;
  }
  if (tensor->caller->data == NULL && plan->direction == DIRECTION_OUTPUT) {
    return allocate_output(tensor, plan->name, status);
  }
  tensor->data = tensor->caller->data;
  return true;
}

static bool bind_all(struct job *job, const struct tensor_plan *plans, size_t count, struct status *status) {
  if (job->callers_tensors == NULL && job->callers_tensor_count > 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_NULLPTR, NULL, "tensors is NULL");
  }
  for (size_t i = 0; i < job->callers_tensor_count; i++) {
    const char *name = job->callers_tensors[i].name;
    bool planned = false;
    for (size_t j = 0; name != NULL && j < count; j++) {
      planned = planned || strcmp(plans[j].name, name) == 0;
    }
    if (!planned) {
      return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, name,
                         "%s is given, but no tensor of that name is part of the plan",
                         name == NULL ? "a tensor without a name" : name);
    }
  }
  job->tensor_count = count;
  for (size_t i = 0; i < count; i++) {
    if (!bind_tensor(job, &job->tensors[i], &plans[i], status)) {
      return false;
    }
  }
  job->bound = true;
  return true;
}

static bool write_begin(struct job *job, struct execute_begin *begin, struct status *status) {
  begin->accept_codecs = job->options.codecs;
  begin->max_chunk_bytes = job->options.reply_chunk_bytes;
  return wire_write_execute_begin(begin, &job->begin, status);
}

static void limit_chunks(struct job *job, int64_t limit) {
  if (limit > 0 && job->options.chunk_bytes > limit) {
    job->options.chunk_bytes = limit;
  }
}

bool job_use_plan(struct job *job, const struct workspace_size_response *plan, struct status *status) {
  struct execute_begin begin = {.executor = plan->executor, .workspace_size = plan->workspace_size};
  job->workspace_size = plan->workspace_size;
  job->server_codecs = plan->accept_codecs;
  limit_chunks(job, plan->max_chunk_bytes);
  return bind_all(job, plan->tensors, plan->tensor_count, status) && write_begin(job, &begin, status);
}

bool job_restart(struct job *job, const struct workspace_size_response *plan, struct status *status) {
  struct execute_begin begin = {.executor = plan->executor, .workspace_size = plan->workspace_size};
  job->sending = JOB_SENDING_BEGIN;
  job->receiving = JOB_RECEIVING_AWAIT_ACCEPTED;
  job->send_tensor = 0;
  job->wire_bytes_sent = job->wire_bytes_received = 0;
  for (size_t i = 0; i < job->tensor_count; i++) {
    job->tensors[i].bytes_done = 0;
  }
  job->workspace_size = plan->workspace_size;
  job->server_codecs = plan->accept_codecs;
  limit_chunks(job, plan->max_chunk_bytes);
  wire_buffer_free(&job->begin);
  return write_begin(job, &begin, status);
}

// Binds the inputs as far as needed to send them before the server has spoken.
static bool bind_foreseen(struct job *job, const struct tensor_plan *foreseen, size_t count,
                          struct status *status) {
  job->tensor_count = count;
  for (size_t i = 0; i < count; i++) {
    struct job_tensor *tensor = &job->tensors[i];
    if (foreseen[i].direction == DIRECTION_INPUT && !bind_tensor(job, tensor, &foreseen[i], status)) {
      return false;
    }
  }
  return true;
}

bool job_use_request(struct job *job, const struct operator_request *request,
                     const struct tensor_plan *foreseen, size_t foreseen_count, struct status *status) {
  struct execute_begin begin = {.has_request = true, .request = *request};
  job->request = request;
  if (foreseen != NULL) {
    limit_chunks(job, WIRE_CHUNK_BYTES_DEFAULT); // what every server accepts: its own limit isn't known yet
    if (!bind_foreseen(job, foreseen, foreseen_count, status)) {
      return false;
    }
  }
  return write_begin(job, &begin, status);
}

static void add_part(struct job_message *message, const void *data, size_t size, bool is_tensor) {
  assert(message->part_count < JOB_PARTS_MAX);
  message->parts[message->part_count++] = (struct message_part){data, size, is_tensor};
}

static uint8_t *next_envelope(struct job_message *message) {
  assert(message->_envelope_count < JOB_CHUNKS_PER_MESSAGE_MAX + 1);
  return message->_envelopes[message->_envelope_count++];
}

static bool has_data_left(const struct job_tensor *tensor) {
  return tensor->direction == DIRECTION_INPUT && tensor->transferred &&
         tensor->bytes_done < tensor->storage_bytes;
}

static void skip_what_is_sent(struct job *job) {
  while (job->send_tensor < job->tensor_count && !has_data_left(&job->tensors[job->send_tensor])) {
    job->send_tensor++;
  }
  if (job->send_tensor == job->tensor_count) {
    job->sending = JOB_SENDING_SENT;
  }
}

// Memory for the encoded chunks of one message; NULL: data go plain.
static uint8_t *encoding_memory(struct job *job) {
  if (job->encoded == NULL) {
    job->encoded = malloc((size_t)(JOB_ENCODED_CHUNKS_MAX * job->options.chunk_bytes));
  }
  return job->encoded;
}

// What a message may still take.
struct message_room {
  int64_t wire_bytes, raw_bytes;
  size_t encoded_bytes; // of job->encoded that are used
};

// Encodes the piece if that pays and there is room; else false.
static bool encode_piece(struct job *job, struct codec_choice *choice, const uint8_t *source, int64_t size,
                         const struct message_room *room, struct tensor_chunk *chunk) {
  if (choice == NULL) {
    return false;
  }
  if (chunk->offset == 0) {
    codec_choice_next_tensor(choice);
  }
  choice->accepted = job->server_codecs & job->options.codecs;
  size_t needed = codec_choice_room(choice, source, (size_t)size);
  if (needed == 0 || encoding_memory(job) == NULL) {
    return false;
  }
  size_t left = (size_t)(JOB_ENCODED_CHUNKS_MAX * job->options.chunk_bytes) - room->encoded_bytes;
  chunk->data_bytes = codec_choice_encode(choice, source, (size_t)size, job->encoded + room->encoded_bytes,
                                          needed < left ? needed : left, &chunk->codec);
  chunk->raw_bytes = size;
  return chunk->data_bytes > 0 && (int64_t)chunk->data_bytes <= room->wire_bytes;
}

// Adds the next piece of the tensor; returns false if the message is full before.
static bool add_piece(struct job *job, struct codec_choice *choice, struct message_room *room,
                      struct job_message *message) {
  struct job_tensor *tensor = &job->tensors[job->send_tensor];
  const uint8_t *source = tensor->data + tensor->bytes_done;
  int64_t left = tensor->storage_bytes - tensor->bytes_done;
  int64_t size = left < job->options.chunk_bytes ? left : job->options.chunk_bytes;
  struct tensor_chunk chunk = {.tensor_index = (uint32_t)job->send_tensor, .offset = tensor->bytes_done};
  if (size > room->raw_bytes) {
    return false;
  }
  bool encoded = encode_piece(job, choice, source, size, room, &chunk);
  if (!encoded) {
    size = size < room->wire_bytes ? size : room->wire_bytes;
    chunk.codec = CODEC_NONE;
    chunk.raw_bytes = 0;
    chunk.data_bytes = (size_t)size;
  }
  uint8_t *envelope = next_envelope(message);
  add_part(message, envelope, execute_chunk_write_header(&chunk, envelope), false);
  add_part(message, encoded ? job->encoded + room->encoded_bytes : source, chunk.data_bytes, !encoded);
  room->encoded_bytes += encoded ? chunk.data_bytes : 0;
  room->wire_bytes -= (int64_t)chunk.data_bytes;
  room->raw_bytes -= size;
  tensor->bytes_done += size;
  message->data_bytes += chunk.data_bytes;
  return true;
}

// Fills the message with pieces of tensors, together at most one chunk's worth as they travel.
static void add_chunks(struct job *job, struct codec_choice *choice, struct job_message *message) {
  struct message_room room = {
      .wire_bytes = job->options.chunk_bytes,
      .raw_bytes = JOB_ENCODED_CHUNKS_MAX * job->options.chunk_bytes,
  };
  size_t chunks = 0;
  skip_what_is_sent(job);
  while (job->sending == JOB_SENDING_DATA && room.wire_bytes > 0 && chunks < JOB_CHUNKS_PER_MESSAGE_MAX &&
         add_piece(job, choice, &room, message)) {
    chunks++;
    skip_what_is_sent(job);
  }
  job->wire_bytes_sent += (int64_t)message->data_bytes;
}

bool job_next_message(struct job *job, struct codec_choice *choice, struct job_message *message) {
  message->part_count = 0;
  message->data_bytes = 0;
  message->_envelope_count = 0;
  if (job->sending == JOB_SENDING_BEGIN) {
    uint8_t *envelope = next_envelope(message);
    add_part(message, envelope, execute_part_write_header(1, job->begin.size, envelope), false);
    add_part(message, job->begin.data, job->begin.size, false);
    // With sizes from nowhere (both phases in one, nothing foreseen) the server speaks first.
    job->sending = job->tensor_count == 0 && !job->bound ? JOB_SENDING_AWAIT_PLAN : JOB_SENDING_DATA;
  }
  if (job->sending == JOB_SENDING_DATA) {
    add_chunks(job, choice, message);
  }
  return message->part_count > 0;
}

bool job_is_sent(const struct job *job) {
  return job->sending == JOB_SENDING_SENT;
}

static bool breach(struct status *status, const char *what) {
  return status_fail(status, REASON_INTERNAL, NULL, REPLY_BREACH "%s", what);
}

// What was sent ahead has to be what the server planned.
static bool check_foreseen(const struct job *job, const struct workspace_size_response *plan,
                           struct status *status) {
  for (size_t i = 0; i < plan->tensor_count && i < job->tensor_count; i++) {
    const struct job_tensor *foreseen = &job->tensors[i];
    const struct tensor_plan *planned = &plan->tensors[i];
    if (foreseen->direction == DIRECTION_INPUT &&
        (foreseen->transferred != planned->transferred ||
         (foreseen->transferred && foreseen->storage_bytes != planned->storage_bytes))) {
      return breach(status, "its plan differs from the operator's description");
    }
  }
  return true;
}

static bool bind_reply_plan(struct job *job, struct status *status) {
  const struct workspace_size_response *plan = &job->reply_plan;
  if (!plan_check(job->request, plan, status)) {
    return false;
  }
  job->workspace_size = plan->workspace_size;
  job->server_codecs = plan->accept_codecs;
  limit_chunks(job, plan->max_chunk_bytes);
  if (!check_foreseen(job, plan, status)) {
    return false;
  }
  if (job->sending == JOB_SENDING_AWAIT_PLAN) {
    job->sending = JOB_SENDING_DATA;
  }
  return bind_all(job, plan->tensors, plan->tensor_count, status);
}

// The bytes of a sub-message, joined; the caller frees them.
static uint8_t *join_part(const struct span_cursor *at, size_t size, struct status *status) {
  struct span_cursor cursor = *at;
  uint8_t *bytes = malloc(size > 0 ? size : 1);
  if (bytes == NULL) {
    (void)status_fail(status, REASON_INTERNAL, NULL, "no memory for %zu bytes", size);
    return NULL;
  }
  bool whole = span_read_bytes(&cursor, bytes, size);
  assert(whole); // execute_message_read has checked it
  return bytes;
}

static bool receive_accepted(struct job *job, const struct execute_message *message, struct status *status) {
  if (job->receiving != JOB_RECEIVING_AWAIT_ACCEPTED) {
    return breach(status, "a second `accepted` for one job");
  }
  uint8_t *bytes = join_part(&message->head, message->head_bytes, status);
  if (bytes == NULL) {
    return false;
  }
  bool has_plan = false;
  bool ok = wire_read_execute_accepted(bytes, message->head_bytes, &has_plan, &job->reply_plan, status);
  free(bytes);
  if (!ok) {
    return reply_breach(status);
  }
  if (has_plan != (job->request != NULL)) {
    return breach(status, has_plan ? "a plan that wasn't asked for" : "`accepted` without the plan");
  }
  job->receiving = JOB_RECEIVING_DATA;
  return !has_plan || bind_reply_plan(job, status);
}

static bool ensure_scratch(struct job *job, struct status *status) {
  if (job->scratch == NULL) {
    job->scratch = malloc(WIRE_MESSAGE_BYTES_MAX);
  }
  if (job->scratch == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for %zu bytes", WIRE_MESSAGE_BYTES_MAX);
  }
  return true;
}

static bool receive_chunk(struct job *job, const struct tensor_chunk *chunk, struct status *status) {
  if (job->receiving != JOB_RECEIVING_DATA) {
    return breach(status, "data before `accepted` or after `done`");
  }
  if (chunk->tensor_index >= job->tensor_count ||
      job->tensors[chunk->tensor_index].direction != DIRECTION_OUTPUT) {
    return breach(status, "data for what is no output");
  }
  struct job_tensor *tensor = &job->tensors[chunk->tensor_index];
  if (chunk->offset != tensor->bytes_done || chunk->data_bytes == 0) {
    return breach(status, "a gap, an overlap or an empty chunk in an output");
  }
  if (chunk->codec != CODEC_NONE && (job->options.codecs & (1U << chunk->codec)) == 0) {
    return breach(status, "a codec that wasn't offered");
  }
  if (chunk->codec != CODEC_NONE && !ensure_scratch(job, status)) {
    return false;
  }
  size_t decoded = 0;
  size_t room = (size_t)(tensor->storage_bytes - tensor->bytes_done);
  if (!codec_decode(chunk, tensor->data + tensor->bytes_done, room, job->scratch,
                    job->scratch == NULL ? 0 : WIRE_MESSAGE_BYTES_MAX, &decoded, status)) {
    return reply_breach(status);
  }
  tensor->bytes_done += (int64_t)decoded;
  job->wire_bytes_received += (int64_t)chunk->data_bytes;
  return true;
}

static bool receive_done(struct job *job, const struct execute_message *message, struct status *status) {
  if (job->receiving != JOB_RECEIVING_DATA || job->sending != JOB_SENDING_SENT) {
    return breach(status, "`done` before its time");
  }
  for (size_t i = 0; i < job->tensor_count; i++) {
    const struct job_tensor *tensor = &job->tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT && tensor->bytes_done != tensor->storage_bytes) {
      return breach(status, "an output is incomplete");
    }
  }
  uint8_t *bytes = join_part(&message->done, message->done_bytes, status);
  if (bytes == NULL) {
    return false;
  }
  bool ok = wire_read_execute_done(bytes, message->done_bytes, &job->done, status);
  free(bytes);
  if (!ok) {
    return reply_breach(status);
  }
  job->receiving = JOB_RECEIVING_DONE;
  return true;
}

bool job_receive(struct job *job, const struct span *spans, size_t span_count, struct status *status) {
  struct execute_message message;
  if (!execute_message_read(EXECUTE_MESSAGE_RESPONSE, spans, span_count, &message, status)) {
    return reply_breach(status);
  }
  if (message.has_head && !receive_accepted(job, &message, status)) {
    return false;
  }
  struct tensor_chunk chunk;
  while (execute_message_next_chunk(&message, &chunk)) {
    if (!receive_chunk(job, &chunk, status)) {
      return false;
    }
  }
  return !message.has_done || receive_done(job, &message, status);
}

bool job_is_done(const struct job *job) {
  return job->receiving == JOB_RECEIVING_DONE;
}

void job_progress(const struct job *job, int64_t *sent, int64_t *sent_total, int64_t *received,
                  int64_t *received_total) {
  *sent = *sent_total = *received = *received_total = 0;
  for (size_t i = 0; i < job->tensor_count; i++) {
    const struct job_tensor *tensor = &job->tensors[i];
    if (!tensor->transferred) {
      continue;
    }
    bool output = tensor->direction == DIRECTION_OUTPUT;
    *(output ? received : sent) += tensor->bytes_done;
    *(output ? received_total : sent_total) += tensor->storage_bytes;
  }
}

static void hand_over_outputs(struct job *job) {
  for (size_t i = 0; i < job->tensor_count; i++) {
    struct job_tensor *tensor = &job->tensors[i];
    if (tensor->allocated) {
      tensor->caller->data = tensor->data;
      tensor->caller->data_bytes = (size_t)tensor->storage_bytes;
      tensor->allocated = false;
    }
  }
  if (job->request != NULL) {
    request_write_back(job->reply_plan.tensors, job->reply_plan.tensor_count, job->callers_tensors);
  }
}

static void summarise(const struct job *job, aclnn_summary *summary) {
  *summary = (aclnn_summary){
      .target = (aclnn_target)job->done.target,
      .numerics = (aclnn_numerics)job->done.numerics,
      .attempts = job->done.attempts,
      .workspace_size = job->workspace_size,
      .queue_ns = job->done.queue_ns,
      .upload_ns = job->done.upload_ns,
      .compute_ns = job->done.compute_ns,
      .download_ns = job->done.download_ns,
      .bytes_sent = job->wire_bytes_sent,
      .bytes_received = job->wire_bytes_received,
  };
}

void job_finish(struct job *job, bool deliver, aclnn_summary *summary) {
  lease_wait(&job->lease);
  lease_destroy(&job->lease);
  if (deliver) {
    assert(job_is_done(job));
    hand_over_outputs(job);
    if (summary != NULL) {
      summarise(job, summary);
    }
  }
  for (size_t i = 0; i < job->tensor_count; i++) {
    if (job->tensors[i].allocated) {
      output_memory_free(job->tensors[i].data);
    }
  }
  free(job->scratch);
  free(job->encoded);
  wire_buffer_free(&job->begin);
  workspace_size_response_free(&job->reply_plan);
}
