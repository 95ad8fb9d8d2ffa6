#include "client/cli/capsule_file.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENSOR(name, direction)                                                                              \
  "{\"name\":\"" name "\",\"kind\":\"tensor\",\"direction\":\"" direction "\",\"data_type\":\"float32\","    \
  "\"format\":\"ND\",\"shape\":[2],\"strides\":[1],\"storage_offset\":0,\"storage_elements\":2}"
#define STORAGE(name, role, bytes) "{\"tensor\":\"" name "\",\"role\":\"" role "\",\"bytes\":" bytes "}"
#define STORAGES STORAGE("x", "input", "8") "," STORAGE("y", "device", "8") "," STORAGE("y", "cpu", "8")
#define HEADER_OF(arguments, storages)                                                                       \
  "{\"operator\":\"aclnnX\",\"target\":\"NPU\",\"numerics\":\"DEVICE\",\"arguments\":[" arguments "],"       \
  "\"storages\":[" storages "],\"device\":{\"number\":0,\"name\":\"npu0\",\"detail\":\"d\"},"                \
  "\"versions\":{\"server\":\"0.1\"}}"
#define TENSORS TENSOR("x", "input") "," TENSOR("shape", "input") "," TENSOR("y", "output")
#define HEADER HEADER_OF(TENSORS, STORAGES)

// A capsule of that header and so many bytes after it.
struct bytes {
  uint8_t *data;
  size_t size;
};

static struct bytes make(const char *header, size_t data_bytes) {
  size_t header_bytes = strlen(header);
  struct bytes made = {.size = 16 + header_bytes + data_bytes};
  made.data = malloc(made.size); // exactly: a sanitizer sees what is read beyond it
  memcpy(made.data, "ACLNNCAP\1\0\0\0", 12);
  for (size_t i = 0; i < 4; i++) {
    made.data[12 + i] = (uint8_t)(header_bytes >> (8 * i));
  }
  memcpy(made.data + 16, header, header_bytes);
  for (size_t i = 0; i < data_bytes; i++) {
    made.data[16 + header_bytes + i] = (uint8_t)i;
  }
  return made;
}

static void check_refused(const char *header, size_t data_bytes, const char *complaint) {
  struct bytes made = make(header, data_bytes);
  struct capsule_file capsule;
  struct failure failure;
  assert_false(capsule_file_parse(made.data, made.size, &capsule, &failure));
  if (strstr(failure.text, complaint) == NULL) {
    fail_msg("\"%s\" doesn't say \"%s\"", failure.text, complaint);
  }
  free(made.data);
}

static void capsule_becomes_a_call(void **state) {
  (void)state;
  struct bytes made = make(HEADER, 24);
  struct capsule_file capsule;
  struct failure failure;
  assert_true(capsule_file_parse(made.data, made.size, &capsule, &failure));
  const uint8_t *data = made.data + made.size - 24;
  assert_string_equal(capsule.operator_name, "aclnnX");
  assert_string_equal(capsule.device, "npu0");
  assert_string_equal(capsule.server_version, "0.1");
  assert_int_equal(capsule.numerics, ACLNN_NUMERICS_DEVICE);
  assert_int_equal(capsule.tensor_count, 3);
  assert_int_equal(capsule.attribute_count, 0);
  const aclnn_tensor *x = &capsule.tensors[0], *shape = &capsule.tensors[1], *y = &capsule.tensors[2];
  assert_string_equal(x->name, "x");
  assert_false(x->output);
  assert_int_equal(x->data_type, ACLNN_FLOAT);
  assert_int_equal(x->rank, 1);
  assert_int_equal(x->shape[0], 2);
  assert_true(x->has_strides);
  assert_int_equal(x->strides[0], 1);
  assert_int_equal(x->storage_elements, 2);
  assert_ptr_equal(x->data, data);
  assert_int_equal(x->data_bytes, 8);
  assert_null(shape->data);
  assert_true(y->output);
  assert_null(y->data); // the library's to allocate
  assert_ptr_equal(capsule.recorded[2].device, data + 8);
  assert_ptr_equal(capsule.recorded[2].cpu, data + 16);
  assert_int_equal(capsule.recorded[2].bytes, 8);
  free(made.data);
}

static void attributes_of_all_kinds_are_read(void **state) {
  (void)state;
  struct bytes made = make(HEADER_OF(TENSORS ",{\"name\":\"a\",\"kind\":\"int_array\",\"values\":[7,-1]},"
                                             "{\"name\":\"b\",\"kind\":\"integer\",\"value\":"
                                             "\"9223372036854775807\"},"
                                             "{\"name\":\"c\",\"kind\":\"real\",\"value\":0.5},"
                                             "{\"name\":\"d\",\"kind\":\"boolean\",\"value\":true},"
                                             "{\"name\":\"e\",\"kind\":\"text\",\"value\":\"word\"}",
                                     STORAGES),
                           24);
  struct capsule_file capsule;
  struct failure failure;
  assert_true(capsule_file_parse(made.data, made.size, &capsule, &failure));
  assert_int_equal(capsule.attribute_count, 5);
  const aclnn_attribute *attributes = capsule.attributes;
  assert_string_equal(attributes[0].name, "a");
  assert_int_equal(attributes[0].kind, ACLNN_INT_ARRAY);
  assert_int_equal(attributes[0].value_count, 2);
  assert_int_equal(attributes[0].values[1], -1);
  assert_int_equal(attributes[1].kind, ACLNN_INTEGER);
  assert_true(attributes[1].integer == INT64_MAX);
  assert_int_equal(attributes[2].kind, ACLNN_REAL);
  assert_true(attributes[2].real == 0.5);
  assert_int_equal(attributes[3].kind, ACLNN_BOOLEAN);
  assert_int_equal(attributes[3].integer, 1);
  assert_int_equal(attributes[4].kind, ACLNN_TEXT);
  assert_string_equal(attributes[4].text, "word");
  free(made.data);
}

static void cut_files_are_refused(void **state) {
  (void)state;
  struct bytes made = make(HEADER, 24);
  for (size_t size = 0; size < made.size; size++) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, made.data, size);
    struct capsule_file capsule;
    struct failure failure;
    assert_false(capsule_file_parse(copy, size, &capsule, &failure));
    assert_true(failure.text[0] != '\0');
    free(copy);
  }
  free(made.data);
}

static void changed_bytes_never_lead_outside_the_file(void **state) {
  (void)state;
  struct bytes made = make(HEADER, 24);
  for (size_t i = 0; i < made.size - 24; i++) {
    for (int value = 0; value < 256; value += 5) {
      uint8_t before = made.data[i];
      made.data[i] = (uint8_t)value;
      struct capsule_file capsule;
      struct failure failure;
      if (capsule_file_parse(made.data, made.size, &capsule, &failure)) {
        for (size_t t = 0; t < capsule.tensor_count; t++) {
          const struct capsule_tensor *recorded = &capsule.recorded[t];
          const uint8_t *places[] = {recorded->input, recorded->device, recorded->cpu};
          for (size_t p = 0; p < 3; p++) {
            assert_true(places[p] == NULL || (places[p] >= made.data && recorded->bytes <= made.size &&
                                              places[p] + recorded->bytes <= made.data + made.size));
          }
        }
      }
      made.data[i] = before;
    }
  }
  free(made.data);
}

static void lengths_that_lie_are_refused(void **state) {
  (void)state;
  check_refused(HEADER, 23, "cpu of y should have 8 bytes, but only 7 are left");
  check_refused(HEADER, 25, "1 bytes after the last storage");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "input", "9007199254740992")), 24, "9007199254740992");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "input", "-1")), 24, "-1");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "input", "1e300")), 24, "\"bytes\" is not an integer");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "input", "0.5")), 24, "\"bytes\" is not an integer");
  struct bytes made = make(HEADER, 24);
  memset(made.data + 12, 0xff, 4);
  struct capsule_file capsule;
  struct failure failure;
  assert_false(capsule_file_parse(made.data, made.size, &capsule, &failure));
  assert_non_null(strstr(failure.text, "4294967295"));
  free(made.data);
}

static void headers_that_make_no_sense_are_refused(void **state) {
  (void)state;
  check_refused("", 0, "no JSON object");
  check_refused("[]", 0, "no JSON object");
  check_refused("{\"operator\":", 0, "no JSON object");
  check_refused("{}", 0, "\"operator\"");
  check_refused("{\"operator\":7}", 0, "\"operator\"");
  check_refused("{\"operator\":\"x\",\"numerics\":\"VAGUE\"}", 0, "\"numerics\"");
  check_refused("{\"operator\":\"x\",\"numerics\":\"EXACT\"}", 0, "\"arguments\"");
  check_refused(HEADER_OF("7", ""), 0, "\"kind\"");
  check_refused(HEADER_OF("{\"kind\":\"cube\",\"name\":\"x\"}", ""), 0, "cube");
  check_refused(HEADER_OF("{\"kind\":\"integer\",\"name\":\"x\",\"value\":\"12x\"}", ""), 0, "64 bits");
  check_refused(HEADER_OF("{\"kind\":\"tensor\",\"name\":\"x\"}", ""), 0, "\"data_type\"");
  check_refused(HEADER_OF(TENSOR("x", "sideways"), ""), 0, "\"direction\"");
  check_refused(HEADER_OF(TENSORS, ""), 0, "an output of y is missing");
  check_refused(HEADER_OF(TENSOR("x", "input"), STORAGE("x", "input", "8")), 8, "no output");
  check_refused(HEADER_OF(TENSORS, STORAGE("z", "input", "8")), 8, "'z'");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "cpu", "8")), 8, "'cpu' too many");
  check_refused(HEADER_OF(TENSORS, STORAGE("y", "input", "8")), 8, "'input' too many");
  check_refused(HEADER_OF(TENSORS, STORAGE("x", "input", "4") "," STORAGE("x", "input", "4")), 8,
                "'input' too many");
  check_refused(HEADER_OF(TENSORS, STORAGE("y", "device", "4") "," STORAGE("y", "cpu", "8")), 12,
                "4 and 8 bytes");
}

static void too_many_arguments_are_refused(void **state) {
  (void)state;
  char arguments[8192] = "";
  for (int i = 0; i < ACLNN_TENSORS_MAX + 1; i++) {
    strcat(arguments, i == 0 ? TENSOR("x", "input") : "," TENSOR("x", "input"));
  }
  char header[sizeof arguments + 200];
  snprintf(header, sizeof header,
           "{\"operator\":\"x\",\"numerics\":\"EXACT\",\"arguments\":[%s],\"storages\":[]}", arguments);
  check_refused(header, 0, "more than 16 arguments");
  check_refused(HEADER_OF("{\"kind\":\"int_array\",\"name\":\"x\",\"values\":[1,2,3,4,5,6,7,8,9]}", ""), 0,
                "at most 8");
}

static void other_files_and_versions_are_told_apart(void **state) {
  (void)state;
  struct capsule_file capsule;
  struct failure failure;
  assert_false(capsule_file_parse((const uint8_t *)"\x93NUMPY\1\0 and so on", 20, &capsule, &failure));
  assert_string_equal(failure.text, "it is no capsule");
  struct bytes made = make(HEADER, 24);
  made.data[8] = 2;
  assert_false(capsule_file_parse(made.data, made.size, &capsule, &failure));
  assert_string_equal(failure.text, "it is a capsule of version 2, this program reads version 1");
  free(made.data);
}

static void files_are_opened_by_name(void **state) {
  (void)state;
  struct capsule_file capsule;
  struct failure failure;
  assert_false(capsule_file_open("/nowhere/at.all", &capsule, &failure));
  assert_non_null(strstr(failure.text, "/nowhere/at.all"));
  assert_false(capsule_file_open("/dev/null", &capsule, &failure));
  assert_false(capsule_file_open("/", &capsule, &failure));

  char path[] = "/tmp/capsule_file_test_XXXXXX";
  int descriptor = mkstemp(path);
  struct bytes made = make(HEADER, 24);
  assert_int_equal(write(descriptor, made.data, made.size), (ssize_t)made.size);
  assert_true(capsule_file_open(path, &capsule, &failure));
  assert_int_equal(((const uint8_t *)capsule.recorded[2].cpu)[7], 23);
  capsule_file_close(&capsule);
  assert_int_equal(ftruncate(descriptor, (off_t)made.size - 1), 0);
  assert_false(capsule_file_open(path, &capsule, &failure));
  assert_non_null(strstr(failure.text, path));
  free(made.data);
  close(descriptor);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(capsule_becomes_a_call),
      cmocka_unit_test(attributes_of_all_kinds_are_read),
      cmocka_unit_test(cut_files_are_refused),
      cmocka_unit_test(changed_bytes_never_lead_outside_the_file),
      cmocka_unit_test(lengths_that_lie_are_refused),
      cmocka_unit_test(headers_that_make_no_sense_are_refused),
      cmocka_unit_test(too_many_arguments_are_refused),
      cmocka_unit_test(other_files_and_versions_are_told_apart),
      cmocka_unit_test(files_are_opened_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
