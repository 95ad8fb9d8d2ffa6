// Memory of the caller's that is lent to the transport, counted.
//
// The transport reads tensors where they lie and lets go of them on any of its threads, at a cancelled call
// even after the call's last event. Whoever owns the memory waits here before giving it back. The thread that
// owns the lease takes and waits; returns may come from any thread.
#ifndef ACLNN_CLIENT_C_LEASE_H
#define ACLNN_CLIENT_C_LEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lease {
  pthread_mutex_t _lock;
  pthread_cond_t _returned;
  size_t _count;
};

void lease_init(struct lease *lease);
// Nothing may be lent any more.
void lease_destroy(struct lease *lease);

void lease_take(struct lease *lease);
void lease_return(struct lease *lease);
// Blocks until all that was taken has been returned.
void lease_wait(struct lease *lease);
// The same for at most that time; false if something is still lent.
bool lease_wait_for(struct lease *lease, int64_t nanoseconds);

#endif
