// Gradients of 16 bits whose windows share positions, beside the plain computation.
#include "kernels/adaptive_max_pool2d_backward/backward_call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Gradients whose sums cancel, keep no sign of zero, round, or are no number, most of them where windows
// meet.
static void fill_where_windows_meet(struct operator_call *call, struct random *random) {
  static const float values[] = {1.0f, -1.0f, -0.0f, 0.0f, 257.0f, 0.0078125f, 3e38f, -3e38f, INFINITY, NAN};
  const struct tensor_desc *grad_output = call_desc(call, GRAD_OUTPUT), *self = call_desc(call, SELF);
  backward_fill_inputs(call, random, IN_WINDOWS);
  for (int64_t flat = 0; flat < tensor_desc_elements(grad_output); flat++) {
    int64_t row = flat / columns_of(grad_output) % rows_of(grad_output);
    int64_t column = flat % columns_of(grad_output);
    // The first or the last of the window's rows and columns.
    row += random_between(random, 0, 2);
    column += random_between(random, 0, 2);
    int64_t input_row = row * rows_of(self) / rows_of(grad_output);
    int64_t input_column = column * columns_of(self) / columns_of(grad_output);
    if (random_between(random, 0, 8) > 0 && input_row < rows_of(self) && input_column < columns_of(self)) {
      bool whole_row = row * rows_of(self) % rows_of(grad_output) == 0;
      bool whole_column = column * columns_of(self) % columns_of(grad_output) == 0;
      bool after_row = row > flat / columns_of(grad_output) % rows_of(grad_output);
      bool after_column = column > flat % columns_of(grad_output);
      input_row -= after_row && whole_row;
      input_column -= after_column && whole_column;
      backward_write_index(call, flat, input_row * columns_of(self) + input_column);
    }
    int64_t kinds = random_between(random, 0, 4) > 0 ? 6 : 10;
    value_write(grad_output->data_type, call->storages[GRAD_OUTPUT], flat,
                values[random_between(random, 0, kinds)]);
  }
}

// Neighbouring windows share a row or a column, in planes and rows of few and many gradients.
static void sums_of_neighbouring_windows_match_the_plain_computation(void **state) {
  static const char *const shapes[][2] = {
      {"[67,38,38]", "[67,6,6]"},    {"[40,38,38]", "[40,3,3]"},     {"[3,64,64]", "[3,63,63]"},
      {"[5,40,41]", "[5,3,39]"},     {"[5,41,40]", "[5,39,3]"},      {"[9,10,9]", "[9,4,4]"},
      {"[3,17,200]", "[3,16,70]"},   {"[2,300,301]", "[2,41,70]"},   {"[1,500,400]", "[1,3,3]"},
      {"[1,60,1100]", "[1,7,1025]"}, {"[2,60,1024]", "[2,7,1023]"},  {"[1,260,300]", "[1,259,299]"},
      {"[1,70,1000]", "[1,69,999]"}, {"[2,3,33000]", "[2,3,32999]"}, {"[31,9,9]", "[31,2,4]"},
  };
  static const char *const types[] = {"bf16", "fp16", "fp32"};
  struct random random = {11};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 6; i++) {
    char self[64], grad_output[64];
    snprintf(self, sizeof self, "%s%s", types[i % 3], shapes[i / 6][0]);
    snprintf(grad_output, sizeof grad_output, "%s%s", types[i % 3], shapes[i / 6][1]);
    struct operator_call call;
    backward_begin(&call, self, grad_output, i / 3 % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, NULL);
    fill_where_windows_meet(&call, &random);
    assert_backward_runs_as_expected(&call, *state);
    call_end(&call);
  }
}

// Wherever it is: in its window's columns but not its rows, the other way round, or right beside both. The
// position is one that others' gradients go to.
static void an_index_beside_its_window_is_added_where_it_points(void **state) {
  static const char *const shapes[][2] = {
      {"[70,38,38]", "[70,6,6]"}, {"[1,300,301]", "[1,41,70]"}, {"[3,64,65]", "[3,33,40]"}};
  static const char *const types[] = {"bf16", "fp16"};
  struct random random = {12};
  for (size_t i = 0; i < 120; i++) {
    char self[64], grad_output[64];
    snprintf(self, sizeof self, "%s%s", types[i % 2], shapes[i / 2 % 3][0]);
    snprintf(grad_output, sizeof grad_output, "%s%s", types[i % 2], shapes[i / 2 % 3][1]);
    struct operator_call call;
    backward_begin(&call, self, grad_output, i / 6 % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, NULL);
    backward_fill_inputs(&call, &random, IN_WINDOWS);
    const struct tensor_desc *output = call_desc(&call, GRAD_OUTPUT), *input = call_desc(&call, SELF);
    int64_t flat = random_between(&random, 0, tensor_desc_elements(output));
    int64_t row = flat / columns_of(output) % rows_of(output), column = flat % columns_of(output);
    int64_t begin_row = row * rows_of(input) / rows_of(output);
    int64_t begin_column = column * columns_of(input) / columns_of(output);
    int64_t end_row = ((row + 1) * rows_of(input) + rows_of(output) - 1) / rows_of(output);
    int64_t end_column = ((column + 1) * columns_of(input) + columns_of(output) - 1) / columns_of(output);
    int64_t wrong_row = i % 4 < 2 ? begin_row - 1 : end_row,
            wrong_column = i % 8 < 4 ? begin_column - 1 : end_column;
    wrong_row = i / 8 % 3 == 0 ? begin_row : wrong_row;
    wrong_column = i / 8 % 3 == 1 ? begin_column : wrong_column;
    int64_t index = wrong_row * columns_of(input) + wrong_column;
    index = index < 0 ? plane_elements(input) - 1 : index;
    backward_write_index(&call, flat, index < plane_elements(input) ? index : 0);
    assert_backward_runs_as_expected(&call, *state);
    if (call_desc(&call, INDICES)->data_type == DATA_TYPE_INT64) {
      assert_backward_refuses_wide_index(&call, flat);
    }
    call_end(&call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_of_neighbouring_windows_match_the_plain_computation),
      cmocka_unit_test(an_index_beside_its_window_is_added_where_it_points),
  };
  return cmocka_run_group_tests(tests, call_pools_create, call_pools_destroy);
}
