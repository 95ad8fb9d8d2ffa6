#include "kernels/tensor.h"

#include "kernels/argument.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BIG INT64_MAX

// A descriptor and what becomes of it.
struct normalise_case {
  const char *promise;
  struct tensor_desc desc;
  enum direction direction;
  bool accepted;
  int64_t storage_elements; // after, if accepted
};

#define INPUT DIRECTION_INPUT
#define OUTPUT DIRECTION_OUTPUT

static const struct normalise_case normalise_cases[] = {
    {"a scalar", {DATA_TYPE_FLOAT}, INPUT, true, 1},
    {"contiguous", {DATA_TYPE_FLOAT, 0, 3, 0, {2, 3, 4}}, OUTPUT, true, 24},
    {"no type", {0, FORMAT_ND, 1, 0, {4}}, INPUT, false, 0},
    {"a type that doesn't exist", {(enum data_type)99, FORMAT_ND, 1, 0, {4}}, INPUT, false, 0},
    {"elements of half bytes", {DATA_TYPE_INT4, FORMAT_ND, 1, 0, {4}}, INPUT, false, 0},
    {"elements without size", {DATA_TYPE_STRING, FORMAT_ND, 1, 0, {4}}, INPUT, false, 0},
    {"NCHW", {DATA_TYPE_FLOAT, FORMAT_NCHW, 1, 0, {4}}, INPUT, true, 4},
    {"NCL", {DATA_TYPE_FLOAT, FORMAT_NCL, 1, 0, {4}}, INPUT, true, 4},
    {"NHWC", {DATA_TYPE_FLOAT, FORMAT_NHWC, 1, 0, {4}}, INPUT, false, 0},
    {"a format that doesn't exist", {DATA_TYPE_FLOAT, (enum format)77, 1, 0, {4}}, INPUT, false, 0},
    {"eight dims", {DATA_TYPE_FLOAT, 0, 8, 0, {1, 1, 1, 1, 1, 1, 1, 2}}, INPUT, true, 2},
    {"nine dims", {DATA_TYPE_FLOAT, 0, 9, 0, {1, 1, 1, 1, 1, 1, 1, 2}}, INPUT, false, 0},
    {"a thousand dims", {DATA_TYPE_FLOAT, 0, 1000, 1000, {1, 1, 1, 1, 1, 1, 1, 2}}, INPUT, false, 0},
    {"a negative dim", {DATA_TYPE_FLOAT, 0, 2, 0, {3, -1}}, INPUT, false, 0},
    {"the most negative dim", {DATA_TYPE_FLOAT, 0, 2, 0, {INT64_MIN, 2}}, INPUT, false, 0},
    {"negative dims whose product is positive", {DATA_TYPE_FLOAT, 0, 2, 0, {-2, -3}}, INPUT, false, 0},
    {"a dim of 0", {DATA_TYPE_FLOAT, 0, 3, 0, {2, 0, 4}}, OUTPUT, true, 0},
    {"elements that wrap at 2^32 to 0", {DATA_TYPE_UINT8, 0, 2, 0, {65536, 65536}}, INPUT, true, 1LL << 32},
    {"elements that wrap at 2^31", {DATA_TYPE_UINT8, 0, 2, 0, {65536, 32768}}, INPUT, true, 1LL << 31},
    {"elements that wrap at 2^64 to 0", {DATA_TYPE_UINT8, 0, 2, 0, {1LL << 32, 1LL << 32}}, INPUT, false, 0},
    {"elements that wrap at 2^64 to 6", {DATA_TYPE_UINT8, 0, 3, 0, {3, BIG, 2}}, INPUT, false, 0},
    {"elements that wrap at 2^63", {DATA_TYPE_UINT8, 0, 2, 0, {1LL << 32, 1LL << 31}}, INPUT, false, 0},
    {"as many bytes as can be counted", {DATA_TYPE_UINT8, 0, 1, 0, {BIG}}, INPUT, true, BIG},
    {"elements that can be counted, bytes that can't",
     {DATA_TYPE_FLOAT, 0, 1, 0, {BIG / 2}},
     INPUT,
     false,
     0},
    {"a product that wraps beside a dim of 0",
     {DATA_TYPE_FLOAT, 0, 3, 0, {0, 1LL << 40, 1LL << 40}},
     INPUT,
     false,
     0},
    {"an expanded tensor with too many elements",
     {DATA_TYPE_FLOAT, 0, 2, 2, {1LL << 40, 1LL << 40}, {0, 0}},
     INPUT,
     false,
     0},
    {"too few strides", {DATA_TYPE_FLOAT, 0, 2, 1, {2, 3}, {3}}, INPUT, false, 0},
    {"too many strides", {DATA_TYPE_FLOAT, 0, 2, 3, {2, 3}, {3, 1, 1}}, INPUT, false, 0},
    {"strides of a scalar", {DATA_TYPE_FLOAT, 0, 0, 1, {0}, {1}}, INPUT, false, 0},
    {"a negative stride", {DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {3, -1}, 5}, INPUT, false, 0},
    {"a negative stride of a dim of size 1", {DATA_TYPE_FLOAT, 0, 2, 2, {1, 3}, {-9, 1}}, OUTPUT, true, 3},
    {"a huge stride of a dim of size 1", {DATA_TYPE_FLOAT, 0, 2, 2, {1, 3}, {BIG, 1}}, OUTPUT, true, 3},
    {"a stride that overflows", {DATA_TYPE_UINT8, 0, 2, 2, {3, 3}, {BIG, 1}}, INPUT, false, 0},
    {"a span that overflows", {DATA_TYPE_UINT8, 0, 2, 2, {2, 2}, {BIG / 2 + 1, BIG / 2}}, INPUT, false, 0},
    {"a span of bytes that overflows", {DATA_TYPE_FLOAT, 0, 1, 1, {2}, {BIG / 2}}, INPUT, false, 0},
    {"an offset at the end of all", {DATA_TYPE_UINT8, 0, 1, 0, {1}, {0}, BIG}, INPUT, false, 0},
    {"a negative offset", {DATA_TYPE_FLOAT, 0, 1, 0, {4}, {0}, -1}, INPUT, false, 0},
    {"an offset", {DATA_TYPE_FLOAT, 0, 1, 0, {4}, {0}, 3}, OUTPUT, true, 7},
    {"a negative storage", {DATA_TYPE_FLOAT, 0, 1, 0, {4}, {0}, 0, -4}, INPUT, false, 0},
    {"a storage of just the span", {DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {4, 1}, 1, 8}, OUTPUT, true, 8},
    {"a storage smaller than the span", {DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {4, 1}, 1, 7}, INPUT, false, 0},
    {"a storage larger than the span", {DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {4, 1}, 1, 99}, OUTPUT, true, 99},
    {"a storage whose bytes overflow", {DATA_TYPE_FLOAT, 0, 1, 0, {4}, {0}, 0, BIG}, INPUT, false, 0},
    {"an empty view of a storage", {DATA_TYPE_FLOAT, 0, 1, 0, {0}, {0}, 5, 5}, OUTPUT, true, 5},
    {"an empty view behind its storage", {DATA_TYPE_FLOAT, 0, 1, 0, {0}, {0}, 6, 5}, INPUT, false, 0},
    {"an empty view with an offset alone", {DATA_TYPE_FLOAT, 0, 1, 0, {0}, {0}, 17}, OUTPUT, true, 0},
    {"an empty view inside a storage", {DATA_TYPE_FLOAT, 0, 1, 0, {0}, {0}, 4, 5}, INPUT, true, 5},
    {"an expanded input", {DATA_TYPE_FLOAT, 0, 2, 2, {5, 3}, {0, 1}}, INPUT, true, 3},
    {"an input of one element everywhere", {DATA_TYPE_FLOAT, 0, 2, 2, {5, 3}, {0, 0}}, INPUT, true, 1},
    {"an expanded output", {DATA_TYPE_FLOAT, 0, 2, 2, {5, 3}, {0, 1}}, OUTPUT, false, 0},
    {"an input with overlapping rows", {DATA_TYPE_FLOAT, 0, 2, 2, {5, 3}, {2, 1}}, INPUT, true, 11},
    {"an output with overlapping rows", {DATA_TYPE_FLOAT, 0, 2, 2, {5, 3}, {2, 1}}, OUTPUT, false, 0},
    {"a transposed output with overlap", {DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {1, 2}}, OUTPUT, false, 0},
    {"equal strides in an output", {DATA_TYPE_FLOAT, 0, 2, 2, {2, 2}, {1, 1}}, OUTPUT, false, 0},
    {"a transposed output", {DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {1, 3}}, OUTPUT, true, 15},
    {"channels_last", {DATA_TYPE_FLOAT, 0, 4, 4, {2, 3, 4, 5}, {60, 1, 15, 3}}, OUTPUT, true, 120},
    {"padded rows", {DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {8, 1}}, OUTPUT, true, 21},
    {"every second element", {DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {10, 2}}, OUTPUT, true, 29},
    {"a slice of a transposed tensor",
     {DATA_TYPE_FLOAT, 0, 3, 3, {2, 3, 4}, {2, 32, 8}, 1},
     OUTPUT,
     true,
     92},
    {"dims of size 1 with stride 0", {DATA_TYPE_FLOAT, 0, 3, 3, {1, 2, 1}, {0, 1, 0}}, OUTPUT, true, 2},
    {"an empty output with stride 0", {DATA_TYPE_FLOAT, 0, 2, 2, {0, 3}, {0, 0}}, OUTPUT, true, 0},
};

static void storage_that_is_too_small_is_told_truly(void **state) {
  (void)state;
  static const struct {
    struct tensor_desc desc;
    const char *message;
  } cases[] = {
      {{DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {4, 1}, 1, 7},
       "x reaches element 7 of its storage, which has only 7"},
      {{DATA_TYPE_FLOAT, 0, 2, 0, {0, 3}, {0}, 17, 1},
       "storage_offset 17 of x lies beyond the end of its storage, which has 1 elements"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tensor_desc desc = cases[i].desc;
    struct status status = {0};
    assert_false(tensor_desc_normalise(&desc, INPUT, "x", &status));
    assert_string_equal(status.message, cases[i].message);
  }
}

static void descriptors_are_accepted_or_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof normalise_cases / sizeof normalise_cases[0]; i++) {
    const struct normalise_case *row = &normalise_cases[i];
    struct tensor_desc desc = row->desc;
    struct status status = {0};
    if (tensor_desc_normalise(&desc, row->direction, "x", &status) != row->accepted) {
      fail_msg("%s: %s", row->promise, status.message);
    }
    if (!row->accepted) {
      assert_int_equal(status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
      assert_string_equal(status.parameter, "x");
      assert_non_null(strstr(status.message, "x"));
      assert_memory_equal(&desc, &row->desc, sizeof desc);
      continue;
    }
    assert_int_equal(desc.storage_elements, row->storage_elements);
    assert_int_equal(desc.stride_count, desc.rank);
    assert_int_not_equal(desc.format, FORMAT_UNSPECIFIED);
    struct tensor_desc again = desc;
    assert_true(tensor_desc_normalise(&again, row->direction, "x", &status));
    assert_memory_equal(&again, &desc, sizeof desc);
  }
}

static struct tensor_desc normalised(struct tensor_desc desc) {
  struct status status;
  if (!tensor_desc_normalise(&desc, DIRECTION_INPUT, "x", &status)) {
    fail_msg("%s", status.message);
  }
  return desc;
}

static void strides_left_out_are_contiguous(void **state) {
  (void)state;
  struct tensor_desc desc = normalised((struct tensor_desc){DATA_TYPE_BF16, 0, 4, 0, {2, 3, 4, 5}});
  static const int64_t expected[] = {60, 20, 5, 1};
  assert_memory_equal(desc.strides, expected, sizeof expected);
  assert_int_equal(desc.format, FORMAT_ND);
  assert_int_equal(tensor_desc_storage_bytes(&desc), 240);
}

static void strides_of_dims_of_size_1_are_replaced(void **state) {
  (void)state;
  struct tensor_desc desc =
      normalised((struct tensor_desc){DATA_TYPE_FLOAT, 0, 4, 4, {2, 1, 4, 5}, {20, 1, 5, 1}});
  assert_int_equal(desc.strides[1], 20);
  assert_true(tensor_desc_is_contiguous(&desc));
}

struct layout_case {
  struct tensor_desc desc;
  bool contiguous;
  bool fills_storage;
};

static void layouts_are_told_apart(void **state) {
  (void)state;
  static const struct layout_case cases[] = {
      {{DATA_TYPE_FLOAT, 0, 2, 0, {3, 5}}, true, true},
      {{DATA_TYPE_FLOAT, 0, 2, 0, {3, 5}, {0}, 0, 16}, true, false},
      {{DATA_TYPE_FLOAT, 0, 2, 0, {3, 5}, {0}, 1}, true, false},
      {{DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {1, 3}}, false, true},
      {{DATA_TYPE_FLOAT, 0, 2, 2, {3, 5}, {6, 1}}, false, false},
      {{DATA_TYPE_FLOAT, 0, 2, 2, {2, 2}, {0, 1}, 0, 4}, false, false},
      {{DATA_TYPE_FLOAT, 0, 2, 2, {2, 3}, {1, 1}, 0, 6}, false, false},
      {{DATA_TYPE_FLOAT, 0, 3, 3, {3, 1, 5}, {5, 77, 1}}, true, true},
      {{DATA_TYPE_FLOAT}, true, true},
      {{DATA_TYPE_FLOAT, 0, 2, 0, {0, 5}}, true, true},
      {{DATA_TYPE_FLOAT, 0, 2, 0, {0, 5}, {0}, 0, 3}, true, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tensor_desc desc = normalised(cases[i].desc);
    assert_int_equal(tensor_desc_is_contiguous(&desc), cases[i].contiguous);
    assert_int_equal(tensor_desc_fills_storage(&desc), cases[i].fills_storage);
  }
}

static void flat_positions_are_found_in_the_storage(void **state) {
  (void)state;
  struct tensor_desc desc =
      normalised((struct tensor_desc){DATA_TYPE_FLOAT, 0, 3, 3, {2, 3, 4}, {1, 100, 7}, 5});
  int64_t flat = 0;
  for (int64_t i = 0; i < 2; i++) {
    for (int64_t j = 0; j < 3; j++) {
      for (int64_t k = 0; k < 4; k++, flat++) {
        assert_int_equal(tensor_desc_offset_of(&desc, flat), 5 + i + 100 * j + 7 * k);
      }
    }
  }
  assert_int_equal(tensor_desc_elements(&desc), flat);
}

static void a_like_tensor_is_contiguous_and_fresh(void **state) {
  (void)state;
  struct tensor_desc desc =
      normalised((struct tensor_desc){DATA_TYPE_FLOAT16, FORMAT_NCL, 2, 2, {3, 5}, {1, 9}, 2, 99});
  struct tensor_desc like = tensor_desc_like(&desc);
  struct tensor_desc expected = {DATA_TYPE_FLOAT16, FORMAT_NCL, 2, 0, {3, 5}};
  assert_memory_equal(&like, &expected, sizeof like);
}

static void only_a_descriptor_with_nothing_in_it_is_unspecified(void **state) {
  (void)state;
  struct tensor_desc empty = {0};
  assert_true(tensor_desc_is_unspecified(&empty));
  const struct tensor_desc given[] = {
      {.data_type = DATA_TYPE_FLOAT}, {.format = FORMAT_ND},  {.rank = 1}, {.stride_count = 1},
      {.storage_offset = 1},          {.storage_elements = 1}};
  for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
    assert_false(tensor_desc_is_unspecified(&given[i]));
  }
}

static void shapes_are_written_and_shortened(void **state) {
  (void)state;
  struct tensor_desc desc = {.rank = 4, .shape = {2, 3, 8, 8}};
  char text[64];
  tensor_desc_format_shape(&desc, text, sizeof text);
  assert_string_equal(text, "[2, 3, 8, 8]");
  tensor_desc_format_shape(&desc, text, sizeof "[2, 3, 8, 8]");
  assert_string_equal(text, "[2, 3, 8, 8]");
  tensor_desc_format_shape(&desc, text, sizeof "[2, 3, 8, 8]" - 1);
  assert_string_equal(text, "[2, 3, ...]");
  tensor_desc_format_shape(&desc, text, 6);
  assert_string_equal(text, "[...]");
  tensor_desc_format_shape(&desc, text, 5);
  assert_string_equal(text, "");
  desc.rank = 0;
  tensor_desc_format_shape(&desc, text, sizeof text);
  assert_string_equal(text, "[]");
  desc.rank = 1000;
  tensor_desc_format_shape(&desc, text, sizeof text);
  assert_string_equal(text, "[2, 3, 8, 8, 0, 0, 0, 0, ...]");
}

static void shortening_stays_inside_its_space(void **state) {
  (void)state;
  struct tensor_desc desc = {.rank = 8, .shape = {INT64_MIN, 1, BIG, -1, 100, BIG, 7, INT64_MIN}};
  for (size_t bytes = 0; bytes < 140; bytes++) {
    char text[160];
    memset(text, '#', sizeof text);
    tensor_desc_format_shape(&desc, text, bytes);
    assert_int_equal(text[bytes], '#');
    if (bytes > 0) {
      assert_true(strlen(text) < bytes);
    }
  }
}

static void data_types_have_names_sizes_and_numbers_of_cann(void **state) {
  (void)state;
  assert_string_equal(data_type_name(DATA_TYPE_FLOAT), "float32");
  assert_string_equal(data_type_name(DATA_TYPE_UNSPECIFIED), "unspecified");
  assert_string_equal(data_type_name((enum data_type)1234), "unspecified");
  assert_int_equal(data_type_bytes(DATA_TYPE_BF16), 2);
  assert_int_equal(data_type_bytes(DATA_TYPE_COMPLEX128), 16);
  assert_int_equal(data_type_bytes(DATA_TYPE_FLOAT6_E3M2), 0);
  assert_int_equal(data_type_bytes(DATA_TYPE_UINT1), 0);
  assert_int_equal(data_type_to_cann(DATA_TYPE_FLOAT), 0);
  assert_int_equal(data_type_to_cann(DATA_TYPE_BF16), 27);
  assert_int_equal(data_type_to_cann(DATA_TYPE_UNSPECIFIED), -1);
}

static void data_types_are_found_by_name(void **state) {
  (void)state;
  for (int i = 1; i < DATA_TYPE_COUNT; i++) {
    assert_int_equal(data_type_from_name(data_type_name((enum data_type)i)), i);
  }
  assert_int_equal(data_type_from_name("fp32"), DATA_TYPE_FLOAT);
  assert_int_equal(data_type_from_name("fp16"), DATA_TYPE_FLOAT16);
  assert_int_equal(data_type_from_name("half"), DATA_TYPE_FLOAT16);
  assert_int_equal(data_type_from_name("bf16"), DATA_TYPE_BF16);
  assert_int_equal(data_type_from_name("unspecified"), DATA_TYPE_UNSPECIFIED);
  assert_int_equal(data_type_from_name(""), DATA_TYPE_UNSPECIFIED);
}

static void formats_have_the_numbers_of_cann(void **state) {
  (void)state;
  assert_string_equal(format_name(FORMAT_NCHW), "NCHW");
  assert_int_equal(format_to_cann(FORMAT_NCHW), 0);
  assert_int_equal(format_to_cann(FORMAT_NHWC), 1);
  assert_int_equal(format_to_cann(FORMAT_ND), 2);
  assert_int_equal(format_to_cann(FORMAT_NCL), 47);
}

static void targets_numerics_and_kinds_have_names(void **state) {
  (void)state;
  assert_string_equal(target_name(TARGET_NPU), "NPU");
  assert_string_equal(target_name(TARGET_AUTO), "AUTO");
  assert_string_equal(numerics_name(NUMERICS_DETERMINISTIC), "DETERMINISTIC");
  assert_string_equal(numerics_name(NUMERICS_UNSPECIFIED), "UNSPECIFIED");
  assert_string_equal(parameter_kind_name(PARAMETER_KIND_INT_ARRAY), "INT_ARRAY");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_are_accepted_or_refused),
      cmocka_unit_test(storage_that_is_too_small_is_told_truly),
      cmocka_unit_test(strides_left_out_are_contiguous),
      cmocka_unit_test(strides_of_dims_of_size_1_are_replaced),
      cmocka_unit_test(layouts_are_told_apart),
      cmocka_unit_test(flat_positions_are_found_in_the_storage),
      cmocka_unit_test(a_like_tensor_is_contiguous_and_fresh),
      cmocka_unit_test(only_a_descriptor_with_nothing_in_it_is_unspecified),
      cmocka_unit_test(shapes_are_written_and_shortened),
      cmocka_unit_test(shortening_stays_inside_its_space),
      cmocka_unit_test(data_types_have_names_sizes_and_numbers_of_cann),
      cmocka_unit_test(data_types_are_found_by_name),
      cmocka_unit_test(formats_have_the_numbers_of_cann),
      cmocka_unit_test(targets_numerics_and_kinds_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
