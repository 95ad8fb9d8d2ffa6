// Copies between the arena's mapping and the device, on the device's stream.
//
// Two ways give the same bytes: straight from and to the mapping, or through a staging buffer of pinned
// memory in two halves, of which one is filled while the other travels. Only a measurement on the device
// tells which is faster. Belongs to the device's thread. An upload has arrived once the stream was
// synchronised; transfer_download itself synchronises.
#ifndef ACLNN_SERVER_NPU_WORKER_TRANSFER_H
#define ACLNN_SERVER_NPU_WORKER_TRANSFER_H

#include "server/npu/acl/acl_library.h"

// Large enough to be copied at full speed, small enough to stay in a core's cache between the two copies.
#define TRANSFER_HALF_BYTES ((size_t)1 << 20)

enum transfer_way { TRANSFER_MEASURED, TRANSFER_DIRECT, TRANSFER_STAGED };

struct transfer {
  const struct acl_functions *functions;
  aclrtStream stream;
  int32_t sync_timeout_ms;
  enum transfer_way way; // DIRECT or STAGED
  uint8_t *staging;      // NULL unless STAGED
  size_t half;           // that is being filled
  size_t used;           // of it
  bool travelling;       // the other half may still be on its way
};

struct transfer_piece {
  uint8_t *host;
  uint8_t *device;
  size_t bytes;
};

// MEASURED tries both ways with copies of a few megabytes. Where no pinned memory is to be had the way is
// DIRECT. Fails as the failed call says.
MUST_CHECK bool transfer_open(const struct acl_functions *functions, aclrtStream stream,
                              int32_t sync_timeout_ms, enum transfer_way way, struct transfer *transfer,
                              struct status *status);
void transfer_close(struct transfer *transfer);

// The host's bytes must stay as they are until the stream was synchronised.
MUST_CHECK bool transfer_upload(struct transfer *transfer, const struct transfer_piece *piece,
                                struct status *status);

// Waits for everything on the stream, then all bytes are on the host.
MUST_CHECK bool transfer_download(struct transfer *transfer, const struct transfer_piece *pieces,
                                  size_t count, struct status *status);

// Waits for everything on the stream. Faults of what ran there are found here.
MUST_CHECK bool transfer_synchronise(struct transfer *transfer, struct status *status);

#endif
