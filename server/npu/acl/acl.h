// The CANN interface as far as we use it: types, enums and the functions, taken from libraries at run time.
//
// CANN's own headers want C++ and are not needed: names, numbers and argument lists are those of acl_rt.h,
// acl_base_rt.h (public runtime repository) and acl_meta.h (public opbase repository). The emulator
// implements the same prototypes. Which thread may call what is CANN's rule: a device's context belongs to
// the thread that set it, error texts are per thread and only the last one is valid.
#ifndef ACLNN_SERVER_NPU_ACL_ACL_H
#define ACLNN_SERVER_NPU_ACL_ACL_H

#include "kernels/npu_binding.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int aclError;
typedef int32_t aclnnStatus;
typedef void *aclrtStream;
typedef void *aclrtContext;

enum acl_memcpy_kind {
  ACL_MEMCPY_HOST_TO_HOST = 0,
  ACL_MEMCPY_HOST_TO_DEVICE = 1,
  ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
};

enum acl_malloc_policy { ACL_MEM_MALLOC_HUGE_FIRST = 0 };
enum acl_memory_attribute { ACL_HBM_MEM = 1 };
enum acl_system_option { ACL_OPT_DETERMINISTIC = 0 };
enum acl_format { ACL_FORMAT_NCHW = 0, ACL_FORMAT_NHWC = 1, ACL_FORMAT_ND = 2, ACL_FORMAT_NCL = 47 };

// aclError and aclnnStatus: the numbers that mean something to us.
enum acl_status {
  ACL_STATUS_SUCCESS = 0,
  ACL_STATUS_INVALID_PARAM = 100000,
  ACL_STATUS_UNINITIALIZED = 100001,
  ACL_STATUS_REPEATED_INITIALIZE = 100002,
  ACL_STATUS_REPEATED_FINALIZE = 100037,
  ACL_STATUS_STUB_LIBRARY = 100039,
  ACL_STATUS_RT_PARAM_INVALID = 107000,
  ACL_STATUS_RT_INVALID_DEVICE = 107001,
  ACL_STATUS_RT_NO_CONTEXT = 107002,
  ACL_STATUS_RT_STREAM_CONTEXT = 107003,
  ACL_STATUS_NULLPTR = 161001,
  ACL_STATUS_INVALID = 161002,
  ACL_STATUS_BAD_ALLOC = 200000,
  ACL_STATUS_RT_MEMORY_ALLOCATION = 207018,
  ACL_STATUS_RUNTIME_ERROR = 361001,
  ACL_STATUS_FAILURE = 500000,
  ACL_STATUS_RT_INTERNAL = 507000,
  ACL_STATUS_RT_AICORE_TIMEOUT = 507014,
  ACL_STATUS_RT_AICORE_EXCEPTION = 507015,
  ACL_STATUS_RT_STREAM_SYNC_TIMEOUT = 507046,
  ACL_STATUS_RT_DEVICE_MEMORY = 507053,
  ACL_STATUS_RT_HBM_ECC = 507054,
  ACL_STATUS_RT_DRIVER_INTERNAL = 507899,
  ACL_STATUS_INNER = 561000,
  ACL_STATUS_INNER_CREATE_EXECUTOR = 561101,
  ACL_STATUS_INNER_NULLPTR = 561103,
};

// X(return type, name, arguments)
#define ACL_FUNCTIONS(X)                                                                                     \
  X(aclError, aclInit, (const char *config_path))                                                            \
  X(aclError, aclFinalize, (void))                                                                           \
  X(const char *, aclGetRecentErrMsg, (void))                                                                \
  X(const char *, aclrtGetSocName, (void))                                                                   \
  X(aclError, aclrtGetVersion, (int32_t * major, int32_t * minor, int32_t * patch))                          \
  X(aclError, aclrtGetDeviceCount, (uint32_t * count))                                                       \
  X(aclError, aclrtSetDevice, (int32_t device))                                                              \
  X(aclError, aclrtResetDevice, (int32_t device))                                                            \
  X(aclError, aclrtCreateContext, (aclrtContext * context, int32_t device))                                  \
  X(aclError, aclrtDestroyContext, (aclrtContext context))                                                   \
  X(aclError, aclrtCreateStream, (aclrtStream * stream))                                                     \
  X(aclError, aclrtDestroyStream, (aclrtStream stream))                                                      \
  X(aclError, aclrtSynchronizeStreamWithTimeout, (aclrtStream stream, int32_t milliseconds))                 \
  X(aclError, aclrtMalloc, (void **address, size_t bytes, int policy))                                       \
  X(aclError, aclrtFree, (void *address))                                                                    \
  X(aclError, aclrtMallocHost, (void **address, size_t bytes))                                               \
  X(aclError, aclrtFreeHost, (void *address))                                                                \
  X(aclError, aclrtMemcpyAsync,                                                                              \
    (void *to, size_t to_bytes, const void *from, size_t bytes, int kind, aclrtStream stream))               \
  X(aclError, aclrtMemsetAsync,                                                                              \
    (void *to, size_t to_bytes, int32_t value, size_t bytes, aclrtStream stream))                            \
  X(aclError, aclrtGetMemInfo, (int attribute, size_t *free_bytes, size_t *total_bytes))                     \
  X(aclError, aclrtCtxSetSysParamOpt, (int option, int64_t value))                                           \
  X(aclError, aclrtSetSysParamOpt, (int option, int64_t value))                                              \
  X(struct aclTensor *, aclCreateTensor,                                                                     \
    (const int64_t *view_dims, uint64_t view_dims_num, int data_type, const int64_t *strides,                \
     int64_t offset, int format, const int64_t *storage_dims, uint64_t storage_dims_num, void *data))        \
  X(aclnnStatus, aclDestroyTensor, (const struct aclTensor *tensor))                                         \
  X(struct aclIntArray *, aclCreateIntArray, (const int64_t *values, uint64_t count))                        \
  X(aclnnStatus, aclDestroyIntArray, (const struct aclIntArray *array))                                      \
  X(aclnnStatus, aclSetAclOpExecutorRepeatable, (struct aclOpExecutor * executor))                           \
  X(aclnnStatus, aclDestroyAclOpExecutor, (struct aclOpExecutor * executor))                                 \
  X(aclnnStatus, aclSetInputTensorAddr,                                                                      \
    (struct aclOpExecutor * executor, size_t index, struct aclTensor * tensor, void *address))               \
  X(aclnnStatus, aclSetOutputTensorAddr,                                                                     \
    (struct aclOpExecutor * executor, size_t index, struct aclTensor * tensor, void *address))

// Phase 2 of every operator.
typedef aclnnStatus acl_run_function(void *workspace, uint64_t workspace_bytes,
                                     struct aclOpExecutor *executor, aclrtStream stream);

#endif
