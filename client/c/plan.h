// Phase 1 as the client keeps it: what was asked and what the server planned.
//
// Owned by the caller of the public interface, used by one thread at a time.
#ifndef ACLNN_CLIENT_C_PLAN_H
#define ACLNN_CLIENT_C_PLAN_H

#include "client/c/client.h"

struct aclnn_plan {
  struct operator_request request;
  struct workspace_size_response response;
  // The executor may be gone: it was a one-shot and the transport failed while it was used, or the server
  // said so. It is planned anew before the next use.
  bool stale;
  bool consumed; // a one-shot that has run
};

// Asks the server for the plan again. On failure the old one stays.
MUST_CHECK bool plan_renew(aclnn_client *client, const struct call_scope *scope, aclnn_plan *plan,
                           aclnn_error *error);

#endif
