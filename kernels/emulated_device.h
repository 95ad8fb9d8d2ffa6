// The emulated device as an operator's emulated.c sees it.
//
// An operator's folder holds a const struct emulated_operator and its two exported C symbols, which have
// CANN's names and do nothing but call emulated_plan and emulated_launch: those two are the emulator's
// (server/npu/emulator). `check` and `workspace_bytes` run on the thread that calls phase 1 and look at
// descriptions only. `compute` runs on the stream's thread, later, on a device of which every access is
// checked: the accessors below mark the kernel as faulty instead of touching what isn't there, and go on with
// zeros, so a kernel needs no error path of its own. It shares no code with the CPU's kernels.
//
// Whoever creates tensors for this device heeds the following, as on a real one: a tensor's address lies in
// device memory, is a multiple of 32, and the whole storage that its view reaches is alive until the stream
// is synchronised. This holds for shape-only inputs too as soon as their view is strided, because CANN copies
// strided inputs before it runs a kernel.
#ifndef ACLNN_KERNELS_EMULATED_DEVICE_H
#define ACLNN_KERNELS_EMULATED_DEVICE_H

#include "kernels/half.h"
#include "kernels/tensor.h"

#define EMULATED_ARGUMENTS_MAX 8
// aclDataType and aclFormat travel as CANN's numbers; these are the formats that kernels tell apart.
#define EMULATED_FORMAT_NCHW 0
#define EMULATED_FORMAT_NHWC 1
#define EMULATED_FORMAT_NCL 47

// CANN's own types; nobody outside of the emulator looks inside.
struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;

// Which device's numbers are computed.
enum emulated_profile {
  EMULATED_PROFILE_EXACT, // the bits of numerics EXACT
  EMULATED_PROFILE_A2,    // Ascend 910B
  EMULATED_PROFILE_950,   // Ascend 950
};

// A tensor as aclCreateTensor described it. Anything may stand there until `check` has seen it, but for
// what the emulator itself refuses: a rank above TENSOR_RANK_MAX.
struct emulated_tensor {
  enum data_type data_type; // DATA_TYPE_UNSPECIFIED for a number that is no aclDataType
  int32_t format;           // aclFormat
  size_t rank;
  int64_t shape[TENSOR_RANK_MAX];
  int64_t strides[TENSOR_RANK_MAX]; // in elements, as all that follows
  int64_t storage_offset;
  int64_t storage_elements;
};

struct emulated_int_array {
  const int64_t *values;
  size_t count;
};

enum emulated_argument_kind { EMULATED_INPUT, EMULATED_OUTPUT, EMULATED_INT_ARRAY, EMULATED_INTEGER };

// One argument of phase 1 as it was called; which member holds follows from the parameter's kind.
union emulated_argument {
  const struct aclTensor *tensor;
  const struct aclIntArray *int_array;
  int64_t integer;
};

// One call with its arguments resolved, by position. Absent ones (null pointers) are NULL.
struct emulated_call {
  enum emulated_profile profile;
  bool deterministic;
  const struct emulated_tensor *tensors[EMULATED_ARGUMENTS_MAX];
  const struct emulated_int_array *int_arrays[EMULATED_ARGUMENTS_MAX];
  int64_t integers[EMULATED_ARGUMENTS_MAX];
};

// A tensor's memory: what of its storage lies in one live allocation. Unlike the device's addresses this may
// be dereferenced, within its length.
struct emulated_span {
  unsigned char *bytes; // NULL if the address leads nowhere
  uint64_t byte_count;
};

#define EMULATED_FAULT_BYTES 256

// One run.
struct emulated_kernel {
  const struct emulated_call *call;
  struct emulated_span spans[EMULATED_ARGUMENTS_MAX]; // tensors only
  struct emulated_span workspace;                     // just as long as workspace_bytes asked for
  uint64_t seed;                                      // another one in each run
  char fault[EMULATED_FAULT_BYTES];                   // what went wrong first; "" if nothing did
};

struct emulated_operator {
  const char *name; // CANN's
  enum emulated_argument_kind arguments[EMULATED_ARGUMENTS_MAX];
  const char *argument_names[EMULATED_ARGUMENTS_MAX];
  size_t argument_count;

  // The device's own refusals in CANN's order with CANN's numbers: 0, or what emulated_refuse returned.
  int32_t (*check)(const struct emulated_call *call);
  // Device memory that compute needs beyond what every kernel gets; what no device has is refused. Called
  // after check, with no tensor empty.
  uint64_t (*workspace_bytes)(const struct emulated_call *call);
  // Called with no tensor empty. The memory of outputs and workspace holds anything.
  void (*compute)(struct emulated_kernel *kernel);
};

// Phases 1 and 2 of every operator; both return CANN's status.
int32_t emulated_plan(const struct emulated_operator *definition, const union emulated_argument *arguments,
                      uint64_t *workspace_bytes, struct aclOpExecutor **executor);
int32_t emulated_launch(const struct emulated_operator *definition, void *workspace, uint64_t workspace_bytes,
                        struct aclOpExecutor *executor, void *stream);

// Puts a text where aclGetRecentErrMsg finds it and returns the number.
int32_t emulated_refuse(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

// Marks the kernel as faulty; the first text stays.
void emulated_fault(struct emulated_kernel *kernel, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

// Elements of the view, -1 if a dim is negative or the product is beyond int64.
int64_t emulated_tensor_elements(const struct emulated_tensor *tensor);

// True if both have the same rank and dims.
bool emulated_tensor_same_shape(const struct emulated_tensor *a, const struct emulated_tensor *b);

// True if the view's elements lie in row-major order without holes.
bool emulated_tensor_is_contiguous(const struct emulated_tensor *tensor);

// count * size, or the largest number there is.
static inline uint64_t emulated_byte_count(int64_t count, size_t size) {
  uint64_t bytes;
  return __builtin_mul_overflow((uint64_t)count, (uint64_t)size, &bytes) ? UINT64_MAX : bytes;
}

// The place of storage element number `element` of a tensor argument, or NULL and a fault.
static inline unsigned char *emulated_place(struct emulated_kernel *kernel, size_t argument,
                                            int64_t element) {
  const struct emulated_span *span = &kernel->spans[argument];
  uint64_t size = data_type_bytes(kernel->call->tensors[argument]->data_type);
  if (element < 0 || (uint64_t)element >= span->byte_count / size) {
    emulated_fault(kernel, "element %lld of argument %zu lies outside of the device's memory",
                   (long long)element, argument);
    return NULL;
  }
  return span->bytes + (uint64_t)element * size;
}

// A float element's value (fp32, fp16, bf16, double), exactly; 0 with a fault.
double emulated_read(struct emulated_kernel *kernel, size_t argument, int64_t element);
// An integer element (int32, int64).
int64_t emulated_read_integer(struct emulated_kernel *kernel, size_t argument, int64_t element);
void emulated_write_integer(struct emulated_kernel *kernel, size_t argument, int64_t element, int64_t value);
// Writes a value to a float element (fp32, fp16, bf16), rounded to its type.
void emulated_write(struct emulated_kernel *kernel, size_t argument, int64_t element, float value);
// Copies an element's bits to one of the same type.
void emulated_copy(struct emulated_kernel *kernel, size_t to, int64_t to_element, size_t from,
                   int64_t from_element);

#endif
