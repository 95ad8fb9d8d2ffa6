// For tests of the backward on this machine's processor: its calls, their inputs, and the plain computation
// that every way has to match. Parts of this folder's tests.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_BACKWARD_CALL_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_BACKWARD_CALL_H

#include "kernels/testing/operator_call.h"

enum { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT };

enum index_choice { IN_WINDOWS, ANYWHERE, ALL_THE_SAME, INDEX_CHOICES };

static inline int64_t rows_of(const struct tensor_desc *desc) {
  return desc->shape[desc->rank - 2];
}

static inline int64_t columns_of(const struct tensor_desc *desc) {
  return desc->shape[desc->rank - 1];
}

static inline int64_t plane_elements(const struct tensor_desc *desc) {
  return rows_of(desc) * columns_of(desc);
}

// Begins and plans a call; each tensor has a layout at random where `random` isn't NULL.
void backward_begin(struct operator_call *call, const char *self, const char *grad_output,
                    enum data_type index_type, struct random *random);
// A row or column of window m, of `output` windows over `input`.
int64_t backward_random_in_window(struct random *random, int64_t m, int64_t input, int64_t output);
// Fills gradOutput and indices; what lies outside the view of indices is no legal index.
void backward_fill_inputs(struct operator_call *call, struct random *random, enum index_choice choice);
int64_t backward_read_index(const struct operator_call *call, int64_t flat);
void backward_write_index(struct operator_call *call, int64_t flat, int64_t value);

// The whole storage of gradInput as it should be: one sum after the other, in the order of gradOutput. The
// caller frees it.
void *backward_expected_storage(const struct operator_call *call);
// On one pool and one processor, NULL for none.
void assert_backward_run_gives(struct operator_call *call, const struct call_pools *pools, size_t pool,
                               const struct cpu *cpu, const void *expected);
// On all pools and processors, each with each other over a few calls.
void assert_backward_runs_as_expected(struct operator_call *call, const struct call_pools *pools);
// An index whose lower half alone is that of its window is refused on all processors.
void assert_backward_refuses_wide_index(struct operator_call *call, int64_t position);

#endif
