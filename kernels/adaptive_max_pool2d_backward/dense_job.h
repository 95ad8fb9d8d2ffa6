// A dense run under way, for dense.c and the ways that it chooses from: one source for each of them.
//
// Tasks on several threads share the job; each writes only what belongs to its slot, and the atomics.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_DENSE_JOB_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_DENSE_JOB_H

#include "kernels/adaptive_max_pool2d_backward/plan.h"
#include "kernels/adaptive_max_pool2d_backward/vector.h"
#include "kernels/operator_run.h"

// Of gradInput, that are pulled at once: with the narrowed indices and gradients over them they leave room in
// a first cache for what is read next.
#define DENSE_PULL_ELEMENTS 1024
// But as many rows at least, where they are long: each strip of them has to be set out on.
#define DENSE_PULL_ROWS_MIN 8

enum way { WAY_SCATTER, WAY_COPY, WAY_PULL, WAY_EXPAND };

// What of a slot's scratch is zeros. It is written for every plane, so each has a cache line to itself.
struct dense_slot {
  _Alignas(CACHE_LINE) bool zero_sums;
  bool zero_stage;
  bool scatters; // an index was outside its window: it isn't tried again whether others are
};

struct dense_job {
  const struct operator_run *run;
  const struct backward_plan *plan;
  const struct backward_kernels *kernels;
  const unsigned char *gradients, *indices;
  unsigned char *grad_input;
  int64_t value_bytes, index_bytes;
  int64_t plane_elements, plane_gradients;
  enum way way;
  bool combines;      // unless an index is outside its window
  bool disjoint;      // no two windows share a position
  bool sparse;        // few positions get a gradient
  bool few_lines;     // few cache lines of gradInput get one
  bool streams;       // gradInput is nearly as large as the caches, or larger
  int64_t piece_rows; // of a band, that are scattered at once
  int64_t pull_rows;  // whose gradients fit in the stage
  bool holds;         // pulled by rows in their order, as the tensors don't stay in the caches
  struct dense_slot slots[OPERATOR_RUN_SLOTS_MAX];
  _Atomic int64_t taken; // gradients of bands that were pulled or copied
  atomic_bool refused;   // an index is not where it is expected
  struct pull_table table;
  struct expand_table expand;
  struct combine_table combine;
};

static inline float *dense_slot_sums(const struct dense_job *job, size_t slot) {
  return (float *)((unsigned char *)job->run->workspace + (int64_t)slot * backward_slot_bytes(job->plan));
}

static inline unsigned char *dense_slot_stage(const struct dense_job *job, size_t slot) {
  return (unsigned char *)(dense_slot_sums(job, slot) + job->plan->slot_floats);
}

static inline bool dense_is_over(const struct dense_job *job) {
  return operator_run_is_cancelled(job->run) || atomic_load_explicit(&job->refused, memory_order_relaxed);
}

static inline void dense_refuse(struct dense_job *job) {
  atomic_store_explicit(&job->refused, true, memory_order_relaxed);
}

// Scratch like `to` within a cache line.
static inline unsigned char *dense_like(unsigned char *scratch, const void *to) {
  return scratch + (uintptr_t)to % CACHE_LINE;
}

// Checks the indices of whole planes, makes the planes zero and scatters their gradients. Refuses the run if
// an index is illegal.
void dense_scatter_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes);
// The same with rows [row_begin, row_end) of a plane. Refuses the run if an index is not in the rows of its
// window.
void dense_scatter_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                        int64_t row_end);

// Whether gradients can be combined before they are stored; builds the table for it.
bool dense_can_combine(struct dense_job *job);
// Combine and store the gradients of whole planes, where `zero` says that there are zeros already, or of rows
// of gradOutput, from `line`'s on, of which some positions are owned. False if an index isn't in its window;
// then grad_input may be anything.
bool dense_combine_planes(struct dense_job *job, size_t slot, struct backward_line line, bool zero);
bool dense_combine_rows(struct dense_job *job, size_t slot, struct backward_line line, int64_t row_begin,
                        int64_t row_end);

// Pull whole planes, or rows of one. How many gradients were taken.
int64_t dense_pull_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes);
int64_t dense_pull_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                        int64_t row_end);

#endif
