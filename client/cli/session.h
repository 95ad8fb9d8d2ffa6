// What all commands share: a client after the command line, and how failures of calls are told.
#ifndef ACLNN_CLIENT_CLI_SESSION_H
#define ACLNN_CLIENT_CLI_SESSION_H

#include "client/cli/commands.h"

// NULL if the options make no client; then *code is what to exit with and the reason is printed.
aclnn_client *session_open(const struct arguments *arguments, aclnn_progress *progress,
                           void *progress_context, enum exit_code *code);

// Prints "aclnn: REASON (STATUS): MESSAGE" to stderr, with --json the same as an object to stdout.
enum exit_code session_report_error(const struct arguments *arguments, const aclnn_error *error);

// Likewise for what went wrong on this side; returns `code`.
enum exit_code session_report_failure(const struct arguments *arguments, const struct failure *failure,
                                      enum exit_code code);

#endif
