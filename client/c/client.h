// The client itself, as its modules see it.
//
// Everything in it may be used by several threads at once. The options don't change after open.
#ifndef ACLNN_CLIENT_C_CLIENT_H
#define ACLNN_CLIENT_C_CLIENT_H

#include "client/c/aclnn_client.h"
#include "client/c/channel.h"
#include "client/c/job.h"

#include <pthread.h>

#define SERVICE_METHOD(name) "/aclnn.v1.OperatorService/" name

struct aclnn_client {
  aclnn_client_options options;
  char *address;
  struct channel *channel;
  pthread_mutex_t operators_lock;  // guards the next two
  struct operator_info *operators; // what the server said once, NULL until then
  size_t operator_count;
};

// Errors that a caller doesn't want go to `spare`. The result is cleared.
aclnn_error *client_error(aclnn_error *error, aclnn_error *spare);

struct call_scope client_scope(aclnn_client *client);

// What one try of a call does; false if it failed.
typedef bool client_attempt(void *context, const struct call_scope *scope, aclnn_error *error);

// After a failure, `retry` (0-based) of the tries to come: waits until the call may be tried again. False if
// that isn't worth it, or if the scope ends meanwhile: then *error says so.
MUST_CHECK bool client_pause_before_retry(aclnn_client *client, const struct call_scope *scope, int retry,
                                          aclnn_error *error);

// Calls `attempt` until it ends well, its failure isn't worth another try, or tries or time are used up.
MUST_CHECK bool client_try(aclnn_client *client, const struct call_scope *scope, client_attempt *attempt,
                           void *context, aclnn_error *error);

// The options of a job on this client.
struct job_options client_job_options(const aclnn_client *client);

#endif
