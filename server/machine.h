// What jobs are planned and run by: sessions, dispatcher, budget, arena and backends, made from the
// configuration.
//
// Owned by main, used by everything while the server runs. machine_tick is the main thread's.
#ifndef ACLNN_SERVER_MACHINE_H
#define ACLNN_SERVER_MACHINE_H

#include "server/config.h"
#include "server/rpc/service.h"

struct machine {
  struct service_context context; // its draining is main's to set
};

// The log is borrowed. Fails with CONFIGURATION or INTERNAL.
MUST_CHECK bool machine_create(const struct config *config, const struct log *log, struct machine **machine,
                               struct status *status);
// In two steps: threads that work on jobs end first, so that nobody wakes the server any more. No call may be
// left.
void machine_stop(struct machine *machine);
void machine_destroy(struct machine *machine); // NULL is fine

// What has to be done now and then: executors and waiting jobs expire, idle memory goes back. Returns after
// how many milliseconds to call again.
int64_t machine_tick(struct machine *machine);

#endif
