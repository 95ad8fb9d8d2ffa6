// What the tests of the session table share: clocks that stand still until told, tables that read them, and
// each operation with its outcome asserted.
#ifndef ACLNN_SERVER_SESSION_SESSION_TEST_SUPPORT_H
#define ACLNN_SERVER_SESSION_SESSION_TEST_SUPPORT_H

#include "server/session/session_table.h"

#include <stdatomic.h>

#define TTL_DEFAULT_MS 60000
#define TTL_MAX_MS 100000
#define WORKSPACE_BYTES 4096
#define REQUEST_BYTES 21

// Both clocks of all tables of a test. make_first_table sets them.
struct session_test_clocks {
  atomic_llong steady_ms, unix_ms;
};
extern struct session_test_clocks clocks;

int64_t read_steady(void *context);
void pass_ms(int64_t ms);

// Two tables with the same key are replicas of each other. The clocks begin at 1000 and 1700000000000.
struct session_table *make_first_table(size_t executors_max);
struct session_table *make_table(size_t executors_max, uint8_t key);

// A plan for the CPU with WORKSPACE_BYTES, its request, and an executor of it for the identity "me".
struct plan make_plan(void);
extern const uint8_t request[REQUEST_BYTES];
struct session_grant insert(struct session_table *table, bool repeatable, int64_t ttl_ms);

struct executor *hold(struct session_table *table, const struct session_grant *grant);
void check_refused(struct session_table *table, const struct session_grant *grant, enum reason reason);
void check_foreign(struct session_table *table, const struct session_grant *grant);
struct executor *adopt(struct session_table *table, const struct session_grant *grant);
void check_adopt_refused(struct session_table *table, const struct session_grant *grant, enum reason reason);
void destroy(struct session_table *table, const struct session_grant *grant);
// Consumes and releases.
void use(struct session_table *table, struct executor *executor);
// Also that each executor ever made is counted in exactly one place.
void check_counts(struct session_table *table, size_t executors, uint64_t created, uint64_t consumed,
                  uint64_t destroyed, uint64_t expired);

#endif
