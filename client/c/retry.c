#include "client/c/retry.h"

int retry_limit(const aclnn_client_options *options) {
  if (options->retries < 0) {
    return 0;
  }
  return options->retries == 0 ? RETRIES_DEFAULT : options->retries;
}

int64_t retry_pause_ms(int retry, int64_t retry_after_ms, uint32_t random) {
  int64_t pause_ms = RETRY_PAUSE_FIRST_MS;
  for (int i = 0; i < retry && pause_ms < RETRY_PAUSE_MAX_MS; i++) {
    pause_ms *= 2;
  }
  if (pause_ms > RETRY_PAUSE_MAX_MS) {
    pause_ms = RETRY_PAUSE_MAX_MS;
  }
  if (pause_ms < retry_after_ms) {
    pause_ms = retry_after_ms;
  }
  int64_t quarter = pause_ms / 4;
  return pause_ms + (int64_t)(((uint64_t)quarter * random) >> 32);
}
