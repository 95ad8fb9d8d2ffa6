// What a server answers with: GetWorkspaceSizeResponse, ExecuteAccepted, ExecuteDone.
#include "proto/wire/message_io.h"
#include "proto/wire/message_parts.h"
#include "proto/wire/messages.h"
#include "proto/wire/utf8.h"

static const struct message_rules lenient_rules = {.strict = false};

// ---- GetWorkspaceSizeResponse

static Aclnn__V1__TensorPlan *tensor_plan_compose(const struct tensor_plan *plan,
                                                  struct message_memory *memory) {
  Aclnn__V1__TensorPlan *message = message_memory_take(memory, sizeof *message);
  if (message == NULL) {
    return NULL;
  }
  aclnn__v1__tensor_plan__init(message);
  message->name = text_compose(plan->name, memory);
  message->direction = (Aclnn__V1__Direction)plan->direction;
  message->desc = tensor_desc_compose(&plan->desc, memory);
  message->storage_bytes = plan->storage_bytes;
  message->transferred = plan->transferred;
  return message->name != NULL && message->desc != NULL ? message : NULL;
}

// NULL when memory runs out.
static Aclnn__V1__GetWorkspaceSizeResponse *
workspace_size_compose(const struct workspace_size_response *response, struct message_memory *memory) {
  Aclnn__V1__GetWorkspaceSizeResponse *message = message_memory_take(memory, sizeof *message);
  Aclnn__V1__TensorPlan **tensors = message_memory_array(memory, response->tensor_count, sizeof *tensors);
  if (message == NULL || tensors == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < response->tensor_count; i++) {
    tensors[i] = tensor_plan_compose(&response->tensors[i], memory);
    if (tensors[i] == NULL) {
      return NULL;
    }
  }
  aclnn__v1__get_workspace_size_response__init(message);
  message->executor = (ProtobufCBinaryData){.len = response->executor.size, .data = response->executor.data};
  message->workspace_size = response->workspace_size;
  message->ttl_ms = response->ttl_ms;
  message->expire_unix_ms = response->expire_unix_ms;
  message->target = (Aclnn__V1__Target)response->target;
  message->numerics = (Aclnn__V1__Numerics)response->numerics;
  message->n_tensors = response->tensor_count;
  message->tensors = tensors;
  message->max_chunk_bytes = response->max_chunk_bytes;
  bool ok =
      codec_set_compose(response->accept_codecs, memory, &message->n_accept_codecs, &message->accept_codecs);
  return ok ? message : NULL;
}

bool wire_write_workspace_size_response(const struct workspace_size_response *response,
                                        struct wire_buffer *out, struct status *status) {
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_RESPONSE_MEMORY_MAX);
  const Aclnn__V1__GetWorkspaceSizeResponse *message = workspace_size_compose(response, &memory);
  bool ok = message != NULL ? message_pack(&message->base, out, status) : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

// A client indexes shape and strides by rank: what isn't kept can't be let through.
static bool check_plans(const Aclnn__V1__GetWorkspaceSizeResponse *message, struct status *status) {
  if (message->n_tensors > WIRE_TENSORS_MAX) {
    return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                       "the server planned %zu tensors; at most %d are possible", message->n_tensors,
                       WIRE_TENSORS_MAX);
  }
  for (size_t i = 0; i < message->n_tensors; i++) {
    const Aclnn__V1__TensorDesc *desc = message->tensors[i]->desc;
    if (desc != NULL &&
        (desc->n_shape > TENSOR_RANK_MAX || (desc->n_strides != 0 && desc->n_strides != desc->n_shape))) {
      return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                         "the server planned tensor %zu with %zu dims and %zu strides", i, desc->n_shape,
                         desc->n_strides);
    }
  }
  return true;
}

static bool workspace_size_from_message(const Aclnn__V1__GetWorkspaceSizeResponse *message,
                                        struct workspace_size_response *response, struct status *status) {
  struct wire_buffer executor;
  if (!check_plans(message, status) || !message_copy_bytes(&message->executor, &executor, status)) {
    return false;
  }
  *response = (struct workspace_size_response){
      .executor = executor,
      .workspace_size = message->workspace_size,
      .ttl_ms = message->ttl_ms,
      .expire_unix_ms = message->expire_unix_ms,
      .target = target_from_message(message->target),
      .numerics = numerics_from_message(message->numerics),
      .tensor_count = message->n_tensors,
      .max_chunk_bytes = message->max_chunk_bytes,
      .accept_codecs =
          codec_set_from_message(message->accept_codecs, message->n_accept_codecs) | 1u << CODEC_NONE,
  };
  for (size_t i = 0; i < message->n_tensors; i++) {
    const Aclnn__V1__TensorPlan *from = message->tensors[i];
    struct tensor_plan *plan = &response->tensors[i];
    utf8_copy_shortened(plan->name, sizeof plan->name, from->name);
    plan->direction = direction_from_message(from->direction);
    plan->desc = tensor_desc_from_message(from->desc);
    plan->storage_bytes = from->storage_bytes;
    plan->transferred = from->transferred != 0;
  }
  return true;
}

bool wire_read_workspace_size_response(const uint8_t *data, size_t size,
                                       struct workspace_size_response *response, struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__GetWorkspaceSizeResponse *message =
      (const Aclnn__V1__GetWorkspaceSizeResponse *)message_unpack(
          &aclnn__v1__get_workspace_size_response__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL && workspace_size_from_message(message, response, status);
  message_memory_free(&memory);
  return ok;
}

void workspace_size_response_free(struct workspace_size_response *response) {
  wire_buffer_free(&response->executor);
}

// ---- ExecuteAccepted

bool wire_write_execute_accepted(const struct workspace_size_response *plan, struct wire_buffer *out,
                                 struct status *status) {
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_RESPONSE_MEMORY_MAX);
  Aclnn__V1__ExecuteAccepted message = ACLNN__V1__EXECUTE_ACCEPTED__INIT;
  if (plan != NULL) {
    message.plan = workspace_size_compose(plan, &memory);
  }
  bool ok = plan == NULL || message.plan != NULL ? message_pack(&message.base, out, status)
                                                 : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

bool wire_read_execute_accepted(const uint8_t *data, size_t size, bool *has_plan,
                                struct workspace_size_response *plan, struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__ExecuteAccepted *message = (const Aclnn__V1__ExecuteAccepted *)message_unpack(
      &aclnn__v1__execute_accepted__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok =
      message != NULL && (message->plan == NULL || workspace_size_from_message(message->plan, plan, status));
  if (ok) {
    *has_plan = message->plan != NULL;
  }
  message_memory_free(&memory);
  return ok;
}

// ---- ExecuteDone

bool wire_write_execute_done(const struct execute_done *done, struct wire_buffer *out,
                             struct status *status) {
  Aclnn__V1__ExecuteDone message = ACLNN__V1__EXECUTE_DONE__INIT;
  message.target = (Aclnn__V1__Target)done->target;
  message.numerics = (Aclnn__V1__Numerics)done->numerics;
  message.attempts = done->attempts;
  message.queue_ns = done->queue_ns;
  message.upload_ns = done->upload_ns;
  message.compute_ns = done->compute_ns;
  message.download_ns = done->download_ns;
  return message_pack(&message.base, out, status);
}

bool wire_read_execute_done(const uint8_t *data, size_t size, struct execute_done *done,
                            struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__ExecuteDone *message = (const Aclnn__V1__ExecuteDone *)message_unpack(
      &aclnn__v1__execute_done__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL;
  if (ok) {
    *done = (struct execute_done){.target = target_from_message(message->target),
                                  .numerics = numerics_from_message(message->numerics),
                                  .attempts = message->attempts,
                                  .queue_ns = message->queue_ns,
                                  .upload_ns = message->upload_ns,
                                  .compute_ns = message->compute_ns,
                                  .download_ns = message->download_ns};
  }
  message_memory_free(&memory);
  return ok;
}
