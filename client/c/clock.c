#include "client/c/clock.h"

#include <errno.h>
#include <time.h>

int64_t clock_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * NANOSECONDS_PER_SECOND + now.tv_nsec;
}

void clock_init_condition(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns) {
  if (deadline_ns == CLOCK_NEVER) {
    pthread_cond_wait(condition, lock);
    return true;
  }
  struct timespec deadline = {.tv_sec = deadline_ns / NANOSECONDS_PER_SECOND,
                              .tv_nsec = deadline_ns % NANOSECONDS_PER_SECOND};
  return pthread_cond_timedwait(condition, lock, &deadline) != ETIMEDOUT;
}
