#include "server/dispatch/verification.h"

#include "kernels/tolerance.h"
#include "server/dispatch/capsule.h"
#include "server/dispatch/job_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct verification {
  const struct log *log; // may be NULL
  struct capsule_store *capsules;
  const char *server_version;
  bool all;           // each job is chosen
  uint64_t threshold; // see is_next_chosen
  atomic_uint_fast64_t jobs;
  atomic_uint_fast64_t agreed, unjudged, differed;
};

bool verification_create(const struct dispatcher_options *options, struct verification **verification,
                         struct status *status) {
  *verification = NULL;
  if (!(options->verify_fraction > 0)) {
    return true;
  }
  struct verification *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for verification");
  }
  created->log = options->log;
  created->server_version = options->server_version;
  created->all = options->verify_fraction >= 1;
  created->threshold = created->all ? 0 : (uint64_t)(options->verify_fraction * 0x1p64);
  if (!capsule_store_create(options->capsule_directory, &created->capsules, status)) {
    free(created);
    return false;
  }
  *verification = created;
  return true;
}

void verification_destroy(struct verification *verification) {
  if (verification != NULL) {
    capsule_store_destroy(verification->capsules);
    free(verification);
  }
}

void verification_get_counts(const struct verification *verification, struct verification_counts *counts) {
  *counts = (struct verification_counts){0};
  if (verification != NULL) {
    counts->agreed = atomic_load(&verification->agreed);
    counts->unjudged = atomic_load(&verification->unjudged);
    counts->differed = atomic_load(&verification->differed);
  }
}

// The multiples of the golden ratio modulo 1 lie evenly: of any run of jobs about the wanted share falls
// below the fraction, and no period in the jobs (devices that take turns) keeps some from ever being chosen.
static bool is_next_chosen(struct verification *verification) {
  const uint64_t golden_ratio = UINT64_C(0x9E3779B97F4A7C15); // of 2^64
  uint64_t number = atomic_fetch_add_explicit(&verification->jobs, 1, memory_order_relaxed);
  return verification->all || number * golden_ratio < verification->threshold;
}

bool verification_chooses(const struct dispatcher *dispatcher, const struct plan *plan) {
  return dispatcher->verification != NULL && is_next_chosen(dispatcher->verification) &&
         job_bytes(plan, true) <= budget_limit(dispatcher->options.budget);
}

// What was found out about one job.
struct finding {
  bool exactly;                                                  // how it was to be judged
  struct tensor_comparison comparisons[OPERATOR_PARAMETERS_MAX]; // by tensor index; of outputs
  size_t differing;                                              // index of the first output that differs
};

static void compare_outputs(const struct job *job, struct finding *finding) {
  const struct plan *plan = &job->plan;
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT) {
      tensor_compare(plan_tensor_desc(plan, i), job->run_task.run.storages[tensor->parameter],
                     job->reference_task.run.storages[tensor->parameter], true, &finding->comparisons[i]);
    }
  }
}

// True if all outputs agree in that way; else the finding says which one is the first that doesn't.
static bool outputs_agree(const struct plan *plan, bool exactly, struct finding *finding) {
  bool agree = true;
  finding->exactly = exactly;
  for (size_t i = plan->tensor_count; i-- > 0;) {
    struct tensor_comparison *comparison = &finding->comparisons[i];
    if (plan->tensors[i].direction == DIRECTION_OUTPUT) {
      comparison->agree = tensor_comparison_agrees(comparison, plan_tensor_desc(plan, i)->data_type, exactly);
      finding->differing = comparison->agree ? finding->differing : i;
      agree = agree && comparison->agree;
    }
  }
  return agree;
}

// Whether the device must agree with the CPU on these inputs, and how closely.
static bool is_comparable(const struct job *job, bool *exactly) {
  *exactly = job->plan.numerics == NUMERICS_EXACT;
  return job->backend->is_comparable == NULL ||
         job->backend->is_comparable(job->backend, &job->run_task, exactly);
}

static void describe_device(const struct job *job, struct backend_device *described) {
  struct backend_device devices[BACKEND_DEVICES_MAX];
  int32_t number = job->run_task.device;
  size_t count = 0;
  if (job->backend->describe_devices != NULL) {
    count = job->backend->describe_devices(job->backend, devices, BACKEND_DEVICES_MAX);
  }
  *described = (struct backend_device){.detail = "not described"};
  if (number >= 0 && (size_t)number < count) {
    *described = devices[number];
  }
}

static void keep_capsule(struct verification *verification, const struct job *job,
                         const struct finding *finding, const struct backend_device *device) {
  struct capsule capsule = {
      .server_version = verification->server_version,
      .plan = &job->plan,
      .device_run = &job->run_task.run,
      .cpu_run = &job->reference_task.run,
      .exactly = finding->exactly,
      .comparisons = finding->comparisons,
      .device_number = job->run_task.device,
      .device = device,
  };
  char path[CAPSULE_PATH_BYTES_MAX];
  struct status status;
  bool kept = capsule_store_keep(verification->capsules, &capsule, path, &status);
  if (verification->log == NULL) {
    return;
  }
  if (kept) {
    log_event(verification->log, LOG_INFO, "a capsule was written", LOG_TEXT("path", path));
  } else {
    log_event(verification->log, LOG_WARNING, "no capsule was written", LOG_TEXT("why", status.message));
  }
}

// The device gave a wrong result.
static void accuse(struct verification *verification, struct job *job, const struct finding *finding) {
  struct backend_run_task *task = &job->run_task;
  const struct plan *plan = &job->plan;
  const struct plan_tensor *tensor = &plan->tensors[finding->differing];
  const struct tensor_comparison *comparison = &finding->comparisons[finding->differing];
  const char *name = plan->definition->parameters[tensor->parameter].name;
  task->failure = BACKEND_FAILURE_DEVICE;
  status_fail(&task->status, REASON_DEVICE_LOST, NULL,
              "device %d and the CPU differ in %" PRId64 " of %" PRId64
              " elements of %s, the first at position %" PRId64,
              (int)task->device, comparison->differing, comparison->elements, name, comparison->first);
  struct backend_device device;
  describe_device(job, &device);
  if (job->backend->quarantine != NULL) {
    job->backend->quarantine(job->backend, task->device, task->status.message);
  }
  if (verification->log != NULL) {
    char worst[32];
    snprintf(worst, sizeof worst, "%g", comparison->worst_error);
    log_event(verification->log, LOG_ERROR, "a device gave a wrong result", LOG_TEXT("device", device.name),
              LOG_INTEGER("number", task->device), LOG_TEXT("operator", plan->definition->name),
              LOG_TEXT("numerics", numerics_name(plan->numerics)), LOG_TEXT("tensor", name),
              LOG_INTEGER("differing", comparison->differing), LOG_INTEGER("elements", comparison->elements),
              LOG_INTEGER("first", comparison->first), LOG_TEXT("worst_relative_error", worst));
  }
  keep_capsule(verification, job, finding, &device);
}

// Judges the device's outputs by the CPU's.
static bool judge(struct verification *verification, struct job *job) {
  struct finding finding = {0};
  bool exactly = true;
  compare_outputs(job, &finding);
  if (outputs_agree(&job->plan, true, &finding)) {
    atomic_fetch_add(&verification->agreed, 1);
    return true;
  }
  if (!is_comparable(job, &exactly)) {
    atomic_fetch_add(&verification->unjudged, 1);
    return true;
  }
  if (!exactly && outputs_agree(&job->plan, false, &finding)) {
    atomic_fetch_add(&verification->agreed, 1);
    return true;
  }
  atomic_fetch_add(&verification->differed, 1);
  accuse(verification, job, &finding);
  return false;
}

// Cancelled, or a fault of the CPU's side: no ground to doubt the device.
static void let_pass(struct verification *verification, const struct job *job) {
  atomic_fetch_add(&verification->unjudged, 1);
  if (!job_is_cancelled(job) && verification->log != NULL) {
    log_event(verification->log, LOG_WARNING, "a job could not be verified",
              LOG_TEXT("why", job->reference_task.status.message));
  }
}

static void on_reference_done(struct backend_run_task *task, bool ok) {
  struct job *job = (struct job *)((char *)task - offsetof(struct job, reference_task));
  bool agrees = true;
  if (ok) {
    agrees = judge(job->dispatcher->verification, job);
  } else {
    let_pass(job->dispatcher->verification, job);
  }
  job->ended_ns = job_now_ns(job);
  job_attempt_settle(job, agrees);
}

void verification_begin(struct job *job) {
  struct backend_run_task *task = &job->reference_task;
  task->run.plan = job->cpu_plan;
  task->run.cancelled = &job->cancelled;
  task->attempt = 1;
  task->inputs = &job->inputs;
  task->outputs = &job->reference;
  task->done = on_reference_done;
  struct backend *cpu = dispatcher_find_backend(job->dispatcher, TARGET_CPU);
  cpu->run(cpu, task);
}
