#include "proto/wire/test_bytes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void bytes_free(struct test_bytes *bytes) {
  free(bytes->data);
  *bytes = (struct test_bytes){0};
}

void bytes_raw(struct test_bytes *bytes, const void *data, size_t size) {
  if (size == 0) {
    return;
  }
  bytes->data = realloc(bytes->data, bytes->size + size);
  assert(bytes->data != NULL);
  memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
}

void bytes_hex(struct test_bytes *bytes, const char *hex) {
  while (*hex != '\0') {
    if (*hex == ' ') {
      hex++;
      continue;
    }
    char digits[3] = {hex[0], hex[1], '\0'};
    char *end;
    uint8_t byte = (uint8_t)strtoul(digits, &end, 16);
    assert(end == digits + 2);
    bytes_raw(bytes, &byte, 1);
    hex += 2;
  }
}

void bytes_varint(struct test_bytes *bytes, uint64_t value) {
  uint8_t encoded[10];
  size_t size = 0;
  while (value >= 0x80) {
    encoded[size++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  encoded[size++] = (uint8_t)value;
  bytes_raw(bytes, encoded, size);
}

void bytes_tag(struct test_bytes *bytes, uint32_t field, enum wire_type type) {
  bytes_varint(bytes, (uint64_t)field << 3 | (uint64_t)type);
}

void bytes_number(struct test_bytes *bytes, uint32_t field, int64_t value) {
  bytes_tag(bytes, field, WIRE_TYPE_VARINT);
  bytes_varint(bytes, (uint64_t)value);
}

void bytes_text(struct test_bytes *bytes, uint32_t field, const char *text) {
  bytes_tag(bytes, field, WIRE_TYPE_LENGTH);
  bytes_varint(bytes, strlen(text));
  bytes_raw(bytes, text, strlen(text));
}

void bytes_message(struct test_bytes *bytes, uint32_t field, struct test_bytes inner) {
  bytes_tag(bytes, field, WIRE_TYPE_LENGTH);
  bytes_varint(bytes, inner.size);
  bytes_raw(bytes, inner.data, inner.size);
  bytes_free(&inner);
}

struct test_bytes bytes_prefix(const struct test_bytes *bytes, size_t size) {
  assert(size <= bytes->size);
  struct test_bytes prefix = {0};
  bytes_raw(&prefix, bytes->data, size);
  return prefix;
}
