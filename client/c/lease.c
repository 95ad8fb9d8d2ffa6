#include "client/c/lease.h"

#include "client/c/clock.h"

#include <assert.h>

void lease_init(struct lease *lease) {
  clock_init_condition(&lease->_returned);
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
  int64_t deadline_ns = clock_now_ns() + nanoseconds;
  bool in_time = true;
  pthread_mutex_lock(&lease->_lock);
  while (lease->_count > 0 && in_time) {
    in_time = clock_wait(&lease->_returned, &lease->_lock, deadline_ns);
  }
  bool returned = lease->_count == 0;
  pthread_mutex_unlock(&lease->_lock);
  return returned;
}
