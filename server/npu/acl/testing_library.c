// For tests of acl_library.c: libraries with the names of CANN's functions, which nobody calls. What a
// library holds is chosen when it is built.
//   TESTING_RUNTIME    the functions of acl.h; WITHOUT_MALLOC: all but aclrtMalloc; WITHOUT_REPEATABLE: as an
//                      old CANN, without those that may be missing
//   TESTING_OPERATORS  both operators; WITHOUT_BACKWARD: as CANN before 8.3
#define EXPORT(name)                                                                                         \
  void name(void);                                                                                           \
  void name(void) {                                                                                          \
  }

#ifdef TESTING_RUNTIME
EXPORT(aclInit)
EXPORT(aclFinalize)
EXPORT(aclGetRecentErrMsg)
EXPORT(aclrtGetSocName)
EXPORT(aclrtGetDeviceCount)
EXPORT(aclrtSetDevice)
EXPORT(aclrtResetDevice)
EXPORT(aclrtCreateContext)
EXPORT(aclrtDestroyContext)
EXPORT(aclrtCreateStream)
EXPORT(aclrtDestroyStream)
EXPORT(aclrtSynchronizeStreamWithTimeout)
#ifndef WITHOUT_MALLOC
EXPORT(aclrtMalloc)
#endif
EXPORT(aclrtFree)
EXPORT(aclrtMallocHost)
EXPORT(aclrtFreeHost)
EXPORT(aclrtMemcpyAsync)
EXPORT(aclrtMemsetAsync)
EXPORT(aclrtGetMemInfo)
EXPORT(aclCreateTensor)
EXPORT(aclDestroyTensor)
EXPORT(aclCreateIntArray)
EXPORT(aclDestroyIntArray)
#ifndef WITHOUT_REPEATABLE
EXPORT(aclrtGetVersion)
EXPORT(aclrtCtxSetSysParamOpt)
EXPORT(aclrtSetSysParamOpt)
EXPORT(aclSetAclOpExecutorRepeatable)
EXPORT(aclDestroyAclOpExecutor)
EXPORT(aclSetInputTensorAddr)
EXPORT(aclSetOutputTensorAddr)
#endif
#endif

#ifdef TESTING_OPERATORS
EXPORT(aclnnAdaptiveMaxPool2dGetWorkspaceSize)
EXPORT(aclnnAdaptiveMaxPool2d)
EXPORT(aclnnMmGetWorkspaceSize)
EXPORT(aclnnMm)
#ifndef WITHOUT_BACKWARD
EXPORT(aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize)
EXPORT(aclnnAdaptiveMaxPool2dBackward)
#endif
#endif
