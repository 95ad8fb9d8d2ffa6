#include "server/dispatch/dispatcher.h"

#include "server/dispatch/dispatcher_internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

// Advice when to try again after the queue refused a job: about the time of a large one.
#define QUEUE_RETRY_MS 250

// The way of a job. Failure includes being cancelled; every way down to FAILED gives all memory back first.
//
//   CREATED --job_reserve--> AWAITING_MEMORY --granted--> ALLOCATING --> RESERVED
//      |                            |                         |             |
//      | cancelled                  | refused, cancelled      | failed      | job_submit
//      v                            v                         v             v
//   FAILED <------------------------+-------------------------+          RUNNING
//      ^                                                                    | the backend is done
//      |                                                                    v
//      +--------------------------- failed, cancelled ------------------ ENDING --> SUCCEEDED
//
// CREATED, RESERVED, SUCCEEDED and FAILED are the owner's; in the others an answer is due to it.
enum job_state {
  STATE_CREATED,
  STATE_AWAITING_MEMORY,
  STATE_ALLOCATING,
  STATE_RESERVED,
  STATE_RUNNING,
  STATE_ENDING,
  STATE_SUCCEEDED,
  STATE_FAILED,
};

struct job_outputs {
  atomic_size_t holds;
  struct dispatcher *dispatcher;
  struct arena_block block;
  uint64_t bytes; // of the budget
};

struct job {
  struct dispatcher *dispatcher;
  struct plan plan;
  struct job_callbacks callbacks;
  atomic_bool cancelled; // set under the mutex, read by the backend without

  pthread_mutex_t mutex; // guards state, waited and references
  enum job_state state;
  bool waited;       // job_submit has said JOB_WAITING: the end is told by callback
  size_t references; // the owner's, and job_cancel's while it is at work
  struct status status;

  struct budget_request budget_request;
  uint64_t input_bytes; // of the budget, while the job has them; the host workspace is among them
  struct arena_block inputs;
  struct job_outputs *outputs; // NULL once the job has given them up
  struct backend_run_task run_task;
  int64_t asked_ns, granted_ns, submitted_ns;
  int32_t attempts;
};

// Where everything lies, from the beginning of its block.
struct layout {
  uint64_t input_bytes, output_bytes;        // sizes of the two blocks; UINT64_MAX: beyond all measure
  uint64_t offsets[OPERATOR_PARAMETERS_MAX]; // by position among plan->tensors
  uint64_t workspace_offset;                 // in the inputs' block
};

// Adds a piece to a block and returns where it begins.
static uint64_t place(uint64_t *block_bytes, uint64_t bytes) {
  uint64_t offset = *block_bytes, end;
  if (__builtin_add_overflow(offset, bytes, &end) ||
      __builtin_add_overflow(end, (uint64_t)TENSOR_ALIGNMENT - 1, &end)) {
    *block_bytes = UINT64_MAX;
  } else {
    *block_bytes = end / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  }
  return offset;
}

static void lay_out(const struct plan *plan, struct layout *layout) {
  *layout = (struct layout){0};
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->transferred) {
      uint64_t *block = tensor->direction == DIRECTION_INPUT ? &layout->input_bytes : &layout->output_bytes;
      layout->offsets[i] = place(block, (uint64_t)tensor->storage_bytes);
    }
  }
  // A device's workspace is its own memory.
  uint64_t workspace_bytes = plan->target == TARGET_NPU ? 0 : plan->workspace_bytes;
  layout->workspace_offset = place(&layout->input_bytes, workspace_bytes);
}

uint64_t plan_job_bytes(const struct plan *plan) {
  struct layout layout;
  uint64_t bytes;
  lay_out(plan, &layout);
  return __builtin_add_overflow(layout.input_bytes, layout.output_bytes, &bytes) ? UINT64_MAX : bytes;
}

static int64_t now_ns(const struct job *job) {
  return job->dispatcher->options.clock_ns(job->dispatcher->options.clock_context);
}

struct job *job_create(struct dispatcher *dispatcher, const struct plan *plan, const void *stream,
                       const struct job_callbacks *callbacks) {
  assert(dispatcher_find_backend(dispatcher, plan->target) != NULL);
  struct job *job = calloc(1, sizeof *job);
  struct job_outputs *outputs = calloc(1, sizeof *outputs);
  if (job == NULL || outputs == NULL) {
    free(job);
    free(outputs);
    return NULL;
  }
  atomic_init(&outputs->holds, 1);
  outputs->dispatcher = dispatcher;
  job->dispatcher = dispatcher;
  job->outputs = outputs;
  job->plan = *plan;
  job->callbacks = *callbacks;
  job->run_task.stream = stream;
  job->references = 1;
  pthread_mutex_init(&job->mutex, NULL);
  atomic_fetch_add(&dispatcher->jobs, 1);
  return job;
}

static void unreference(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  bool last = --job->references == 0;
  pthread_mutex_unlock(&job->mutex);
  if (last) {
    struct dispatcher *dispatcher = job->dispatcher;
    pthread_mutex_destroy(&job->mutex);
    free(job);
    atomic_fetch_sub(&dispatcher->jobs, 1);
  }
}

static void fail_cancelled(struct status *status) {
  status_fail(status, REASON_CANCELLED, NULL, "the job was cancelled");
}

// Memory.

static void give_back_inputs(struct job *job) {
  uint64_t bytes = job->input_bytes;
  job->input_bytes = 0;
  arena_free(job->dispatcher->options.arena, &job->inputs);
  if (bytes > 0) {
    budget_release(job->dispatcher->options.budget, bytes);
  }
}

static void give_back_outputs(struct job *job) {
  if (job->outputs != NULL) {
    job_outputs_release(job->outputs);
    job->outputs = NULL;
  }
}

static bool allocate_block(struct job *job, uint64_t bytes, struct arena_block *block,
                           struct status *status) {
  return bytes == 0 || arena_allocate(job->dispatcher->options.arena, bytes, block, status);
}

// Stands for tensors without bytes: nothing is ever read or written there.
static const _Alignas(TENSOR_ALIGNMENT) uint8_t no_bytes[TENSOR_ALIGNMENT];

static void point_storages(struct job *job, const struct layout *layout) {
  struct operator_run *run = &job->run_task.run;
  for (size_t i = 0; i < job->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &job->plan.tensors[i];
    uint8_t *block = tensor->direction == DIRECTION_INPUT ? job->inputs.data : job->outputs->block.data;
    if (tensor->transferred) {
      run->storages[tensor->parameter] =
          tensor->storage_bytes > 0 ? block + layout->offsets[i] : (uint8_t *)no_bytes;
    }
  }
  if (layout->input_bytes > layout->workspace_offset) {
    run->workspace = job->inputs.data + layout->workspace_offset;
  }
}

// Takes the blocks for which the budget was granted. On failure nothing is held, of the budget neither.
static bool allocate(struct job *job, struct status *status) {
  struct layout layout;
  lay_out(&job->plan, &layout);
  job->input_bytes = layout.input_bytes;
  job->outputs->bytes = layout.output_bytes;
  if (!allocate_block(job, layout.input_bytes, &job->inputs, status) ||
      !allocate_block(job, layout.output_bytes, &job->outputs->block, status)) {
    give_back_outputs(job);
    give_back_inputs(job);
    return false;
  }
  point_storages(job, &layout);
  return true;
}

struct job_outputs *job_outputs_hold(struct job *job) {
  assert(job->outputs != NULL);
  atomic_fetch_add(&job->outputs->holds, 1);
  return job->outputs;
}

void job_outputs_release(struct job_outputs *outputs) {
  if (atomic_fetch_sub(&outputs->holds, 1) > 1) {
    return;
  }
  struct dispatcher *dispatcher = outputs->dispatcher;
  uint64_t bytes = outputs->bytes;
  arena_free(dispatcher->options.arena, &outputs->block);
  free(outputs);
  if (bytes > 0) {
    budget_release(dispatcher->options.budget, bytes);
  }
}

// The wait for memory.

static bool refuse_reservation(struct job *job, enum budget_outcome outcome, struct status *status) {
  const char *why =
      outcome == BUDGET_TIMED_OUT ? "the job waited too long for it" : "the queue for it is full";
  status_fail(status, outcome == BUDGET_TIMED_OUT ? REASON_QUEUE_TIMEOUT : REASON_QUEUE_FULL, NULL,
              "the server's memory for jobs, %llu bytes, is taken and %s",
              (unsigned long long)budget_limit(job->dispatcher->options.budget), why);
  status->retry_after_ms = QUEUE_RETRY_MS;
  return false;
}

// The budget has decided: true if the job has its memory now.
static bool settle_reservation(struct job *job, enum budget_outcome outcome) {
  struct status status;
  pthread_mutex_lock(&job->mutex);
  job->state = STATE_ALLOCATING;
  pthread_mutex_unlock(&job->mutex);

  bool ok = outcome == BUDGET_GRANTED ? allocate(job, &status) : refuse_reservation(job, outcome, &status);
  pthread_mutex_lock(&job->mutex);
  bool cancelled = atomic_load(&job->cancelled);
  if (ok && !cancelled) {
    job->granted_ns = now_ns(job);
    job->state = STATE_RESERVED;
  }
  pthread_mutex_unlock(&job->mutex);
  if (ok && !cancelled) {
    return true;
  }

  give_back_outputs(job);
  give_back_inputs(job);
  if (cancelled) {
    fail_cancelled(&status);
  }
  pthread_mutex_lock(&job->mutex);
  job->status = status;
  job->state = STATE_FAILED;
  pthread_mutex_unlock(&job->mutex);
  return false;
}

static void on_decided(struct budget_request *request, enum budget_outcome outcome) {
  struct job *job = (struct job *)((char *)request - offsetof(struct job, budget_request));
  struct job_callbacks callbacks = job->callbacks;
  bool ok = settle_reservation(job, outcome);
  callbacks.reserved(callbacks.context, ok);
}

enum job_progress job_reserve(struct job *job) {
  struct budget *budget = job->dispatcher->options.budget;
  pthread_mutex_lock(&job->mutex);
  bool ok = job->state == STATE_CREATED;
  assert(ok || job->state == STATE_FAILED);
  if (ok && !dispatcher_check_job_bytes(job->dispatcher, &job->plan, &job->status)) {
    job->state = STATE_FAILED;
    ok = false;
  } else if (ok) {
    job->state = STATE_AWAITING_MEMORY;
    job->asked_ns = now_ns(job);
  }
  pthread_mutex_unlock(&job->mutex);
  if (!ok) {
    return JOB_FAILED;
  }
  job->budget_request = (struct budget_request){.bytes = plan_job_bytes(&job->plan), .decided = on_decided};
  enum budget_outcome outcome = BUDGET_GRANTED;
  if (job->budget_request.bytes > 0) {
    outcome = budget_reserve(budget, &job->budget_request, job->asked_ns);
  }
  if (outcome == BUDGET_WAITING) {
    return JOB_WAITING; // the answer may have been given already, the job even be gone
  }
  return settle_reservation(job, outcome) ? JOB_READY : JOB_FAILED;
}

// The run.

static void on_run_done(struct backend_run_task *task, bool ok) {
  struct job *job = (struct job *)((char *)task - offsetof(struct job, run_task));
  struct job_callbacks callbacks = job->callbacks;
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_RUNNING);
  job->state = STATE_ENDING;
  bool cancelled = atomic_load(&job->cancelled);
  pthread_mutex_unlock(&job->mutex);

  ok = ok && !cancelled;
  if (cancelled) {
    fail_cancelled(&task->status);
  }
  if (!ok) {
    give_back_outputs(job);
  }
  give_back_inputs(job);

  pthread_mutex_lock(&job->mutex);
  if (!ok) {
    job->status = task->status;
  }
  job->state = ok ? STATE_SUCCEEDED : STATE_FAILED;
  bool waited = job->waited;
  pthread_mutex_unlock(&job->mutex);
  // If nobody waits, job_submit is still under way and returns this; the job may be gone by now.
  if (waited) {
    callbacks.finished(callbacks.context, ok);
  }
}

enum job_progress job_submit(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_RESERVED);
  bool cancelled = atomic_load(&job->cancelled);
  if (!cancelled) {
    job->state = STATE_RUNNING;
    job->submitted_ns = now_ns(job);
    job->attempts++;
  }
  pthread_mutex_unlock(&job->mutex);
  if (cancelled) {
    give_back_outputs(job);
    give_back_inputs(job);
    fail_cancelled(&job->status);
    job->state = STATE_FAILED;
    return JOB_FAILED;
  }

  struct backend_run_task *task = &job->run_task;
  task->run.plan = &job->plan;
  task->run.cancelled = &job->cancelled;
  task->inputs = &job->inputs;
  task->outputs = &job->outputs->block;
  task->done = on_run_done;
  struct backend *backend = dispatcher_find_backend(job->dispatcher, job->plan.target);
  backend->run(backend, task);

  pthread_mutex_lock(&job->mutex);
  enum job_state state = job->state;
  job->waited = state != STATE_SUCCEEDED && state != STATE_FAILED;
  pthread_mutex_unlock(&job->mutex);
  if (state == STATE_SUCCEEDED) {
    return JOB_READY;
  }
  return state == STATE_FAILED ? JOB_FAILED : JOB_WAITING;
}

// For the owner.

uint8_t *job_tensor_data(struct job *job, size_t index) {
  assert(index < job->plan.tensor_count);
  return job->run_task.run.storages[job->plan.tensors[index].parameter];
}

const struct plan *job_plan(const struct job *job) {
  return &job->plan;
}

const struct status *job_status(const struct job *job) {
  return &job->status;
}

void job_get_timing(const struct job *job, struct job_timing *timing) {
  const struct backend_run_task *task = &job->run_task;
  *timing = (struct job_timing){
      .queue_ns = job->granted_ns - job->asked_ns + task->started_ns - job->submitted_ns,
      .upload_ns = job->submitted_ns - job->granted_ns,
      .compute_ns = task->finished_ns - task->started_ns,
      .attempts = job->attempts,
      .finished_ns = task->finished_ns,
  };
}

void job_cancel(struct job *job) {
  pthread_mutex_lock(&job->mutex);
  atomic_store(&job->cancelled, true);
  bool awaiting = job->state == STATE_AWAITING_MEMORY;
  if (awaiting) {
    // The answer may come meanwhile, and the owner destroy the job.
    job->references++;
  } else if (job->state == STATE_CREATED) {
    fail_cancelled(&job->status);
    job->state = STATE_FAILED;
  }
  pthread_mutex_unlock(&job->mutex);
  if (awaiting) {
    if (budget_cancel(job->dispatcher->options.budget, &job->budget_request)) {
      fail_cancelled(&job->status);
      pthread_mutex_lock(&job->mutex);
      job->state = STATE_FAILED;
      pthread_mutex_unlock(&job->mutex);
      job->callbacks.reserved(job->callbacks.context, false);
    }
    unreference(job);
  }
}

void job_destroy(struct job *job) {
  if (job == NULL) {
    return;
  }
  pthread_mutex_lock(&job->mutex);
  assert(job->state == STATE_CREATED || job->state == STATE_RESERVED || job->state == STATE_SUCCEEDED ||
         job->state == STATE_FAILED);
  pthread_mutex_unlock(&job->mutex);
  give_back_outputs(job);
  give_back_inputs(job);
  unreference(job);
}
