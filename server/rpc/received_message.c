#include "server/rpc/received_message.h"

#include "server/rpc/limits.h"

#include <assert.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <stdlib.h>

static bool add_span(struct received_message *message, const grpc_slice *slice) {
  if (message->_span_count == message->_span_capacity) {
    size_t capacity = message->_span_capacity == 0 ? 32 : 2 * message->_span_capacity;
    struct span *grown = realloc(message->_spans, capacity * sizeof *grown);
    if (grown == NULL) {
      return false;
    }
    message->_spans = grown;
    message->_span_capacity = capacity;
  }
  message->_spans[message->_span_count++] =
      (struct span){.data = GRPC_SLICE_START_PTR(*slice), .size = GRPC_SLICE_LENGTH(*slice)};
  return true;
}

// Puts the whole message into one piece, when it came in absurdly many.
static void join(struct received_message *message) {
  grpc_byte_buffer_reader reader;
  int readable = grpc_byte_buffer_reader_init(&reader, message->buffer);
  assert(readable);
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  message->_joined = grpc_raw_byte_buffer_create(&all, 1);
  message->joined_bytes = GRPC_SLICE_LENGTH(all);
  grpc_slice_unref(all);
}

static bool list_spans(struct received_message *message, grpc_byte_buffer *buffer) {
  grpc_byte_buffer_reader reader;
  int readable = grpc_byte_buffer_reader_init(&reader, buffer);
  assert(readable);
  grpc_slice *slice = NULL;
  bool ok = true;
  message->_span_count = 0;
  // Peeked slices lie in the buffer and live as long as it does.
  while (ok && message->_span_count < MESSAGE_SPANS_MAX && grpc_byte_buffer_reader_peek(&reader, &slice)) {
    ok = add_span(message, slice);
  }
  grpc_byte_buffer_reader_destroy(&reader);
  return ok;
}

bool received_message_open(struct received_message *message, struct status *status) {
  message->joined_bytes = 0;
  bool listed = list_spans(message, message->buffer);
  if (listed && message->_span_count == MESSAGE_SPANS_MAX) {
    join(message);
    listed = list_spans(message, message->_joined);
  }
  if (!listed) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory to read a message");
  }
  return execute_message_read(EXECUTE_MESSAGE_REQUEST, message->_spans, message->_span_count, &message->parts,
                              status);
}

void received_message_copy_head(const struct received_message *message, uint8_t *head) {
  struct span_cursor cursor = message->parts.head;
  bool copied = span_read_bytes(&cursor, head, message->parts.head_bytes);
  assert(copied);
}

void received_message_close(struct received_message *message) {
  if (message->buffer != NULL) {
    grpc_byte_buffer_destroy(message->buffer);
    message->buffer = NULL;
  }
  if (message->_joined != NULL) {
    grpc_byte_buffer_destroy(message->_joined);
    message->_joined = NULL;
  }
}

void received_message_free(struct received_message *message) {
  received_message_close(message);
  free(message->_spans);
  message->_spans = NULL;
  message->_span_count = message->_span_capacity = 0;
}
