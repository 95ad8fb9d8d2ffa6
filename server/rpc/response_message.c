#include "server/rpc/response_message.h"

#include "server/rpc/limits.h"
#include "server/rpc/plan_reply.h"

#include <assert.h>
#include <stdlib.h>

// The numbers of ExecuteResponse's fields.
enum { FIELD_ACCEPTED = 1, FIELD_DONE = 3 };

// Header and body of `accepted`, of each chunk and of `done`.
#define SLICES_MAX (2 * (RESPONSE_CHUNKS_MAX + 2))

struct builder {
  grpc_slice slices[SLICES_MAX];
  size_t count;
};

static void add_slice(struct builder *builder, grpc_slice slice) {
  assert(builder->count < SLICES_MAX);
  builder->slices[builder->count++] = slice;
}

static void add_part(struct builder *builder, uint32_t field, const struct wire_buffer *part) {
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  size_t size = execute_part_write_header(field, part->size, header);
  add_slice(builder, grpc_slice_from_copied_buffer((const char *)header, size));
  add_slice(builder, grpc_slice_from_copied_buffer((const char *)part->data, part->size));
}

static bool add_accepted(struct builder *builder, const struct execute_job *job, struct status *status) {
  struct wire_buffer part = {0};
  struct workspace_size_response *plan = NULL;
  if (job->plan_in_reply) {
    plan = malloc(sizeof *plan);
    if (plan == NULL) {
      return status_fail(status, REASON_INTERNAL, NULL, "no memory for the plan in the reply");
    }
    plan_reply_fill(job_plan(job->job), plan);
  }
  bool ok = wire_write_execute_accepted(plan, &part, status);
  if (ok) {
    add_part(builder, FIELD_ACCEPTED, &part);
  }
  wire_buffer_free(&part);
  free(plan);
  return ok;
}

static void release_outputs(void *outputs) {
  job_outputs_release(outputs);
}

// The piece encoded, if that pays; else false.
static bool encode_piece(struct codec_choice *choice, const struct execute_piece *piece,
                         const uint8_t *source, struct tensor_chunk *chunk, grpc_slice *encoded) {
  if (piece->offset == 0) {
    codec_choice_next_tensor(choice);
  }
  size_t room = codec_choice_room(choice, source, (size_t)piece->bytes);
  if (room == 0) {
    return false;
  }
  grpc_slice slice = grpc_slice_malloc(room);
  size_t size = codec_choice_encode(choice, source, (size_t)piece->bytes, GRPC_SLICE_START_PTR(slice), room,
                                    &chunk->codec);
  if (size == 0) {
    grpc_slice_unref(slice);
    return false;
  }
  GRPC_SLICE_SET_LENGTH(slice, size);
  chunk->raw_bytes = piece->bytes;
  chunk->data_bytes = size;
  *encoded = slice;
  return true;
}

// Returns the bytes of the piece as they travel.
static size_t add_piece(struct builder *builder, struct execute_job *job, const struct execute_piece *piece,
                        struct codec_choice *choice) {
  uint8_t *source = job_tensor_data(job->job, piece->tensor_index) + piece->offset;
  struct tensor_chunk chunk = {.tensor_index = piece->tensor_index, .offset = piece->offset};
  grpc_slice data;
  if (!encode_piece(choice, piece, source, &chunk, &data)) {
    chunk.codec = CODEC_NONE;
    chunk.data_bytes = (size_t)piece->bytes;
    data =
        grpc_slice_new_with_user_data(source, chunk.data_bytes, release_outputs, job_outputs_hold(job->job));
  }
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  size_t size = execute_chunk_write_header(&chunk, header);
  add_slice(builder, grpc_slice_from_copied_buffer((const char *)header, size));
  add_slice(builder, data);
  return chunk.data_bytes;
}

// Adds chunks as long as they fit; true when there are no more.
static bool add_outputs(struct builder *builder, struct execute_job *job, struct codec_choice *choice,
                        size_t *data_bytes) {
  struct execute_piece piece;
  int64_t raw_bytes = 0, packed_bytes = 0;
  bool more = execute_download_peek(&job->download, &piece);
  for (size_t chunks = 0; more && chunks < RESPONSE_CHUNKS_MAX; ++chunks) {
    bool fits = packed_bytes < RESPONSE_PACK_BYTES_MAX && raw_bytes + piece.bytes <= RESPONSE_RAW_BYTES_MAX &&
                packed_bytes + piece.bytes <= WIRE_CHUNK_BYTES_MAX;
    if (chunks > 0 && !fits) {
      break;
    }
    raw_bytes += piece.bytes;
    packed_bytes += (int64_t)add_piece(builder, job, &piece, choice);
    execute_download_advance(&job->download, &piece);
    more = execute_download_peek(&job->download, &piece);
  }
  *data_bytes = (size_t)packed_bytes;
  return !more;
}

static bool add_done(struct builder *builder, const struct execute_job *job, int64_t now_ns,
                     struct status *status) {
  struct job_summary summary;
  job_get_summary(job->job, &summary);
  struct execute_done done = {.target = summary.target,
                              .numerics = summary.numerics,
                              .attempts = summary.attempts,
                              .queue_ns = summary.queue_ns,
                              .upload_ns = summary.upload_ns,
                              .compute_ns = summary.compute_ns,
                              .download_ns = now_ns - summary.ended_ns};
  struct wire_buffer part = {0};
  if (!wire_write_execute_done(&done, &part, status)) {
    return false;
  }
  add_part(builder, FIELD_DONE, &part);
  wire_buffer_free(&part);
  return true;
}

bool response_message_build(struct execute_job *job, bool accepted, bool outputs, int64_t now_ns,
                            struct codec_choice *choice, struct response_message *message,
                            struct status *status) {
  struct builder builder;
  builder.count = 0;
  message->data_bytes = 0;
  bool ok = !accepted || add_accepted(&builder, job, status);
  bool done = ok && outputs && add_outputs(&builder, job, choice, &message->data_bytes);
  ok = ok && (!done || add_done(&builder, job, now_ns, status));
  if (ok) {
    message->buffer = grpc_raw_byte_buffer_create(builder.slices, builder.count);
    message->done = done;
  }
  for (size_t i = 0; i < builder.count; ++i) {
    grpc_slice_unref(builder.slices[i]);
  }
  return ok;
}
