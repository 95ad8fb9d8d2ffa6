#include "client/c/lease.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#define NANOSECONDS_PER_SECOND 1000000000LL

void lease_init(struct lease *lease) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&lease->_returned, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&lease->_lock, NULL);
  lease->_count = 0;
}

void lease_destroy(struct lease *lease) {
  assert(lease->_count == 0);
  pthread_cond_destroy(&lease->_returned);
  pthread_mutex_destroy(&lease->_lock);
}

void lease_take(struct lease *lease) {
  pthread_mutex_lock(&lease->_lock);
  lease->_count++;
  pthread_mutex_unlock(&lease->_lock);
}

void lease_return(struct lease *lease) {
  pthread_mutex_lock(&lease->_lock);
  assert(lease->_count > 0);
  lease->_count--;
  if (lease->_count == 0) {
    // Signalled under the lock: the waiter destroys the lease as soon as it gets it.
    pthread_cond_signal(&lease->_returned);
  }
  pthread_mutex_unlock(&lease->_lock);
}

void lease_wait(struct lease *lease) {
  pthread_mutex_lock(&lease->_lock);
  while (lease->_count > 0) {
    pthread_cond_wait(&lease->_returned, &lease->_lock);
  }
  pthread_mutex_unlock(&lease->_lock);
}

bool lease_wait_for(struct lease *lease, int64_t nanoseconds) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t sum = end.tv_nsec + nanoseconds;
  end.tv_sec += sum / NANOSECONDS_PER_SECOND;
  end.tv_nsec = sum % NANOSECONDS_PER_SECOND;
  int waited = 0;
  pthread_mutex_lock(&lease->_lock);
  while (lease->_count > 0 && waited != ETIMEDOUT) {
    waited = pthread_cond_timedwait(&lease->_returned, &lease->_lock, &end);
  }
  bool returned = lease->_count == 0;
  pthread_mutex_unlock(&lease->_lock);
  return returned;
}
