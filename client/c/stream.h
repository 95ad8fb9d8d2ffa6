// An Execute call with its jobs, driven by the thread that uses it.
//
// Jobs are handed over at submit, malloc'ed and bound to their tensors; the stream frees them. Results are
// read whenever the stream is waiting for anything, also while it sends, so that neither side can block the
// other. When the call fails, everything that hasn't ended is released at once: no job keeps the caller's
// memory.
#ifndef ACLNN_CLIENT_C_STREAM_H
#define ACLNN_CLIENT_C_STREAM_H

#include "client/c/client.h"

// With ends_at_deadline the scope's deadline is the whole call's.
MUST_CHECK bool stream_open(aclnn_client *client, const struct call_scope *scope, bool ends_at_deadline,
                            aclnn_stream **stream, aclnn_error *error);

// Sends the job's inputs; with `last` no other job may follow.
MUST_CHECK bool stream_submit(aclnn_stream *stream, struct job *job, bool last,
                              const struct call_scope *scope, aclnn_error *error);

// Waits for the oldest job that wasn't waited for.
MUST_CHECK bool stream_wait(aclnn_stream *stream, const struct call_scope *scope, aclnn_summary *summary,
                            aclnn_error *error);

aclnn_client *stream_client(const aclnn_stream *stream);

// Cancels what was not waited for.
void stream_close(aclnn_stream *stream);

#endif
