#include "server/session/sealed_handle.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t key[SESSION_KEY_BYTES] = {1, 2, 3};

static struct handle_content make_content(size_t request_bytes) {
  struct handle_content content = {
      .key = {.replica = {9, 8, 7, 6}, .id = 0x0123456789abcdef},
      .repeatable = true,
      .target = TARGET_NPU,
      .automatic = true,
      .workspace_bytes = UINT64_MAX,
      .ttl_ms = 60000,
      .expires_unix_ms = 1700000000000,
      .expires_steady_ms = -5,
      .identity = "cn=somebody",
      .request_bytes = request_bytes,
  };
  for (size_t i = 0; i < request_bytes; i++) {
    content.request[i] = (uint8_t)(i * 7);
  }
  return content;
}

static void check_fails(const uint8_t *with_key, const uint8_t *handle, size_t bytes, enum reason reason) {
  struct handle_content content;
  struct status status = {0};
  // From a copy of exactly that size, so that a sanitizer sees reading beyond it.
  uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
  memcpy(copy, handle, bytes);
  assert_false(handle_open(with_key, copy, bytes, &content, &status));
  assert_int_equal(status.reason, reason);
  assert_string_equal(status.parameter, "executor");
  free(copy);
}

static void content_comes_back_as_it_was(void **state) {
  (void)state;
  const size_t sizes[] = {0, 1, 300, 7000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct handle_content content = make_content(sizes[i]), opened;
    content.repeatable = i % 2 == 0;
    content.automatic = i / 2 == 0;
    uint8_t handle[SESSION_HANDLE_BYTES_MAX];
    size_t bytes;
    struct status status;
    assert_true(handle_seal(key, &content, handle, &bytes, &status));
    assert_true(bytes <= sizeof handle);
    assert_true(handle_open(key, handle, bytes, &opened, &status));
    assert_memory_equal(&opened.key, &content.key, sizeof content.key);
    assert_int_equal(opened.repeatable, content.repeatable);
    assert_int_equal(opened.automatic, content.automatic);
    assert_int_equal(opened.target, TARGET_NPU);
    assert_true(opened.workspace_bytes == UINT64_MAX);
    assert_int_equal(opened.ttl_ms, 60000);
    assert_int_equal(opened.expires_unix_ms, 1700000000000);
    assert_int_equal(opened.expires_steady_ms, -5);
    assert_string_equal(opened.identity, "cn=somebody");
    assert_int_equal(opened.request_bytes, sizes[i]);
    assert_memory_equal(opened.request, content.request, sizes[i]);
  }
}

static void request_without_room_is_an_error(void **state) {
  (void)state;
  struct handle_content content = make_content(SESSION_HANDLE_BYTES_MAX);
  uint8_t handle[SESSION_HANDLE_BYTES_MAX];
  size_t bytes;
  struct status status;
  assert_false(handle_seal(key, &content, handle, &bytes, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
}

static void nothing_inside_can_be_read_outside(void **state) {
  (void)state;
  struct handle_content content = make_content(300);
  uint8_t handle[SESSION_HANDLE_BYTES_MAX];
  size_t bytes;
  struct status status;
  assert_true(handle_seal(key, &content, handle, &bytes, &status));
  assert_null(memmem(handle, bytes, content.identity, strlen(content.identity)));
  assert_null(memmem(handle, bytes, content.request, 8));
  assert_null(memmem(handle, bytes, content.key.replica, 8));
}

static void same_content_is_sealed_differently_each_time(void **state) {
  (void)state;
  struct handle_content content = make_content(30);
  uint8_t first[SESSION_HANDLE_BYTES_MAX], second[SESSION_HANDLE_BYTES_MAX];
  size_t bytes;
  struct status status;
  assert_true(handle_seal(key, &content, first, &bytes, &status));
  assert_true(handle_seal(key, &content, second, &bytes, &status));
  assert_memory_not_equal(first + 1, second + 1, 24);
  assert_memory_not_equal(first + 25, second + 25, bytes - 25);
}

static void changed_byte_at_any_place_is_refused(void **state) {
  (void)state;
  struct handle_content content = make_content(100);
  uint8_t handle[SESSION_HANDLE_BYTES_MAX];
  size_t bytes;
  struct status status;
  assert_true(handle_seal(key, &content, handle, &bytes, &status));
  for (size_t i = 0; i < bytes; i++) {
    for (int bit = 0; bit < 8; bit++) {
      handle[i] ^= (uint8_t)(1 << bit);
      // Byte 0 is the version, which is told apart from a seal that doesn't open.
      check_fails(key, handle, bytes, i == 0 ? REASON_EXECUTOR_EXPIRED : REASON_EXECUTOR_INVALID);
      handle[i] ^= (uint8_t)(1 << bit);
    }
  }
  assert_true(handle_open(key, handle, bytes, &content, &status));
}

static void handle_of_any_other_length_is_refused(void **state) {
  (void)state;
  struct handle_content content = make_content(100);
  uint8_t handle[SESSION_HANDLE_BYTES_MAX + 1] = {0};
  size_t bytes;
  struct status status;
  assert_true(handle_seal(key, &content, handle, &bytes, &status));
  for (size_t length = 0; length <= sizeof handle; length++) {
    if (length != bytes) {
      check_fails(key, handle, length, REASON_EXECUTOR_INVALID);
    }
  }
}

static void handle_of_another_key_is_refused(void **state) {
  (void)state;
  struct handle_content content = make_content(100);
  uint8_t other_key[SESSION_KEY_BYTES], handle[SESSION_HANDLE_BYTES_MAX];
  size_t bytes;
  struct status status;
  memcpy(other_key, key, sizeof other_key);
  other_key[SESSION_KEY_BYTES - 1] ^= 1;
  assert_true(handle_seal(key, &content, handle, &bytes, &status));
  check_fails(other_key, handle, bytes, REASON_EXECUTOR_INVALID);
}

static int setup(void **state) {
  (void)state;
  return sodium_init() < 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(content_comes_back_as_it_was),
      cmocka_unit_test(request_without_room_is_an_error),
      cmocka_unit_test(nothing_inside_can_be_read_outside),
      cmocka_unit_test(same_content_is_sealed_differently_each_time),
      cmocka_unit_test(changed_byte_at_any_place_is_refused),
      cmocka_unit_test(handle_of_any_other_length_is_refused),
      cmocka_unit_test(handle_of_another_key_is_refused),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
