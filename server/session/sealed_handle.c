#include "server/session/sealed_handle.h"

#include <sodium.h>
#include <string.h>

#define VERSION_BYTES 1
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES crypto_aead_xchacha20poly1305_ietf_ABYTES
#define ENVELOPE_BYTES (VERSION_BYTES + NONCE_BYTES + TAG_BYTES)
#define CONTENT_BYTES_MAX (SESSION_HANDLE_BYTES_MAX - ENVELOPE_BYTES)

// To be raised with every change of what is sealed: an older replica then answers EXECUTOR_EXPIRED, and its
// client plans anew.
static const uint8_t format_version = 2;

_Static_assert(SESSION_KEY_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES, "the key is the cipher's");
_Static_assert(sizeof(struct handle_key) == HANDLE_REPLICA_BYTES + sizeof(uint64_t),
               "hashed without padding");

#define FLAG_REPEATABLE 1u
#define FLAG_AUTOMATIC 2u

// A place in the content on its way out or in. failed: there was no room, or nothing left to read.
struct cursor {
  uint8_t *bytes;
  size_t position, end;
  bool failed;
};

static uint8_t *advance(struct cursor *cursor, size_t count) {
  if (cursor->failed || count > cursor->end - cursor->position) {
    cursor->failed = true;
    return NULL;
  }
  uint8_t *place = cursor->bytes + cursor->position;
  cursor->position += count;
  return place;
}

static void put_bytes(struct cursor *cursor, const void *bytes, size_t count) {
  uint8_t *place = advance(cursor, count);
  if (place != NULL) {
    memcpy(place, bytes, count);
  }
}

static void take_bytes(struct cursor *cursor, void *bytes, size_t count) {
  const uint8_t *place = advance(cursor, count);
  if (place != NULL) {
    memcpy(bytes, place, count);
  }
}

// Integers are little endian, as everything that this project writes.
static void put_integer(struct cursor *cursor, uint64_t value) {
  uint8_t bytes[8];
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (uint8_t)(value >> (8 * i));
  }
  put_bytes(cursor, bytes, sizeof bytes);
}

static uint64_t take_integer(struct cursor *cursor) {
  uint8_t bytes[8] = {0};
  take_bytes(cursor, bytes, sizeof bytes);
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof bytes; i++) {
    value |= (uint64_t)bytes[i] << (8 * i);
  }
  return value;
}

static void put_content(struct cursor *cursor, const struct handle_content *content) {
  put_bytes(cursor, content->key.replica, HANDLE_REPLICA_BYTES);
  put_integer(cursor, content->key.id);
  put_integer(cursor,
              (content->repeatable ? FLAG_REPEATABLE : 0) | (content->automatic ? FLAG_AUTOMATIC : 0));
  put_integer(cursor, content->target);
  put_integer(cursor, content->workspace_bytes);
  put_integer(cursor, (uint64_t)content->ttl_ms);
  put_integer(cursor, (uint64_t)content->expires_unix_ms);
  put_integer(cursor, (uint64_t)content->expires_steady_ms);
  size_t identity_bytes = strlen(content->identity);
  put_integer(cursor, identity_bytes);
  put_bytes(cursor, content->identity, identity_bytes);
  put_bytes(cursor, content->request, content->request_bytes); // the rest
}

// The reverse of put_content. False if the content isn't what put_content writes.
static bool take_content(struct cursor *cursor, struct handle_content *content) {
  take_bytes(cursor, content->key.replica, HANDLE_REPLICA_BYTES);
  content->key.id = take_integer(cursor);
  uint64_t flags = take_integer(cursor);
  content->repeatable = (flags & FLAG_REPEATABLE) != 0;
  content->automatic = (flags & FLAG_AUTOMATIC) != 0;
  content->target = (enum target)take_integer(cursor);
  content->workspace_bytes = take_integer(cursor);
  content->ttl_ms = (int64_t)take_integer(cursor);
  content->expires_unix_ms = (int64_t)take_integer(cursor);
  content->expires_steady_ms = (int64_t)take_integer(cursor);
  uint64_t identity_bytes = take_integer(cursor);
  if (cursor->failed || identity_bytes > SESSION_IDENTITY_BYTES_MAX) {
    return false;
  }
  take_bytes(cursor, content->identity, identity_bytes);
  content->identity[identity_bytes] = '\0';
  content->request_bytes = cursor->end - cursor->position;
  take_bytes(cursor, content->request, content->request_bytes);
  return !cursor->failed;
}

bool handle_seal(const uint8_t key[SESSION_KEY_BYTES], const struct handle_content *content,
                 uint8_t handle[SESSION_HANDLE_BYTES_MAX], size_t *handle_bytes, struct status *status) {
  uint8_t plain[CONTENT_BYTES_MAX];
  struct cursor cursor = {.bytes = plain, .end = sizeof plain};
  put_content(&cursor, content);
  if (cursor.failed) {
    return status_fail(status, REASON_INTERNAL, NULL, "a request of %zu bytes doesn't fit into a handle",
                       content->request_bytes);
  }
  handle[0] = format_version;
  uint8_t *nonce = handle + VERSION_BYTES;
  randombytes_buf(nonce, NONCE_BYTES);
  unsigned long long sealed_bytes;
  crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE_BYTES, &sealed_bytes, plain, cursor.position,
                                             handle, VERSION_BYTES, NULL, nonce, key);
  *handle_bytes = VERSION_BYTES + NONCE_BYTES + sealed_bytes;
  return true;
}

bool handle_refuse(struct status *status) {
  return status_fail(status, REASON_EXECUTOR_INVALID, "executor",
                     "executor is not a handle that this server gave to this caller");
}

bool handle_open(const uint8_t key[SESSION_KEY_BYTES], const uint8_t *handle, size_t handle_bytes,
                 struct handle_content *content, struct status *status) {
  if (handle_bytes == 0 || handle_bytes > SESSION_HANDLE_BYTES_MAX) {
    return handle_refuse(status);
  }
  if (handle[0] != format_version) {
    return status_fail(status, REASON_EXECUTOR_EXPIRED, "executor",
                       "executor is a handle of format version %u, this server reads version %u", handle[0],
                       format_version);
  }
  if (handle_bytes < ENVELOPE_BYTES) {
    return handle_refuse(status);
  }
  uint8_t plain[CONTENT_BYTES_MAX];
  unsigned long long plain_bytes;
  const uint8_t *nonce = handle + VERSION_BYTES;
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain, &plain_bytes, NULL, nonce + NONCE_BYTES,
                                                 handle_bytes - VERSION_BYTES - NONCE_BYTES, handle,
                                                 VERSION_BYTES, nonce, key) != 0) {
    return handle_refuse(status);
  }
  struct cursor cursor = {.bytes = plain, .end = plain_bytes};
  return take_content(&cursor, content) || handle_refuse(status);
}
