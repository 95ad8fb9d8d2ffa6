#include "kernels/operator_run.h"

#include <string.h>

// Work below this many elements isn't worth another thread, nor another look at cancellation.
#define SLICE_ELEMENTS_MIN 16384
#define ZERO_UNIT_BYTES (256 * 1024)

struct unit_loop {
  const struct operator_run *run;
  operator_run_task *task;
  void *context;
  size_t units;
  size_t parts;
  size_t slice_units;
  _Atomic uint64_t free_slots;
};

size_t operator_run_slots(size_t units) {
  return units < OPERATOR_RUN_SLOTS_MAX ? units : OPERATOR_RUN_SLOTS_MAX;
}

static size_t take_slot(_Atomic uint64_t *free_slots) {
  uint64_t free_now = atomic_load_explicit(free_slots, memory_order_relaxed);
  // Never empty: there are at most as many parts as slots, and each holds one.
  while (!atomic_compare_exchange_weak_explicit(free_slots, &free_now, free_now & (free_now - 1),
                                                memory_order_acquire, memory_order_relaxed)) {
  }
  return (size_t)__builtin_ctzll(free_now);
}

static void give_slot(_Atomic uint64_t *free_slots, size_t slot) {
  atomic_fetch_or_explicit(free_slots, UINT64_C(1) << slot, memory_order_release);
}

// The unit that part number `part` begins with: parts differ by one unit at most.
static size_t part_begin(const struct unit_loop *loop, size_t part) {
  size_t longer = loop->units % loop->parts;
  return part * (loop->units / loop->parts) + (part < longer ? part : longer);
}

static void run_parts(void *context, size_t first_part, size_t end_part) {
  struct unit_loop *loop = context;
  size_t slot = take_slot(&loop->free_slots);
  size_t end = part_begin(loop, end_part);
  for (size_t begin = part_begin(loop, first_part); begin < end && !operator_run_is_cancelled(loop->run);) {
    size_t slice_end = end - begin > loop->slice_units ? begin + loop->slice_units : end;
    loop->task(loop->context, slot, begin, slice_end);
    begin = slice_end;
  }
  give_slot(&loop->free_slots, slot);
}

bool operator_run_units(const struct operator_run *run, size_t units, int64_t unit_elements,
                        operator_run_task *task, void *context, struct status *status) {
  size_t slice_units = (size_t)(unit_elements < SLICE_ELEMENTS_MIN ? SLICE_ELEMENTS_MIN / unit_elements : 1);
  size_t slices = units / slice_units + (units % slice_units != 0);
  struct unit_loop loop = {
      .run = run,
      .task = task,
      .context = context,
      .units = units,
      .parts = operator_run_slots(slices),
      .slice_units = slice_units,
      .free_slots = UINT64_MAX,
  };
  parallel_for(run->parallel, loop.parts, 1, run_parts, &loop);
  if (operator_run_is_cancelled(run)) {
    return status_fail(status, REASON_CANCELLED, NULL, "%s was cancelled", run->plan->definition->name);
  }
  return true;
}

struct zero_job {
  unsigned char *storage;
  size_t bytes;
};

static void zero_units(void *context, size_t slot, size_t begin, size_t end) {
  (void)slot;
  const struct zero_job *job = context;
  size_t first = begin * ZERO_UNIT_BYTES;
  size_t last = end * ZERO_UNIT_BYTES < job->bytes ? end * ZERO_UNIT_BYTES : job->bytes;
  memset(job->storage + first, 0, last - first);
}

bool operator_run_zero(const struct operator_run *run, size_t parameter, struct status *status) {
  const struct tensor_desc *desc = &run->plan->arguments.values[parameter].tensor;
  struct zero_job job = {run->storages[parameter], (size_t)tensor_desc_storage_bytes(desc)};
  size_t units = job.bytes / ZERO_UNIT_BYTES + (job.bytes % ZERO_UNIT_BYTES != 0);
  return operator_run_units(run, units, ZERO_UNIT_BYTES / sizeof(float), zero_units, &job, status);
}

bool operator_run_zero_holes(const struct operator_run *run, size_t parameter, struct status *status) {
  const struct tensor_desc *desc = &run->plan->arguments.values[parameter].tensor;
  return tensor_desc_fills_storage(desc) || operator_run_zero(run, parameter, status);
}
