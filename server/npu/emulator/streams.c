// CANN's functions about streams.
#include "server/npu/emulator/api.h"
#include "server/npu/emulator/emulator.h"

#include <stdlib.h>

int32_t emulator_find_stream(struct emulator *emulator, const char *function, const void *handle,
                             struct owned_stream **stream) {
  struct context *context;
  int32_t status = emulator_current_context(emulator, function, &context);
  if (status != 0) {
    return status;
  }
  *stream = handles_find(&emulator->handles, HANDLE_STREAM, handle);
  if (*stream == NULL) {
    return emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "%s: no such stream", function);
  }
  if ((*stream)->context != emulator_current_context_handle()) {
    return emulated_refuse(ACL_STATUS_RT_STREAM_CONTEXT, "%s: the stream is of another context", function);
  }
  return 0;
}

static int32_t create_stream(struct emulator *emulator, struct context *context, void **handle) {
  struct owned_stream *owned = calloc(1, sizeof *owned);
  if (owned != NULL) {
    owned->stream = stream_create();
  }
  if (owned == NULL || owned->stream == NULL) {
    free(owned);
    return emulated_refuse(ACL_STATUS_BAD_ALLOC, "aclrtCreateStream: no thread for it");
  }
  owned->context = emulator_current_context_handle();
  owned->device = context->device;
  *handle = handles_add(&emulator->handles, HANDLE_STREAM, owned);
  if (*handle == NULL) {
    stream_destroy(owned->stream);
    free(owned);
    return emulated_refuse(ACL_STATUS_BAD_ALLOC, "aclrtCreateStream: no memory");
  }
  context->streams++;
  return 0;
}

aclError aclrtCreateStream(aclrtStream *stream) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtCreateStream", &context);
  if (status == 0 && stream == NULL) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtCreateStream: a null pointer");
  }
  if (status == 0) {
    status = create_stream(emulator, context, stream);
  }
  emulator_unlock();
  return status;
}

aclError aclrtDestroyStream(aclrtStream stream) {
  struct emulator *emulator = emulator_lock();
  struct owned_stream *owned;
  aclError status = emulator_find_stream(emulator, "aclrtDestroyStream", stream, &owned);
  if (status == 0 && owned->users > 0) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "aclrtDestroyStream: a thread waits for it");
  }
  if (status == 0) {
    struct context *context = handles_find(&emulator->handles, HANDLE_CONTEXT, owned->context);
    context->streams--;
    handles_remove(&emulator->handles, HANDLE_STREAM, stream);
    if (!stream_destroy(owned->stream)) {
      status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID,
                               "aclrtDestroyStream: destroyed before all of its tasks had ended");
    }
    free(owned);
  }
  emulator_unlock();
  return status;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t milliseconds) {
  struct emulator *emulator = emulator_lock();
  struct owned_stream *owned;
  aclError status = emulator_find_stream(emulator, "aclrtSynchronizeStreamWithTimeout", stream, &owned);
  if (status == 0 && milliseconds < -1) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID,
                             "aclrtSynchronizeStreamWithTimeout: %d ms is no time", milliseconds);
  }
  if (status != 0) {
    emulator_unlock();
    return status;
  }
  owned->users++;
  emulator->waiting++;
  emulator_unlock();
  char text[STREAM_TEXT_BYTES];
  status = stream_wait(owned->stream, milliseconds, text);
  emulator_lock();
  owned->users--;
  emulator->waiting--;
  emulator_unlock();
  return status == 0 ? 0 : emulated_refuse(status, "aclrtSynchronizeStreamWithTimeout: %s", text);
}

void streams_destroy_left(struct emulator *emulator) {
  struct owned_stream *owned;
  while ((owned = handles_remove_any(&emulator->handles, HANDLE_STREAM)) != NULL) {
    stream_destroy(owned->stream);
    free(owned);
  }
}
