#include "server/machine.h"

#include "server/clocks.h"
#include "server/cpu/cpu_backend.h"
#include "server/machine_npu.h"
#include "server/npu/pool/npu_pool.h"
#include "server/rpc/plan_reply.h"
#include "server/version.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Address space is free; with this much of it, fragmentation doesn't refuse what the budget granted.
#define ARENA_TIMES_BUDGET 4
// Memory that wasn't in use for so long goes back to the system.
#define ARENA_IDLE_NS (INT64_C(60) * 1000000000)
// New executors and jobs may bring the next expiry forward without telling: nothing expires later than this.
#define TICK_MS_MAX 250
// What a client is told to wait before it tries another replica, or this one's successor.
#define DRAIN_RETRY_MS 1000

// Workers come before all threads. Backends are destroyed by the dispatcher once it has them.
static bool create_backends(const struct machine_options *machine, struct dispatcher_options *options,
                            struct status *status) {
  const struct config *config = machine->config;
  struct machine_npu_options npu = {
      .config = config, .loop = machine->loop, .log = machine->log, .arena = options->arena};
  struct cpu_backend_options cpu = {
      .threads = (size_t)config->threads, .cpu = config->cpu, .clock_ns = clock_steady_ns};
  struct backend *npu_backend = NULL, *cpu_backend = NULL;
  if (!machine_npu_create(&npu, &npu_backend, status)) {
    return false;
  }
  if (!cpu_backend_create(&cpu, &cpu_backend, status)) {
    if (npu_backend != NULL) {
      npu_backend->destroy(npu_backend);
    }
    return false;
  }
  options->backends[options->backend_count++] = cpu_backend;
  if (npu_backend != NULL) {
    options->backends[options->backend_count++] = npu_backend;
  }
  return true;
}

// Made if it isn't there: better known now than when the first capsule is lost.
static bool check_capsule_directory(const char *directory, const struct log *log, struct status *status) {
  struct stat found;
  bool made = mkdir(directory, 0700) == 0;
  bool usable =
      (made || errno == EEXIST) && stat(directory, &found) == 0 && access(directory, W_OK | X_OK) == 0;
  int error = errno;
  if (made) {
    log_event(log, LOG_WARNING, "--capsule-dir wasn't there and was made", LOG_TEXT("directory", directory));
  }
  if (!usable) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "--capsule-dir: \"%s\" can't be used: %s",
                       directory, strerror(error));
  }
  return S_ISDIR(found.st_mode) || status_fail(status, REASON_CONFIGURATION, NULL,
                                               "--capsule-dir: \"%s\" isn't a directory", directory);
}

static bool create_dispatcher(const struct machine_options *machine, struct dispatcher **dispatcher,
                              struct status *status) {
  const struct config *config = machine->config;
  struct dispatcher_options options = {.clock_ns = clock_steady_ns,
                                       .verify_fraction = config->verify_fraction,
                                       .capsule_directory = config->capsule_directory,
                                       .server_version = SERVER_VERSION,
                                       .log = machine->log};
  struct budget_options budget = {.limit_bytes = (uint64_t)config->memory_limit_bytes,
                                  .queue_max = (size_t)config->queue_max,
                                  .queue_time_max_ns = config->queue_time_ms * 1000000};
  if (config->capsule_directory != NULL &&
      !check_capsule_directory(config->capsule_directory, machine->log, status)) {
    return false;
  }
  if (!budget_create(&budget, &options.budget, status)) {
    return false;
  }
  if (!arena_create(ARENA_TIMES_BUDGET * (uint64_t)config->memory_limit_bytes, &options.arena, status)) {
    goto no_arena;
  }
  if (!create_backends(machine, &options, status)) {
    goto no_backends;
  }
  if (!dispatcher_create(&options, dispatcher, status)) {
    goto no_dispatcher;
  }
  return true;
no_dispatcher:
  for (size_t i = 0; i < options.backend_count; ++i) {
    options.backends[i]->destroy(options.backends[i]);
  }
no_backends:
  arena_destroy(options.arena);
no_arena:
  budget_destroy(options.budget);
  return false;
}

static bool create_sessions(const struct config *config, struct session_table **sessions,
                            struct status *status) {
  struct session_options options = {.executors_max = (size_t)config->executors_max,
                                    .ttl_default_ms = config->ttl_default_ms,
                                    .ttl_max_ms = config->ttl_max_ms,
                                    .steady_ms = clock_steady_coarse_ms,
                                    .unix_ms = clock_unix_ms};
  if (config->handle_key_file == NULL) {
    randombytes_buf(options.key, sizeof options.key);
  } else if (!config_read_key(config->handle_key_file, options.key, status)) {
    return false;
  }
  bool created = session_table_create(&options, sessions, status);
  sodium_memzero(options.key, sizeof options.key);
  return created;
}

static void describe(const struct config *config, struct server_info *info) {
  *info = (struct server_info){
      .server_version = SERVER_VERSION,
      .contract_revision = SERVER_CONTRACT_REVISION,
      .limits = {.max_chunk_bytes = SERVER_CHUNK_BYTES_MAX,
                 .max_message_bytes = (int64_t)WIRE_MESSAGE_BYTES_MAX,
                 .memory_budget_bytes = config->memory_limit_bytes,
                 .max_executors = config->executors_max,
                 .default_ttl_ms = config->ttl_default_ms,
                 .max_ttl_ms = config->ttl_max_ms,
                 .max_queue = config->queue_max,
                 .max_queue_time_ms = config->queue_time_ms,
                 .idle_timeout_ms = config->idle_timeout_ms},
      .codecs = SERVER_CODECS,
  };
  snprintf(info->cpu_path, sizeof info->cpu_path, "%s", cpu_path_name(config->cpu.path));
}

bool machine_create(const struct machine_options *options, struct machine **machine, struct status *status) {
  if (sodium_init() < 0) {
    return status_fail(status, REASON_INTERNAL, NULL, "libsodium can't be initialised");
  }
  struct machine *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the server");
  }
  struct service_context *context = &created->context;
  context->log = options->log;
  context->drain_retry_ms = DRAIN_RETRY_MS;
  atomic_init(&context->draining, false);
  if (!create_sessions(options->config, &context->sessions, status) ||
      !create_dispatcher(options, &context->dispatcher, status)) {
    machine_destroy(created);
    return false;
  }
  describe(options->config, &context->info);
  *machine = created;
  return true;
}

bool machine_is_settled(const struct machine *machine) {
  const struct backend *npu = dispatcher_backend(machine->context.dispatcher, TARGET_NPU);
  return npu == NULL || npu_pool_is_settled(npu);
}

void machine_abandon_devices(struct machine *machine) {
  dispatcher_abandon_devices(machine->context.dispatcher);
}

void machine_stop(struct machine *machine) {
  if (machine->context.dispatcher != NULL) {
    dispatcher_destroy(machine->context.dispatcher);
    machine->context.dispatcher = NULL;
  }
}

void machine_destroy(struct machine *machine) {
  if (machine == NULL) {
    return;
  }
  machine_stop(machine);
  if (machine->context.sessions != NULL) {
    session_table_destroy(machine->context.sessions);
  }
  free(machine);
}

int64_t machine_tick(struct machine *machine) {
  struct dispatcher *dispatcher = machine->context.dispatcher;
  int64_t now_ns = clock_steady_ns(NULL);
  int64_t next_session_ms = session_table_expire(machine->context.sessions);
  int64_t next_budget_ns = budget_expire(dispatcher_budget(dispatcher), now_ns);
  arena_trim(dispatcher_arena(dispatcher), now_ns, ARENA_IDLE_NS);
  int64_t delay_ms = TICK_MS_MAX;
  if (next_session_ms - now_ns / 1000000 < delay_ms) {
    delay_ms = next_session_ms - now_ns / 1000000;
  }
  if ((next_budget_ns - now_ns) / 1000000 < delay_ms) {
    delay_ms = (next_budget_ns - now_ns) / 1000000;
  }
  return delay_ms < 1 ? 1 : delay_ms;
}
