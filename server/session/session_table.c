#include "server/session/session_table.h"

#include "server/session/expiry_queue.h"
#include "server/session/sealed_handle.h"

#include <assert.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

// A full hash table that can't grow says so instead of ending the process: see entry_add.
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

// Entries that session_table_expire looks at under one hold of the lock.
#define EXPIRE_BATCH 256
// Bounds of the advice when to try again with a full table: not at once, and not past a human's patience.
#define RETRY_MS_MIN 50
#define RETRY_MS_MAX 1000

// A line of the table. One without executor remembers that a foreign handle was used up or destroyed here.
struct entry {
  struct handle_key key;
  struct executor *executor;
  struct expiry expiry; // steady; not in the queue when its time has come, but its one-shot is held
  UT_hash_handle hh;
};

// A one-shot is available (holds == 0), held (1) or gone (entry == NULL); a repeatable one is available, held
// by any number of jobs, or gone. Freed when it is gone and not held.
struct executor {
  struct plan plan;
  bool repeatable;
  bool foreign;
  int64_t ttl_ms;
  int64_t handle_expires_ms; // steady: as the handle says, without renewals
  struct entry *entry;       // guarded by the table's mutex, as is the next
  size_t holds;
};

struct session_table {
  struct session_options options;
  uint8_t replica[HANDLE_REPLICA_BYTES];
  pthread_mutex_t mutex; // guards what follows
  uint64_t last_id;
  struct entry *entries;
  size_t foreign; // foreign executors, and foreign ones remembered: at most executors_max
  struct expiry_queue queue;
  struct session_state state;
};

static int64_t add_saturated(int64_t left, int64_t right) {
  int64_t sum;
  return __builtin_add_overflow(left, right, &sum) ? (right < 0 ? INT64_MIN : INT64_MAX) : sum;
}

static int64_t steady_ms(const struct session_table *table) {
  return table->options.steady_ms(table->options.clock_context);
}

static int64_t unix_ms(const struct session_table *table) {
  return table->options.unix_ms(table->options.clock_context);
}

static int64_t next_expiry(const struct session_table *table) {
  const struct expiry *first = expiry_queue_first(&table->queue);
  return first != NULL ? first->expires_ms : INT64_MAX;
}

// Entries. All of these are called under the lock.

static struct entry *from_expiry(struct expiry *expiry) {
  return (struct entry *)((char *)expiry - offsetof(struct entry, expiry));
}

static struct entry *entry_find(struct session_table *table, const struct handle_key *key) {
  struct entry *entry;
  HASH_FIND(hh, table->entries, key, sizeof *key, entry);
  return entry;
}

// Takes the executor, which may be NULL, over. False if there is no memory.
static bool entry_add(struct session_table *table, const struct handle_key *key, int64_t expires_ms,
                      struct executor *executor) {
  struct entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    return false;
  }
  entry->key = *key;
  HASH_ADD(hh, table->entries, key, sizeof entry->key, entry);
  if (entry->hh.tbl == NULL) {
    free(entry);
    return false;
  }
  expiry_queue_schedule(&table->queue, &entry->expiry, expires_ms);
  if (executor != NULL) {
    entry->executor = executor;
    executor->entry = entry;
    table->state.executors++;
    table->state.created++;
  }
  table->foreign += executor == NULL || executor->foreign;
  return true;
}

static void entry_remove(struct session_table *table, struct entry *entry) {
  expiry_queue_remove(&table->queue, &entry->expiry);
  HASH_DEL(table->entries, entry);
  free(entry);
}

// Takes an executor out of the table and counts it. A foreign one whose handle would still open elsewhere is
// remembered. Returns the executor if nobody holds it, to be freed outside of the lock, else NULL.
static struct executor *retire(struct session_table *table, struct executor *executor, uint64_t *counter,
                               int64_t now_ms) {
  struct entry *entry = executor->entry;
  bool expired = counter == &table->state.expired;
  executor->entry = NULL;
  table->state.executors--;
  ++*counter;
  if (executor->foreign && !expired && executor->handle_expires_ms > now_ms) {
    entry->executor = NULL;
    expiry_queue_schedule(&table->queue, &entry->expiry, executor->handle_expires_ms);
  } else {
    table->foreign -= executor->foreign;
    entry_remove(table, entry);
  }
  return executor->holds == 0 ? executor : NULL;
}

// Removes what has expired by now, looking at no more than EXPIRE_BATCH entries; executors to be freed are
// written to `gone`. Returns true if there is more.
static bool expire_batch(struct session_table *table, int64_t now_ms, struct executor *gone[EXPIRE_BATCH],
                         size_t *gone_count) {
  *gone_count = 0;
  for (size_t i = 0; i < EXPIRE_BATCH && next_expiry(table) <= now_ms; i++) {
    struct entry *entry = from_expiry(expiry_queue_first(&table->queue));
    struct executor *executor = entry->executor;
    if (executor == NULL) {
      table->foreign--;
      entry_remove(table, entry);
    } else if (!executor->repeatable && executor->holds > 0) {
      expiry_queue_remove(&table->queue, &entry->expiry); // session_release or session_consume will see to it
    } else {
      executor = retire(table, executor, &table->state.expired, now_ms);
      if (executor != NULL) {
        gone[(*gone_count)++] = executor;
      }
    }
  }
  return next_expiry(table) <= now_ms;
}

static bool has_room(const struct session_table *table, bool foreign) {
  return table->state.executors < table->options.executors_max &&
         (!foreign || table->foreign < table->options.executors_max);
}

// Adds a new executor, or says that there is no room. Under the lock; expired ones are removed to make room
// and written to `gone`.
static bool add_executor(struct session_table *table, const struct handle_key *key, struct executor *executor,
                         int64_t expires_ms, int64_t now_ms, struct executor *gone[EXPIRE_BATCH],
                         size_t *gone_count, struct status *status) {
  *gone_count = 0;
  if (!has_room(table, executor->foreign)) {
    expire_batch(table, now_ms, gone, gone_count);
  }
  if (!has_room(table, executor->foreign)) {
    int64_t retry_ms = add_saturated(next_expiry(table), -now_ms);
    retry_ms = retry_ms < RETRY_MS_MIN ? RETRY_MS_MIN : retry_ms;
    status_fail(status, REASON_EXECUTOR_LIMIT, NULL, "the server keeps at most %zu executors",
                table->options.executors_max);
    status->retry_after_ms = retry_ms > RETRY_MS_MAX ? RETRY_MS_MAX : retry_ms;
    return false;
  }
  if (!entry_add(table, key, expires_ms, executor)) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for an executor");
  }
  return true;
}

static void free_all(struct executor *gone[EXPIRE_BATCH], size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(gone[i]);
  }
}

bool session_table_create(const struct session_options *options, struct session_table **table,
                          struct status *status) {
  if (sodium_init() < 0) {
    return status_fail(status, REASON_INTERNAL, NULL, "libsodium cannot be initialised");
  }
  struct session_table *created = calloc(1, sizeof *created);
  // As many foreign ones may be remembered as there may be executors.
  size_t capacity;
  if (created == NULL || __builtin_mul_overflow(options->executors_max, 2, &capacity) ||
      !expiry_queue_init(&created->queue, capacity)) {
    free(created);
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a table of %zu executors",
                       options->executors_max);
  }
  created->options = *options;
  randombytes_buf(created->replica, sizeof created->replica);
  pthread_mutex_init(&created->mutex, NULL);
  *table = created;
  return true;
}

void session_table_destroy(struct session_table *table) {
  if (table == NULL) {
    return;
  }
  struct entry *entry, *next;
  HASH_ITER(hh, table->entries, entry, next) {
    assert(entry->executor == NULL || entry->executor->holds == 0);
    free(entry->executor);
    HASH_DEL(table->entries, entry);
    free(entry);
  }
  pthread_mutex_destroy(&table->mutex);
  expiry_queue_clear(&table->queue);
  sodium_memzero(table, sizeof *table);
  free(table);
}

static struct executor *executor_create(const struct plan *plan, bool repeatable, struct status *status) {
  struct executor *executor = calloc(1, sizeof *executor);
  if (executor == NULL) {
    status_fail(status, REASON_INTERNAL, NULL, "no memory for an executor");
    return NULL;
  }
  executor->plan = *plan;
  executor->repeatable = repeatable;
  return executor;
}

// What the clocks say when something is done.
struct moment {
  int64_t steady_ms, unix_ms;
};

static struct moment now(const struct session_table *table) {
  return (struct moment){.steady_ms = steady_ms(table), .unix_ms = unix_ms(table)};
}

// What a new handle says, but for its id and its request.
static void describe(const struct session_table *table, const struct plan *plan, const struct moment *moment,
                     int64_t ttl_ms, const char *identity, struct handle_content *content) {
  memcpy(content->key.replica, table->replica, sizeof table->replica);
  content->target = plan->target;
  content->automatic = plan->automatic;
  content->workspace_bytes = plan->workspace_bytes;
  content->ttl_ms = ttl_ms;
  content->expires_unix_ms = add_saturated(moment->unix_ms, ttl_ms);
  content->expires_steady_ms = add_saturated(moment->steady_ms, ttl_ms);
  size_t identity_bytes = strlen(identity);
  assert(identity_bytes <= SESSION_IDENTITY_BYTES_MAX);
  memcpy(content->identity, identity, identity_bytes + 1);
}

static uint64_t take_id(struct session_table *table) {
  pthread_mutex_lock(&table->mutex);
  uint64_t id = ++table->last_id;
  pthread_mutex_unlock(&table->mutex);
  return id;
}

bool session_insert(struct session_table *table, const struct plan *plan, bool repeatable, int64_t ttl_ms,
                    const char *identity, const uint8_t *request, size_t request_bytes,
                    struct session_grant *grant, struct status *status) {
  if (ttl_ms < 0) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, "ttl_ms",
                       "ttl_ms is %lld, it must not be negative", (long long)ttl_ms);
  }
  ttl_ms = ttl_ms == 0 ? table->options.ttl_default_ms : ttl_ms;
  ttl_ms = ttl_ms > table->options.ttl_max_ms ? table->options.ttl_max_ms : ttl_ms;
  struct moment moment = now(table);
  struct handle_content content = {.repeatable = repeatable, .request_bytes = request_bytes};
  if (request_bytes > sizeof content.request) {
    return status_fail(status, REASON_INTERNAL, NULL, "a request of %zu bytes doesn't fit into a handle",
                       request_bytes);
  }
  memcpy(content.request, request, request_bytes);
  describe(table, plan, &moment, ttl_ms, identity, &content);
  content.key.id = take_id(table);
  uint8_t handle[SESSION_HANDLE_BYTES_MAX];
  size_t handle_bytes;
  if (!handle_seal(table->options.key, &content, handle, &handle_bytes, status)) {
    return false;
  }

  struct executor *executor = executor_create(plan, repeatable, status);
  if (executor == NULL) {
    return false;
  }
  executor->ttl_ms = ttl_ms;
  executor->handle_expires_ms = content.expires_steady_ms;
  struct executor *gone[EXPIRE_BATCH];
  size_t gone_count;
  pthread_mutex_lock(&table->mutex);
  bool ok = add_executor(table, &content.key, executor, content.expires_steady_ms, moment.steady_ms, gone,
                         &gone_count, status);
  pthread_mutex_unlock(&table->mutex);
  free_all(gone, gone_count);
  if (!ok) {
    free(executor);
    return false;
  }
  memcpy(grant->handle, handle, handle_bytes);
  grant->handle_bytes = handle_bytes;
  grant->ttl_ms = ttl_ms;
  grant->expire_unix_ms = content.expires_unix_ms;
  return true;
}

// Opens a handle for a caller.
static bool open_for(struct session_table *table, const uint8_t *handle, size_t handle_bytes,
                     const char *identity, struct handle_content *content, struct status *status) {
  if (!handle_open(table->options.key, handle, handle_bytes, content, status)) {
    return false;
  }
  return strcmp(content->identity, identity) == 0 || handle_refuse(status);
}

static bool is_own(const struct session_table *table, const struct handle_content *content) {
  return memcmp(content->key.replica, table->replica, sizeof table->replica) == 0;
}

// Whether the time that a handle names has come. Renewals are the table's, not the handle's.
static bool is_past(const struct session_table *table, const struct handle_content *content,
                    const struct moment *moment) {
  return is_own(table, content) ? content->expires_steady_ms <= moment->steady_ms
                                : content->expires_unix_ms <= moment->unix_ms;
}

static enum session_hold_outcome refuse(struct status *status, enum reason reason, const char *why) {
  status_fail(status, reason, "executor", "executor %s", why);
  return SESSION_REFUSED;
}

// Holds what the handle names, if it is there. Under the lock; *gone gets an executor to be freed, or NULL.
static enum session_hold_outcome hold(struct session_table *table, const struct handle_content *content,
                                      const struct moment *moment, struct executor **executor,
                                      struct executor **gone, struct status *status) {
  *gone = NULL;
  struct entry *entry = entry_find(table, &content->key);
  struct executor *found = entry != NULL ? entry->executor : NULL;
  if (found != NULL && !found->repeatable && found->holds > 0) {
    return refuse(status, REASON_EXECUTOR_CONSUMED, "is a one-shot and in use by another job");
  }
  if (found != NULL && entry->expiry.expires_ms > moment->steady_ms) {
    found->holds++;
    if (found->repeatable) {
      expiry_queue_schedule(&table->queue, &entry->expiry, add_saturated(moment->steady_ms, found->ttl_ms));
    }
    *executor = found;
    return SESSION_HELD;
  }
  if (found != NULL) {
    *gone = retire(table, found, &table->state.expired, moment->steady_ms);
    return refuse(status, REASON_EXECUTOR_EXPIRED, "has expired");
  }
  if (is_past(table, content, moment)) {
    return refuse(status, REASON_EXECUTOR_EXPIRED, "has expired");
  }
  if (entry == NULL && !is_own(table, content)) {
    return SESSION_FOREIGN;
  }
  return content->repeatable
             ? refuse(status, REASON_EXECUTOR_EXPIRED, "has expired or was destroyed")
             : refuse(status, REASON_EXECUTOR_CONSUMED, "is a one-shot and was used or destroyed");
}

enum session_hold_outcome session_hold(struct session_table *table, const uint8_t *handle,
                                       size_t handle_bytes, const char *identity, struct executor **executor,
                                       struct session_foreign *foreign, struct status *status) {
  struct handle_content content;
  if (!open_for(table, handle, handle_bytes, identity, &content, status)) {
    return SESSION_REFUSED;
  }
  struct moment moment = now(table);
  struct executor *gone;
  pthread_mutex_lock(&table->mutex);
  enum session_hold_outcome outcome = hold(table, &content, &moment, executor, &gone, status);
  pthread_mutex_unlock(&table->mutex);
  free(gone);
  if (outcome == SESSION_FOREIGN) {
    memcpy(foreign->request, content.request, content.request_bytes);
    foreign->request_bytes = content.request_bytes;
    foreign->target = content.target;
    foreign->automatic = content.automatic;
  }
  return outcome;
}

bool session_adopt(struct session_table *table, const uint8_t *handle, size_t handle_bytes,
                   const char *identity, const struct plan *plan, struct executor **executor,
                   struct status *status) {
  struct handle_content content;
  if (!open_for(table, handle, handle_bytes, identity, &content, status)) {
    return false;
  }
  if (plan->target != content.target || plan->workspace_bytes > content.workspace_bytes) {
    return status_fail(status, REASON_EXECUTOR_EXPIRED, "executor",
                       "executor was planned by another server for target %s with %llu bytes of workspace, "
                       "here it is target %s with %llu",
                       target_name(content.target), (unsigned long long)content.workspace_bytes,
                       target_name(plan->target), (unsigned long long)plan->workspace_bytes);
  }
  struct moment moment = now(table);
  struct executor *adopted = executor_create(plan, content.repeatable, status);
  if (adopted == NULL) {
    return false;
  }
  adopted->foreign = true;
  adopted->ttl_ms = content.ttl_ms;
  adopted->handle_expires_ms =
      add_saturated(moment.steady_ms, add_saturated(content.expires_unix_ms, -moment.unix_ms));
  adopted->holds = 1;
  struct executor *gone[EXPIRE_BATCH], *one_gone;
  size_t gone_count = 0;
  pthread_mutex_lock(&table->mutex);
  enum session_hold_outcome outcome = hold(table, &content, &moment, executor, &one_gone, status);
  if (outcome == SESSION_FOREIGN && add_executor(table, &content.key, adopted, adopted->handle_expires_ms,
                                                 moment.steady_ms, gone, &gone_count, status)) {
    outcome = SESSION_HELD;
    *executor = adopted;
    adopted = NULL;
  }
  pthread_mutex_unlock(&table->mutex);
  free(one_gone);
  free_all(gone, gone_count);
  free(adopted);
  return outcome == SESSION_HELD;
}

const struct plan *executor_plan(const struct executor *executor) {
  return &executor->plan;
}

bool executor_is_repeatable(const struct executor *executor) {
  return executor->repeatable;
}

void session_consume(struct session_table *table, struct executor *executor) {
  int64_t now_ms = steady_ms(table);
  pthread_mutex_lock(&table->mutex);
  assert(executor->holds > 0);
  if (!executor->repeatable && executor->entry != NULL) {
    retire(table, executor, &table->state.consumed, now_ms);
  }
  pthread_mutex_unlock(&table->mutex);
}

void session_release(struct session_table *table, struct executor *executor) {
  int64_t now_ms = steady_ms(table);
  struct executor *gone = NULL;
  pthread_mutex_lock(&table->mutex);
  assert(executor->holds > 0);
  executor->holds--;
  if (executor->entry == NULL) {
    gone = executor->holds == 0 ? executor : NULL;
  } else if (!executor->repeatable && executor->entry->expiry.expires_ms <= now_ms) {
    gone = retire(table, executor, &table->state.expired, now_ms);
  }
  pthread_mutex_unlock(&table->mutex);
  free(gone);
}

bool session_destroy(struct session_table *table, const uint8_t *handle, size_t handle_bytes,
                     const char *identity, struct status *status) {
  struct handle_content content;
  if (!open_for(table, handle, handle_bytes, identity, &content, status)) {
    return false;
  }
  struct moment moment = now(table);
  struct executor *gone = NULL;
  pthread_mutex_lock(&table->mutex);
  struct entry *entry = entry_find(table, &content.key);
  if (entry != NULL && entry->executor != NULL) {
    gone = retire(table, entry->executor, &table->state.destroyed, moment.steady_ms);
  } else if (entry == NULL && !is_own(table, &content) && !is_past(table, &content, &moment) &&
             table->foreign < table->options.executors_max) {
    int64_t left_ms = add_saturated(content.expires_unix_ms, -moment.unix_ms);
    // Without room or memory for it nothing is remembered: while that lasts it can't be adopted either.
    (void)entry_add(table, &content.key, add_saturated(moment.steady_ms, left_ms), NULL);
  }
  pthread_mutex_unlock(&table->mutex);
  free(gone);
  return true;
}

int64_t session_table_expire(struct session_table *table) {
  struct executor *gone[EXPIRE_BATCH];
  int64_t next_ms;
  bool more = true;
  while (more) {
    size_t gone_count;
    int64_t now_ms = steady_ms(table);
    pthread_mutex_lock(&table->mutex);
    more = expire_batch(table, now_ms, gone, &gone_count);
    next_ms = next_expiry(table);
    pthread_mutex_unlock(&table->mutex);
    free_all(gone, gone_count);
  }
  return next_ms;
}

int64_t session_table_next_expiry(struct session_table *table) {
  pthread_mutex_lock(&table->mutex);
  int64_t next_ms = next_expiry(table);
  pthread_mutex_unlock(&table->mutex);
  return next_ms;
}

void session_table_get_state(struct session_table *table, struct session_state *state) {
  pthread_mutex_lock(&table->mutex);
  *state = table->state;
  pthread_mutex_unlock(&table->mutex);
}
