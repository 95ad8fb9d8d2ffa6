#include "server/dispatch/dispatcher.h"

#include "server/dispatch/dispatcher_internal.h"
#include "server/dispatch/verification.h"

#include <assert.h>
#include <stdlib.h>

bool dispatcher_create(const struct dispatcher_options *options, struct dispatcher **dispatcher,
                       struct status *status) {
  assert(options->backend_count <= DISPATCHER_BACKENDS_MAX);
  struct dispatcher *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the dispatcher");
  }
  created->options = *options;
  if (!growth_create(&created->growth, status)) {
    free(created);
    return false;
  }
  if (!verification_create(options, &created->verification, status)) {
    growth_destroy(created->growth);
    free(created);
    return false;
  }
  pthread_mutex_init(&created->outputs_mutex, NULL);
  pthread_cond_init(&created->outputs_gone, NULL);
  *dispatcher = created;
  return true;
}

void dispatcher_abandon_devices(struct dispatcher *dispatcher) {
  for (size_t i = 0; i < dispatcher->options.backend_count; i++) {
    struct backend *backend = dispatcher->options.backends[i];
    if (backend->abandon != NULL) {
      backend->abandon(backend);
    }
  }
}

void dispatcher_outputs_made(struct dispatcher *dispatcher) {
  pthread_mutex_lock(&dispatcher->outputs_mutex);
  dispatcher->outputs++;
  pthread_mutex_unlock(&dispatcher->outputs_mutex);
}

void dispatcher_outputs_gone(struct dispatcher *dispatcher) {
  pthread_mutex_lock(&dispatcher->outputs_mutex);
  if (--dispatcher->outputs == 0) {
    pthread_cond_signal(&dispatcher->outputs_gone);
  }
  pthread_mutex_unlock(&dispatcher->outputs_mutex);
}

static void await_outputs(struct dispatcher *dispatcher) {
  pthread_mutex_lock(&dispatcher->outputs_mutex);
  while (dispatcher->outputs > 0) {
    pthread_cond_wait(&dispatcher->outputs_gone, &dispatcher->outputs_mutex);
  }
  pthread_mutex_unlock(&dispatcher->outputs_mutex);
}

void dispatcher_destroy(struct dispatcher *dispatcher) {
  if (dispatcher == NULL) {
    return;
  }
  assert(atomic_load(&dispatcher->jobs) == 0);
  await_outputs(dispatcher);
  growth_destroy(dispatcher->growth);
  for (size_t i = 0; i < dispatcher->options.backend_count; i++) {
    struct backend *backend = dispatcher->options.backends[i];
    backend->destroy(backend);
  }
  arena_destroy(dispatcher->options.arena);
  budget_destroy(dispatcher->options.budget);
  verification_destroy(dispatcher->verification);
  pthread_cond_destroy(&dispatcher->outputs_gone);
  pthread_mutex_destroy(&dispatcher->outputs_mutex);
  free(dispatcher);
}

struct budget *dispatcher_budget(struct dispatcher *dispatcher) {
  return dispatcher->options.budget;
}

struct arena *dispatcher_arena(struct dispatcher *dispatcher) {
  return dispatcher->options.arena;
}

struct backend *dispatcher_find_backend(const struct dispatcher *dispatcher, enum target target) {
  for (size_t i = 0; i < dispatcher->options.backend_count; i++) {
    if (dispatcher->options.backends[i]->target == target) {
      return dispatcher->options.backends[i];
    }
  }
  return NULL;
}

const struct backend *dispatcher_backend(const struct dispatcher *dispatcher, enum target target) {
  return dispatcher_find_backend(dispatcher, target);
}

void dispatcher_get_verification(struct dispatcher *dispatcher, struct verification_counts *counts) {
  verification_get_counts(dispatcher->verification, counts);
}

bool dispatcher_check_job_bytes(const struct dispatcher *dispatcher, const struct plan *plan,
                                struct status *status) {
  uint64_t bytes = plan_job_bytes(plan), limit = budget_limit(dispatcher->options.budget);
  if (bytes <= limit) {
    return true;
  }
  status_fail(
      status, REASON_JOB_TOO_LARGE, NULL,
      "the job needs %llu bytes for its tensors and workspace, the server has %llu for all jobs together",
      (unsigned long long)bytes, (unsigned long long)limit);
  status_add_metadata(status, "job_bytes", "%llu", (unsigned long long)bytes);
  status_add_metadata(status, "limit_bytes", "%llu", (unsigned long long)limit);
  return false;
}

// DEVICE promises least, EXACT most, and the enum is in that order. On a device EXACT is a matter of the
// single plan, while DETERMINISTIC is a mode that it was started in: nothing else stands for that.
enum numerics backend_numerics_given(const struct backend *backend, enum numerics asked) {
  _Static_assert(NUMERICS_DEVICE < NUMERICS_DETERMINISTIC && NUMERICS_DETERMINISTIC < NUMERICS_EXACT,
                 "from the weakest promise to the strongest");
  bool is_mode = backend->target == TARGET_NPU && asked == NUMERICS_DETERMINISTIC;
  enum numerics strongest = is_mode ? NUMERICS_DETERMINISTIC : NUMERICS_EXACT;
  for (enum numerics given = asked; given <= strongest; given++) {
    if (backend->numerics & (1u << given)) {
      return given;
    }
  }
  return NUMERICS_UNSPECIFIED;
}

// Whether the plan can run there at all. backend may be NULL: `target` isn't configured.
static bool check_served(const struct backend *backend, enum target target, const struct plan *plan,
                         struct status *status) {
  if (backend == NULL) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "this server has no target %s",
                       target_name(target));
  }
  if (target == TARGET_NPU && plan->definition->npu == NULL) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "%s does not run on target %s",
                       plan->definition->name, target_name(target));
  }
  if (backend_numerics_given(backend, plan->numerics) == NUMERICS_UNSPECIFIED) {
    return status_fail(status, REASON_TARGET_UNAVAILABLE, NULL, "target %s does not give numerics %s",
                       target_name(target), numerics_name(plan->numerics));
  }
  return true;
}

// The choice of the target. AUTO means the NPU where one serves the plan, else the CPU. Whoever asks for the
// NPU gets it or a refusal; only that a plan with an empty tensor, for which a device has nothing to do, is
// run by the CPU in any case. NULL with the status filled if nobody serves the plan.
static struct backend *choose_backend(const struct dispatcher *dispatcher, const struct plan *plan,
                                      struct status *status) {
  struct backend *cpu = dispatcher_find_backend(dispatcher, TARGET_CPU);
  struct backend *npu = dispatcher_find_backend(dispatcher, TARGET_NPU);
  if (plan->target != TARGET_CPU) {
    bool served = check_served(npu, TARGET_NPU, plan, status);
    if (served && !plan->empty) {
      return npu;
    }
    if (!served && plan->target == TARGET_NPU) {
      return NULL;
    }
  }
  return check_served(cpu, TARGET_CPU, plan, status) ? cpu : NULL;
}

static void on_planned(struct backend_plan_task *backend_task, bool ok);

// Asks the backend that is chosen for plan->target as it now is.
static void plan_on_chosen(struct dispatch_plan_task *task) {
  struct plan *plan = task->plan;
  struct backend *backend = choose_backend(task->_dispatcher, plan, &task->status);
  if (backend == NULL) {
    task->done(task, false);
    return;
  }
  plan->target = backend->target;
  plan->numerics = backend_numerics_given(backend, plan->numerics);
  task->_backend_task = (struct backend_plan_task){.plan = plan, .done = on_planned};
  if (backend->plan != NULL) {
    backend->plan(backend, &task->_backend_task);
  } else {
    on_planned(&task->_backend_task, true);
  }
}

static void on_planned(struct backend_plan_task *backend_task, bool ok) {
  struct dispatch_plan_task *task =
      (struct dispatch_plan_task *)((char *)backend_task -
                                    offsetof(struct dispatch_plan_task, _backend_task));
  struct plan *plan = task->plan;
  if (!ok && task->_undecided && plan->target == TARGET_NPU) {
    // Devices refuse what the CPU takes: shapes that their kernels can't do, or they are all down.
    plan->target = TARGET_CPU;
    plan->numerics = task->_numerics;
    plan->workspace_bytes = task->_workspace_bytes;
    plan_on_chosen(task);
    return;
  }
  if (ok) {
    ok = dispatcher_check_job_bytes(task->_dispatcher, plan, &task->status);
  } else {
    task->status = backend_task->status;
  }
  task->done(task, ok);
}

void dispatcher_plan(struct dispatcher *dispatcher, struct dispatch_plan_task *task) {
  task->_dispatcher = dispatcher;
  task->_undecided = task->plan->target == TARGET_AUTO;
  task->_numerics = task->plan->numerics;
  task->_workspace_bytes = task->plan->workspace_bytes;
  plan_on_chosen(task);
}
