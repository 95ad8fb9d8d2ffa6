// What jobs are planned and run by: sessions, dispatcher, budget, arena and backends, made from the
// configuration.
//
// Owned by main, used by everything while the server runs. machine_tick is the main thread's.
#ifndef ACLNN_SERVER_MACHINE_H
#define ACLNN_SERVER_MACHINE_H

#include "server/config.h"
#include "server/rpc/service.h"

#include <uv.h>

struct machine {
  struct service_context context; // its draining is main's to set
};

struct machine_options {
  const struct config *config;
  const struct log *log; // borrowed
  uv_loop_t *loop;       // the main thread's; NPU workers are supervised on it
};

// Starts the workers of NPUs, and then its threads. Fails with CONFIGURATION or INTERNAL; the loop must still
// be run then, to close what was open.
MUST_CHECK bool machine_create(const struct machine_options *options, struct machine **machine,
                               struct status *status);

// Whether each NPU has come up, or failed to, at least once: a client that comes now finds those that there
// are. Changes only while the loop runs.
bool machine_is_settled(const struct machine *machine);

// Stops devices in the middle of their jobs, for a server that can't wait any longer.
void machine_abandon_devices(struct machine *machine);

// In two steps: threads and workers that work on jobs end first, so that nobody wakes the server any more. No
// call may be left. Runs the loop until the last worker was reaped.
void machine_stop(struct machine *machine);
void machine_destroy(struct machine *machine); // NULL is fine

// What has to be done now and then: executors and waiting jobs expire, idle memory goes back. Returns after
// how many milliseconds to call again.
int64_t machine_tick(struct machine *machine);

#endif
