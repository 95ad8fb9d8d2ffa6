// For tests: an emulated device as a caller of CANN sees it, and one call of an operator on it.
//
// The test that opens a session closes it, the one that begins a call ends it. All on one thread. What must
// succeed for a test to have a meaning aborts it through cmocka's assertions; what a test is about is
// returned.
#ifndef ACLNN_SERVER_NPU_EMULATOR_DEVICE_CALL_H
#define ACLNN_SERVER_NPU_EMULATOR_DEVICE_CALL_H

#include "kernels/tensor.h"
#include "server/npu/emulator/api.h"

aclnnStatus aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize(
    const struct aclTensor *grad_output, const struct aclTensor *self, const struct aclTensor *indices,
    struct aclTensor *grad_input, uint64_t *workspace_size, struct aclOpExecutor **executor);
aclnnStatus aclnnAdaptiveMaxPool2dBackward(void *workspace, uint64_t workspace_size,
                                           struct aclOpExecutor *executor, aclrtStream stream);
aclnnStatus aclnnAdaptiveMaxPool2dGetWorkspaceSize(const struct aclTensor *self,
                                                   const struct aclIntArray *output_size,
                                                   struct aclTensor *output_out,
                                                   struct aclTensor *indices_out, uint64_t *workspace_size,
                                                   struct aclOpExecutor **executor);
aclnnStatus aclnnAdaptiveMaxPool2d(void *workspace, uint64_t workspace_size, struct aclOpExecutor *executor,
                                   aclrtStream stream);

struct session {
  aclrtContext context;
  aclrtStream stream;
};

// Sets or (NULL) unsets ACLNN_EMULATED_<name>; before a session is opened.
void environment_set(const char *name, const char *value);
// Unsets all of them.
void environment_clear(void);

// aclInit, device 0, a context and a stream.
void session_open(struct session *session);
// Ends it all; aclFinalize's answer.
aclError session_close(struct session *session);
void *session_allocate(size_t bytes);
void session_upload(struct session *session, void *to, const void *from, size_t bytes);
// The stream's state afterwards.
aclError session_download(struct session *session, void *to, const void *from, size_t bytes);
aclError session_synchronize(struct session *session);

#define DEVICE_CALL_TENSORS 4

enum { BACKWARD_GRAD_OUTPUT, BACKWARD_SELF, BACKWARD_INDICES, BACKWARD_GRAD_INPUT };
enum { FORWARD_SELF, FORWARD_OUTPUT_OUT, FORWARD_INDICES_OUT };

struct device_call {
  struct session *session;
  bool forward;
  size_t tensor_count;
  struct tensor_desc descs[DEVICE_CALL_TENSORS]; // change before device_call_begin only
  void *addresses[DEVICE_CALL_TENSORS];          // each tensor's memory, as long as its storage
  struct aclTensor *tensors[DEVICE_CALL_TENSORS];
  struct aclIntArray *output_size; // of the forward
  uint64_t workspace_bytes;        // after phase 1
  struct aclOpExecutor *executor;
  void *workspace;
};

// Memory and tensors for descriptors that may be contiguous or strided and must be normalised.
void device_call_begin_backward(struct device_call *call, struct session *session,
                                const struct tensor_desc descs[DEVICE_CALL_TENSORS]);
// Three descriptors.
void device_call_begin_forward(struct device_call *call, struct session *session,
                               const struct tensor_desc *descs, const int64_t output_size[2]);
aclnnStatus device_call_plan(struct device_call *call);
// Phase 2 with just the workspace that phase 1 asked for, which is allocated at the first run.
aclnnStatus device_call_run(struct device_call *call);
// Both phases and a synchronisation: the first failure.
aclnnStatus device_call_do(struct device_call *call);
void device_call_end(struct device_call *call);

// The newest error of this thread says that.
void assert_error_said(const char *text);

// "fp32[2,3,4]" and the like, normalised.
struct tensor_desc device_desc(const char *text, enum direction direction);

// A session with one small backward: a plane of 2 by 4, pooled to 1 by 2, gradients 3 and 5 for places 1
// and 6.
void small_call_open(struct session *session, struct device_call *call);
// Phase 2 with any workspace.
aclnnStatus small_call_launch(struct device_call *call, void *workspace, uint64_t workspace_bytes);
// What lies there is its result.
void small_call_assert_result(struct device_call *call, const void *address);
// Nothing is left afterwards.
void small_call_close(struct session *session, struct device_call *call);

#endif
