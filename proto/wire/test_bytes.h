// Messages put together byte by byte, for tests: what no encoder would write, too.
//
// Running out of memory ends the program. Not for anything but tests.
#ifndef ACLNN_PROTO_WIRE_TEST_BYTES_H
#define ACLNN_PROTO_WIRE_TEST_BYTES_H

#include "proto/wire/span.h"

#include <stddef.h>
#include <stdint.h>

// Starts zeroed; freed with bytes_free. data is exactly size bytes long on the heap, so that a sanitizer sees
// whoever reads behind it.
struct test_bytes {
  uint8_t *data;
  size_t size;
};

void bytes_free(struct test_bytes *bytes);

void bytes_raw(struct test_bytes *bytes, const void *data, size_t size);
// "0a 03 61 62 63"
void bytes_hex(struct test_bytes *bytes, const char *hex);
void bytes_varint(struct test_bytes *bytes, uint64_t value);
void bytes_tag(struct test_bytes *bytes, uint32_t field, enum wire_type type);

// Whole fields.
void bytes_number(struct test_bytes *bytes, uint32_t field, int64_t value);
void bytes_text(struct test_bytes *bytes, uint32_t field, const char *text);
// Takes the inner message over and frees it.
void bytes_message(struct test_bytes *bytes, uint32_t field, struct test_bytes inner);

// The first `size` bytes as bytes of their own.
struct test_bytes bytes_prefix(const struct test_bytes *bytes, size_t size);

#endif
