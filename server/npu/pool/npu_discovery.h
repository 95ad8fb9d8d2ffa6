// Which NPUs the machine has, and where the files lie that a pool needs. Looks only, on the calling thread.
#ifndef ACLNN_SERVER_NPU_POOL_NPU_DISCOVERY_H
#define ACLNN_SERVER_NPU_POOL_NPU_DISCOVERY_H

#include "kernels/status.h"

#include <limits.h>

// How many devices CANN numbers from 0 on: those with a file /dev/davinciN (below `root`, which is "" but in
// tests), as far as ASCEND_RT_VISIBLE_DEVICES (`visible`, NULL if it isn't set) lets them be seen: ascending
// numbers parted by commas. At most `most`.
size_t npu_discovery_count(const char *root, const char *visible, size_t most);

// Finds a file that belongs to the program `executable`: as Bazel lays it out, beside it, or where it is
// installed (../lib/aclnn-server). `built` is the folder below the executable's in Bazel's layout. Fails with
// CONFIGURATION.
MUST_CHECK bool npu_discovery_find_file(const char *executable, const char *built, const char *name,
                                        char path[PATH_MAX], struct status *status);

#endif
