// For tests: a few of CANN's functions over the host's memory, whose copies are done as late as CANN may do
// them: when the stream is synchronised.
//
// C functions without context have nowhere else to keep their state: there is one, reset by
// fake_functions_begin.
#ifndef ACLNN_SERVER_NPU_WORKER_FAKE_FUNCTIONS_H
#define ACLNN_SERVER_NPU_WORKER_FAKE_FUNCTIONS_H

#include "server/npu/acl/acl_library.h"

struct fake_state {
  size_t memory_bytes; // what the device has; what is in use
  size_t used_bytes, host_used_bytes;
  size_t allocations; // calls of aclrtMalloc that succeeded
  size_t synchronises, copies;
  bool no_host_memory;        // aclrtMallocHost fails
  int32_t synchronise_number; // what the next synchronises return
  const char *text;           // what aclGetRecentErrMsg says next
};

// Fills the functions that memory and copies need. The state is valid until the next begin.
struct fake_state *fake_functions_begin(struct acl_functions *functions);

#endif
