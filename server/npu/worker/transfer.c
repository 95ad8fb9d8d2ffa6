#include "server/npu/worker/transfer.h"

#include "server/npu/worker/acl_failure.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

// What is copied to find the faster way, and how often: the best time counts, since the first pays for pages.
#define MEASURED_BYTES ((size_t)4 << 20)
#define MEASURED_TIMES 3

static bool wait_for_stream(struct transfer *transfer, struct status *status) {
  int32_t number =
      transfer->functions->aclrtSynchronizeStreamWithTimeout(transfer->stream, transfer->sync_timeout_ms);
  if (number != ACL_STATUS_SUCCESS) {
    return acl_failure(transfer->functions, "aclrtSynchronizeStreamWithTimeout", number, status);
  }
  transfer->travelling = false;
  return true;
}

bool transfer_synchronise(struct transfer *transfer, struct status *status) {
  if (!wait_for_stream(transfer, status)) {
    return false;
  }
  transfer->used = 0;
  return true;
}

static bool copy(struct transfer *transfer, void *to, const void *from, size_t bytes,
                 enum acl_memcpy_kind kind, struct status *status) {
  int32_t number = transfer->functions->aclrtMemcpyAsync(to, bytes, from, bytes, kind, transfer->stream);
  return number == ACL_STATUS_SUCCESS || acl_failure(transfer->functions, "aclrtMemcpyAsync", number, status);
}

// Small tensors share a half. A half is filled while the other travels, and sent once that has arrived: so
// the next one to be filled is always free.
static bool upload_staged(struct transfer *transfer, const struct transfer_piece *piece,
                          struct status *status) {
  for (size_t done = 0; done < piece->bytes;) {
    if (transfer->used == TRANSFER_HALF_BYTES) {
      transfer->half ^= 1;
      transfer->used = 0;
      transfer->travelling = true;
    }
    size_t room = TRANSFER_HALF_BYTES - transfer->used;
    size_t bytes = piece->bytes - done < room ? piece->bytes - done : room;
    uint8_t *staged = transfer->staging + transfer->half * TRANSFER_HALF_BYTES + transfer->used;
    memcpy(staged, piece->host + done, bytes);
    if ((transfer->travelling && !wait_for_stream(transfer, status)) ||
        !copy(transfer, piece->device + done, staged, bytes, ACL_MEMCPY_HOST_TO_DEVICE, status)) {
      return false;
    }
    done += bytes;
    // The next one begins as aligned as the tensors do.
    transfer->used = (transfer->used + bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  }
  return true;
}

bool transfer_upload(struct transfer *transfer, const struct transfer_piece *piece, struct status *status) {
  if (transfer->way == TRANSFER_STAGED) {
    return upload_staged(transfer, piece, status);
  }
  return copy(transfer, piece->device, piece->host, piece->bytes, ACL_MEMCPY_HOST_TO_DEVICE, status);
}

// While one half travels the other is emptied.
static bool download_staged(struct transfer *transfer, const struct transfer_piece *pieces, size_t count,
                            struct status *status) {
  uint8_t *arriving_for = NULL;
  size_t arriving_bytes = 0;
  size_t half = 0;
  for (size_t i = 0; i < count; i++) {
    for (size_t done = 0; done < pieces[i].bytes;) {
      size_t left = pieces[i].bytes - done;
      size_t bytes = left < TRANSFER_HALF_BYTES ? left : TRANSFER_HALF_BYTES;
      uint8_t *other = transfer->staging + (half ^ 1) * TRANSFER_HALF_BYTES;
      // The first wait is for what ran before and for uploads that are in the halves.
      if (!transfer_synchronise(transfer, status) ||
          !copy(transfer, transfer->staging + half * TRANSFER_HALF_BYTES, pieces[i].device + done, bytes,
                ACL_MEMCPY_DEVICE_TO_HOST, status)) {
        return false;
      }
      if (arriving_bytes > 0) {
        memcpy(arriving_for, other, arriving_bytes);
      }
      arriving_for = pieces[i].host + done;
      arriving_bytes = bytes;
      half ^= 1;
      done += bytes;
    }
  }
  if (!transfer_synchronise(transfer, status)) {
    return false;
  }
  if (arriving_bytes > 0) {
    memcpy(arriving_for, transfer->staging + (half ^ 1) * TRANSFER_HALF_BYTES, arriving_bytes);
  }
  return true;
}

bool transfer_download(struct transfer *transfer, const struct transfer_piece *pieces, size_t count,
                       struct status *status) {
  if (transfer->way == TRANSFER_STAGED) {
    return download_staged(transfer, pieces, count, status);
  }
  for (size_t i = 0; i < count; i++) {
    if (!copy(transfer, pieces[i].host, pieces[i].device, pieces[i].bytes, ACL_MEMCPY_DEVICE_TO_HOST,
              status)) {
      return false;
    }
  }
  return transfer_synchronise(transfer, status);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Nanoseconds of the best round trip in that way, negative on failure.
static int64_t measure(struct transfer *transfer, enum transfer_way way, const struct transfer_piece *piece,
                       struct status *status) {
  int64_t best = -1;
  transfer->way = way;
  for (int i = 0; i < MEASURED_TIMES; i++) {
    int64_t begin = now_ns();
    if (!transfer_upload(transfer, piece, status) || !transfer_synchronise(transfer, status) ||
        !transfer_download(transfer, piece, 1, status)) {
      return -1;
    }
    int64_t taken = now_ns() - begin;
    best = best < 0 || taken < best ? taken : best;
  }
  return best;
}

// With memory of the arena's kind: shared pages.
static bool choose_way(struct transfer *transfer, struct status *status) {
  void *device = NULL;
  void *host = mmap(NULL, MEASURED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory to measure copies with");
  }
  int64_t direct = -1, staged = -1;
  int32_t number = transfer->functions->aclrtMalloc(&device, MEASURED_BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
  if (number != ACL_STATUS_SUCCESS) {
    acl_failure(transfer->functions, "aclrtMalloc", number, status);
  } else {
    struct transfer_piece piece = {.host = host, .device = device, .bytes = MEASURED_BYTES};
    memset(host, 1, MEASURED_BYTES);
    direct = measure(transfer, TRANSFER_DIRECT, &piece, status);
    staged = direct < 0 ? -1 : measure(transfer, TRANSFER_STAGED, &piece, status);
    transfer->functions->aclrtFree(device);
  }
  munmap(host, MEASURED_BYTES);
  transfer->way = direct <= staged ? TRANSFER_DIRECT : TRANSFER_STAGED;
  return direct >= 0 && staged >= 0;
}

bool transfer_open(const struct acl_functions *functions, aclrtStream stream, int32_t sync_timeout_ms,
                   enum transfer_way way, struct transfer *transfer, struct status *status) {
  *transfer = (struct transfer){
      .functions = functions, .stream = stream, .sync_timeout_ms = sync_timeout_ms, .way = TRANSFER_DIRECT};
  if (way == TRANSFER_DIRECT) {
    return true;
  }
  void *staging = NULL;
  if (functions->aclrtMallocHost(&staging, 2 * TRANSFER_HALF_BYTES) != ACL_STATUS_SUCCESS) {
    return true;
  }
  transfer->staging = staging;
  transfer->way = TRANSFER_STAGED;
  if (way == TRANSFER_MEASURED && !choose_way(transfer, status)) {
    transfer_close(transfer);
    return false;
  }
  if (transfer->way == TRANSFER_DIRECT) {
    transfer_close(transfer);
  }
  return true;
}

void transfer_close(struct transfer *transfer) {
  if (transfer->staging != NULL) {
    transfer->functions->aclrtFreeHost(transfer->staging);
    transfer->staging = NULL;
  }
}
