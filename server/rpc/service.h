// Services as tables: which methods there are, and who answers them. Knows nothing of gRPC's interface.
//
// A unary handler gets a call object and answers it exactly once, at once or later, from any thread. An
// EXECUTE method is the one stream of the contract; its calls are execute_call's.
#ifndef ACLNN_SERVER_RPC_SERVICE_H
#define ACLNN_SERVER_RPC_SERVICE_H

#include "kernels/status.h"
#include "proto/wire/error_details.h"
#include "proto/wire/messages.h"
#include "server/dispatch/dispatcher.h"
#include "server/observe/log.h"
#include "server/session/session_table.h"

#include <stdatomic.h>

// What all services work on. Owned by main, which fills it before the server starts and keeps it until the
// server is destroyed; only `draining` changes in between.
struct service_context {
  struct dispatcher *dispatcher;
  struct session_table *sessions;
  const struct log *log;
  struct server_info info; // what GetServerInfo answers, but for the targets: they change
  // New jobs are refused and health says NOT_SERVING; clients are told to come back after this time.
  atomic_bool draining;
  int64_t drain_retry_ms;
};

// Fills *status with DRAINING and its retry advice; returns false.
bool service_fail_draining(const struct service_context *context, struct status *status);

// Tells the log of a failure that whoever runs the server should know of: one of its own.
void service_log_failure(const struct service_context *context, const struct status *failed);

struct unary_call;

// The request message; valid until the call is answered.
const uint8_t *unary_call_request(const struct unary_call *call, size_t *size);
// Who calls: "uid:N" for a peer on a unix socket, else "". Valid until the call is answered.
const char *unary_call_identity(const struct unary_call *call);
// The answers. The response is moved from.
void unary_call_respond(struct unary_call *call, struct wire_buffer *response);
void unary_call_fail(struct unary_call *call, const struct status *failed);
// For protocols that aren't ours: a bare gRPC status.
void unary_call_fail_plain(struct unary_call *call, enum rpc_code code, const char *message);

enum method_kind { METHOD_UNARY, METHOD_EXECUTE };

struct service_method {
  const char *path; // "/package.Service/Method"
  enum method_kind kind;
  void (*handle)(struct service_context *context, struct unary_call *call); // METHOD_UNARY
};

struct service {
  const struct service_method *methods;
  size_t method_count;
};

// The services that there are.
extern const struct service operator_service;
extern const struct service health_service;

#endif
