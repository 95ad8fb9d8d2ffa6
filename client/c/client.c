#include "client/c/client.h"

#include "client/c/error.h"
#include "client/c/heap_hint.h"
#include "client/c/retry.h"
#include "proto/wire/error_details.h"

#include <stdlib.h>
#include <string.h>

aclnn_error *client_error(aclnn_error *error, aclnn_error *spare) {
  if (error == NULL) {
    error = spare;
  }
  memset(error, 0, sizeof *error);
  return error;
}

struct call_scope client_scope(aclnn_client *client) {
  return channel_scope(client->channel, client->options.timeout_ms);
}

static bool check_options(const aclnn_client_options *options, aclnn_error *error) {
  if (options == NULL || options->target_address == NULL || options->target_address[0] == '\0') {
    return error_fail(error, REASON_ACLNN_ERR_PARAM_NULLPTR, NULL, "target_address is missing");
  }
  int64_t chunk = options->max_chunk_bytes;
  if (chunk != 0 && (chunk < WIRE_CHUNK_BYTES_MIN || chunk > WIRE_CHUNK_BYTES_MAX)) {
    return error_fail(error, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                      "max_chunk_bytes is %lld; allowed are 0 and %lld to %lld", (long long)chunk,
                      (long long)WIRE_CHUNK_BYTES_MIN, (long long)WIRE_CHUNK_BYTES_MAX);
  }
  if (options->timeout_ms < 0) {
    return error_fail(error, REASON_ACLNN_ERR_PARAM_INVALID, NULL, "timeout_ms is %lld; it can't be negative",
                      (long long)options->timeout_ms);
  }
  return true;
}

aclnn_result aclnn_client_open(const aclnn_client_options *options, aclnn_client **client,
                               aclnn_error *error) {
  aclnn_error spare;
  error = client_error(error, &spare);
  if (!check_options(options, error)) {
    return ACLNN_FAILED;
  }
  aclnn_client *opened = calloc(1, sizeof *opened);
  char *address = strdup(options->target_address);
  if (opened == NULL || address == NULL) {
    (void)error_fail(error, REASON_INTERNAL, NULL, "no memory for a client");
    goto failed;
  }
  if (!channel_open(address, &opened->channel, error)) {
    goto failed;
  }
  heap_hint_keep_memory();
  opened->options = *options;
  opened->options.target_address = opened->address = address;
  pthread_mutex_init(&opened->operators_lock, NULL);
  *client = opened;
  return ACLNN_OK;

failed:
  free(address);
  free(opened);
  return ACLNN_FAILED;
}

void aclnn_client_close(aclnn_client *client) {
  if (client == NULL) {
    return;
  }
  channel_close(client->channel);
  pthread_mutex_destroy(&client->operators_lock);
  free(client->operators);
  free(client->address);
  free(client);
}

void aclnn_cancel(aclnn_client *client) {
  channel_cancel_all(client->channel);
}

bool client_pause_before_retry(aclnn_client *client, const struct call_scope *scope, int retry,
                               aclnn_error *error) {
  if (!error_invites_retry(error) || error->retry_after_ms > RETRY_AFTER_MAX_MS) {
    return false;
  }
  // The low bits of the clock differ enough between clients.
  uint32_t random = (uint32_t)clock_now_ns() * 2654435761U;
  int64_t pause_ms = retry_pause_ms(retry, error->retry_after_ms, random);
  return channel_pause(client->channel, scope, pause_ms, error);
}

bool client_try(aclnn_client *client, const struct call_scope *scope, client_attempt *attempt, void *context,
                aclnn_error *error) {
  int limit = retry_limit(&client->options);
  aclnn_error told = {0};
  for (int retry = 0;; retry++) {
    if (attempt(context, scope, error)) {
      return true;
    }
    if (retry >= limit || !client_pause_before_retry(client, scope, retry, error)) {
      error_prefer_told(error, &told);
      return false;
    }
    error_remember(&told, error);
  }
}

struct job_options client_job_options(const aclnn_client *client) {
  int64_t chunk_bytes = client->options.max_chunk_bytes;
  struct job_options options = {
      .chunk_bytes = chunk_bytes == 0 ? WIRE_CHUNK_BYTES_DEFAULT : chunk_bytes,
      .reply_chunk_bytes = chunk_bytes,
      .codecs = client->options.plain_data ? 0 : 1U << CODEC_LZ4_BLOCK | 1U << CODEC_NONZERO_WORDS,
  };
  return options;
}
