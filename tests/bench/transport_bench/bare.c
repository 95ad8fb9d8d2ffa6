#include "tests/bench/transport_bench/bare.h"

#include "tests/bench/transport_bench/command.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>

grpc_channel_args bare_arguments(char **words, int count, grpc_arg arguments[BARE_ARGUMENTS_MAX]) {
  if (count > BARE_ARGUMENTS_MAX) {
    command_fail("more than %d channel arguments", BARE_ARGUMENTS_MAX);
  }
  for (int i = 0; i < count; ++i) {
    char *equals = strchr(words[i], '=');
    if (equals == NULL) {
      command_fail("'%s' is no channel argument", words[i]);
    }
    *equals = '\0';
    char *end = NULL;
    long value = strtol(equals + 1, &end, 10);
    if (*end == '\0') {
      arguments[i] = (grpc_arg){.type = GRPC_ARG_INTEGER, .key = words[i], .value.integer = (int)value};
    } else {
      arguments[i] = (grpc_arg){.type = GRPC_ARG_STRING, .key = words[i], .value.string = equals + 1};
    }
  }
  return (grpc_channel_args){(size_t)count, arguments};
}

grpc_byte_buffer *bare_message(const uint8_t *data, size_t bytes) {
  grpc_slice slice = grpc_slice_from_static_buffer(data, bytes);
  return grpc_raw_byte_buffer_create(&slice, 1);
}

size_t bare_take_message(grpc_byte_buffer *message, uint8_t *to, size_t room) {
  grpc_byte_buffer_reader reader;
  if (!grpc_byte_buffer_reader_init(&reader, message)) {
    command_fail("a message that can't be read");
  }
  size_t bytes = 0;
  grpc_slice *slice;
  while (grpc_byte_buffer_reader_peek(&reader, &slice)) {
    size_t length = GRPC_SLICE_LENGTH(*slice);
    if (bytes + length > room) {
      command_fail("a message of more than %zu bytes", room);
    }
    memcpy(to + bytes, GRPC_SLICE_START_PTR(*slice), length);
    bytes += length;
  }
  grpc_byte_buffer_reader_destroy(&reader);
  grpc_byte_buffer_destroy(message);
  return bytes;
}
