#include "client/cli/npy.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOOD "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"

// A file's beginning with this version and dictionary.
static size_t make_file(uint8_t major, const char *dictionary, uint8_t out[1024]) {
  size_t length = strlen(dictionary);
  size_t start = major == 1 ? 10 : 12;
  assert_true(start + length <= 1024);
  memcpy(out, "\x93NUMPY", 6);
  out[6] = major;
  out[7] = 0;
  memset(out + 8, 0, 4);
  out[8] = (uint8_t)(length & 0xff);
  out[9] = (uint8_t)(length >> 8);
  memcpy(out + start, dictionary, length);
  return start + length;
}

static bool parse(uint8_t major, const char *dictionary, struct npy_header *header, struct failure *failure) {
  uint8_t bytes[1024];
  size_t size = make_file(major, dictionary, bytes);
  return npy_parse_header(bytes, size, header, failure);
}

static void headers_of_all_versions_are_read(void **state) {
  (void)state;
  struct failure failure;
  for (uint8_t major = 1; major <= 3; major++) {
    struct npy_header header;
    assert_true(parse(major, GOOD "     \n", &header, &failure));
    assert_int_equal(header.data_type, ACLNN_FLOAT);
    assert_false(header.fortran_order);
    assert_int_equal(header.rank, 2);
    assert_int_equal(header.shape[0], 2);
    assert_int_equal(header.shape[1], 3);
    assert_int_equal(header.data_bytes, 24);
    assert_int_equal(header.data_offset, (major == 1 ? 10 : 12) + strlen(GOOD) + 6);
  }
}

static void every_type_of_elements_is_known(void **state) {
  (void)state;
  static const struct {
    const char *descr;
    aclnn_data_type data_type;
    size_t bytes;
  } types[] = {{"<f2", ACLNN_FLOAT16, 2},
               {"<f4", ACLNN_FLOAT, 4},
               {"<f8", ACLNN_DOUBLE, 8},
               {"|i1", ACLNN_INT8, 1},
               {"<i2", ACLNN_INT16, 2},
               {"<i4", ACLNN_INT32, 4},
               {"<i8", ACLNN_INT64, 8},
               {"|u1", ACLNN_UINT8, 1},
               {"<u2", ACLNN_UINT16, 2},
               {"<u4", ACLNN_UINT32, 4},
               {"<u8", ACLNN_UINT64, 8},
               {"|b1", ACLNN_BOOL, 1},
               {"<V2", 0, 2},
               {"|V2", 0, 2}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    char dictionary[128];
    struct npy_header header;
    struct failure failure;
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': True, 'shape': (5,)}",
             types[i].descr);
    assert_true(parse(1, dictionary, &header, &failure));
    assert_int_equal(header.data_type, types[i].data_type);
    assert_int_equal(header.data_bytes, 5 * types[i].bytes);
    assert_true(header.fortran_order);
  }
}

static void odd_but_legal_headers_are_read(void **state) {
  (void)state;
  static const struct {
    const char *dictionary;
    size_t rank;
    size_t bytes;
  } headers[] = {
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 0, 4},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7)}", 2, 0},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0)}", 2, 0},
      {"{\"shape\":(3L,4L,),\"descr\":\"<f4\",\"fortran_order\":False}", 2, 48},
      {"  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1 , 2 ) , } \n\n", 2, 8},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2)}", 8, 8},
  };
  for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
    struct npy_header header;
    struct failure failure;
    assert_true(parse(2, headers[i].dictionary, &header, &failure));
    assert_int_equal(header.rank, headers[i].rank);
    assert_int_equal(header.data_bytes, headers[i].bytes);
  }
}

static void malformed_dictionaries_are_refused(void **state) {
  (void)state;
  static const char *const dictionaries[] = {
      "",
      "[]",
      "{",
      "{}",
      "{'descr'}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4', 'shape': (2, 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
      GOOD " x",
      "{'descr': '', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4\\'', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f3', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<V4', 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}",
  };
  for (size_t i = 0; i < sizeof dictionaries / sizeof dictionaries[0]; i++) {
    struct npy_header header;
    struct failure failure = {0};
    assert_false(parse(1, dictionaries[i], &header, &failure));
    assert_string_not_equal(failure.text, "");
  }
}

static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  static const char *const shapes[] = {"(9223372036854775808,)",      "(99999999999999999999999,)",
                                       "(2305843009213693952,)",      "(4294967296, 4294967296)",
                                       "(9223372036854775807, 2, 1)", "(4611686018427387904, 4)",
                                       "(18446744073709551616, 0,)",  "(65536, 65536, 65536, 65536)"};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    char dictionary[160];
    struct npy_header header;
    struct failure failure;
    snprintf(dictionary, sizeof dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': %s}",
             shapes[i]);
    assert_false(parse(1, dictionary, &header, &failure));
  }
}

static void other_files_are_refused(void **state) {
  (void)state;
  uint8_t bytes[1024];
  struct npy_header header;
  struct failure failure;
  size_t size = make_file(1, GOOD, bytes);
  for (size_t cut = 0; cut < size; cut++) {
    assert_false(npy_parse_header(bytes, cut, &header, &failure));
  }
  assert_true(npy_parse_header(bytes, size, &header, &failure));
  bytes[7] = 1;
  assert_false(npy_parse_header(bytes, size, &header, &failure));
  bytes[7] = 0;
  bytes[6] = 4;
  assert_false(npy_parse_header(bytes, size, &header, &failure));
  bytes[6] = 0;
  assert_false(npy_parse_header(bytes, size, &header, &failure));
  bytes[6] = 1;
  bytes[0] = 'N';
  assert_false(npy_parse_header(bytes, size, &header, &failure));
  size = make_file(2, GOOD, bytes);
  bytes[11] = 0xff; // a header of 4 GB
  assert_false(npy_parse_header(bytes, size, &header, &failure));
}

// ---- Files

static char directory[64];

static int make_directory(void **state) {
  (void)state;
  const char *parent = getenv("TEST_TMPDIR");
  snprintf(directory, sizeof directory, "%s", "npy_test_XXXXXX");
  return chdir(parent == NULL ? "/tmp" : parent) != 0 || mkdtemp(directory) == NULL || chdir(directory) != 0;
}

static void write_file(const char *path, const void *data, size_t size, const void *more, size_t more_size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  assert_int_equal(fwrite(more, 1, more_size, file), more_size);
  assert_int_equal(fclose(file), 0);
}

static void written_arrays_are_read_back(void **state) {
  (void)state;
  static const aclnn_data_type types[] = {ACLNN_FLOAT, ACLNN_FLOAT16, ACLNN_BF16,   ACLNN_INT32, ACLNN_INT64,
                                          ACLNN_INT8,  ACLNN_UINT8,   ACLNN_DOUBLE, ACLNN_BOOL};
  const int64_t shape[] = {2, 1, 3, 1, 2, 1, 1, 1};
  uint8_t data[12 * 8];
  for (size_t i = 0; i < sizeof data; i++) {
    data[i] = (uint8_t)(i * 7);
  }
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t rank = 0; rank <= ACLNN_RANK_MAX; rank++) {
      size_t elements = rank == 0 ? 1 : rank < 3 ? 2 : rank < 5 ? 6 : 12;
      size_t bytes = elements * aclnn_data_type_bytes(types[i]);
      uint8_t header[NPY_WRITTEN_HEADER_BYTES_MAX];
      size_t size = npy_format_header(types[i], rank, shape, header);
      assert_int_equal(size % 64, 0);
      write_file("a.npy", header, size, data, bytes);
      struct npy_array array;
      struct failure failure;
      assert_true(npy_open("a.npy", types[i], &array, &failure));
      assert_int_equal(array.header.data_type, types[i]);
      assert_int_equal(array.header.rank, rank);
      assert_memory_equal(array.header.shape, shape, rank * sizeof shape[0]);
      assert_int_equal(array.header.data_bytes, bytes);
      assert_memory_equal(array.data, data, bytes);
      npy_close(&array);
    }
  }
}

static void largest_header_fits(void **state) {
  (void)state;
  int64_t shape[ACLNN_RANK_MAX];
  for (size_t i = 0; i < ACLNN_RANK_MAX; i++) {
    shape[i] = INT64_MAX;
  }
  uint8_t header[NPY_WRITTEN_HEADER_BYTES_MAX];
  assert_in_range(npy_format_header(ACLNN_FLOAT, ACLNN_RANK_MAX, shape, header), 1, sizeof header);
}

static void files_of_the_wrong_length_are_refused(void **state) {
  (void)state;
  const int64_t shape[] = {4};
  const uint8_t data[17] = {0};
  uint8_t header[NPY_WRITTEN_HEADER_BYTES_MAX];
  size_t size = npy_format_header(ACLNN_FLOAT, 1, shape, header);
  struct npy_array array;
  struct failure failure;
  for (size_t bytes = 0; bytes <= sizeof data; bytes++) {
    write_file("b.npy", header, size, data, bytes);
    bool opened = npy_open("b.npy", ACLNN_UNSPECIFIED, &array, &failure);
    assert_int_equal(opened, bytes == 16);
    if (opened) {
      npy_close(&array);
    }
  }
  assert_string_equal(failure.text, "b.npy: its shape means 16 bytes of data, but there are 17");
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  struct npy_array array;
  struct failure failure;
  assert_false(npy_open("missing.npy", ACLNN_UNSPECIFIED, &array, &failure));
  assert_string_equal(failure.text, "missing.npy: No such file or directory");
  assert_false(npy_open(".", ACLNN_UNSPECIFIED, &array, &failure));
  assert_false(npy_open("/dev/null", ACLNN_UNSPECIFIED, &array, &failure));
  write_file("empty.npy", "", 0, "", 0);
  assert_false(npy_open("empty.npy", ACLNN_UNSPECIFIED, &array, &failure));
  assert_string_equal(failure.text, "empty.npy: it is empty");
}

static bool opens_as(const char *descr, aclnn_data_type as) {
  char dictionary[128];
  uint8_t bytes[1024];
  snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}", descr);
  size_t size = make_file(1, dictionary, bytes);
  write_file("c.npy", bytes, size, "\0\0\0", descr[2] == '2' ? 2 : 4);
  struct npy_array array;
  struct failure failure;
  if (!npy_open("c.npy", as, &array, &failure)) {
    return false;
  }
  assert_true(as == ACLNN_UNSPECIFIED || array.header.data_type == as);
  npy_close(&array);
  return true;
}

static void bfloat16_is_read_only_on_request(void **state) {
  (void)state;
  assert_true(opens_as("<u2", ACLNN_BF16));
  assert_true(opens_as("<V2", ACLNN_BF16));
  assert_true(opens_as("|V2", ACLNN_BF16));
  assert_false(opens_as("<V2", ACLNN_UNSPECIFIED));
  assert_false(opens_as("<i2", ACLNN_BF16));
  assert_false(opens_as("<f4", ACLNN_BF16));
  assert_true(opens_as("<u2", ACLNN_UNSPECIFIED));
  assert_true(opens_as("<f4", ACLNN_FLOAT));
  assert_false(opens_as("<f4", ACLNN_INT32));
  assert_false(opens_as("<V2", ACLNN_FLOAT16));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(headers_of_all_versions_are_read),
      cmocka_unit_test(every_type_of_elements_is_known),
      cmocka_unit_test(odd_but_legal_headers_are_read),
      cmocka_unit_test(malformed_dictionaries_are_refused),
      cmocka_unit_test(sizes_that_overflow_are_refused),
      cmocka_unit_test(other_files_are_refused),
      cmocka_unit_test(written_arrays_are_read_back),
      cmocka_unit_test(largest_header_fits),
      cmocka_unit_test(files_of_the_wrong_length_are_refused),
      cmocka_unit_test(what_is_no_file_is_refused),
      cmocka_unit_test(bfloat16_is_read_only_on_request),
  };
  return cmocka_run_group_tests(tests, make_directory, NULL);
}
