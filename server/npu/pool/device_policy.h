// What is to be done with the worker of one device, and when: a state machine without a process, a loop or a
// clock of its own.
//
// The pool tells it what happened and asks it what is due; times are steady nanoseconds that the caller
// gives. Main thread only. Holds no memory.
#ifndef ACLNN_SERVER_NPU_POOL_DEVICE_POLICY_H
#define ACLNN_SERVER_NPU_POOL_DEVICE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

// So many pings in a time-out. A worker is judged by pings that it had the chance to answer, so that a server
// that was held up itself accuses nobody.
#define DEVICE_POLICY_PINGS 4

struct device_policy_limits {
  int64_t start_ns;         // from the process to READY
  int64_t heartbeat_ns;     // how long pings may stay unanswered
  int64_t job_ns;           // how long a job may run
  int64_t backoff_first_ns; // before the first restart; doubles with each further death
  int64_t backoff_max_ns;
  uint32_t deaths_max; // in a row without a finished job: then the device is given up
  int64_t revival_ns;  // a device that was given up is tried again after so long
};

//   DOWN --started--> STARTING --ready--> UP
//    ^                   | lost            | lost
//    |                   +----> ENDING <---+
//    | back-off                   | reaped
//    +----------------------------+---> GIVEN_UP --revival--> STARTING ...
//                                 +---> QUARANTINED
enum device_state {
  DEVICE_DOWN,
  DEVICE_STARTING,
  DEVICE_UP,
  DEVICE_ENDING, // its process is being killed or is dead, and wasn't reaped yet
  DEVICE_GIVEN_UP,
  DEVICE_QUARANTINED, // for as long as the server lives
};

struct device_policy {
  struct device_policy_limits limits;
  enum device_state state;
  uint32_t deaths;   // in a row without a finished job, as far as they are the device's own fault
  uint32_t restarts; // processes after the first
  // private
  bool _started_before, _quarantined;
  int64_t _next_start_ns;
  int64_t _started_ns;
  bool _answers; // this process has given a sign of life
  uint64_t _pings_sent, _pings_answered;
  int64_t _last_ping_ns;
  int64_t _unanswered_since_ns;
  bool _job_runs;
  int64_t _job_begun_ns;
};

// The first start is due at once.
void device_policy_init(struct device_policy *policy, const struct device_policy_limits *limits,
                        int64_t now_ns);

enum device_demand {
  DEVICE_DEMAND_NOTHING,
  DEVICE_DEMAND_START, // a process; then tell started or start_failed
  DEVICE_DEMAND_PING,  // with the sequence device_policy_ping_sequence
  DEVICE_DEMAND_KILL,  // *why says why; then tell lost
};
// What is due now. Ask again until it is nothing.
enum device_demand device_policy_tick(struct device_policy *policy, int64_t now_ns, const char **why);
// When to ask next; INT64_MAX: not before something happens.
int64_t device_policy_next_ns(const struct device_policy *policy);

uint64_t device_policy_ping_sequence(const struct device_policy *policy);
// False for an answer to a ping that wasn't sent.
bool device_policy_pong(struct device_policy *policy, uint64_t sequence, int64_t now_ns);

void device_policy_started(struct device_policy *policy, int64_t now_ns);
void device_policy_start_failed(struct device_policy *policy, int64_t now_ns);
void device_policy_ready(struct device_policy *policy, int64_t now_ns);

// The job that the worker works on, if any, from when to when.
void device_policy_job_began(struct device_policy *policy, int64_t now_ns);
void device_policy_job_ended(struct device_policy *policy);
// A job came to its end: the deaths before are forgotten.
void device_policy_job_finished(struct device_policy *policy);

// The process is as good as dead; blamed: it is the device's own fault, as far as one can tell.
void device_policy_lost(struct device_policy *policy, bool blamed);
// One death turned out to be somebody else's fault.
void device_policy_forgive(struct device_policy *policy, int64_t now_ns);
// It was reaped.
void device_policy_reaped(struct device_policy *policy, int64_t now_ns);
// No more jobs for this device. If it has a process, kill it and tell lost.
void device_policy_quarantine(struct device_policy *policy);

bool device_policy_is_quarantined(const struct device_policy *policy);
// Whether there is a process.
bool device_policy_has_process(const struct device_policy *policy);
// Whether the device is up or can be expected to come up soon.
bool device_policy_has_hope(const struct device_policy *policy);

#endif
