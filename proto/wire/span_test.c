#include "proto/wire/span.h"

#include "proto/wire/test_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void start(struct span_cursor *cursor, struct span *span, const struct test_bytes *bytes) {
  *span = (struct span){.data = bytes->data, .size = bytes->size};
  span_cursor_init(cursor, span, 1);
}

// A reader that every split of its bytes must give the same outcome.
typedef bool reader(struct span_cursor *cursor, uint64_t *value);

static bool read_hex(const char *hex, reader *read, uint64_t *value, size_t *left) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  struct span span;
  struct span_cursor cursor;
  start(&cursor, &span, &bytes);
  bool ok = read(&cursor, value);
  *left = span_cursor_left(&cursor);
  for (size_t split = 0; split <= bytes.size; split++) {
    struct span spans[] = {
        {NULL, 0}, {bytes.data, split}, {NULL, 0}, {bytes.data + split, bytes.size - split}};
    uint64_t again = 0;
    span_cursor_init(&cursor, spans, 4);
    assert_int_equal(read(&cursor, &again), ok);
    if (ok) {
      assert_int_equal(again, *value);
      assert_int_equal(span_cursor_left(&cursor), *left);
    }
  }
  bytes_free(&bytes);
  return ok;
}

static bool as_varint(struct span_cursor *cursor, uint64_t *value) {
  return span_read_varint(cursor, value);
}

static bool as_tag(struct span_cursor *cursor, uint64_t *value) {
  uint32_t field;
  enum wire_type type;
  if (!span_read_tag(cursor, &field, &type)) {
    return false;
  }
  *value = (uint64_t)field << 8 | (uint64_t)type;
  return true;
}

static bool as_field(struct span_cursor *cursor, uint64_t *value) {
  uint32_t field;
  enum wire_type type;
  *value = 0;
  return span_read_tag(cursor, &field, &type) && span_skip_value(cursor, field, type);
}

struct row {
  const char *hex;
  bool ok;
  uint64_t value;
};

static void check_rows(const struct row *rows, size_t count, reader *read) {
  for (size_t i = 0; i < count; i++) {
    uint64_t value = 0;
    size_t left;
    print_message("%s\n", rows[i].hex);
    assert_int_equal(read_hex(rows[i].hex, read, &value, &left), rows[i].ok);
    if (rows[i].ok) {
      assert_int_equal(value, rows[i].value);
      assert_int_equal(left, 0);
    }
  }
}

#define CHECK_ROWS(rows, read) check_rows(rows, sizeof rows / sizeof *rows, read)

static void varints_of_all_lengths_are_read(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"00", true, 0},
      {"01", true, 1},
      {"7f", true, 127},
      {"80 01", true, 128},
      {"ac 02", true, 300},
      {"80 80 80 80 10", true, UINT64_C(1) << 32},
      {"ff ff ff ff ff ff ff ff 7f", true, INT64_MAX},
      {"ff ff ff ff ff ff ff ff ff 01", true, UINT64_MAX},
      {"80 80 80 80 80 80 80 80 80 01", true, UINT64_C(1) << 63},
      {"80 00", true, 0},                         // longer than needed is legal
      {"81 80 80 80 80 80 80 80 80 00", true, 1}, // up to ten bytes
  };
  CHECK_ROWS(rows, as_varint);
}

static void malformed_varints_are_refused(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"", false, 0},
      {"80", false, 0},
      {"ff ff ff ff ff ff ff ff ff", false, 0},
      {"ff ff ff ff ff ff ff ff ff 02", false, 0},    // a 65th bit
      {"80 80 80 80 80 80 80 80 80 80 00", false, 0}, // an eleventh byte
  };
  CHECK_ROWS(rows, as_varint);
}

static void tags_are_read_and_bad_ones_refused(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"08", true, 1 << 8 | WIRE_TYPE_VARINT},
      {"ba 3e", true, 999 << 8 | WIRE_TYPE_LENGTH},
      {"fd ff ff ff 0f", true, ((UINT64_C(1) << 29) - 1) << 8 | WIRE_TYPE_FIXED32},
      {"88 80 80 80 00", true, 1 << 8 | WIRE_TYPE_VARINT},
      {"00", false, 0},                   // field 0
      {"02", false, 0},                   // field 0
      {"0e", false, 0},                   // wire type 6
      {"0f", false, 0},                   // wire type 7
      {"80 80 80 80 10", false, 0},       // field 2^29
      {"88 80 80 80 80 00", false, 0},    // six bytes
      {"fd ff ff ff ff 00", false, 0},    // six bytes
      {"f8 ff ff ff ff ff 7f", false, 0}, // far too large
      {"", false, 0},
      {"ba", false, 0},
  };
  CHECK_ROWS(rows, as_tag);
}

static void values_of_every_wire_type_are_skipped(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"08 96 01", true, 0},
      {"09 01 02 03 04 05 06 07 08", true, 0},
      {"0a 03 61 62 63", true, 0},
      {"0a 00", true, 0},
      {"0d 01 02 03 04", true, 0},
      {"0b 08 01 0c", true, 0},          // a group
      {"0b 13 12 01 61 14 0c", true, 0}, // a group in a group
      {"0b 0c", true, 0},
      {"09 01 02 03 04 05 06 07", false, 0},
      {"0d 01 02 03", false, 0},
      {"0a 03 61 62", false, 0},
      {"0a ff ff ff ff ff ff ff ff ff 01 00", false, 0}, // a length that would wrap
      {"08", false, 0},
      {"0b 08 01", false, 0},    // never closed
      {"0b 08 01 14", false, 0}, // closed by another number
      {"0b 13 0c 14", false, 0}, // crosswise
      {"0c", false, 0},          // an end without a beginning
  };
  CHECK_ROWS(rows, as_field);
}

static void groups_nested_too_deeply_are_refused(void **state) {
  (void)state;
  for (size_t depth = SPAN_GROUP_DEPTH_MAX; depth <= SPAN_GROUP_DEPTH_MAX + 1; depth++) {
    struct test_bytes bytes = {0};
    for (size_t i = 0; i < depth; i++) {
      bytes_tag(&bytes, 1, WIRE_TYPE_START_GROUP);
    }
    for (size_t i = 0; i < depth; i++) {
      bytes_tag(&bytes, 1, WIRE_TYPE_END_GROUP);
    }
    struct span span;
    struct span_cursor cursor;
    start(&cursor, &span, &bytes);
    uint64_t value;
    assert_int_equal(as_field(&cursor, &value), depth == SPAN_GROUP_DEPTH_MAX);
    bytes_free(&bytes);
  }
}

static void bytes_are_read_and_skipped_across_spans(void **state) {
  (void)state;
  static const uint8_t text[] = "abcdefghij";
  for (size_t first = 0; first <= 10; first++) {
    for (size_t second = first; second <= 10; second++) {
      struct span spans[] = {
          {text, first}, {text + first, second - first}, {NULL, 0}, {text + second, 10 - second}};
      struct span_cursor cursor;
      span_cursor_init(&cursor, spans, 4);
      char out[8] = {0};
      assert_int_equal(span_cursor_left(&cursor), 10);
      assert_true(span_skip(&cursor, 2));
      assert_true(span_read_bytes(&cursor, out, 5));
      assert_string_equal(out, "cdefg");
      assert_int_equal(cursor.consumed, 7);
      assert_false(span_read_bytes(&cursor, out, 4));
      assert_false(span_skip(&cursor, 4));
      assert_true(span_skip(&cursor, 3));
      assert_true(span_read_bytes(&cursor, out, 0));
      assert_true(span_skip(&cursor, 0));
      assert_int_equal(span_cursor_left(&cursor), 0);
    }
  }
}

static void a_part_ends_where_it_was_cut(void **state) {
  (void)state;
  static const uint8_t data[] = {1, 0x80, 0x80, 4, 5};
  for (size_t split = 0; split <= sizeof data; split++) {
    struct span spans[] = {{data, split}, {data + split, sizeof data - split}};
    struct span_cursor cursor;
    struct span_cursor part;
    span_cursor_init(&cursor, spans, 2);
    assert_true(span_take(&cursor, 3, &part));
    assert_int_equal(span_cursor_left(&part), 3);
    assert_int_equal(span_cursor_left(&cursor), 2);
    uint64_t value;
    assert_true(span_read_varint(&part, &value));
    assert_int_equal(value, 1);
    // The varint goes on behind the part: it must not be read to its end.
    assert_false(span_read_varint(&part, &value));
    assert_true(span_read_varint(&cursor, &value));
    assert_int_equal(value, 4);
    assert_false(span_take(&cursor, 2, &part));
  }
}

static void no_spans_are_an_empty_message(void **state) {
  (void)state;
  struct span_cursor cursor;
  span_cursor_init(&cursor, NULL, 0);
  uint64_t value;
  assert_int_equal(span_cursor_left(&cursor), 0);
  assert_false(span_read_varint(&cursor, &value));
  assert_true(span_skip(&cursor, 0));
  assert_false(span_skip(&cursor, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(varints_of_all_lengths_are_read),
      cmocka_unit_test(malformed_varints_are_refused),
      cmocka_unit_test(tags_are_read_and_bad_ones_refused),
      cmocka_unit_test(values_of_every_wire_type_are_skipped),
      cmocka_unit_test(groups_nested_too_deeply_are_refused),
      cmocka_unit_test(bytes_are_read_and_skipped_across_spans),
      cmocka_unit_test(a_part_ends_where_it_was_cut),
      cmocka_unit_test(no_spans_are_an_empty_message),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
