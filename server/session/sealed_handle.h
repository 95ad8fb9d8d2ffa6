// What a handle says, and the seal around it.
//
// A handle is one byte of format version, a random nonce, and the content encrypted and authenticated
// (XChaCha20-Poly1305) with the version as associated data: the version can be read by everybody, the rest
// only with the key. Pure functions of their arguments (but for the nonce), usable from any thread.
#ifndef ACLNN_SERVER_SESSION_SEALED_HANDLE_H
#define ACLNN_SERVER_SESSION_SEALED_HANDLE_H

#include "kernels/argument.h"
#include "kernels/status.h"
#include "server/session/limits.h"

#define HANDLE_REPLICA_BYTES 16

// Names an executor among all replicas. Has no padding: it is hashed and compared as bytes.
struct handle_key {
  uint8_t replica[HANDLE_REPLICA_BYTES]; // random, made when a table is created
  uint64_t id;                           // counted by the replica
};

struct handle_content {
  struct handle_key key;
  bool repeatable;
  enum target target;
  bool automatic; // the request left the target to the server: a job may move
  uint64_t workspace_bytes;
  int64_t ttl_ms;
  int64_t expires_unix_ms;
  int64_t expires_steady_ms; // says something to the replica alone that sealed it
  char identity[SESSION_IDENTITY_BYTES_MAX + 1];
  uint8_t request[SESSION_HANDLE_BYTES_MAX];
  size_t request_bytes;
};

// Writes the handle and sets *handle_bytes. Fails with INTERNAL if the request is too large for a handle.
MUST_CHECK bool handle_seal(const uint8_t key[SESSION_KEY_BYTES], const struct handle_content *content,
                            uint8_t handle[SESSION_HANDLE_BYTES_MAX], size_t *handle_bytes,
                            struct status *status);

// Fails with EXECUTOR_EXPIRED if the version is another one, with EXECUTOR_INVALID if the seal doesn't open.
MUST_CHECK bool handle_open(const uint8_t key[SESSION_KEY_BYTES], const uint8_t *handle, size_t handle_bytes,
                            struct handle_content *content, struct status *status);

// The one refusal of a handle that this caller can't use, whatever the cause: it tells nothing to a stranger.
bool handle_refuse(struct status *status);

#endif
