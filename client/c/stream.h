// An Execute call with its jobs, driven by the thread that uses it.
//
// Jobs are handed over at submit, malloc'ed and bound to their tensors; the stream frees them. Results are
// read whenever the stream is waiting for anything, also while it sends, so that neither side can block the
// other. When the call fails, the jobs that haven't ended are sent again on a new call where that is allowed
// and may help (stream_retry). Else they are released at once: no job keeps the caller's memory.
#ifndef ACLNN_CLIENT_C_STREAM_H
#define ACLNN_CLIENT_C_STREAM_H

#include "client/c/client.h"

// With ends_at_deadline the scope's deadline is the whole call's.
MUST_CHECK bool stream_open(aclnn_client *client, const struct call_scope *scope, bool ends_at_deadline,
                            aclnn_stream **stream, aclnn_error *error);

// From now on jobs without a result are sent again when the stream fails in a way that invites a retry, or
// when the server no longer knows an executor: so many times (0: none) without a result in between.
void stream_retry(aclnn_stream *stream, int retries);

// Sends the job's inputs, those of a small job perhaps only with later ones or in a wait; with `last` at
// once, and no other job may follow. plan is the job's, for sending it again: it
// must stay valid until the job was waited for. NULL on a stream that doesn't retry.
MUST_CHECK bool stream_submit(aclnn_stream *stream, struct job *job, aclnn_plan *plan, bool last,
                              const struct call_scope *scope, aclnn_error *error);

// Waits for the oldest job that wasn't waited for.
MUST_CHECK bool stream_wait(aclnn_stream *stream, const struct call_scope *scope, aclnn_summary *summary,
                            aclnn_error *error);

aclnn_client *stream_client(const aclnn_stream *stream);

// Cancels what was not waited for.
void stream_close(aclnn_stream *stream);

#endif
