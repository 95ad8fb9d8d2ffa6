// Failures in the form of the public interface.
//
// Values only, any thread. Functions that fail return false, so that callers can `return error_fail(...)`.
#ifndef ACLNN_CLIENT_C_ERROR_H
#define ACLNN_CLIENT_C_ERROR_H

#include "client/c/aclnn_client.h"
#include "kernels/status.h"

// A failure that this side found. The gRPC code is the reason's.
bool error_fail(aclnn_error *error, enum reason reason, const char *parameter, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

// The same from a status that one of the shared modules filled.
bool error_from_status(aclnn_error *error, const struct status *status);

// From the end of a gRPC call: its code, message and grpc-status-details-bin (size 0: none).
bool error_from_call(aclnn_error *error, int code, const char *message, const uint8_t *details, size_t size);

// True if the server, or the way to it, may do better on another try: it named a time to come back, or the
// transport failed without a word of the server. A cancellation that was asked for looks like the latter:
// whoever tries again has to know (channel_pause does).
bool error_invites_retry(const aclnn_error *error);

// Before another try: keeps the failure in *told if the server gave a reason for it.
void error_remember(aclnn_error *told, const aclnn_error *error);

// When there is no other try: a way that broke (UNAVAILABLE without a reason) says less than the server did
// before, that it is drained or too busy. Then *error becomes *told. Of zeros, told changes nothing.
void error_prefer_told(aclnn_error *error, const aclnn_error *told);

// True if the server doesn't know the executor (any more): planning anew may help.
bool error_is_unknown_executor(const aclnn_error *error);

// True if the reason is that one.
bool error_has_reason(const aclnn_error *error, enum reason reason);

#endif
