// The clock of the client's deadlines, CLOCK_MONOTONIC, in nanoseconds.
#ifndef ACLNN_CLIENT_C_CLOCK_H
#define ACLNN_CLIENT_C_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CLOCK_NEVER INT64_MAX
#define NANOSECONDS_PER_SECOND 1000000000LL
#define NANOSECONDS_PER_MILLISECOND 1000000LL

int64_t clock_now_ns(void);

// A condition for clock_wait.
void clock_init_condition(pthread_cond_t *condition);
// Waits on it; false if the deadline (CLOCK_NEVER: none) has passed.
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns);

#endif
