// A plan as phase 1 answers it. Any thread.
#ifndef ACLNN_SERVER_RPC_PLAN_REPLY_H
#define ACLNN_SERVER_RPC_PLAN_REPLY_H

#include "kernels/operator.h"
#include "proto/wire/messages.h"

// Chunks that a client may send: as large as fits into one message.
#define SERVER_CHUNK_BYTES_MAX WIRE_CHUNK_BYTES_MAX
// What the server decodes, and encodes for clients that offer it.
#define SERVER_CODECS ((codec_set)(1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK | 1u << CODEC_NONZERO_WORDS))

// Fills all but executor, ttl_ms and expire_unix_ms, which become empty.
void plan_reply_fill(const struct plan *plan, struct workspace_size_response *reply);

#endif
