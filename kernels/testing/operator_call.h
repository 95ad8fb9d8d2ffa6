// For tests of operators: one call with its request, its plan and memory of just the planned sizes, so that a
// sanitizer sees each byte that is touched beyond them. Also random numbers that are the same in every run.
//
// The test that makes a call ends it. Storages of outputs and the workspace are filled with garbage before
// each run.
#ifndef ACLNN_KERNELS_TESTING_OPERATOR_CALL_H
#define ACLNN_KERNELS_TESTING_OPERATOR_CALL_H

#include "kernels/operator.h"

struct operator_call {
  struct operator_request request;
  const atomic_bool *cancelled; // for the runs; NULL at first
  const struct cpu *cpu;        // for the runs; NULL at first
  struct plan plan;
  struct status status;                    // of the last step that failed
  void *storages[OPERATOR_PARAMETERS_MAX]; // after call_plan
  void *workspace;
};

void call_begin(struct operator_call *call, const char *operator_name);
void call_add_tensor(struct operator_call *call, const char *name, const struct tensor_desc *desc);
void call_add_int_array(struct operator_call *call, const char *name, const struct int_array *values);
void call_add_integer(struct operator_call *call, const char *name, int64_t value);
// Plans and allocates. What isn't transferred gets no storage.
bool call_plan(struct operator_call *call);
// parallel may be NULL.
bool call_run(struct operator_call *call, struct parallel *parallel);
bool call_check_inputs(struct operator_call *call, struct parallel *parallel);
// Does `step` (call_run or call_check_inputs) on a thread of its own and cancels it once that thread has
// worked for a while; true if it ended with CANCELLED. For calls that would take years.
bool call_is_cancellable(struct operator_call *call, struct parallel *parallel,
                         bool (*step)(struct operator_call *call, struct parallel *parallel));
void call_end(struct operator_call *call);

// The planned descriptor and the storage of a tensor parameter.
const struct tensor_desc *call_desc(const struct operator_call *call, size_t parameter);
// The value of the failed status' metadata of that key, or "".
const char *call_metadata(const struct operator_call *call, const char *key);

// No pool and pools of several sizes, by which a result must not differ.
#define CALL_POOLS 5
struct call_pools {
  size_t threads[CALL_POOLS]; // 0 for none
  struct parallel *pools[CALL_POOLS];
};
// Fixtures of a group of cmocka tests: *state is a struct call_pools.
int call_pools_create(void **state);
int call_pools_destroy(void **state);

// Processors by which a result must not differ: each code path that there is here, with caches of the usual
// sizes and with ones so small that tensors of tests are larger.
struct call_cpus {
  struct cpu cpus[2 * CPU_PATH_COUNT];
  size_t count;
};
struct call_cpus call_cpus_here(void);

// Random numbers, reproducible.
struct random {
  uint64_t state;
};
uint64_t random_bits(struct random *random);
// At least `least`, below `end`.
int64_t random_between(struct random *random, int64_t least, int64_t end);

// The descriptor that is written as "fp32[2,3,4,4]" or "NCHW:int64[2,3,1,1]": types by their short names,
// dims as they are, so also "bf16[-1,5]".
struct tensor_desc desc_of(const char *text);

// Gives the (contiguous) descriptor strides, an offset and a storage at random, such as views of larger,
// permuted or padded tensors have; for inputs also strides of 0.
void random_layout(struct random *random, struct tensor_desc *desc, enum direction direction);

// Fills float elements (fp32, fp16, bf16) with all kinds of values: small and large ones, ties, zeros of both
// signs, denormals, infinities and NaN.
void random_values(struct random *random, enum data_type data_type, void *values, size_t count);

// A float element's value, and the other way round (rounded).
float value_read(enum data_type data_type, const void *values, int64_t position);
void value_write(enum data_type data_type, void *values, int64_t position, float value);

// Equal bits, where any NaN is as good as any other.
bool value_equal(enum data_type data_type, const void *a, const void *b, int64_t position);

#endif
