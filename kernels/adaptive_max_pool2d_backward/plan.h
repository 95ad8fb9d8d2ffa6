// What the backward's plan and its kernels agree on.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_PLAN_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_PLAN_H

#include "kernels/adaptive_pooling.h"
#include "kernels/operator.h"

// Positions among the parameters.
enum {
  BACKWARD_GRAD_OUTPUT,
  BACKWARD_SELF,
  BACKWARD_INDICES,
  BACKWARD_GRAD_INPUT,
  BACKWARD_PARAMETERS,
};

// A unit of work owns a range of one plane of gradInput: all sums of the range are formed by one thread, so
// the number of threads doesn't show in the bits. Up to this many elements a plane is one range (as floats
// they fit a core's cache) ...
#define BACKWARD_RANGE_ELEMENTS INT64_C(65536)
// ... and a larger one is split in at most this many, since each of them may have to look at all indices.
#define BACKWARD_RANGES_MAX 64

// Dense tensors whose planes fit in a range are worked on by groups of planes of about this many elements,
// which are half a first cache as floats ...
#define BACKWARD_UNIT_ELEMENTS INT64_C(8192)
// ... or up to this many bytes, since zeros are written faster in long runs, where there remain so many units
// and gradInput isn't so large that it is likely to be written past the caches: that is done from a scratch
// of BACKWARD_UNIT_ELEMENTS at the most, which is to stay in the first cache, and to be small besides ...
#define BACKWARD_UNIT_BYTES_MAX (INT64_C(256) << 10)
#define BACKWARD_UNITS_WANTED 16
#define BACKWARD_UNIT_BYTES_LARGE (INT64_C(32) << 20)
// ... and pulled by this many gradients at once, which are narrowed and widened before.
#define BACKWARD_PULL_GRADIENTS INT64_C(8192)
// What the widest vectors load beyond the gradients they use.
#define BACKWARD_PULL_REACH 64
// Gradients of 16 bits may be combined where gradOutput has at least so many rows and columns. That is done
// in a slot's scratch for sums, which has three floats for each of them and some, or at least so many floats.
#define BACKWARD_COMBINE_OUTPUTS_MIN 3
#define BACKWARD_COMBINE_FLOATS INT64_C(4096)
// No last cache is smaller; a smaller gradInput is never written past the caches.
#define BACKWARD_STREAM_BYTES_MIN (INT64_C(4) << 20)
// Of a core, where a run doesn't say.
#define BACKWARD_L2_BYTES_USUAL (INT64_C(512) << 10)

struct backward_plan {
  struct plane_view grad_output;
  struct plane_view indices;
  struct plane_view grad_input;
  int64_t range_elements;
  int64_t ranges_per_plane;
  // Sums are formed where they belong; otherwise in a scratch of slot_floats in the workspace for each slot.
  bool in_place;
  int64_t slot_floats;
  // Tensors are contiguous, and no row or small plane is so long that cancellation would wait for it. Then
  // units are unit_planes planes, or bands of band_rows rows where bands_per_plane isn't 0. A slot has its
  // sums, then a stage of stage_bytes for stage_gradients of each of indices and gradients.
  bool dense;
  int64_t unit_planes;
  int64_t stream_planes; // of a unit, that are written past the caches at once
  int64_t band_rows;
  int64_t bands_per_plane;
  int64_t stage_gradients;
  int64_t stage_bytes;
};

static inline int64_t backward_slot_bytes(const struct backward_plan *plan) {
  return plan->slot_floats * (int64_t)sizeof(float) + plan->stage_bytes;
}

static inline const struct backward_plan *backward_plan_of(const struct plan *plan) {
  return (const struct backward_plan *)plan->private_data;
}

bool backward_check_inputs(const struct operator_run *run, struct status *status);
bool backward_run(const struct operator_run *run, struct status *status);

#endif
