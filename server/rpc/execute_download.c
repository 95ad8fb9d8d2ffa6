#include "server/rpc/execute_download.h"

void execute_download_init(struct execute_download *download, const struct plan *plan,
                           int64_t chunk_bytes_max) {
  *download = (struct execute_download){.plan = plan, .chunk_bytes_max = chunk_bytes_max};
}

bool execute_download_peek(struct execute_download *download, struct execute_piece *piece) {
  const struct plan *plan = download->plan;
  for (; download->tensor < plan->tensor_count; ++download->tensor, download->offset = 0) {
    const struct plan_tensor *tensor = &plan->tensors[download->tensor];
    int64_t left = tensor->storage_bytes - download->offset;
    if (tensor->direction == DIRECTION_OUTPUT && tensor->transferred && left > 0) {
      *piece = (struct execute_piece){.tensor_index = (uint32_t)download->tensor,
                                      .offset = download->offset,
                                      .bytes = left < download->chunk_bytes_max ? left
                                                                                : download->chunk_bytes_max};
      return true;
    }
  }
  return false;
}

void execute_download_advance(struct execute_download *download, const struct execute_piece *piece) {
  download->offset += piece->bytes;
  download->passed_bytes += piece->bytes;
}
