#include "server/dispatch/job_internal.h"

#include <assert.h>
#include <stdlib.h>

// Where everything lies, from the beginning of its block.
struct layout {
  uint64_t input_bytes, output_bytes;        // sizes of the blocks; UINT64_MAX: beyond all measure
  uint64_t reference_bytes;                  // as long as the outputs, or 0
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

bool plan_may_move(const struct plan *plan) {
  return plan->automatic && plan->target == TARGET_NPU && plan->numerics != NUMERICS_DETERMINISTIC;
}

// A device's workspace is its own memory; on the host it takes what the CPU may come to need.
static uint64_t host_workspace_bytes(const struct plan *plan, bool verified) {
  if (plan->target != TARGET_NPU) {
    return plan->workspace_bytes;
  }
  return verified || plan_may_move(plan) ? plan->host_workspace_bytes : 0;
}

static void lay_out(const struct plan *plan, bool verified, struct layout *layout) {
  *layout = (struct layout){0};
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    if (tensor->transferred) {
      uint64_t *block = tensor->direction == DIRECTION_INPUT ? &layout->input_bytes : &layout->output_bytes;
      layout->offsets[i] = place(block, (uint64_t)tensor->storage_bytes);
    }
  }
  layout->workspace_offset = place(&layout->input_bytes, host_workspace_bytes(plan, verified));
  layout->reference_bytes = verified ? layout->output_bytes : 0;
}

uint64_t job_bytes(const struct plan *plan, bool verified) {
  struct layout layout;
  uint64_t bytes;
  lay_out(plan, verified, &layout);
  bool measurable = !__builtin_add_overflow(layout.input_bytes, layout.output_bytes, &bytes) &&
                    !__builtin_add_overflow(bytes, layout.reference_bytes, &bytes);
  return measurable ? bytes : UINT64_MAX;
}

uint64_t plan_job_bytes(const struct plan *plan) {
  return job_bytes(plan, false);
}

void job_give_back_private(struct job *job) {
  uint64_t bytes = job->private_bytes;
  job->private_bytes = 0;
  arena_free(job->dispatcher->options.arena, &job->inputs);
  arena_free(job->dispatcher->options.arena, &job->reference);
  if (bytes > 0) {
    budget_release(job->dispatcher->options.budget, bytes);
  }
}

void job_give_back_outputs(struct job *job) {
  if (job->outputs != NULL) {
    job_outputs_release(job->outputs);
    job->outputs = NULL;
  }
}

static enum arena_outcome allocate_block(struct job *job, uint64_t bytes, bool quickly,
                                         struct arena_block *block, struct status *status) {
  struct arena *arena = job->dispatcher->options.arena;
  if (bytes == 0 || block->data != NULL) {
    return ARENA_ALLOCATED;
  }
  if (quickly) {
    return arena_allocate_quickly(arena, bytes, block, status);
  }
  return arena_allocate(arena, bytes, block, status) ? ARENA_ALLOCATED : ARENA_FAILED;
}

// Stands for tensors without bytes: nothing is ever read or written there.
static const _Alignas(TENSOR_ALIGNMENT) uint8_t no_bytes[TENSOR_ALIGNMENT];

// Where a tensor of the run lies whose outputs lie in that block.
static uint8_t *tensor_place(const struct job *job, const struct layout *layout, size_t index,
                             const struct arena_block *outputs) {
  const struct plan_tensor *tensor = &job->plan.tensors[index];
  const struct arena_block *block = tensor->direction == DIRECTION_INPUT ? &job->inputs : outputs;
  return tensor->storage_bytes > 0 ? block->data + layout->offsets[index] : (uint8_t *)no_bytes;
}

static void point_storages(struct job *job, const struct layout *layout) {
  struct operator_run *run = &job->run_task.run, *reference = &job->reference_task.run;
  for (size_t i = 0; i < job->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &job->plan.tensors[i];
    if (tensor->transferred) {
      run->storages[tensor->parameter] = tensor_place(job, layout, i, &job->outputs->block);
    }
    if (tensor->transferred && job->verified) {
      reference->storages[tensor->parameter] = tensor_place(job, layout, i, &job->reference);
    }
  }
  if (layout->input_bytes > layout->workspace_offset) {
    run->workspace = job->inputs.data + layout->workspace_offset;
    reference->workspace = run->workspace;
  }
}

static enum arena_outcome allocate(struct job *job, bool quickly, struct status *status) {
  struct layout layout;
  lay_out(&job->plan, job->verified, &layout);
  job->private_bytes = layout.input_bytes + layout.reference_bytes;
  job->outputs->bytes = layout.output_bytes;
  const struct {
    uint64_t bytes;
    struct arena_block *block;
  } parts[] = {{layout.input_bytes, &job->inputs},
               {layout.reference_bytes, &job->reference},
               {layout.output_bytes, &job->outputs->block}};
  enum arena_outcome outcome = ARENA_ALLOCATED;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0] && outcome == ARENA_ALLOCATED; i++) {
    outcome = allocate_block(job, parts[i].bytes, quickly, parts[i].block, status);
  }
  if (outcome == ARENA_ALLOCATED) {
    point_storages(job, &layout);
  } else if (outcome == ARENA_FAILED) {
    job_give_back_outputs(job);
    job_give_back_private(job);
  }
  return outcome;
}

enum arena_outcome job_allocate_quickly(struct job *job, struct status *status) {
  return allocate(job, true, status);
}

bool job_allocate(struct job *job, struct status *status) {
  return allocate(job, false, status) == ARENA_ALLOCATED;
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
  dispatcher_outputs_gone(dispatcher);
}
