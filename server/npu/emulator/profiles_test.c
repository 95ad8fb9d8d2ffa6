// Whose bits a profile has: what devices do differently where indices are unusual or sums round.
#include "kernels/half.h"
#include "kernels/testing/operator_call.h"
#include "server/npu/emulator/device_call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ELEMENTS_MAX 4096
#ifdef ACLNN_SANITIZED
#define LAYOUTS 20
#else
#define LAYOUTS 100
#endif

static int begin(void **state) {
  (void)state;
  environment_clear();
  return 0;
}

// A backward whose gradOutput and self have these descriptors, with int64 indices; gradients are rounded to
// the type. The result is widened to floats.
static void backward(struct session *session, const char *grad_output, const char *self,
                     const float *gradients, const int64_t *indices, float *result) {
  struct tensor_desc descs[] = {device_desc(grad_output, DIRECTION_INPUT), device_desc(self, DIRECTION_INPUT),
                                device_desc(grad_output, DIRECTION_INPUT),
                                device_desc(self, DIRECTION_OUTPUT)};
  descs[BACKWARD_INDICES].data_type = DATA_TYPE_INT64;
  struct device_call call;
  device_call_begin_backward(&call, session, descs);
  enum data_type type = descs[BACKWARD_SELF].data_type;
  size_t count = (size_t)tensor_desc_elements(&descs[BACKWARD_GRAD_OUTPUT]);
  unsigned char values[ELEMENTS_MAX * sizeof(float)];
  for (size_t i = 0; i < count; i++) {
    value_write(type, values, (int64_t)i, gradients[i]);
  }
  session_upload(session, call.addresses[BACKWARD_GRAD_OUTPUT], values, count * data_type_bytes(type));
  session_upload(session, call.addresses[BACKWARD_INDICES], indices, count * sizeof indices[0]);
  assert_int_equal(device_call_do(&call), 0);
  size_t bytes = (size_t)tensor_desc_storage_bytes(&descs[BACKWARD_GRAD_INPUT]);
  assert_true(bytes <= sizeof values);
  assert_int_equal(session_download(session, values, call.addresses[BACKWARD_GRAD_INPUT], bytes), 0);
  for (int64_t i = 0; i < tensor_desc_elements(&descs[BACKWARD_GRAD_INPUT]); i++) {
    result[i] = value_read(type, values, i);
  }
  device_call_end(&call);
}

// The same in a session of its own.
static void backward_on(const char *profile, const char *grad_output, const char *self,
                        const float *gradients, const int64_t *indices, float *result) {
  environment_set("PROFILE", profile);
  struct session session;
  session_open(&session);
  backward(&session, grad_output, self, gradients, indices, result);
  assert_int_equal(session_close(&session), 0);
}

// Four gradients, one after the other, into place 0 of a plane, by profile.
static float sum_of(const char *profile, const char *type, const float gradients[4]) {
  char grad_output[32], self[32];
  strcpy(grad_output, type);
  strcat(grad_output, "[1,2,2]");
  strcpy(self, type);
  strcat(self, "[1,3,3]"); // doesn't divide, and place 4 lies in all windows
  const int64_t indices[] = {4, 4, 4, 4};
  float result[9];
  backward_on(profile, grad_output, self, gradients, indices, result);
  return result[4];
}

static void sums_are_rounded_once_or_each_time(void **state) {
  (void)state;
  const float halves[] = {2048, 1, 1, 1}, brains[] = {256, 1, 1, 1}, singles[] = {16777216, 1, 1, 1};
  assert_true(sum_of("exact", "fp16", halves) == 2052);
  assert_true(sum_of("a2", "fp16", halves) == 2052);
  assert_true(sum_of("exact", "bf16", brains) == 260);
  assert_true(sum_of("a2", "bf16", brains) == 260);
  assert_true(sum_of("exact", "fp32", singles) == 16777216);
  assert_true(sum_of("a2", "fp32", singles) == 16777216);
}

// In raster order each 1 is lost against what is there already.
static void the_950_rounds_each_time_in_order_if_deterministic(void **state) {
  (void)state;
  const float halves[] = {2048, 1, 1, 1}, brains[] = {256, 1, 1, 1};
  const int64_t indices[] = {4, 4, 4, 4};
  float result[9];
  environment_set("PROFILE", "950");
  struct session session;
  session_open(&session);
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  backward(&session, "fp16[1,2,2]", "fp16[1,3,3]", halves, indices, result);
  assert_true(result[4] == 2048);
  backward(&session, "bf16[1,2,2]", "bf16[1,3,3]", brains, indices, result);
  assert_true(result[4] == 256);
  assert_int_equal(session_close(&session), 0);
}

// 100 gradients of very different sizes into one place.
static void make_gradients(float gradients[100], int64_t indices[100]) {
  struct random random = {42};
  for (int i = 0; i < 100; i++) {
    gradients[i] = ldexpf((float)random_between(&random, 1, 1000), (int)random_between(&random, -12, 4));
    indices[i] = 60;
  }
}

// How many different sums ten runs give.
static int different_sums(bool deterministic) {
  float gradients[100], result[121], seen[10];
  int64_t indices[100];
  int different = 0;
  make_gradients(gradients, indices);
  environment_set("PROFILE", "950");
  struct session session;
  session_open(&session);
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, deterministic), 0);
  for (int run = 0; run < 10; run++) {
    backward(&session, "fp32[1,10,10]", "fp32[1,11,11]", gradients, indices, result);
    int i = 0;
    while (i < different && seen[i] != result[60]) {
      i++;
    }
    seen[i] = result[60];
    different += i == different;
  }
  assert_int_equal(session_close(&session), 0);
  return different;
}

static void the_950_repeats_its_bits_only_if_deterministic(void **state) {
  (void)state;
  assert_int_equal(different_sums(true), 1);
  assert_true(different_sums(false) > 1);
}

static void index_outside_of_its_window_is_dropped_by_the_a2(void **state) {
  (void)state;
  const float gradients[] = {1, 2, 4, 8};
  // Of output (0,0): a place of the opposite corner; the others stay at home.
  const int64_t dividing[] = {15, 2, 8, 10}, overlapping[] = {8, 2, 6, 4};
  float result[16];
  backward_on("exact", "fp32[1,2,2]", "fp32[1,4,4]", gradients, dividing, result);
  assert_true(result[15] == 1 && result[2] == 2 && result[8] == 4 && result[10] == 8);
  backward_on("950", "fp32[1,2,2]", "fp32[1,4,4]", gradients, dividing, result);
  assert_true(result[15] == 1 && result[2] == 2 && result[8] == 4 && result[10] == 8);
  backward_on("a2", "fp32[1,2,2]", "fp32[1,4,4]", gradients, dividing, result);
  assert_true(result[15] == 0 && result[2] == 2 && result[8] == 4 && result[10] == 8);
  backward_on("exact", "fp32[1,2,2]", "fp32[1,3,3]", gradients, overlapping, result);
  assert_true(result[8] == 1 && result[2] == 2 && result[6] == 4 && result[4] == 8);
  backward_on("a2", "fp32[1,2,2]", "fp32[1,3,3]", gradients, overlapping, result);
  assert_true(result[8] == 0 && result[2] == 2 && result[6] == 4 && result[4] == 8);
}

// Windows are apart there, so that at most one of the gradients for a place is in its window.
static void double_indices_are_no_sum_on_the_a2_where_the_shape_divides(void **state) {
  (void)state;
  const float gradients[] = {1, 2, 4, 8};
  const int64_t same[] = {0, 0, 0, 0};
  float result[4];
  backward_on("exact", "fp32[1,2,2]", "fp32[1,2,2]", gradients, same, result);
  assert_true(result[0] == 15);
  backward_on("950", "fp32[1,2,2]", "fp32[1,2,2]", gradients, same, result);
  assert_true(result[0] == 15);
  backward_on("a2", "fp32[1,2,2]", "fp32[1,2,2]", gradients, same, result);
  assert_true(result[0] == 1);
}

// CANN casts int64 indices to int32 without a look; exact bits don't come that way.
static void wide_index_wraps_around_but_where_bits_are_exact(void **state) {
  (void)state;
  const float gradients[] = {1};
  const int64_t indices[] = {((int64_t)1 << 32) + 3};
  float result[4];
  backward_on("a2", "fp32[1,1,1]", "fp32[1,2,2]", gradients, indices, result);
  assert_true(result[3] == 1);
  backward_on("950", "fp32[1,1,1]", "fp32[1,2,2]", gradients, indices, result);
  assert_true(result[3] == 1);
}

static void negative_zero_is_stored_by_the_a2_where_the_shape_divides(void **state) {
  (void)state;
  const float gradients[] = {-0.0f};
  const int64_t indices[] = {3};
  float result[4];
  backward_on("exact", "fp32[1,1,1]", "fp32[1,2,2]", gradients, indices, result);
  assert_false(signbit(result[3]));
  backward_on("a2", "fp32[1,1,1]", "fp32[1,2,2]", gradients, indices, result);
  assert_true(signbit(result[3]));
}

// Beyond 2^24 a float no longer holds each index: one row of 2^24 + 3 columns in two windows.
static void large_planes_that_do_not_divide_go_wrong_on_the_a2(void **state) {
  (void)state;
  environment_set("PROFILE", "a2");
  struct session session;
  session_open(&session);
  struct tensor_desc descs[] = {
      device_desc("bf16[1,1,2]", DIRECTION_INPUT), device_desc("bf16[1,1,16777219]", DIRECTION_INPUT),
      device_desc("int64[1,1,2]", DIRECTION_INPUT), device_desc("bf16[1,1,16777219]", DIRECTION_OUTPUT)};
  struct device_call call;
  device_call_begin_backward(&call, &session, descs);
  const uint16_t one = bf16_from_float(1), gradients[] = {0, one};
  const int64_t indices[] = {0, (1 << 24) + 1};
  session_upload(&session, call.addresses[BACKWARD_GRAD_OUTPUT], gradients, sizeof gradients);
  session_upload(&session, call.addresses[BACKWARD_INDICES], indices, sizeof indices);
  assert_int_equal(device_call_do(&call), 0);
  uint16_t near[3]; // places 2^24 to 2^24 + 2
  const char *result = call.addresses[BACKWARD_GRAD_INPUT];
  assert_int_equal(session_download(&session, near, result + sizeof one * (1 << 24), sizeof near), 0);
  assert_int_equal(near[0], one);
  assert_int_equal(near[1], 0);
  device_call_end(&call);
  assert_int_equal(session_close(&session), 0);
}

static void another_c_is_an_exception_of_the_a2_where_the_shape_divides(void **state) {
  (void)state;
  environment_set("PROFILE", "a2");
  struct session session;
  session_open(&session);
  const struct tensor_desc descs[] = {
      device_desc("fp32[1,1,1]", DIRECTION_INPUT), device_desc("fp32[2,2,2]", DIRECTION_INPUT),
      device_desc("int64[1,1,1]", DIRECTION_INPUT), device_desc("fp32[2,2,2]", DIRECTION_OUTPUT)};
  struct device_call call;
  device_call_begin_backward(&call, &session, descs);
  assert_int_equal(device_call_do(&call), ACL_STATUS_RT_AICORE_EXCEPTION);
  device_call_end(&call);
  assert_int_equal(session_close(&session), 0);
}

// Random strided layouts of all four against the operator on the CPU, holes of the output included: what is
// there stays.
static void strides_are_honoured_and_holes_stay(void **state) {
  (void)state;
  struct random random = {7};
  struct session session;
  session_open(&session);
  for (int round = 0; round < LAYOUTS; round++) {
    struct operator_call host;
    struct tensor_desc descs[DEVICE_CALL_TENSORS] = {desc_of("fp16[2,3,3,2]"), desc_of("fp16[2,3,5,4]"),
                                                     desc_of("int64[2,3,3,2]"), desc_of("fp16[2,3,5,4]")};
    static const char *const names[] = {"gradOutput", "self", "indices", "gradInput"};
    call_begin(&host, "aclnnAdaptiveMaxPool2dBackward");
    for (size_t i = 0; i < DEVICE_CALL_TENSORS; i++) {
      random_layout(&random, &descs[i], i == BACKWARD_GRAD_INPUT ? DIRECTION_OUTPUT : DIRECTION_INPUT);
      call_add_tensor(&host, names[i], &descs[i]);
    }
    assert_true(call_plan(&host));
    for (size_t i = 0; i < DEVICE_CALL_TENSORS; i++) {
      descs[i] = *call_desc(&host, i);
    }
    random_values(&random, DATA_TYPE_FLOAT16, host.storages[BACKWARD_GRAD_OUTPUT],
                  (size_t)descs[BACKWARD_GRAD_OUTPUT].storage_elements);
    int64_t *indices = host.storages[BACKWARD_INDICES];
    for (int64_t i = 0; i < descs[BACKWARD_INDICES].storage_elements; i++) {
      indices[i] = random_between(&random, 0, 20);
    }
    assert_true(call_run(&host, NULL));
    struct device_call device;
    device_call_begin_backward(&device, &session, descs);
    size_t bytes = (size_t)tensor_desc_storage_bytes(&descs[BACKWARD_GRAD_INPUT]);
    session_upload(&session, device.addresses[BACKWARD_GRAD_OUTPUT], host.storages[BACKWARD_GRAD_OUTPUT],
                   (size_t)tensor_desc_storage_bytes(&descs[BACKWARD_GRAD_OUTPUT]));
    session_upload(&session, device.addresses[BACKWARD_INDICES], indices,
                   (size_t)tensor_desc_storage_bytes(&descs[BACKWARD_INDICES]));
    assert_int_equal(device_call_do(&device), 0);
    uint16_t *given = malloc(bytes), *expected = malloc(bytes);
    assert_int_equal(session_download(&session, given, device.addresses[BACKWARD_GRAD_INPUT], bytes), 0);
    memset(expected, 0xa5, bytes);
    for (int64_t i = 0; i < tensor_desc_elements(&descs[BACKWARD_GRAD_INPUT]); i++) {
      int64_t place = tensor_desc_offset_of(&descs[BACKWARD_GRAD_INPUT], i);
      expected[place] = ((uint16_t *)host.storages[BACKWARD_GRAD_INPUT])[place];
    }
    for (int64_t i = 0; i < (int64_t)(bytes / sizeof *given); i++) {
      assert_true(value_equal(DATA_TYPE_FLOAT16, given, expected, i));
    }
    free(given);
    free(expected);
    device_call_end(&device);
    call_end(&host);
  }
  assert_int_equal(session_close(&session), 0);
}

// Two channels that lie between each other, 4 by 4 pooled to 2 by 2.
static void forward_reads_nhwc(void **state) {
  (void)state;
  environment_set("PROFILE", "a2");
  struct session session;
  session_open(&session);
  const int64_t in[] = {1, 4, 4, 2}, out[] = {1, 2, 2, 2}, size[] = {2, 2};
  float values[32], maxima[8];
  int64_t indices[8];
  for (int i = 0; i < 32; i++) {
    values[i] = (float)(i % 2 == 0 ? i : -i); // channel 0 rises, channel 1 falls
  }
  void *self = session_allocate(sizeof values), *output = session_allocate(sizeof maxima),
       *positions = session_allocate(sizeof indices);
  session_upload(&session, self, values, sizeof values);
  struct device_call call = {.session = &session, .forward = true, .tensor_count = 3};
  call.tensors[0] = aclCreateTensor(in, 4, 0, NULL, 0, ACL_FORMAT_NHWC, in, 4, self);
  call.tensors[1] = aclCreateTensor(out, 4, 0, NULL, 0, ACL_FORMAT_NHWC, out, 4, output);
  call.tensors[2] = aclCreateTensor(out, 4, 9, NULL, 0, ACL_FORMAT_NHWC, out, 4, positions);
  call.output_size = aclCreateIntArray(size, 2);
  call.addresses[0] = self;
  call.addresses[1] = output;
  call.addresses[2] = positions;
  assert_int_equal(device_call_do(&call), 0);
  assert_int_equal(session_download(&session, maxima, output, sizeof maxima), 0);
  assert_int_equal(session_download(&session, indices, positions, sizeof indices), 0);
  static const int64_t expected[] = {5, 0, 7, 2, 13, 8, 15, 10};
  for (int i = 0; i < 8; i++) {
    assert_int_equal(indices[i], expected[i]);
    assert_true(maxima[i] == values[expected[i] * 2 + i % 2]);
  }
  device_call_end(&call);
  assert_int_equal(session_close(&session), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(sums_are_rounded_once_or_each_time, begin),
      cmocka_unit_test_setup(the_950_rounds_each_time_in_order_if_deterministic, begin),
      cmocka_unit_test_setup(the_950_repeats_its_bits_only_if_deterministic, begin),
      cmocka_unit_test_setup(index_outside_of_its_window_is_dropped_by_the_a2, begin),
      cmocka_unit_test_setup(double_indices_are_no_sum_on_the_a2_where_the_shape_divides, begin),
      cmocka_unit_test_setup(wide_index_wraps_around_but_where_bits_are_exact, begin),
      cmocka_unit_test_setup(negative_zero_is_stored_by_the_a2_where_the_shape_divides, begin),
      cmocka_unit_test_setup(large_planes_that_do_not_divide_go_wrong_on_the_a2, begin),
      cmocka_unit_test_setup(another_c_is_an_exception_of_the_a2_where_the_shape_divides, begin),
      cmocka_unit_test_setup(strides_are_honoured_and_holes_stay, begin),
      cmocka_unit_test_setup(forward_reads_nhwc, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
