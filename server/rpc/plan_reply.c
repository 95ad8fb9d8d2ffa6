#include "server/rpc/plan_reply.h"

#include <stdio.h>

void plan_reply_fill(const struct plan *plan, struct workspace_size_response *reply) {
  *reply = (struct workspace_size_response){
      .workspace_size = plan->workspace_bytes,
      .target = plan->target,
      .numerics = plan->numerics,
      .tensor_count = plan->tensor_count,
      .max_chunk_bytes = SERVER_CHUNK_BYTES_MAX,
      .accept_codecs = SERVER_CODECS,
  };
  for (size_t i = 0; i < plan->tensor_count; ++i) {
    const struct plan_tensor *planned = &plan->tensors[i];
    struct tensor_plan *tensor = &reply->tensors[i];
    snprintf(tensor->name, sizeof tensor->name, "%s", plan->definition->parameters[planned->parameter].name);
    tensor->direction = planned->direction;
    tensor->desc = *plan_tensor_desc(plan, i);
    tensor->storage_bytes = planned->storage_bytes;
    tensor->transferred = planned->transferred;
  }
}
