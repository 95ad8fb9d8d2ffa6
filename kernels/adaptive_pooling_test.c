#include "kernels/adaptive_pooling.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct window_case {
  int64_t input;
  int64_t output;
  int64_t bounds[8]; // begin and end of each window
};

static void windows_are_those_of_the_formula(void **state) {
  (void)state;
  static const struct window_case rows[] = {
      {4, 3, {0, 2, 1, 3, 2, 4}},
      {5, 3, {0, 2, 1, 4, 3, 5}},
      {7, 4, {0, 2, 1, 4, 3, 6, 5, 7}},
      {2, 3, {0, 1, 0, 2, 1, 2}},
      {8, 4, {0, 2, 2, 4, 4, 6, 6, 8}},
      {1, 3, {0, 1, 0, 1, 0, 1}},
      {6, 1, {0, 6}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (int64_t m = 0; m < rows[i].output; m++) {
      assert_int_equal(pooling_window_begin(m, rows[i].input, rows[i].output), rows[i].bounds[2 * m]);
      assert_int_equal(pooling_window_end(m, rows[i].input, rows[i].output), rows[i].bounds[2 * m + 1]);
    }
  }
}

// The outputs from the first to the end are just those whose windows hold one of the positions between.
static void assert_outputs_of_range(int64_t first, int64_t last, int64_t input, int64_t output) {
  int64_t begin = pooling_first_output(first, input, output);
  int64_t end = pooling_end_output(last, input, output);
  for (int64_t m = 0; m < output; m++) {
    bool meets =
        pooling_window_begin(m, input, output) <= last && pooling_window_end(m, input, output) > first;
    assert_int_equal(m >= begin && m < end, meets);
  }
}

static void outputs_are_found_by_the_positions_of_their_windows(void **state) {
  (void)state;
  for (int64_t input = 1; input <= 13; input++) {
    for (int64_t output = 1; output <= 13; output++) {
      for (int64_t first = 0; first < input; first++) {
        for (int64_t last = first; last < input; last++) {
          assert_outputs_of_range(first, last, input, output);
        }
      }
    }
  }
}

static void windows_of_huge_axes_do_not_overflow(void **state) {
  (void)state;
  const int64_t output = INT64_C(1) << 60;
  assert_int_equal(pooling_window_begin(output - 1, 2147483647, output), 2147483646);
  assert_int_equal(pooling_window_end(output - 1, 2147483647, output), 2147483647);
  assert_int_equal(pooling_window_begin(output / 2, 2147483646, output), 1073741823);
  assert_int_equal(pooling_first_output(1073741823, 2147483646, output), output / 2);
  assert_int_equal(pooling_end_output(2147483645, 2147483646, output), output);
}

static struct plane_view view_of(struct tensor_desc desc) {
  struct status status;
  assert_true(tensor_desc_normalise(&desc, DIRECTION_INPUT, "x", &status));
  return plane_view_of(&desc);
}

static void planes_are_counted_over_batches_and_channels(void **state) {
  (void)state;
  struct tensor_desc desc = {DATA_TYPE_FLOAT, 0, 4, 4, {2, 3, 4, 5}, {1000, 100, 10, 2}, 7};
  struct plane_view view = view_of(desc);
  assert_int_equal(view.planes, 6);
  assert_int_equal(view.rows, 4);
  assert_int_equal(view.columns, 5);
  assert_int_equal(plane_view_offset(&view, 0), 7);
  assert_int_equal(plane_view_offset(&view, 2), 207);
  assert_int_equal(plane_view_offset(&view, 4), 1107);
  assert_int_equal(view.row_stride, 10);
  assert_int_equal(view.column_stride, 2);
  assert_false(plane_view_is_dense(&view));
}

static void three_dims_are_one_batch(void **state) {
  (void)state;
  struct plane_view view = view_of((struct tensor_desc){DATA_TYPE_FLOAT, 0, 3, 0, {3, 4, 5}});
  assert_int_equal(view.planes, 3);
  assert_int_equal(plane_view_offset(&view, 2), 40);
  assert_true(plane_view_is_dense(&view));
}

static void planes_may_be_dense_in_a_tensor_with_holes(void **state) {
  (void)state;
  struct plane_view view = view_of((struct tensor_desc){DATA_TYPE_FLOAT, 0, 3, 3, {3, 4, 5}, {99, 5, 1}, 3});
  assert_true(plane_view_is_dense(&view));
  view = view_of((struct tensor_desc){DATA_TYPE_FLOAT, 0, 3, 3, {3, 4, 5}, {99, 6, 1}, 3});
  assert_false(plane_view_is_dense(&view));
}

static void products_saturate(void **state) {
  (void)state;
  assert_true(pooling_saturating_product(3, 5) == 15);
  assert_true(pooling_saturating_product(UINT64_MAX, 1) == UINT64_MAX);
  assert_true(pooling_saturating_product(UINT64_C(1) << 32, UINT64_C(1) << 32) == UINT64_MAX);
  assert_true(pooling_saturating_product(UINT64_MAX, 0) == 0);
}

static void the_greatest_divisor_divides_both(void **state) {
  (void)state;
  assert_int_equal(pooling_greatest_divisor(64, 63), 1);
  assert_int_equal(pooling_greatest_divisor(12, 18), 6);
  assert_int_equal(pooling_greatest_divisor(7, 7), 7);
  assert_int_equal(pooling_greatest_divisor(1, 2048), 1);
  assert_int_equal(pooling_greatest_divisor(4096, 2048), 2048);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_are_those_of_the_formula),
      cmocka_unit_test(outputs_are_found_by_the_positions_of_their_windows),
      cmocka_unit_test(windows_of_huge_axes_do_not_overflow),
      cmocka_unit_test(planes_are_counted_over_batches_and_channels),
      cmocka_unit_test(three_dims_are_one_batch),
      cmocka_unit_test(planes_may_be_dense_in_a_tensor_with_holes),
      cmocka_unit_test(products_saturate),
      cmocka_unit_test(the_greatest_divisor_divides_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
