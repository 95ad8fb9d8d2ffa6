// `aclnn-npu-worker --self-test`: all cases of all operators on whatever library is found, as a table.
#ifndef ACLNN_SERVER_NPU_WORKER_SELF_TEST_H
#define ACLNN_SERVER_NPU_WORKER_SELF_TEST_H

#include "server/npu/worker/device.h"

#include <stdio.h>

// True if the device could be opened, everything that it was judged by is right, and it could be closed.
bool self_test(const char *library_file, const char *home, const struct device_settings *settings,
               FILE *stream);

#endif
