// The sizes that handles are made of.
#ifndef ACLNN_SERVER_SESSION_LIMITS_H
#define ACLNN_SERVER_SESSION_LIMITS_H

// Of XChaCha20-Poly1305.
#define SESSION_KEY_BYTES 32
// A request of eight tensors with all that can be said of them takes about 2 KiB.
#define SESSION_HANDLE_BYTES_MAX 8192
// A certificate's common name has 64 characters; what is longer must be shortened before it comes here.
#define SESSION_IDENTITY_BYTES_MAX 127

#endif
