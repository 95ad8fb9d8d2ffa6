// What a failed call of CANN's means: a status for the client, and whether the device can go on.
//
// For the thread that made the call, straight after it: the error text is that thread's last one.
#ifndef ACLNN_SERVER_NPU_WORKER_ACL_FAILURE_H
#define ACLNN_SERVER_NPU_WORKER_ACL_FAILURE_H

#include "server/npu/acl/acl_library.h"

// Fills the status from the number that `call` returned, with CANN's own text. Always returns false.
bool acl_failure(const struct acl_functions *functions, const char *call, int32_t number,
                 struct status *status);

// The device (or its process) has to be replaced before anything else is tried on it.
bool acl_failure_is_device_fault(int32_t number);

// There was too little memory on the device.
bool acl_failure_is_memory(int32_t number);

#endif
