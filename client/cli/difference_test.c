#include "client/cli/difference.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct difference find(aclnn_data_type data_type, const void *actual, const void *recorded,
                              size_t bytes) {
  struct difference difference;
  difference_find(data_type, actual, recorded, bytes, &difference);
  return difference;
}

static void same_storages_do_not_differ(void **state) {
  (void)state;
  const int64_t values[] = {1, -2, INT64_MIN};
  struct difference difference = find(ACLNN_INT64, values, values, sizeof values);
  assert_int_equal(difference.elements, 3);
  assert_int_equal(difference.differing, 0);
  assert_int_equal(difference.first, -1);
  assert_int_equal(find(ACLNN_INT64, values, values, 0).elements, 0);
}

static void first_difference_is_shown_in_bits(void **state) {
  (void)state;
  const uint32_t actual[] = {0, 0x80000000, 7}, recorded[] = {0, 0, 8};
  struct difference difference = find(ACLNN_FLOAT, actual, recorded, sizeof actual);
  assert_int_equal(difference.elements, 3);
  assert_int_equal(difference.differing, 2);
  assert_int_equal(difference.first, 1);
  assert_string_equal(difference.actual, "80000000");
  assert_string_equal(difference.recorded, "00000000");
  const uint8_t one = 1, two = 2;
  assert_string_equal(find(ACLNN_BOOL, &one, &two, 1).recorded, "02");
}

static void nan_is_the_same_as_nan_alone(void **state) {
  (void)state;
  const uint32_t singles[] = {0x7fc00000, 0xff800001, 0x7f800000, 0xff800000};
  const uint16_t halves[] = {0x7e00, 0xfc01, 0x7c00, 0xfc00};
  const uint16_t brains[] = {0x7fc0, 0xff81, 0x7f80, 0xff80};
  const uint64_t doubles[] = {0x7ff8000000000000, 0xfff0000000000001, 0x7ff0000000000000, 0xfff0000000000000};
  for (size_t i = 0; i < 4; i++) {
    for (size_t j = 0; j < 4; j++) {
      int differs = i != j && (i > 1 || j > 1);
      assert_int_equal(find(ACLNN_FLOAT, &singles[i], &singles[j], 4).differing, differs);
      assert_int_equal(find(ACLNN_FLOAT16, &halves[i], &halves[j], 2).differing, differs);
      assert_int_equal(find(ACLNN_BF16, &brains[i], &brains[j], 2).differing, differs);
      assert_int_equal(find(ACLNN_DOUBLE, &doubles[i], &doubles[j], 8).differing, differs);
      assert_int_equal(find(ACLNN_INT32, &singles[i], &singles[j], 4).differing, i != j);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_storages_do_not_differ),
      cmocka_unit_test(first_difference_is_shown_in_bits),
      cmocka_unit_test(nan_is_the_same_as_nan_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
