// Replies that break the contract. Values only, any thread.
#ifndef ACLNN_CLIENT_C_REPLY_BREACH_H
#define ACLNN_CLIENT_C_REPLY_BREACH_H

#include "kernels/status.h"

// How messages about them begin; their reason is INTERNAL.
#define REPLY_BREACH "the server's reply breaks the contract: "

// Of what one of the shared modules found wrong with a reply: in a request it would be the caller's fault,
// here it is the server's. What is INTERNAL, such as no memory, stays as it is. Returns false.
bool reply_breach(struct status *status);

#endif
