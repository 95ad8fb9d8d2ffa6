// What an operator is, and the one way from a request to a plan.
//
// An operator is a const struct in a folder of its own and one line in registry.c; nothing else names it. Its
// functions are pure and may be called from any thread. A plan is a value: it holds no memory, points only to
// its (static) operator and may be copied.
#ifndef ACLNN_KERNELS_OPERATOR_H
#define ACLNN_KERNELS_OPERATOR_H

#include "kernels/argument.h"
#include "kernels/cpu.h"
#include "kernels/parallel.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

#include <stdatomic.h>

#define OPERATOR_PARAMETERS_MAX 8
#define PLAN_PRIVATE_BYTES 384
// Where tensors and workspace begin in memory; CANN asks for 32, vector code likes a cache line.
#define TENSOR_ALIGNMENT 64

struct operator_definition;
struct npu_binding; // npu_binding.h

struct operator_parameter {
  const char *name; // CANN's
  enum parameter_kind kind;
  enum direction direction;
  bool optional;
  bool shape_only;     // an input of which no data are read: they must not be sent
  uint64_t data_types; // bit 1 << enum data_type for each allowed one; tensors only
  uint32_t ranks;      // bit 1 << rank for each allowed one; tensors only
};

// Arguments by parameter position; absent ones (optional, not given) have kind UNSPECIFIED.
struct operator_arguments {
  struct argument_value values[OPERATOR_PARAMETERS_MAX];
};

struct plan_tensor {
  size_t parameter; // position among the operator's parameters
  enum direction direction;
  bool transferred;
  int64_t storage_bytes;
};

struct plan {
  const struct operator_definition *definition;
  enum target target;     // AUTO until the dispatcher chose
  enum numerics numerics; // never UNSPECIFIED
  struct operator_arguments arguments;
  struct plan_tensor tensors[OPERATOR_PARAMETERS_MAX]; // in the request's order
  size_t tensor_count;
  bool automatic;                // the target was ours to choose: another may take over
  uint64_t workspace_bytes;      // as phase 1 says: on the host for a CPU plan, else in the device's memory
  uint64_t host_workspace_bytes; // what a run on the CPU needs
  uint64_t work_elements; // elements that a run looks at or writes, saturating: what a job's size is judged
                          // by, since a view may be far larger than its storage
  bool empty;             // some tensor has no elements: never goes to a device
  _Alignas(16) unsigned char private_data[PLAN_PRIVATE_BYTES]; // the operator's own parameters
};

// One run of a plan. Storages are by parameter position, TENSOR_ALIGNMENT-aligned, storage_bytes long, NULL
// for what isn't transferred or isn't a tensor. Storages of outputs hold anything at the start and are
// written whole, their holes with zeros.
struct operator_run {
  const struct plan *plan;
  void *storages[OPERATOR_PARAMETERS_MAX];
  void *workspace;              // workspace_bytes long, TENSOR_ALIGNMENT-aligned, contents undefined
  struct parallel *parallel;    // NULL: run on this thread alone
  const struct cpu *cpu;        // NULL: plain C, usual caches
  const atomic_bool *cancelled; // NULL, or looked at between blocks of work: the run then ends with CANCELLED
};

struct operator_definition {
  const char *name;
  const struct operator_parameter *parameters;
  size_t parameter_count;

  // Fills outputs that were left to the operator (tensor_desc_is_unspecified). Called after all required
  // arguments are known to be there, before any of them was normalised: trust nothing.
  bool (*infer)(struct operator_arguments *arguments, struct status *status);

  // All refusals that are the operator's own, on normalised arguments, in CANN's order.
  bool (*validate)(const struct operator_arguments *arguments, struct status *status);

  // Fills plan->workspace_bytes, work_elements and private_data from plan->arguments for the CPU. Cannot
  // refuse what validate let pass, except for sizes beyond what memory can address.
  bool (*plan)(struct plan *plan, struct status *status);

  // Refuses input data that would be wrong on every target (an index outside its plane), naming the first in
  // row-major order. What goes to a device passes through here first; run does the same on its own.
  bool (*check_inputs)(const struct operator_run *run, struct status *status);

  // Computes the outputs with the bits of numerics EXACT, for any number of threads.
  bool (*run)(const struct operator_run *run, struct status *status);

  const struct npu_binding *npu; // NULL: not on devices
};

// The registry: every operator that there is.
size_t operator_count(void);
const struct operator_definition *operator_at(size_t position);
// NULL if there is none of that name.
const struct operator_definition *operator_find(const char *name);

// Phase 1 as far as it needs no device: binds the request's arguments to the operator's parameters (unknown
// or double name, wrong kind: ACLNN_ERR_PARAM_INVALID; missing: ACLNN_ERR_PARAM_NULLPTR), infers, normalises,
// validates and plans for the CPU. target stays the request's (AUTO for UNSPECIFIED). Fails with
// OPERATOR_UNKNOWN or one of the two ACLNN_ERR_PARAM reasons.
MUST_CHECK bool plan_create(const struct operator_request *request, struct plan *plan, struct status *status);

// The descriptor of tensor number `index` of the request.
const struct tensor_desc *plan_tensor_desc(const struct plan *plan, size_t index);

// The plan as a request that plans to the same again: normalised descriptors, outputs as inferred. The
// request names the target that was chosen: `automatic` isn't in it.
void plan_to_request(const struct plan *plan, struct operator_request *request);

#endif
