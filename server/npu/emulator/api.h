// The prototypes of CANN's functions, as the emulator exports them.
//
// Handles that these functions take and give are numbers (handles.h). Each may be called from any thread that
// CANN allows it; what is wrong in a call is answered with CANN's number and a text for aclGetRecentErrMsg.
// Before aclInit those that need it answer 100001: all but aclrtGetVersion and aclGetRecentErrMsg.
#ifndef ACLNN_SERVER_NPU_EMULATOR_API_H
#define ACLNN_SERVER_NPU_EMULATOR_API_H

#include "server/npu/acl/acl.h"

#define API_DECLARE(type, name, arguments) type name arguments;
ACL_FUNCTIONS(API_DECLARE)
#undef API_DECLARE

#endif
