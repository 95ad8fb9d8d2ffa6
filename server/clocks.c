#include "server/clocks.h"

#include <time.h>

static int64_t read_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_steady_ns(void *context) {
  (void)context;
  return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_steady_coarse_ns(void *context) {
  (void)context;
  return read_ns(CLOCK_MONOTONIC_COARSE);
}

int64_t clock_steady_coarse_ms(void *context) {
  return clock_steady_coarse_ns(context) / 1000000;
}

int64_t clock_unix_ms(void *context) {
  (void)context;
  return read_ns(CLOCK_REALTIME) / 1000000;
}
