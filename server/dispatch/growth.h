// The thread on which memory is taken from the system where that takes long.
//
// Whoever asked for it, a thread that has other calls to serve, goes on at once. First come, first served.
#ifndef ACLNN_SERVER_DISPATCH_GROWTH_H
#define ACLNN_SERVER_DISPATCH_GROWTH_H

#include "kernels/status.h"

struct growth;

struct growth_request {
  void (*grow)(struct growth_request *request); // called once, on the thread; the request may go in it
  // private
  struct growth_request *_next;
};

MUST_CHECK bool growth_create(struct growth **growth, struct status *status);
// No request may be left. NULL is fine.
void growth_destroy(struct growth *growth);

// Any thread.
void growth_add(struct growth *growth, struct growth_request *request);

#endif
