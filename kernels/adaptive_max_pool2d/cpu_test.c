// The forward's kernels against a plain computation, for all types, layouts and numbers of threads.
#include "kernels/testing/operator_call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef ACLNN_SANITIZED
#define RANDOM_CASES 300
#define NAN_STEP 7
#else
#define RANDOM_CASES 4000
#define NAN_STEP 1
#endif

enum { SELF, OUTPUT_SIZE, OUTPUT_OUT, INDICES_OUT };

static int64_t index_read(const struct operator_call *call, const void *storage, int64_t element) {
  return call_desc(call, INDICES_OUT)->data_type == DATA_TYPE_INT64 ? ((const int64_t *)storage)[element]
                                                                    : ((const int32_t *)storage)[element];
}

static float self_at(const struct operator_call *call, int64_t plane, int64_t position) {
  const struct tensor_desc *self = call_desc(call, SELF);
  int64_t plane_elements = self->shape[self->rank - 2] * self->shape[self->rank - 1];
  return value_read(self->data_type, call->storages[SELF],
                    tensor_desc_offset_of(self, plane * plane_elements + position));
}

// The position of the maximum of output number `flat` in its plane, by the rules as they are written.
static int64_t plain_argmax(const struct operator_call *call, int64_t flat) {
  const struct tensor_desc *self = call_desc(call, SELF);
  const struct tensor_desc *output = call_desc(call, OUTPUT_OUT);
  int64_t h = self->shape[self->rank - 2];
  int64_t w = self->shape[self->rank - 1];
  int64_t ho = output->shape[output->rank - 2];
  int64_t wo = output->shape[output->rank - 1];
  int64_t y = flat / wo % ho;
  int64_t x = flat % wo;
  int64_t best = y * h / ho * w + x * w / wo;
  float maximum = -INFINITY;
  for (int64_t row = y * h / ho; row < ((y + 1) * h + ho - 1) / ho; row++) {
    for (int64_t column = x * w / wo; column < ((x + 1) * w + wo - 1) / wo; column++) {
      float value = self_at(call, flat / wo / ho, row * w + column);
      if (value > maximum || isnan(value)) {
        maximum = value;
        best = row * w + column;
      }
    }
  }
  return best;
}

// Every element of both storages is as expected: the view's, and zeros in the holes.
static void assert_outputs(const struct operator_call *call, const int64_t *argmax, size_t threads) {
  const char *path = cpu_path_name(call->cpu->path);
  const struct tensor_desc *self = call_desc(call, SELF);
  const struct tensor_desc *output = call_desc(call, OUTPUT_OUT);
  const struct tensor_desc *indices = call_desc(call, INDICES_OUT);
  unsigned char *values = calloc((size_t)tensor_desc_storage_bytes(output) + 1, 1);
  int64_t *positions = calloc((size_t)indices->storage_elements + 1, sizeof *positions);
  int64_t plane_outputs = output->shape[output->rank - 2] * output->shape[output->rank - 1];
  for (int64_t flat = 0; flat < tensor_desc_elements(output); flat++) {
    value_write(self->data_type, values, tensor_desc_offset_of(output, flat),
                self_at(call, flat / plane_outputs, argmax[flat]));
    positions[tensor_desc_offset_of(indices, flat)] = argmax[flat];
  }
  for (int64_t element = 0; element < output->storage_elements; element++) {
    if (!value_equal(self->data_type, values, call->storages[OUTPUT_OUT], element)) {
      fail_msg("element %lld of outputOut with %zu threads, %s", (long long)element, threads, path);
    }
  }
  for (int64_t element = 0; element < indices->storage_elements; element++) {
    int64_t given = index_read(call, call->storages[INDICES_OUT], element);
    if (given != positions[element]) {
      fail_msg("element %lld of indicesOut is %lld instead of %lld with %zu threads, %s", (long long)element,
               (long long)given, (long long)positions[element], threads, path);
    }
  }
  free(values);
  free(positions);
}

static void assert_runs_as_expected(struct operator_call *call, const struct call_pools *pools) {
  int64_t elements = tensor_desc_elements(call_desc(call, OUTPUT_OUT));
  int64_t *argmax = calloc((size_t)elements + 1, sizeof *argmax);
  for (int64_t flat = 0; flat < elements; flat++) {
    argmax[flat] = plain_argmax(call, flat);
  }
  for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
    struct cpu cpu = {.path = path};
    call->cpu = &cpu;
    for (size_t i = 0; i < CALL_POOLS && cpu_path_is_available(path); i++) {
      if (!call_run(call, pools->pools[i])) {
        fail_msg("%s", call->status.message);
      }
      assert_outputs(call, argmax, pools->threads[i]);
    }
  }
  call->cpu = NULL;
  free(argmax);
}

// Begins and plans a call; each tensor has a layout at random where `random` isn't NULL.
static void begin(struct operator_call *call, const char *self, int64_t rows, int64_t columns,
                  enum data_type index_type, struct random *random) {
  call_begin(call, "aclnnAdaptiveMaxPool2d");
  struct tensor_desc self_desc = desc_of(self);
  struct tensor_desc output = self_desc;
  output.shape[output.rank - 2] = rows;
  output.shape[output.rank - 1] = columns;
  struct tensor_desc indices = output;
  indices.data_type = index_type;
  if (random != NULL) {
    random_layout(random, &self_desc, DIRECTION_INPUT);
    random_layout(random, &output, DIRECTION_OUTPUT);
    random_layout(random, &indices, DIRECTION_OUTPUT);
  }
  call_add_tensor(call, "self", &self_desc);
  call_add_int_array(call, "outputSize", &(struct int_array){2, {rows, columns}});
  call_add_tensor(call, "outputOut", &output);
  call_add_tensor(call, "indicesOut", &indices);
  if (!call_plan(call)) {
    fail_msg("%s: %s", self, call->status.message);
  }
}

static void fill_self(struct operator_call *call, struct random *random) {
  const struct tensor_desc *self = call_desc(call, SELF);
  random_values(random, self->data_type, call->storages[SELF], (size_t)self->storage_elements);
}

static void small_planes_match_the_plain_computation(void **state) {
  struct random random = {11};
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  for (int i = 0; i < RANDOM_CASES; i++) {
    char self[64];
    bool with_batches = random_between(&random, 0, 3) > 0;
    snprintf(self, sizeof self, "%s[%d%s,%d,%d]", types[random_between(&random, 0, 3)],
             (int)random_between(&random, 1, 5), with_batches ? ",3" : "",
             (int)random_between(&random, 1, 21), (int)random_between(&random, 1, 21));
    struct operator_call call;
    begin(&call, self, random_between(&random, 1, 25), random_between(&random, 1, 25),
          i % 3 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, i % 2 == 0 ? NULL : &random);
    fill_self(&call, &random);
    assert_runs_as_expected(&call, *state);
    call_end(&call);
  }
}

// Planes and outputs of one column or a few, in few planes and many; short windows and long ones, which share
// positions.
static void narrow_planes_match_the_plain_computation(void **state) {
  static const int rows[][2] = {{30, 46}, {31, 20}, {11, 5}, {2, 3}, {100, 7}, {300, 7}, {61, 60}, {14, 7}};
  static const int columns[] = {1, 2, 3, 5, 16, 40};
  static const int planes[] = {3, 40};
  static const int output_columns[] = {1, 1, 2, 5};
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  struct random random = {17};
  for (int i = 0; i < 8 * 6 * 2 * 3 * 4; i++) {
    char self[64];
    const int *shape = rows[i % 8];
    snprintf(self, sizeof self, "%s[%d,%d,%d]", types[i / 96 % 3], planes[i / 48 % 2], shape[0],
             columns[i / 8 % 6]);
    struct operator_call call;
    begin(&call, self, shape[1], output_columns[i / 288], i % 3 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64,
          i % 5 == 0 ? &random : NULL);
    fill_self(&call, &random);
    assert_runs_as_expected(&call, *state);
    call_end(&call);
  }
}

static void large_planes_match_the_plain_computation(void **state) {
  struct random random = {12};
  static const struct {
    const char *self;
    int64_t rows;
    int64_t columns;
  } shapes[] = {
      {"fp32[1,2,300,301]", 7, 7},
      {"fp16[3,257,513]", 100, 64},
      {"bf16[1,1,1,200000]", 1, 9},
      {"fp32[1,1,1,200000]", 1, 999},
      {"fp16[1,200000,1]", 777, 1},
      {"bf16[70,30,50]", 31, 49},
      // Rows with more positions than 16 bits count, just as many, and one less; rows of several chunks.
      {"bf16[2,120,700]", 1, 7},
      {"fp16[1,128,512]", 1, 60},
      {"bf16[1,131,500]", 1, 61},
      {"fp16[1,9,5000]", 2, 999},
      {"bf16[2,7,4096]", 2, 512},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (int variant = 0; variant < 2; variant++) {
      struct operator_call call;
      begin(&call, shapes[i].self, shapes[i].rows, shapes[i].columns, DATA_TYPE_INT64,
            variant == 0 ? NULL : &random);
      fill_self(&call, &random);
      assert_runs_as_expected(&call, *state);
      call_end(&call);
    }
  }
}

struct value_case {
  const char *self;
  int64_t rows;
  int64_t columns;
  double values[16]; // the first values of self; NAN in the first place: 0, 1, 2 ...
  int64_t indices[16];
};

static void known_windows_have_known_maxima(void **state) {
  (void)state;
  static const struct value_case rows[] = {
      // The public tests of the CPU operator, with increasing values.
      {"fp32[2,2,3]", 1, 2, {NAN}, {4, 5, 4, 5}},
      {"fp32[1,4,4]", 2, 2, {NAN}, {5, 7, 13, 15}},
      {"fp32[4,2,3]", 2, 1, {NAN}, {2, 5, 2, 5, 2, 5, 2, 5}},
      {"fp32[1,1,4]", 3, 4, {NAN}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}},
      {"fp32[1,2,2]", 3, 4, {NAN}, {0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3}},
      {"fp32[2,1,2,4]", 1, 2, {NAN}, {5, 7, 5, 7}},
      // Sizes that don't divide: windows overlap.
      {"fp16[1,5,5]", 3, 3, {NAN}, {6, 8, 9, 16, 18, 19, 21, 23, 24}},
      {"bf16[1,4,4]", 3, 3, {0, 0, 0, 0, 0, 1}, {5, 5, 2, 5, 5, 6, 8, 9, 10}},
      // Ties, of both zeros too.
      {"fp32[1,2,2]", 1, 1, {7, 7, 7, 7}, {0}},
      {"fp16[1,2,2]", 1, 1, {-0.0, 0.0, 0.0, -0.0}, {0}},
      {"fp32[1,2,2]", 1, 1, {-1, 0.0, -0.0, 0.0}, {1}},
      // Infinities.
      {"bf16[1,2,3]", 1, 1, {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, {0}},
      {"fp32[1,1,4]", 1, 2, {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {0, 2}},
      {"fp32[1,1,4]", 1, 1, {-INFINITY, -65504, INFINITY, INFINITY}, {2}},
      // Denormals.
      {"fp32[1,1,4]", 1, 1, {0, -0x1p-149, 0x1p-149, 0x1p-148}, {3}},
      {"bf16[1,1,3]", 1, 1, {0, 0x1p-133, 0}, {1}},
      {"fp16[1,1,3]", 1, 1, {0, 0x1p-24, 0}, {1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct operator_call call;
    begin(&call, rows[i].self, rows[i].rows, rows[i].columns, DATA_TYPE_INT64, NULL);
    const struct tensor_desc *self = call_desc(&call, SELF);
    for (int64_t k = 0; k < self->storage_elements; k++) {
      float value = isnan(rows[i].values[0]) ? (float)k : (float)rows[i].values[k];
      value_write(self->data_type, call.storages[SELF], k, value);
    }
    assert_true(call_run(&call, NULL));
    for (int64_t k = 0; k < call_desc(&call, INDICES_OUT)->storage_elements; k++) {
      if (index_read(&call, call.storages[INDICES_OUT], k) != rows[i].indices[k]) {
        fail_msg("row %zu, output %lld", i, (long long)k);
      }
    }
    call_end(&call);
  }
}

static void the_last_nan_of_a_window_wins(void **state) {
  (void)state;
  static const char *const types[] = {"fp32[1,2,3]", "fp16[1,2,3]", "bf16[1,2,3]"};
  static const float values[][6] = {{1, NAN, 3, NAN, 5, 6},
                                    {NAN, 1, 2, 3, 4, 5},
                                    {INFINITY, 1, 2, 3, 4, NAN},
                                    {NAN, NAN, NAN, NAN, NAN, NAN}};
  static const int64_t indices[] = {3, 0, 5, 5};
  for (size_t i = 0; i < 12; i++) {
    struct operator_call call;
    begin(&call, types[i % 3], 1, 1, DATA_TYPE_INT32, NULL);
    enum data_type type = call_desc(&call, SELF)->data_type;
    for (int64_t k = 0; k < 6; k++) {
      value_write(type, call.storages[SELF], k, i >= 6 ? -values[i / 3][k] : values[i / 3][k]);
    }
    assert_true(call_run(&call, NULL));
    assert_int_equal(index_read(&call, call.storages[INDICES_OUT], 0), indices[i / 3]);
    assert_true(isnan(value_read(type, call.storages[OUTPUT_OUT], 0)));
    call_end(&call);
  }
}

// Planes that each way through the vectors gets: whole vectors, tails, several rows to a vector.
static const struct {
  const char *dims;
  int64_t rows;
  int64_t columns;
} ways[] = {
    {"[3,7,7]", 1, 1},   {"[70,2,3]", 1, 1},  {"[2,9,9]", 1, 1},    {"[40,8,8]", 2, 1},  // runs
    {"[5,14,14]", 7, 7}, {"[9,8,8]", 4, 4},   {"[3,6,32]", 3, 16},  {"[2,4,64]", 2, 32}, // squares
    {"[9,2,14]", 1, 7},  {"[2,4,84]", 2, 42}, {"[2,2,140]", 1, 70}, {"[3,20,2]", 10, 1},
    {"[2,4,44]", 2, 22}, {"[2,9,17]", 8, 16}, {"[2,8,8]", 15, 15},  {"[2,6,35]", 5, 34}, // pairs
    {"[2,12,38]", 2, 2}, {"[2,5,13]", 2, 3},  {"[2,5,33]", 2, 2},   {"[1,6,150]", 2, 7},
    {"[2,3,20]", 3, 4},  {"[1,6,60]", 2, 7},                                            // rows
    {"[2,6,56]", 2, 7},  {"[3,3,32]", 1, 8},  {"[70,3,6]", 1, 3},   {"[2,5,23]", 2, 9}, // of small windows
    {"[3,5,7]", 5, 7},   {"[40,1,3]", 1, 3},  {"[2,6,40]", 6, 40},                      // copies
};

static void begin_way(struct operator_call *call, size_t way, size_t type, enum data_type index_type) {
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  char self[64];
  snprintf(self, sizeof self, "%s%s", types[type], ways[way].dims);
  begin(call, self, ways[way].rows, ways[way].columns, index_type, NULL);
}

static void fill_with(struct operator_call *call, float value) {
  const struct tensor_desc *self = call_desc(call, SELF);
  for (int64_t k = 0; k < self->storage_elements; k++) {
    value_write(self->data_type, call->storages[SELF], k, value);
  }
}

static void a_nan_at_any_place_wins_on_every_way(void **state) {
  struct random random = {16};
  for (size_t i = 0; i < 3 * sizeof ways / sizeof ways[0]; i++) {
    struct operator_call call;
    begin_way(&call, i / 3, i % 3, i % 2 == 0 ? DATA_TYPE_INT64 : DATA_TYPE_INT32);
    const struct tensor_desc *self = call_desc(&call, SELF);
    for (int64_t k = 0; k < self->storage_elements; k += NAN_STEP) {
      fill_with(&call, 1);
      value_write(self->data_type, call.storages[SELF], k, k % 2 == 0 ? NAN : -NAN);
      // Sometimes another one, before or after.
      int64_t other = random_between(&random, 0, (int)self->storage_elements);
      value_write(self->data_type, call.storages[SELF], other, k % 3 == 0 ? -NAN : INFINITY);
      assert_runs_as_expected(&call, *state);
    }
    call_end(&call);
  }
}

static void the_first_of_equals_wins_on_every_way(void **state) {
  static const float values[][2] = {
      {-INFINITY, -INFINITY}, {0.0f, -0.0f}, {-0.0f, 0.0f}, {-1, -0.0f}, {-1, -1}, {2, 2}, {-2, -1},
      {INFINITY, -INFINITY}};
  struct random random = {17};
  for (size_t i = 0; i < 3 * sizeof ways / sizeof ways[0]; i++) {
    struct operator_call call;
    begin_way(&call, i / 3, i % 3, i % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64);
    const struct tensor_desc *self = call_desc(&call, SELF);
    for (size_t row = 0; row < sizeof values / sizeof values[0]; row++) {
      for (int64_t k = 0; k < self->storage_elements; k++) {
        value_write(self->data_type, call.storages[SELF], k, values[row][random_between(&random, 0, 3) == 0]);
      }
      assert_runs_as_expected(&call, *state);
    }
    call_end(&call);
  }
}

// Of few and of many bits, all negative too, and in the last row NaN: denormals, infinities, zeros of both
// signs.
static void any_bits_of_two_bytes_compare_as_numbers(void **state) {
  struct random random = {18};
  for (size_t i = 0; i < 3 * sizeof ways / sizeof ways[0]; i++) {
    if (i % 3 == 0) {
      continue; // fp32
    }
    struct operator_call call;
    begin_way(&call, i / 3, i % 3, i % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64);
    const struct tensor_desc *self = call_desc(&call, SELF);
    const uint16_t infinity = self->data_type == DATA_TYPE_FLOAT16 ? 0x7c00 : 0x7f80;
    const int limits[] = {1, 2, 4, infinity + 1, infinity + 1, 0x8000};
    for (size_t row = 0; row < sizeof limits / sizeof limits[0]; row++) {
      uint16_t *elements = (uint16_t *)call.storages[SELF];
      for (int64_t k = 0; k < self->storage_elements; k++) {
        int magnitude = random_between(&random, 0, limits[row]);
        elements[k] = (uint16_t)(magnitude | random_between(&random, row == 3 ? 1 : 0, 2) << 15);
      }
      assert_runs_as_expected(&call, *state);
    }
    call_end(&call);
  }
}

// Large sizes at which windows in 32 bits or in floats would be wrong.
static void windows_are_exact_at_large_sizes(void **state) {
  struct random random = {13};
  struct operator_call call;
  begin(&call, "bf16[1,1,65537]", 1, 65535, DATA_TYPE_INT32, NULL);
  fill_self(&call, &random);
  assert_runs_as_expected(&call, *state);
  call_end(&call);
  begin(&call, "fp16[1,5877,37]", 2855, 1, DATA_TYPE_INT64, NULL);
  fill_self(&call, &random);
  assert_runs_as_expected(&call, *state);
  call_end(&call);
}

static void no_batches_give_no_results(void **state) {
  const struct call_pools *pools = *state;
  static const char *const shapes[] = {"fp32[0,3,5,5]", "bf16[0,5,5]"};
  struct random random = {14};
  for (int i = 0; i < 8; i++) {
    struct operator_call call;
    begin(&call, shapes[i % 2], 2, 3, DATA_TYPE_INT64, i % 4 < 2 ? NULL : &random);
    assert_true(call.plan.empty);
    assert_true(call_check_inputs(&call, pools->pools[2]));
    assert_true(call_run(&call, pools->pools[2]));
    for (size_t parameter = OUTPUT_OUT; parameter <= INDICES_OUT; parameter++) {
      const unsigned char *bytes = call.storages[parameter];
      for (int64_t k = 0; k < tensor_desc_storage_bytes(call_desc(&call, parameter)); k++) {
        assert_int_equal(bytes[k], 0);
      }
    }
    call_end(&call);
  }
}

static void a_cancelled_run_ends_with_cancelled(void **state) {
  const struct call_pools *pools = *state;
  static const atomic_bool cancelled = true;
  struct random random = {15};
  struct operator_call call;
  begin(&call, "bf16[3,300,300]", 20, 20, DATA_TYPE_INT64, NULL);
  fill_self(&call, &random);
  call.cancelled = &cancelled;
  for (size_t i = 0; i < CALL_POOLS; i++) {
    assert_false(call_run(&call, pools->pools[i]));
    assert_int_equal(call.status.reason, REASON_CANCELLED);
  }
  call_end(&call);
}

// Views of one element with planes so large and so many that the run would take years.
static void a_run_of_any_length_can_be_cancelled(void **state) {
  const struct call_pools *pools = *state;
  static const char *const shapes[] = {"fp32[100000,1,2147483647]", "fp16[100000,46340,46340]",
                                       "bf16[100000,2147483647,1]"};
  for (size_t i = 0; i < 6; i++) {
    struct operator_call call;
    call_begin(&call, "aclnnAdaptiveMaxPool2d");
    struct tensor_desc self = desc_of(shapes[i / 2]);
    self.stride_count = 3;
    call_add_tensor(&call, "self", &self);
    call_add_int_array(&call, "outputSize", &(struct int_array){2, {1, 1}});
    call_add_tensor(&call, "outputOut", &(struct tensor_desc){0});
    call_add_tensor(&call, "indicesOut", &(struct tensor_desc){0});
    if (!call_plan(&call)) {
      fail_msg("%s", call.status.message);
    }
    if (!call_is_cancellable(&call, pools->pools[i % 2 == 0 ? 0 : 3], call_run)) {
      fail_msg("%s: %s", shapes[i / 2], call.status.message);
    }
    call_end(&call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_planes_match_the_plain_computation),
      cmocka_unit_test(narrow_planes_match_the_plain_computation),
      cmocka_unit_test(large_planes_match_the_plain_computation),
      cmocka_unit_test(known_windows_have_known_maxima),
      cmocka_unit_test(the_last_nan_of_a_window_wins),
      cmocka_unit_test(a_nan_at_any_place_wins_on_every_way),
      cmocka_unit_test(the_first_of_equals_wins_on_every_way),
      cmocka_unit_test(any_bits_of_two_bytes_compare_as_numbers),
      cmocka_unit_test(windows_are_exact_at_large_sizes),
      cmocka_unit_test(no_batches_give_no_results),
      cmocka_unit_test(a_cancelled_run_ends_with_cancelled),
      cmocka_unit_test(a_run_of_any_length_can_be_cancelled),
  };
  return cmocka_run_group_tests(tests, call_pools_create, call_pools_destroy);
}
