#include "server/rpc/execute_upload.h"

#include <assert.h>
#include <inttypes.h>

static bool is_awaited(const struct plan_tensor *tensor) {
  return tensor->direction == DIRECTION_INPUT && tensor->transferred;
}

static const char *tensor_name(const struct plan *plan, size_t index) {
  return plan->definition->parameters[plan->tensors[index].parameter].name;
}

void execute_upload_init(struct execute_upload *upload, const struct plan *plan) {
  *upload = (struct execute_upload){.plan = plan};
  for (size_t i = 0; i < plan->tensor_count; ++i) {
    if (is_awaited(&plan->tensors[i])) {
      upload->missing_bytes += plan->tensors[i].storage_bytes;
    }
  }
}

static bool check_tensor(const struct plan *plan, uint32_t index, struct status *status) {
  if (index >= plan->tensor_count) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, NULL,
                       "a chunk names tensor_index %" PRIu32 ", the request has %zu tensors", index,
                       plan->tensor_count);
  }
  const struct plan_tensor *tensor = &plan->tensors[index];
  if (tensor->direction != DIRECTION_INPUT) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, tensor_name(plan, index),
                       "%s is an output: no data may be sent for it", tensor_name(plan, index));
  }
  if (!tensor->transferred) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, tensor_name(plan, index),
                       "of %s only the shape is read: no data may be sent for it", tensor_name(plan, index));
  }
  return true;
}

bool execute_upload_check(const struct execute_upload *upload, const struct tensor_chunk *chunk,
                          int64_t chunk_bytes_max, struct status *status) {
  uint32_t index = chunk->tensor_index;
  if (!check_tensor(upload->plan, index, status)) {
    return false;
  }
  const char *name = tensor_name(upload->plan, index);
  bool plain = chunk->codec == CODEC_NONE;
  int64_t raw_bytes = plain && chunk->data_bytes > 0 ? (int64_t)chunk->data_bytes : chunk->raw_bytes;
  int64_t received = upload->received_bytes[index];
  int64_t storage_bytes = upload->plan->tensors[index].storage_bytes;
  if (chunk->data_bytes == 0) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, name, "an empty chunk of %s", name);
  }
  if ((int64_t)chunk->data_bytes > chunk_bytes_max || raw_bytes > chunk_bytes_max) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, name,
                       "a chunk of %s has %zu bytes encoded and %" PRId64
                       " raw, the server takes at most %" PRId64 " (max_chunk_bytes)",
                       name, chunk->data_bytes, raw_bytes, chunk_bytes_max);
  }
  if (chunk->offset != received) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, name,
                       "a chunk of %s has offset %" PRId64 ", %" PRId64 " bytes were received before it",
                       name, chunk->offset, received);
  }
  if (raw_bytes > storage_bytes - received) {
    return status_fail(status, REASON_TENSOR_DATA_INVALID, name,
                       "a chunk of %s brings %" PRId64 " bytes at offset %" PRId64
                       ", the storage has %" PRId64,
                       name, raw_bytes, received, storage_bytes);
  }
  return true;
}

void execute_upload_advance(struct execute_upload *upload, uint32_t tensor_index, size_t decoded_bytes) {
  upload->received_bytes[tensor_index] += (int64_t)decoded_bytes;
  upload->missing_bytes -= (int64_t)decoded_bytes;
  assert(upload->missing_bytes >= 0);
  assert(upload->received_bytes[tensor_index] <= upload->plan->tensors[tensor_index].storage_bytes);
}

bool execute_upload_fail_incomplete(const struct execute_upload *upload, struct status *status) {
  const struct plan *plan = upload->plan;
  for (size_t i = 0; i < plan->tensor_count; ++i) {
    if (is_awaited(&plan->tensors[i]) && upload->received_bytes[i] < plan->tensors[i].storage_bytes) {
      return status_fail(status, REASON_TENSOR_DATA_INVALID, tensor_name(plan, i),
                         "the call was half-closed when %" PRId64 " of %" PRId64 " bytes of %s were received",
                         upload->received_bytes[i], plan->tensors[i].storage_bytes, tensor_name(plan, i));
    }
  }
  return status_fail(status, REASON_TENSOR_DATA_INVALID, NULL, "the call was half-closed too early");
}
