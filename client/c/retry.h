// When a failed call is tried again, and how much later. Pure functions.
#ifndef ACLNN_CLIENT_C_RETRY_H
#define ACLNN_CLIENT_C_RETRY_H

#include "client/c/aclnn_client.h"

#define RETRIES_DEFAULT 2
#define RETRY_PAUSE_FIRST_MS 100
#define RETRY_PAUSE_MAX_MS 5000
// A server that asks for more is not waited for: that is the caller's decision.
#define RETRY_AFTER_MAX_MS 600000

// How often a call may be tried again under these options.
int retry_limit(const aclnn_client_options *options);

// The pause before retry number `retry` (0-based): doubles from RETRY_PAUSE_FIRST_MS, up to
// RETRY_PAUSE_MAX_MS, but not less than the server asked for (retry_after_ms, 0 for nothing); then up to a
// quarter more, by `random`, so that clients that failed together don't come back together.
int64_t retry_pause_ms(int retry, int64_t retry_after_ms, uint32_t random);

#endif
