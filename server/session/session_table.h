// Executors: plans that wait for their phase 2, behind sealed handles.
//
// A handle is opaque to clients: sealed with a key (libsodium), it tells replica, id, identity, expiry and
// the serialised request, so that another replica with the same key can plan anew. For its own handles the
// table is the truth: what isn't in it was consumed, destroyed or has expired; there are no tombstones of
// them.
//
// An executor is held by the begin of a job: expiry and destroy no longer touch that job. A one-shot that is
// held can't be held again; it is consumed once its job has its memory, or given back. Repeatable ones may be
// held any number of times at once, and each hold renews the expiry. All functions may be called from any
// thread; nothing calls back. Expiry is one timer of the owner's: session_table_expire tells when to call it
// again.
#ifndef ACLNN_SERVER_SESSION_SESSION_TABLE_H
#define ACLNN_SERVER_SESSION_SESSION_TABLE_H

#include "kernels/operator.h"
#include "kernels/status.h"
#include "server/session/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session_table;
struct executor; // one entry; reference-counted, immutable but for its state

struct session_options {
  size_t executors_max;
  int64_t ttl_default_ms; // for ttl 0
  int64_t ttl_max_ms;
  uint8_t key[SESSION_KEY_BYTES]; // random unless --handle-key-file gives one
  // Both clocks are given by the caller so that tests can turn them: steady time for expiry, wall time for
  // what handles say. Milliseconds.
  int64_t (*steady_ms)(void *context);
  int64_t (*unix_ms)(void *context);
  void *clock_context;
};

struct session_state {
  size_t executors; // in the table now
  uint64_t created, consumed, destroyed, expired;
};

MUST_CHECK bool session_table_create(const struct session_options *options, struct session_table **table,
                                     struct status *status);
void session_table_destroy(struct session_table *table); // executors still held must be released before

// Keeps a plan as an executor. `request` is the serialised, normalised request that goes into the handle
// (copied). ttl_ms: 0 = default, negative = ACLNN_ERR_PARAM_INVALID, longer than the maximum is cut. On
// success the handle is written (handle: room for SESSION_HANDLE_BYTES_MAX), with the granted ttl and the
// wall-clock expiry. Fails with EXECUTOR_LIMIT (retry advice set), ACLNN_ERR_PARAM_INVALID or INTERNAL.
struct session_grant {
  uint8_t handle[SESSION_HANDLE_BYTES_MAX];
  size_t handle_bytes;
  int64_t ttl_ms;
  int64_t expire_unix_ms;
};
MUST_CHECK bool session_insert(struct session_table *table, const struct plan *plan, bool repeatable,
                               int64_t ttl_ms, const char *identity, const uint8_t *request,
                               size_t request_bytes, struct session_grant *grant, struct status *status);

// Holds the executor of a handle for one job. `identity` is the caller's; another's handle doesn't open.
// SESSION_FOREIGN: the handle was sealed by another replica (or an earlier life) and isn't known here yet;
// then *foreign is filled, the caller plans from foreign->request and calls session_adopt. Failures:
// EXECUTOR_INVALID (doesn't open), EXECUTOR_CONSUMED (a one-shot that is gone or held), EXECUTOR_EXPIRED.
enum session_hold_outcome { SESSION_HELD, SESSION_FOREIGN, SESSION_REFUSED };
struct session_foreign {
  uint8_t request[SESSION_HANDLE_BYTES_MAX];
  size_t request_bytes;
  enum target target; // chosen in phase 1: the new plan must be for the same
  bool automatic;     // chosen by the server: the new plan's `automatic`, its jobs may move
};
MUST_CHECK enum session_hold_outcome session_hold(struct session_table *table, const uint8_t *handle,
                                                  size_t handle_bytes, const char *identity,
                                                  struct executor **executor, struct session_foreign *foreign,
                                                  struct status *status);

// Puts a foreign handle's executor into the table, planned anew, and holds it. If another call adopted it
// meanwhile, that one is held (by the same rules as session_hold). It is remembered until the handle expires,
// as a repeatable that is used until its renewed expiry; that a one-shot was consumed, or any was destroyed,
// is remembered until then too. So many as there may be executors can be remembered, beyond that:
// EXECUTOR_LIMIT. A plan for another target than the handle's, or that needs more workspace, is refused:
// EXECUTOR_EXPIRED.
MUST_CHECK bool session_adopt(struct session_table *table, const uint8_t *handle, size_t handle_bytes,
                              const char *identity, const struct plan *plan, struct executor **executor,
                              struct status *status);

// The plan of a held executor; valid until released or consumed and released.
const struct plan *executor_plan(const struct executor *executor);
bool executor_is_repeatable(const struct executor *executor);

// A held one-shot's use is final: it leaves the table. No effect on a repeatable one. The hold stays.
void session_consume(struct session_table *table, struct executor *executor);

// Ends a hold. A one-shot that wasn't consumed can be held again, unless it was destroyed or has expired.
void session_release(struct session_table *table, struct executor *executor);

// Idempotent: succeeds for every handle that opens for this identity, also of another replica (then it is
// remembered as destroyed until the handle expires). Fails with EXECUTOR_INVALID or EXECUTOR_EXPIRED only as
// the contract says for handles that don't open or whose version is unreadable.
MUST_CHECK bool session_destroy(struct session_table *table, const uint8_t *handle, size_t handle_bytes,
                                const char *identity, struct status *status);

// Removes what has expired (each entry is looked at once, when its time has come). Returns the steady time in
// ms at which the next one expires, INT64_MAX if there is none. An insert may bring the next expiry forward:
// session_table_next_expiry tells.
int64_t session_table_expire(struct session_table *table);
int64_t session_table_next_expiry(struct session_table *table);

void session_table_get_state(struct session_table *table, struct session_state *state);

#endif
