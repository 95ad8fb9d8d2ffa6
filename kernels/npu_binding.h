// How an operator is called on CANN: the types that an operator's npu.c is written in.
//
// A binding is a const struct in the operator's folder. The server's pool of NPU workers and the worker
// itself read it and know no operator by name. Its functions are pure and may be called from any thread.
#ifndef ACLNN_KERNELS_NPU_BINDING_H
#define ACLNN_KERNELS_NPU_BINDING_H

#include "kernels/operator.h"

// CANN's own types; nobody here looks inside.
struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;

// What a device is, as far as operators differ by it.
enum npu_product {
  NPU_PRODUCT_UNKNOWN,
  NPU_PRODUCT_A2,       // Ascend 910B
  NPU_PRODUCT_A3,       // Ascend 910_93
  NPU_PRODUCT_950,      // Ascend 950PR and 950DT
  NPU_PRODUCT_EMULATED, // the emulated device in its profile `exact`: the bits of numerics EXACT
  NPU_PRODUCT_COUNT
};

#define NPU_PRODUCT_BIT(name) (UINT32_C(1) << NPU_PRODUCT_##name)

// "A2", "A3", "950", "emulated", "unknown".
const char *npu_product_name(enum npu_product product);

// One argument of phase 1; which member holds follows from the parameter's kind.
union npu_argument {
  struct aclTensor *tensor;
  struct aclIntArray *int_array;
  int64_t integer;
  double real;
  bool boolean;
  const char *text;
};

// Bytes of a storage as a case holds them.
struct npu_case_storage {
  const void *data;
  size_t bytes;
};

// A small job with a known answer, with which a device is tried out.
struct npu_case {
  const char *name;           // what it shows
  bool probe;                 // small enough to be run at each start
  uint32_t unjudged_products; // bit 1 << enum npu_product: CANN's answer differs there by design
  // By parameter position, outputs described too. Storages are the data of inputs and the expected ones of
  // outputs; shape_only parameters and those that aren't tensors have none.
  struct argument_value values[OPERATOR_PARAMETERS_MAX];
  struct npu_case_storage storages[OPERATOR_PARAMETERS_MAX];
  // For jobs of real sizes, in place of storages: fills the inputs. What the CPU computes from them is
  // expected.
  void (*fill_inputs)(const struct plan *plan, void *const storages[OPERATOR_PARAMETERS_MAX]);
};

// For tables of cases: a contiguous tensor by type, rank and dims, and the bytes of an array.
#define NPU_CASE_TENSOR(type, rank_, ...)                                                                    \
  {                                                                                                          \
    .kind = PARAMETER_KIND_TENSOR, .tensor = {                                                               \
      .data_type = DATA_TYPE_##type,                                                                         \
      .rank = (rank_),                                                                                       \
      .shape = {__VA_ARGS__}                                                                                 \
    }                                                                                                        \
  }
#define NPU_CASE_STORAGE(array)                                                                              \
  { .data = (array), .bytes = sizeof(array) }

struct npu_binding {
  const char *workspace_symbol; // phase 1, such as "aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize"
  const char *run_symbol;       // phase 2; its arguments are the same for all operators
  uint32_t products;            // bit 1 << enum npu_product for each on which CANN has the operator
  bool named_axes;              // CANN documents NCL and NCHW only: that is what ND is called there, by rank
  const struct npu_case *cases;
  size_t case_count;

  // Calls phase 1 through its symbol, which has a type of its own for every operator. arguments are by
  // parameter position. Returns CANN's status.
  int32_t (*get_workspace_size)(void (*symbol)(void), const union npu_argument *arguments,
                                uint64_t *workspace_bytes, struct aclOpExecutor **executor);

  // Refuses plans beyond documented limits of the product, which CANN itself doesn't check, with
  // ACLNN_ERR_PARAM_INVALID. May be NULL: none.
  bool (*check_plan)(const struct plan *plan, enum npu_product product, struct status *status);

  // Whether the product's bits for this plan are those of numerics EXACT, whatever legal data come.
  bool (*is_exact)(const struct plan *plan, enum npu_product product);

  // Whether the product's result for these inputs must agree with the CPU's within CANN's tolerance. Inputs
  // on which they differ by design aren't judged. May be NULL: always.
  bool (*is_comparable)(const struct operator_run *run, enum npu_product product);
};

#endif
