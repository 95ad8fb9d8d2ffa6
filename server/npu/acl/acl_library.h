// CANN's functions, found in its libraries when the worker starts.
//
// Nothing of CANN is needed to build: libraries are opened by name, functions by theirs. What is missing is
// said in words that tell what to do. Libraries stay open until the process ends: CANN starts threads of its
// own. Call it once, before other threads run.
#ifndef ACLNN_SERVER_NPU_ACL_ACL_LIBRARY_H
#define ACLNN_SERVER_NPU_ACL_ACL_LIBRARY_H

#include "server/npu/acl/acl.h"

// As many as a mask of operators has bits.
#define ACL_OPERATORS_MAX 32

// Those that older CANNs lack are NULL then: acl_library.c lists them.
struct acl_functions {
#define ACL_FUNCTION_MEMBER(type, name, arguments) type(*name) arguments;
  ACL_FUNCTIONS(ACL_FUNCTION_MEMBER)
#undef ACL_FUNCTION_MEMBER
};

struct acl_operator {
  void (*get_workspace_size)(void); // called through the operator's binding
  acl_run_function *run;
};

struct acl_library {
  struct acl_functions functions;
  struct acl_operator operators[ACL_OPERATORS_MAX]; // by position in the registry
  uint32_t operator_mask;                           // bit 1 << position for each that was found
  char missing[256]; // what was not found though it has a binding, in words; or ""
};

// file: the one library that has everything (the emulated device is such a one), or NULL for CANN's, which
// are looked for where the dynamic linker looks, then below `home` (the value of ASCEND_HOME_PATH; may be
// NULL) and where CANN's packages install themselves. Fails with TARGET_UNAVAILABLE: a library or a function
// is missing, or no operator was found.
MUST_CHECK bool acl_library_open(const char *file, const char *home, struct acl_library *library,
                                 struct status *status);

#endif
