#include "server/npu/pool/device_policy.h"

#include <assert.h>
#include <stddef.h>

void device_policy_init(struct device_policy *policy, const struct device_policy_limits *limits,
                        int64_t now_ns) {
  *policy = (struct device_policy){.limits = *limits, .state = DEVICE_DOWN, ._next_start_ns = now_ns};
}

bool device_policy_has_process(const struct device_policy *policy) {
  return policy->state == DEVICE_STARTING || policy->state == DEVICE_UP || policy->state == DEVICE_ENDING;
}

bool device_policy_is_quarantined(const struct device_policy *policy) {
  return policy->_quarantined;
}

bool device_policy_has_hope(const struct device_policy *policy) {
  if (policy->_quarantined) {
    return false;
  }
  return policy->state == DEVICE_UP || policy->deaths < policy->limits.deaths_max;
}

static int64_t ping_interval_ns(const struct device_policy *policy) {
  return policy->limits.heartbeat_ns / DEVICE_POLICY_PINGS;
}

static uint64_t pings_unanswered(const struct device_policy *policy) {
  return policy->_pings_sent - policy->_pings_answered;
}

// Before its first sign of life a worker is loading: that is judged by the limit of the start.
static bool heartbeat_is_missing(const struct device_policy *policy, int64_t now_ns) {
  return policy->_answers && pings_unanswered(policy) >= DEVICE_POLICY_PINGS &&
         now_ns - policy->_unanswered_since_ns >= policy->limits.heartbeat_ns;
}

static enum device_demand judge_process(struct device_policy *policy, int64_t now_ns, const char **why) {
  if (policy->state == DEVICE_STARTING && now_ns - policy->_started_ns >= policy->limits.start_ns) {
    *why = "it didn't become ready in time";
    return DEVICE_DEMAND_KILL;
  }
  if (policy->_job_runs && now_ns - policy->_job_begun_ns >= policy->limits.job_ns) {
    *why = "a job ran longer than jobs may";
    return DEVICE_DEMAND_KILL;
  }
  if (heartbeat_is_missing(policy, now_ns)) {
    *why = "it doesn't answer any more";
    return DEVICE_DEMAND_KILL;
  }
  if (now_ns - policy->_last_ping_ns >= ping_interval_ns(policy)) {
    if (pings_unanswered(policy) == 0) {
      policy->_unanswered_since_ns = now_ns;
    }
    policy->_pings_sent++;
    policy->_last_ping_ns = now_ns;
    return DEVICE_DEMAND_PING;
  }
  return DEVICE_DEMAND_NOTHING;
}

enum device_demand device_policy_tick(struct device_policy *policy, int64_t now_ns, const char **why) {
  switch (policy->state) {
  case DEVICE_DOWN:
  case DEVICE_GIVEN_UP:
    return now_ns >= policy->_next_start_ns ? DEVICE_DEMAND_START : DEVICE_DEMAND_NOTHING;
  case DEVICE_STARTING:
  case DEVICE_UP:
    return judge_process(policy, now_ns, why);
  case DEVICE_ENDING:
  case DEVICE_QUARANTINED:
    break;
  }
  return DEVICE_DEMAND_NOTHING;
}

static int64_t earlier(int64_t one_ns, int64_t other_ns) {
  return one_ns < other_ns ? one_ns : other_ns;
}

int64_t device_policy_next_ns(const struct device_policy *policy) {
  switch (policy->state) {
  case DEVICE_DOWN:
  case DEVICE_GIVEN_UP:
    return policy->_next_start_ns;
  case DEVICE_STARTING:
  case DEVICE_UP: {
    int64_t next_ns = policy->_last_ping_ns + ping_interval_ns(policy);
    if (policy->state == DEVICE_STARTING) {
      next_ns = earlier(next_ns, policy->_started_ns + policy->limits.start_ns);
    }
    return policy->_job_runs ? earlier(next_ns, policy->_job_begun_ns + policy->limits.job_ns) : next_ns;
  }
  case DEVICE_ENDING:
  case DEVICE_QUARANTINED:
    break;
  }
  return INT64_MAX;
}

uint64_t device_policy_ping_sequence(const struct device_policy *policy) {
  return policy->_pings_sent;
}

bool device_policy_pong(struct device_policy *policy, uint64_t sequence, int64_t now_ns) {
  if (sequence <= policy->_pings_answered || sequence > policy->_pings_sent) {
    return false;
  }
  policy->_answers = true;
  policy->_pings_answered = sequence;
  policy->_unanswered_since_ns = now_ns;
  return true;
}

void device_policy_started(struct device_policy *policy, int64_t now_ns) {
  assert(policy->state == DEVICE_DOWN || policy->state == DEVICE_GIVEN_UP);
  policy->state = DEVICE_STARTING;
  policy->restarts += policy->_started_before;
  policy->_started_before = true;
  policy->_started_ns = now_ns;
  policy->_answers = false;
  policy->_pings_sent = policy->_pings_answered = 0;
  policy->_last_ping_ns = policy->_unanswered_since_ns = now_ns;
  policy->_job_runs = false;
}

static int64_t backoff_ns(const struct device_policy *policy) {
  int64_t delay_ns = policy->limits.backoff_first_ns;
  for (uint32_t i = 1; i < policy->deaths && delay_ns < policy->limits.backoff_max_ns; i++) {
    delay_ns *= 2;
  }
  return earlier(delay_ns, policy->limits.backoff_max_ns);
}

static void wait_for_restart(struct device_policy *policy, int64_t now_ns) {
  policy->_job_runs = false;
  if (policy->_quarantined) {
    policy->state = DEVICE_QUARANTINED;
  } else if (policy->deaths >= policy->limits.deaths_max) {
    policy->state = DEVICE_GIVEN_UP;
    policy->_next_start_ns = now_ns + policy->limits.revival_ns;
  } else {
    policy->state = DEVICE_DOWN;
    policy->_next_start_ns = now_ns + backoff_ns(policy);
  }
}

void device_policy_start_failed(struct device_policy *policy, int64_t now_ns) {
  assert(policy->state == DEVICE_DOWN || policy->state == DEVICE_GIVEN_UP);
  policy->deaths++;
  wait_for_restart(policy, now_ns);
}

void device_policy_ready(struct device_policy *policy, int64_t now_ns) {
  assert(policy->state == DEVICE_STARTING);
  policy->state = DEVICE_UP;
  // A sign of life like any other: what falls silent after it is missed, pings answered or not.
  policy->_answers = true;
  policy->_unanswered_since_ns = now_ns;
}

void device_policy_job_began(struct device_policy *policy, int64_t now_ns) {
  policy->_job_runs = true;
  policy->_job_begun_ns = now_ns;
}

void device_policy_job_ended(struct device_policy *policy) {
  policy->_job_runs = false;
}

void device_policy_job_finished(struct device_policy *policy) {
  policy->deaths = 0;
}

void device_policy_lost(struct device_policy *policy, bool blamed) {
  assert(policy->state == DEVICE_STARTING || policy->state == DEVICE_UP);
  policy->state = DEVICE_ENDING;
  policy->deaths += blamed;
}

void device_policy_forgive(struct device_policy *policy, int64_t now_ns) {
  policy->deaths -= policy->deaths > 0;
  if (policy->state == DEVICE_GIVEN_UP && policy->deaths < policy->limits.deaths_max) {
    policy->state = DEVICE_DOWN;
    policy->_next_start_ns = now_ns;
  }
}

void device_policy_reaped(struct device_policy *policy, int64_t now_ns) {
  assert(policy->state == DEVICE_ENDING);
  wait_for_restart(policy, now_ns);
}

void device_policy_quarantine(struct device_policy *policy) {
  policy->_quarantined = true;
  if (!device_policy_has_process(policy)) {
    policy->state = DEVICE_QUARANTINED;
  }
}
