// The matrix product against plain sums in double. Small integers must come out exactly, in whatever order
// they are added; other values within the rounding of as many additions in fp32.
#include "kernels/testing/operator_call.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SELF, MAT2, OUT };

enum values { INTEGERS, FRACTIONS };

static struct tensor_desc matrix(enum data_type type, int64_t rows, int64_t columns) {
  return (struct tensor_desc){.data_type = type, .rank = 2, .shape = {rows, columns}};
}

static void begin(struct operator_call *call, const struct tensor_desc *self, const struct tensor_desc *mat2,
                  const struct tensor_desc *out) {
  call_begin(call, "aclnnMm");
  call_add_tensor(call, "self", self);
  call_add_tensor(call, "mat2", mat2);
  call_add_tensor(call, "out", out);
  call_add_integer(call, "cubeMathType", 0);
  if (!call_plan(call)) {
    fail_msg("%s", call->status.message);
  }
}

static void fill(struct operator_call *call, size_t parameter, struct random *random, enum values values) {
  const struct tensor_desc *desc = call_desc(call, parameter);
  for (int64_t i = 0; i < desc->storage_elements; i++) {
    int64_t integer = random_between(random, -8, 9);
    float value = values == INTEGERS ? (float)integer : ldexpf((float)random_between(random, -999, 999), -9);
    value_write(desc->data_type, call->storages[parameter], i, value);
  }
}

static float read_element(const struct operator_call *call, size_t parameter, int64_t row, int64_t column) {
  const struct tensor_desc *desc = call_desc(call, parameter);
  int64_t position = desc->storage_offset + row * desc->strides[0] + column * desc->strides[1];
  return value_read(desc->data_type, call->storages[parameter], position);
}

static double last_bit(enum data_type type) {
  return type == DATA_TYPE_FLOAT ? FLT_EPSILON : type == DATA_TYPE_BF16 ? 0x1p-7 : 0x1p-10;
}

static void assert_product(const struct operator_call *call, enum values values) {
  const struct tensor_desc *out = call_desc(call, OUT);
  int64_t inner = call_desc(call, SELF)->shape[1];
  for (int64_t row = 0; row < out->shape[0]; row++) {
    for (int64_t column = 0; column < out->shape[1]; column++) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < inner; i++) {
        double term = (double)read_element(call, SELF, row, i) * read_element(call, MAT2, i, column);
        sum += term;
        magnitude += fabs(term);
      }
      double given = read_element(call, OUT, row, column);
      double allowed = (double)inner * FLT_EPSILON * magnitude + last_bit(out->data_type) * fabs(sum);
      float rounded;
      value_write(out->data_type, &rounded, 0, (float)sum);
      double right = value_read(out->data_type, &rounded, 0);
      if (values == INTEGERS ? given != right : fabs(given - sum) > allowed) {
        fail_msg("[%lld, %lld] is %.9g instead of %.9g", (long long)row, (long long)column, given, sum);
      }
    }
  }
}

// Holes of out are zeros.
static void assert_holes(const struct operator_call *call) {
  const struct tensor_desc *out = call_desc(call, OUT);
  bool *covered = calloc((size_t)out->storage_elements + 1, sizeof *covered);
  for (int64_t i = 0; i < tensor_desc_elements(out); i++) {
    covered[tensor_desc_offset_of(out, i)] = true;
  }
  for (int64_t i = 0; i < out->storage_elements; i++) {
    assert_true(covered[i] || value_read(out->data_type, call->storages[OUT], i) == 0);
  }
  free(covered);
}

static void run_and_check(struct operator_call *call, struct call_pools *pools, enum values values) {
  for (size_t i = 0; i < CALL_POOLS; i++) {
    if (!call_run(call, pools->pools[i])) {
      fail_msg("%s", call->status.message);
    }
    assert_product(call, values);
    assert_holes(call);
  }
}

static enum data_type random_type(struct random *random) {
  static const enum data_type types[] = {DATA_TYPE_FLOAT, DATA_TYPE_FLOAT16, DATA_TYPE_BF16};
  return types[random_between(random, 0, 3)];
}

static void any_layout_and_type_is_multiplied(void **state) {
  struct random random = {1};
  for (int i = 0; i < 200; i++) {
    int64_t rows = random_between(&random, 1, 40);
    int64_t inner = random_between(&random, 1, 40);
    int64_t columns = random_between(&random, 1, 40);
    enum data_type type = random_type(&random);
    enum data_type other = random_between(&random, 0, 3) > 0 ? type : random_type(&random);
    enum data_type product = type == other && random_between(&random, 0, 4) > 0 ? type : DATA_TYPE_FLOAT;
    struct tensor_desc self = matrix(type, rows, inner);
    struct tensor_desc mat2 = matrix(other, inner, columns);
    struct tensor_desc out = matrix(product, rows, columns);
    random_layout(&random, &self, DIRECTION_INPUT);
    random_layout(&random, &mat2, DIRECTION_INPUT);
    random_layout(&random, &out, DIRECTION_OUTPUT);
    struct operator_call call;
    begin(&call, &self, &mat2, &out);
    enum values values = i % 2 == 0 ? INTEGERS : FRACTIONS;
    fill(&call, SELF, &random, values);
    fill(&call, MAT2, &random, values);
    run_and_check(&call, *state, values);
    call_end(&call);
  }
}

// Beyond a tile in each dim, and beyond what one call of OpenBLAS gets of the inner one.
static void large_matrices_are_put_together_from_tiles(void **state) {
  static const int64_t shapes[][3] = {{1100, 3, 5}, {5, 3, 1100}, {3, 9000, 4}, {300, 40, 260}};
  struct random random = {2};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (int type = DATA_TYPE_FLOAT; type <= DATA_TYPE_BF16; type++) {
      struct tensor_desc self = matrix((enum data_type)type, shapes[i][0], shapes[i][1]);
      struct tensor_desc mat2 = matrix((enum data_type)type, shapes[i][1], shapes[i][2]);
      struct tensor_desc out = matrix((enum data_type)type, shapes[i][0], shapes[i][2]);
      struct operator_call call;
      begin(&call, &self, &mat2, &out);
      fill(&call, SELF, &random, INTEGERS);
      fill(&call, MAT2, &random, INTEGERS);
      run_and_check(&call, *state, INTEGERS);
      call_end(&call);
    }
  }
}

static void sum_over_nothing_is_zero(void **state) {
  struct call_pools *pools = *state;
  static const char *const cases[][3] = {{"fp32[2,0]", "fp32[0,3]", "fp32[2,3]"},
                                         {"fp32[0,2]", "fp32[2,3]", "fp32[0,3]"},
                                         {"bf16[2,3]", "bf16[3,0]", "bf16[2,0]"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tensor_desc self = desc_of(cases[i][0]);
    struct tensor_desc mat2 = desc_of(cases[i][1]);
    struct tensor_desc out = desc_of(cases[i][2]);
    struct operator_call call;
    begin(&call, &self, &mat2, &out);
    assert_int_equal(call.plan.workspace_bytes, 0);
    assert_true(call_run(&call, pools->pools[2]));
    for (int64_t element = 0; element < tensor_desc_elements(&out); element++) {
      assert_int_equal(((const uint32_t *)call.storages[OUT])[element], 0);
    }
    call_end(&call);
  }
}

static void nan_and_infinity_go_through(void **state) {
  (void)state;
  struct tensor_desc square = desc_of("fp32[2,2]");
  struct operator_call call;
  begin(&call, &square, &square, &square);
  const float self[4] = {NAN, 1, INFINITY, 2};
  const float mat2[4] = {0, 1, 3, -4};
  memcpy(call.storages[SELF], self, sizeof self);
  memcpy(call.storages[MAT2], mat2, sizeof mat2);
  assert_true(call_run(&call, NULL));
  const float *out = call.storages[OUT];
  assert_true(isnan(out[0]) && isnan(out[1]));
  assert_true(isnan(out[2])); // infinity times 0
  assert_true(isinf(out[3]) && out[3] > 0);
  call_end(&call);
}

static void sums_of_16_bits_are_rounded_once(void **state) {
  (void)state;
  struct tensor_desc self = desc_of("bf16[1,512]");
  struct tensor_desc mat2 = desc_of("bf16[512,1]");
  struct tensor_desc out = desc_of("bf16[1,1]");
  struct operator_call call;
  begin(&call, &self, &mat2, &out);
  for (int64_t i = 0; i < 512; i++) {
    // In bf16 the sum would stay at 256.
    value_write(DATA_TYPE_BF16, call.storages[SELF], i, 1);
    value_write(DATA_TYPE_BF16, call.storages[MAT2], i, 1);
  }
  assert_true(call_run(&call, NULL));
  assert_true(value_read(DATA_TYPE_BF16, call.storages[OUT], 0) == 512);
  call_end(&call);
}

// Every call of OpenBLAS stays on the thread that makes it: as many threads work as the pool has.
static void blas_adds_no_threads_to_the_pool_s(void **state) {
  struct call_pools *pools = *state;
  struct tensor_desc square = desc_of("fp32[300,300]");
  struct operator_call call;
  begin(&call, &square, &square, &square);
  struct random random = {3};
  fill(&call, SELF, &random, INTEGERS);
  fill(&call, MAT2, &random, INTEGERS);
  for (size_t i = 0; i < CALL_POOLS; i++) {
    openblas_set_num_threads(4);
    assert_true(call_run(&call, pools->pools[i]));
    assert_int_equal(openblas_get_num_threads(), 1);
  }
  call_end(&call);
}

static void it_can_be_cancelled(void **state) {
  struct call_pools *pools = *state;
  struct tensor_desc self = matrix(DATA_TYPE_FLOAT, 2000000, 4096);
  struct tensor_desc mat2 = matrix(DATA_TYPE_FLOAT, 4096, 8);
  struct tensor_desc out = matrix(DATA_TYPE_FLOAT, 2000000, 8);
  // One row, over and over: a large product of little memory.
  self.stride_count = 2;
  self.strides[0] = 0;
  self.strides[1] = 1;
  struct operator_call call;
  call_begin(&call, "aclnnMm");
  call_add_tensor(&call, "self", &self);
  call_add_tensor(&call, "mat2", &mat2);
  call_add_tensor(&call, "out", &out);
  call_add_integer(&call, "cubeMathType", 0);
  assert_true(plan_create(&call.request, &call.plan, &call.status));
  atomic_bool cancelled = true;
  struct operator_run run = {.plan = &call.plan, .cancelled = &cancelled, .parallel = pools->pools[2]};
  assert_false(call.plan.definition->run(&run, &call.status));
  assert_int_equal(call.status.reason, REASON_CANCELLED);
  call_end(&call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_layout_and_type_is_multiplied),
      cmocka_unit_test(large_matrices_are_put_together_from_tiles),
      cmocka_unit_test(sum_over_nothing_is_zero),
      cmocka_unit_test(nan_and_infinity_go_through),
      cmocka_unit_test(sums_of_16_bits_are_rounded_once),
      cmocka_unit_test(blas_adds_no_threads_to_the_pool_s),
      cmocka_unit_test(it_can_be_cancelled),
  };
  return cmocka_run_group_tests(tests, call_pools_create, call_pools_destroy);
}
