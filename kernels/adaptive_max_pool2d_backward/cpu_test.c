// The backward's kernels against a plain computation, for all types, layouts and numbers of threads.
#include "kernels/adaptive_max_pool2d_backward/backward_call.h"
#include "kernels/adaptive_max_pool2d_backward/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Sanitizers make them slow: fewer random cases, and of the large ones every shape with some of the types.
#ifdef ACLNN_SANITIZED
#define RANDOM_CASES 300
#define LARGE_CASES_STEP 5
#else
#define RANDOM_CASES 4000
#define LARGE_CASES_STEP 1
#endif

static enum data_type random_index_type(struct random *random) {
  return random_between(random, 0, 2) == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64;
}

static void small_planes_match_the_plain_computation(void **state) {
  struct random random = {1};
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  for (int i = 0; i < RANDOM_CASES; i++) {
    char self[64];
    char grad_output[64];
    const char *type = types[random_between(&random, 0, 3)];
    char planes[16];
    bool with_batches = random_between(&random, 0, 3) > 0;
    snprintf(planes, sizeof planes, "%d%s", (int)random_between(&random, 1, 5), with_batches ? ",3" : "");
    snprintf(self, sizeof self, "%s[%s,%d,%d]", type, planes, (int)random_between(&random, 1, 21),
             (int)random_between(&random, 1, 21));
    snprintf(grad_output, sizeof grad_output, "%s[%s,%d,%d]", type, planes,
             (int)random_between(&random, 1, 25), (int)random_between(&random, 1, 25));
    struct operator_call call;
    backward_begin(&call, self, grad_output, random_index_type(&random), i % 2 == 0 ? NULL : &random);
    backward_fill_inputs(&call, &random, (enum index_choice)random_between(&random, 0, INDEX_CHOICES));
    assert_backward_runs_as_expected(&call, *state);
    call_end(&call);
  }
}

// Planes that are split in ranges, among them some whose rows are longer than a range.
static void large_planes_match_the_plain_computation(void **state) {
  struct random random = {2};
  static const char *const shapes[][2] = {
      {"[1,2,300,301]", "[1,2,300,301]"}, {"[3,257,513]", "[3,100,64]"},
      {"[1,1,1,200000]", "[1,1,1,9999]"}, {"[1,1,200000,1]", "[1,1,777,1]"},
      {"[1,70000,3]", "[1,1,1]"},         {"[2,1,3,70000]", "[2,1,5,2001]"},
      {"[1,1,512,256]", "[1,1,1024,3]"},  {"[1,1,2200,2100]", "[1,1,220,70]"},
  };
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
    for (int choice = 0; choice < INDEX_CHOICES; choice++) {
      const char *type = types[((size_t)choice + shape) % 3];
      char self[64];
      char grad_output[64];
      snprintf(self, sizeof self, "%s%s", type, shapes[shape][0]);
      snprintf(grad_output, sizeof grad_output, "%s%s", type, shapes[shape][1]);
      struct operator_call call;
      backward_begin(&call, self, grad_output, random_index_type(&random),
                     random_bits(&random) % 2 == 0 ? NULL : &random);
      backward_fill_inputs(&call, &random, (enum index_choice)choice);
      assert_backward_runs_as_expected(&call, *state);
      call_end(&call);
    }
  }
}

// One index in millions outside its window, in the middle of a plane of many ranges.
static void a_single_index_outside_its_window_is_added_where_it_points(void **state) {
  struct random random = {3};
  struct operator_call call;
  backward_begin(&call, "fp32[2,600,700]", "fp32[2,300,350]", DATA_TYPE_INT32, NULL);
  backward_fill_inputs(&call, &random, IN_WINDOWS);
  backward_write_index(&call, 150 * 350 + 7, 600 * 700 - 1);
  assert_backward_runs_as_expected(&call, *state);
  call_end(&call);
}

struct sum_case {
  const char *type;
  float gradients[4];
  float expected;
};

static void sums_are_formed_in_float_and_rounded_once(void **state) {
  (void)state;
  static const struct sum_case rows[] = {
      {"fp16", {2048, 1, 1, 1}, 2052}, // 2051 lies between 2050 and 2052: a tie, to even
      {"bf16", {256, 1, 1, 1}, 260},   // 259 lies between 258 and 260
      {"fp32", {16777216, 1, 1, 1}, 16777216},
      {"fp32", {1, 1, 1, 16777216}, 16777220},           // the order shows
      {"fp16", {65504, 16, -65504, 0}, 16},              // no overflow on the way
      {"fp16", {65504, 16, 0, 0}, 0x1p1000},             // 65520 is infinity
      {"bf16", {0x1p-133f, 0x1p-133f, 0, 0}, 0x1p-132f}, // denormals are kept
      {"fp32", {-0.0f, -0.0f, -0.0f, -0.0f}, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char self[32];
    char grad_output[32];
    snprintf(self, sizeof self, "%s[1,1,3]", rows[i].type);
    snprintf(grad_output, sizeof grad_output, "%s[1,1,4]", rows[i].type);
    struct operator_call call;
    backward_begin(&call, self, grad_output, DATA_TYPE_INT64, NULL);
    enum data_type type = call_desc(&call, SELF)->data_type;
    for (int64_t k = 0; k < 4; k++) {
      value_write(type, call.storages[GRAD_OUTPUT], k, rows[i].gradients[k]);
      backward_write_index(&call, k, 1);
    }
    float expected[] = {0, rows[i].expected, 0};
    assert_true(call_run(&call, NULL));
    for (int64_t k = 0; k < 3; k++) {
      float given = value_read(type, call.storages[GRAD_INPUT], k);
      if (memcmp(&given, &expected[k], sizeof given) != 0) {
        fail_msg("row %zu: %a instead of %a", i, (double)given, (double)expected[k]);
      }
    }
    call_end(&call);
  }
}

static void the_published_example_is_reproduced(void **state) {
  (void)state;
  struct operator_call call;
  backward_begin(&call, "fp32[1,1,3,2]", "fp32[1,1,2,1]", DATA_TYPE_INT32, NULL);
  memcpy(call.storages[GRAD_OUTPUT], (float[]){0.4757f, 0.8231f}, 2 * sizeof(float));
  backward_write_index(&call, 0, 1);
  backward_write_index(&call, 1, 4);
  assert_true(call_run(&call, NULL));
  assert_memory_equal(call.storages[GRAD_INPUT], ((float[]){0, 0.4757f, 0, 0, 0.8231f, 0}),
                      6 * sizeof(float));
  call_end(&call);
}

// Planes {rows, columns of self, of gradOutput}: with legal indices in their windows and one outside, in the
// middle and at the end, and with one that is illegal by its upper half alone.
static void assert_planes_match(const int shape[4], const char *type, enum data_type index_type,
                                struct random *random, const struct call_pools *pools) {
  const int planes = 11, plane_gradients = shape[2] * shape[3];
  const int ends[] = {4 * plane_gradients - 1, planes * plane_gradients - 1};
  char self[64], grad_output[64];
  snprintf(self, sizeof self, "%s[%d,%d,%d]", type, planes, shape[0], shape[1]);
  snprintf(grad_output, sizeof grad_output, "%s[%d,%d,%d]", type, planes, shape[2], shape[3]);
  struct operator_call call;
  backward_begin(&call, self, grad_output, index_type, NULL);
  backward_fill_inputs(&call, random, IN_WINDOWS);
  enum data_type value_type = call_desc(&call, SELF)->data_type;
  value_write(value_type, call.storages[GRAD_OUTPUT], 1, -0.0f);
  value_write(value_type, call.storages[GRAD_OUTPUT], 2, NAN);
  assert_backward_runs_as_expected(&call, pools);
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    if (index_type == DATA_TYPE_INT64) {
      assert_backward_refuses_wide_index(&call, ends[i] - plane_gradients / 2);
    }
    int64_t right = backward_read_index(&call, ends[i]);
    backward_write_index(&call, ends[i], 0);
    assert_backward_runs_as_expected(&call, pools);
    backward_write_index(&call, ends[i], right);
  }
  call_end(&call);
}

// Windows of one size that share no position, in rows that are whole vectors and others.
static void windows_that_share_nothing_match_the_plain_computation(void **state) {
  static const int sizes[][2] = {{7, 7}, {16, 16}, {56, 56}, {8, 24}, {5, 3}, {9, 64}, {1, 1}, {2, 1}};
  static const int windows[][2] = {{2, 2}, {1, 2}, {3, 1}, {4, 4}, {2, 3}, {3, 5}};
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  struct random random = {10};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 36; i++) {
    const int *size = sizes[i / 36], *window = windows[i % 6];
    const int shape[] = {size[0] * window[0], size[1] * window[1], size[0], size[1]};
    assert_planes_match(shape, types[i / 6 % 3], i / 18 % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, &random,
                        *state);
  }
}

// Small windows that share rows, columns or both, or neither; rows that are whole vectors and others, shorter
// than a vector and longer than what is held of one; and more windows than positions.
static void small_windows_that_overlap_match_the_plain_computation(void **state) {
  static const int shapes[][4] = {
      {64, 64, 63, 63}, {38, 38, 30, 30}, {20, 48, 13, 47},  {9, 9, 8, 8},   {33, 17, 33, 16},
      {5, 300, 4, 280}, {12, 32, 12, 31}, {3, 1100, 2, 999}, {2, 3, 2, 2},   {70, 5, 69, 3},
      {16, 32, 15, 16}, {21, 16, 14, 16}, {10, 40, 18, 39},  {13, 8, 13, 7},
  };
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  struct random random = {12};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 6; i++) {
    assert_planes_match(shapes[i / 6], types[i % 3], i % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, &random,
                        *state);
  }
}

// Once on each processor with small caches, by pools in turn.
static void assert_small_caches_give(struct operator_call *call, const struct call_pools *pools) {
  const struct tensor_desc *grad_input = call_desc(call, GRAD_INPUT);
  int64_t bytes = tensor_desc_storage_bytes(grad_input);
  assert_true(bytes > BACKWARD_STREAM_BYTES_MIN);
  void *expected = backward_expected_storage(call);
  struct call_cpus here = call_cpus_here();
  for (size_t i = 0; i < here.count; i++) {
    if (here.cpus[i].l3_bytes < bytes / 2) {
      assert_backward_run_gives(call, pools, i / 2 % CALL_POOLS, &here.cpus[i], expected);
    }
  }
  free(expected);
}

// A plane of self and of gradOutput: by each way that writes past the caches, and on lines that begin
// anywhere.
static void grad_input_larger_than_the_caches_matches_the_plain_computation(void **state) {
  static const int shapes[][4] = {
      {112, 112, 7, 7},       // a plane at a time, cleared by positions
      {7, 7, 1, 1},           // groups of planes
      {38, 38, 2, 2},         // with several gradients each
      {38, 38, 13, 13},       // many gradients
      {64, 64, 32, 32},       // expanded, in rows of whole vectors
      {14, 14, 7, 7},         // expanded, planes as one row
      {64, 64, 63, 63},       // pulled by rows
      {64, 64, 90, 60},       // pulled by strips
      {1100, 1000, 110, 90},  // bands, scattered
      {1100, 1000, 400, 150}, // many gradients
      {1056, 1056, 528, 528}, // bands, expanded
      {1056, 1056, 999, 999}, // bands, pulled by pieces
      {700, 512, 699, 500},   // bands, pulled by rows
  };
  static const char *const types[] = {"fp32", "fp16", "bf16"};
  struct random random = {11};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 6; i += LARGE_CASES_STEP) {
    const int *shape = shapes[i / 6];
    const char *type = types[i % 3];
    int64_t value_bytes = i % 3 == 0 ? 4 : 2;
    int planes = (int)(BACKWARD_STREAM_BYTES_MIN / (shape[0] * shape[1] * value_bytes)) + 1;
    char self[64], grad_output[64];
    snprintf(self, sizeof self, "%s[%d,%d,%d]", type, planes, shape[0], shape[1]);
    snprintf(grad_output, sizeof grad_output, "%s[%d,%d,%d]", type, planes, shape[2], shape[3]);
    struct operator_call call;
    backward_begin(&call, self, grad_output, i % 2 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64, NULL);
    backward_fill_inputs(&call, &random, IN_WINDOWS);
    assert_small_caches_give(&call, *state);
    backward_write_index(&call, shape[2] * shape[3] - 1, 0); // legal, though not in its window
    assert_small_caches_give(&call, *state);
    call_end(&call);
  }
}

static void an_empty_grad_output_gives_zeros(void **state) {
  const struct call_pools *pools = *state;
  static const char *const shapes[][2] = {{"fp32[2,3,5,5]", "fp32[2,3,0,2]"},
                                          {"bf16[2,3,5,5]", "bf16[2,3,0,0]"},
                                          {"fp32[0,3,5,5]", "fp32[0,3,2,2]"},
                                          {"fp32[2,3,0,5]", "fp32[2,3,0,2]"}};
  struct random random = {4};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    struct operator_call call;
    backward_begin(&call, shapes[i][0], shapes[i][1], DATA_TYPE_INT64, i % 2 == 0 ? NULL : &random);
    assert_true(call_check_inputs(&call, pools->pools[2]));
    assert_true(call_run(&call, pools->pools[2]));
    const unsigned char *bytes = call.storages[GRAD_INPUT];
    for (int64_t k = 0; k < tensor_desc_storage_bytes(call_desc(&call, GRAD_INPUT)); k++) {
      assert_int_equal(bytes[k], 0);
    }
    call_end(&call);
  }
}

// Refused by run and check_inputs alike, on all pools, with the first position.
static void assert_index_refused(struct operator_call *call, const struct call_pools *pools, int64_t position,
                                 int64_t value) {
  char expected_position[32];
  char expected_value[32];
  snprintf(expected_position, sizeof expected_position, "%lld", (long long)position);
  snprintf(expected_value, sizeof expected_value, "%lld", (long long)value);
  for (size_t i = 0; i < CALL_POOLS; i++) {
    for (int by_run = 0; by_run < 2; by_run++) {
      call->status = (struct status){0};
      assert_false(by_run ? call_run(call, pools->pools[i]) : call_check_inputs(call, pools->pools[i]));
      assert_int_equal(call->status.reason, REASON_ACLNN_ERR_PARAM_INVALID);
      assert_int_equal(call->status.aclnn_status, 161002);
      assert_string_equal(call->status.parameter, "indices");
      assert_string_equal(call_metadata(call, "position"), expected_position);
      assert_string_equal(call_metadata(call, "value"), expected_value);
      assert_non_null(strstr(call->status.message, expected_value));
    }
  }
}

static void the_first_illegal_index_is_named_whatever_the_threads(void **state) {
  struct random random = {5};
  static const char *const shapes[][2] = {
      {"fp32[2,3,12,10]", "fp32[2,3,5,4]"}, {"bf16[1,1,300,300]", "bf16[1,1,50,60]"},
      {"fp16[40,7,9]", "fp16[40,20,11]"},   {"fp32[1,2,70,1000]", "fp32[1,2,300,301]"},
      {"fp32[4,16,7,7]", "fp32[4,16,1,1]"}, {"fp32[3,14,14]", "fp32[3,7,7]"},
      {"bf16[3,32,64]", "bf16[3,16,32]"},
  };
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
    struct operator_call call;
    enum data_type index_type = i % 3 == 0 ? DATA_TYPE_INT32 : DATA_TYPE_INT64;
    // No layout with strides of 0, where one place has many positions.
    backward_begin(&call, shapes[i / 2][0], shapes[i / 2][1], index_type, NULL);
    backward_fill_inputs(&call, &random, (enum index_choice)(i % INDEX_CHOICES));
    int64_t elements = tensor_desc_elements(call_desc(&call, INDICES));
    int64_t limit = plane_elements(call_desc(&call, SELF));
    assert_true(call_check_inputs(&call, NULL));
    int64_t bad[] = {limit,           -1,        limit + 1, INT32_MAX, INT32_MIN, 1LL << 40,
                     (1LL << 32) + 5, INT64_MIN, INT64_MAX};
    size_t kinds = index_type == DATA_TYPE_INT64 ? 9 : 5;
    int64_t position = elements;
    for (size_t kind = 0; kind < kinds; kind++) {
      // Ever earlier ones beside those that are there already.
      position = kind + 1 == kinds ? 0 : random_between(&random, position / 2, position);
      backward_write_index(&call, position, bad[kind]);
      assert_index_refused(&call, *state, position, bad[kind]);
    }
    call_end(&call);
  }
}

static void the_last_index_is_looked_at_too(void **state) {
  struct random random = {6};
  struct operator_call call;
  backward_begin(&call, "fp32[1,2,70,1000]", "fp32[1,2,300,301]", DATA_TYPE_INT64, NULL);
  backward_fill_inputs(&call, &random, IN_WINDOWS);
  backward_write_index(&call, 2 * 300 * 301 - 1, 70000);
  assert_index_refused(&call, *state, 2 * 300 * 301 - 1, 70000);
  call_end(&call);
}

static void positions_count_in_the_view_of_strided_indices(void **state) {
  struct random random = {7};
  for (int i = 0; i < 30; i++) {
    struct operator_call call;
    backward_begin(&call, "fp32[2,3,6,5]", "fp32[2,3,4,7]", random_index_type(&random), &random);
    backward_fill_inputs(&call, &random, ANYWHERE);
    int64_t position = random_between(&random, 0, 2 * 3 * 4 * 7);
    backward_write_index(&call, position, 30);
    // In an expanded view an earlier position may show the same place.
    while (position > 0 && backward_read_index(&call, position - 1) == 30) {
      position--;
    }
    for (int64_t flat = 0; flat < position; flat++) {
      if (backward_read_index(&call, flat) == 30) {
        position = flat;
      }
    }
    assert_index_refused(&call, *state, position, 30);
    call_end(&call);
  }
}

static void an_index_in_the_padding_is_no_index(void **state) {
  struct operator_call call;
  call_begin(&call, "aclnnAdaptiveMaxPool2dBackward");
  struct tensor_desc grad_output = desc_of("fp32[1,2,2]");
  struct tensor_desc self = desc_of("fp32[1,4,4]");
  struct tensor_desc indices = desc_of("int32[1,2,2]");
  indices.stride_count = 3;
  memcpy(indices.strides, (int64_t[]){16, 5, 2}, 3 * sizeof indices.strides[0]);
  indices.storage_offset = 3;
  call_add_tensor(&call, "gradOutput", &grad_output);
  call_add_tensor(&call, "self", &self);
  call_add_tensor(&call, "indices", &indices);
  call_add_tensor(&call, "gradInput", &self);
  assert_true(call_plan(&call));
  struct random random = {8};
  backward_fill_inputs(&call, &random, ANYWHERE);
  assert_backward_runs_as_expected(&call, *state);
  call_end(&call);
}

static void a_cancelled_run_ends_with_cancelled(void **state) {
  const struct call_pools *pools = *state;
  static const atomic_bool cancelled = true;
  struct random random = {9};
  struct operator_call call;
  backward_begin(&call, "bf16[3,300,300]", "bf16[3,20,20]", DATA_TYPE_INT64, NULL);
  backward_fill_inputs(&call, &random, IN_WINDOWS);
  call.cancelled = &cancelled;
  for (size_t i = 0; i < CALL_POOLS; i++) {
    assert_false(call_run(&call, pools->pools[i]));
    assert_int_equal(call.status.reason, REASON_CANCELLED);
    assert_false(call_check_inputs(&call, pools->pools[i]));
    assert_int_equal(call.status.reason, REASON_CANCELLED);
  }
  call_end(&call);
}

// Views of one element that would keep a machine busy for years: rows without end, or their number.
static void a_run_of_any_length_can_be_cancelled(void **state) {
  const struct call_pools *pools = *state;
  static const char *const sizes[] = {"[1,1,1152921504606846975]", "[1,1152921504606846975,1]",
                                      "[1,1073741823,1073741823]"};
  for (size_t i = 0; i < 3; i++) {
    for (int variant = 0; variant < 4; variant++) {
      struct operator_call call;
      call_begin(&call, "aclnnAdaptiveMaxPool2dBackward");
      char text[64];
      struct tensor_desc self = desc_of(variant == 0 ? "bf16[1,700,700]" : "bf16[1,7,7]");
      snprintf(text, sizeof text, "bf16%s", sizes[i]);
      struct tensor_desc grad_output = desc_of(text);
      snprintf(text, sizeof text, "int64%s", sizes[i]);
      struct tensor_desc indices = desc_of(text);
      grad_output.stride_count = 3;
      indices.stride_count = 3;
      call_add_tensor(&call, "gradOutput", &grad_output);
      call_add_tensor(&call, "self", &self);
      call_add_tensor(&call, "indices", &indices);
      call_add_tensor(&call, "gradInput", &self);
      if (!call_plan(&call)) {
        fail_msg("%s", call.status.message);
      }
      memset(call.storages[INDICES], 0, sizeof(int64_t));
      if (!call_is_cancellable(&call, pools->pools[variant], variant < 2 ? call_run : call_check_inputs)) {
        fail_msg("%s: %s", sizes[i], call.status.message);
      }
      call_end(&call);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_planes_match_the_plain_computation),
      cmocka_unit_test(large_planes_match_the_plain_computation),
      cmocka_unit_test(windows_that_share_nothing_match_the_plain_computation),
      cmocka_unit_test(small_windows_that_overlap_match_the_plain_computation),
      cmocka_unit_test(grad_input_larger_than_the_caches_matches_the_plain_computation),
      cmocka_unit_test(a_single_index_outside_its_window_is_added_where_it_points),
      cmocka_unit_test(sums_are_formed_in_float_and_rounded_once),
      cmocka_unit_test(the_published_example_is_reproduced),
      cmocka_unit_test(an_empty_grad_output_gives_zeros),
      cmocka_unit_test(the_first_illegal_index_is_named_whatever_the_threads),
      cmocka_unit_test(the_last_index_is_looked_at_too),
      cmocka_unit_test(positions_count_in_the_view_of_strided_indices),
      cmocka_unit_test(an_index_in_the_padding_is_no_index),
      cmocka_unit_test(a_cancelled_run_ends_with_cancelled),
      cmocka_unit_test(a_run_of_any_length_can_be_cancelled),
  };
  return cmocka_run_group_tests(tests, call_pools_create, call_pools_destroy);
}
