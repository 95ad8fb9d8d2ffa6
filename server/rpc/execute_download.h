// Which bytes of a job's output are to be sent next. Pure; one thread at a time.
#ifndef ACLNN_SERVER_RPC_EXECUTE_DOWNLOAD_H
#define ACLNN_SERVER_RPC_EXECUTE_DOWNLOAD_H

#include "kernels/operator.h"

struct execute_download {
  const struct plan *plan; // borrowed
  int64_t chunk_bytes_max; // raw bytes of a piece
  size_t tensor;           // the next piece is of this tensor or a later one
  int64_t offset;
  int64_t passed_bytes; // of all tensors
};

struct execute_piece {
  uint32_t tensor_index;
  int64_t offset;
  int64_t bytes; // above 0
};

void execute_download_init(struct execute_download *download, const struct plan *plan,
                           int64_t chunk_bytes_max);

// The next piece, without going past it; false when all output was sent.
bool execute_download_peek(struct execute_download *download, struct execute_piece *piece);
void execute_download_advance(struct execute_download *download, const struct execute_piece *piece);

#endif
