// The emulated runtime's rules: each is shown to bite.
#include "server/npu/emulator/device_call.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int begin(void **state) {
  (void)state;
  environment_clear();
  aclFinalize();
  aclGetRecentErrMsg();
  return 0;
}

static void nothing_works_before_init(void **state) {
  (void)state;
  uint32_t count;
  void *address;
  assert_int_equal(aclrtSetDevice(0), ACL_STATUS_UNINITIALIZED);
  assert_int_equal(aclrtGetDeviceCount(&count), ACL_STATUS_UNINITIALIZED);
  assert_int_equal(aclrtMalloc(&address, 1, 0), ACL_STATUS_UNINITIALIZED);
  assert_int_equal(aclrtMallocHost(&address, 1), ACL_STATUS_UNINITIALIZED);
  assert_int_equal(aclrtCreateStream(&address), ACL_STATUS_UNINITIALIZED);
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_STATUS_UNINITIALIZED);
  assert_null(aclrtGetSocName());
  assert_null(aclCreateTensor(NULL, 0, 0, NULL, 0, 0, NULL, 0, NULL));
  assert_null(aclCreateIntArray(NULL, 0));
  assert_error_said("aclInit wasn't called");
}

static void init_and_finalize_come_in_pairs(void **state) {
  (void)state;
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclInit(NULL), ACL_STATUS_REPEATED_INITIALIZE);
  assert_int_equal(aclFinalize(), 0);
  assert_int_equal(aclFinalize(), ACL_STATUS_REPEATED_FINALIZE);
}

static void wrong_environment_is_refused_at_init(void **state) {
  (void)state;
  environment_set("PROFILE", "a3");
  assert_int_equal(aclInit(NULL), ACL_STATUS_INVALID_PARAM);
  assert_error_said("ACLNN_EMULATED_PROFILE=a3");
}

static void profile_has_its_soc_name(void **state) {
  (void)state;
  static const char *const names[][2] = {
      {NULL, "AclnnEmulated"}, {"a2", "Ascend910B4"}, {"950", "Ascend950PR_9579"}};
  for (size_t i = 0; i < 3; i++) {
    environment_set("PROFILE", names[i][0]);
    assert_int_equal(aclInit(NULL), 0);
    assert_string_equal(aclrtGetSocName(), names[i][1]);
    assert_int_equal(aclFinalize(), 0);
  }
  int32_t major, minor, patch;
  assert_int_equal(aclrtGetVersion(&major, &minor, &patch), 0);
  assert_int_equal(aclrtGetVersion(&major, NULL, &patch), ACL_STATUS_INVALID_PARAM);
}

static void there_are_as_many_devices_as_asked_for(void **state) {
  (void)state;
  environment_set("DEVICES", "2");
  uint32_t count = 0;
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclrtGetDeviceCount(&count), 0);
  assert_int_equal(count, 2);
  assert_int_equal(aclrtSetDevice(1), 0);
  assert_int_equal(aclrtSetDevice(2), ACL_STATUS_RT_INVALID_DEVICE);
  assert_int_equal(aclrtSetDevice(-1), ACL_STATUS_RT_INVALID_DEVICE);
  assert_int_equal(aclrtResetDevice(0), ACL_STATUS_RT_NO_CONTEXT);
  assert_int_equal(aclrtResetDevice(1), 0);
  assert_int_equal(aclFinalize(), 0);
}

static void *use_device_without_setting_it(void *argument) {
  struct session *session = argument;
  void *address;
  size_t free_bytes, total_bytes;
  static int64_t answers[6];
  answers[0] = aclrtMalloc(&address, 1, 0);
  answers[1] = aclrtMallocHost(&address, 1);
  answers[2] = aclrtCreateStream(&address);
  answers[3] = aclrtSynchronizeStreamWithTimeout(session->stream, -1);
  answers[4] = aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes);
  answers[5] = aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1);
  return answers;
}

static void thread_without_context_may_do_nothing(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  pthread_t thread;
  void *answers;
  assert_int_equal(pthread_create(&thread, NULL, use_device_without_setting_it, &session), 0);
  pthread_join(thread, &answers);
  for (size_t i = 0; i < 6; i++) {
    assert_int_equal(((int64_t *)answers)[i], ACL_STATUS_RT_NO_CONTEXT);
  }
  assert_int_equal(session_close(&session), 0);
}

static void stream_belongs_to_its_context(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  aclrtContext other;
  assert_int_equal(aclrtCreateContext(&other, 0), 0);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(session.stream, -1), ACL_STATUS_RT_STREAM_CONTEXT);
  assert_int_equal(aclrtDestroyStream(session.stream), ACL_STATUS_RT_STREAM_CONTEXT);
  assert_int_equal(aclrtDestroyContext(other), 0);
  assert_int_equal(aclrtDestroyContext(other), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(session.stream, -1), ACL_STATUS_RT_NO_CONTEXT);
  aclFinalize(); // the test gave its context away
}

static void context_outlives_its_streams(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  assert_int_equal(aclrtDestroyContext(session.context), ACL_STATUS_RT_PARAM_INVALID);
  assert_error_said("1 streams");
  assert_int_equal(session_close(&session), 0);
}

static void default_context_is_not_destroyed_by_hand(void **state) {
  (void)state;
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclrtSetDevice(0), 0);
  assert_int_equal(aclrtSetDevice(0), 0);
  assert_int_equal(aclrtDestroyContext(NULL), ACL_STATUS_RT_PARAM_INVALID);
  void *address;
  assert_int_equal(aclrtResetDevice(0), 0);
  assert_int_equal(aclrtMalloc(&address, 64, 0), 0);
  assert_int_equal(aclrtFree(address), 0);
  assert_int_equal(aclrtResetDevice(0), 0);
  assert_int_equal(aclrtMalloc(&address, 64, 0), ACL_STATUS_RT_NO_CONTEXT);
  assert_int_equal(aclFinalize(), 0);
}

static void stale_stream_is_found_out(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  aclrtStream stream;
  assert_int_equal(aclrtCreateStream(&stream), 0);
  assert_int_equal(aclrtDestroyStream(stream), 0);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(stream, -1), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtDestroyStream(stream), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(session.stream, -2), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(session_close(&session), 0);
}

static void allocations_are_counted_against_the_memory(void **state) {
  (void)state;
  environment_set("MEMORY", "1000");
  struct session session;
  session_open(&session);
  size_t free_bytes, total_bytes;
  void *address = session_allocate(600), *more;
  assert_int_equal(aclrtMalloc(&more, 401, 0), ACL_STATUS_RT_MEMORY_ALLOCATION);
  assert_error_said("600 of 1000 are in use");
  assert_int_equal(aclrtMalloc(&more, 0, 0), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(aclrtMalloc(NULL, 1, 0), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes), 0);
  assert_int_equal(free_bytes, 400);
  assert_int_equal(total_bytes, 1000);
  assert_int_equal(aclrtGetMemInfo(0, &free_bytes, &total_bytes), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(aclrtFree(address), 0);
  assert_int_equal(aclrtFree(address), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtFree(NULL), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtMalloc(&address, 1000, 0), 0);
  assert_int_equal(aclrtFree(address), 0);
  assert_int_equal(session_close(&session), 0);
}

static void pinned_memory_is_given_back_once(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  void *address, *none = &session;
  assert_int_equal(aclrtMallocHost(&address, 100), 0);
  memset(address, 1, 100);
  assert_int_equal(aclrtFreeHost(none), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtFreeHost(address), 0);
  assert_int_equal(aclrtFreeHost(address), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtMallocHost(&address, 0), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(session_close(&session), 0);
}

static void copies_go_where_they_are_said_to_go(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  char from[64] = "through two places of the device", to[64] = "";
  void *first = session_allocate(64), *second = session_allocate(64);
  session_upload(&session, first, from, 64);
  assert_int_equal(aclrtMemcpyAsync(second, 64, first, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, session.stream), 0);
  assert_int_equal(aclrtMemsetAsync(second, 64, 'T', 1, session.stream), 0);
  assert_int_equal(session_download(&session, to, second, 64), 0);
  assert_string_equal(to, "Through two places of the device");
  assert_int_equal(aclrtMemcpyAsync(to, 64, from, 64, ACL_MEMCPY_HOST_TO_HOST, session.stream), 0);
  assert_int_equal(session_synchronize(&session), 0);
  assert_string_equal(to, from);
  assert_int_equal(aclrtFree(first), 0);
  assert_int_equal(aclrtFree(second), 0);
  assert_int_equal(session_close(&session), 0);
}

static void wrong_copy_is_refused_at_once(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  char host[64] = "";
  char *device = session_allocate(64);
  const struct {
    void *to;
    size_t to_bytes;
    const void *from;
    size_t bytes;
    int kind;
    aclError status;
  } wrong[] = {
      {host, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID}, // to is the host's
      {device, 64, device, 64, ACL_MEMCPY_HOST_TO_DEVICE,
       ACL_STATUS_RT_PARAM_INVALID}, // from is the device's
      {host, 64, host, 64, ACL_MEMCPY_DEVICE_TO_HOST, ACL_STATUS_RT_PARAM_INVALID},
      {device, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST, ACL_STATUS_RT_PARAM_INVALID},
      {device, 64, host, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID},
      {device, 65, host, 65, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID}, // one byte too far
      {device + 1, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID},
      {host, 64, device + 60, 5, ACL_MEMCPY_DEVICE_TO_HOST, ACL_STATUS_RT_PARAM_INVALID},
      {device, 63, host, 64, ACL_MEMCPY_HOST_TO_DEVICE,
       ACL_STATUS_RT_PARAM_INVALID}, // no room by its own words
      {device, 64, host, 0, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID},
      {NULL, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID},
      {device, 64, NULL, 64, ACL_MEMCPY_HOST_TO_DEVICE, ACL_STATUS_RT_PARAM_INVALID},
      {device, 64, host, 64, 9, ACL_STATUS_INVALID_PARAM},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(aclrtMemcpyAsync(wrong[i].to, wrong[i].to_bytes, wrong[i].from, wrong[i].bytes,
                                      wrong[i].kind, session.stream),
                     wrong[i].status);
  }
  assert_int_equal(aclrtMemsetAsync(host, 64, 0, 64, session.stream), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtMemsetAsync(device, 64, 0, 65, session.stream), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(aclrtMemsetAsync(device, 64, 0, 64, NULL), ACL_STATUS_RT_PARAM_INVALID);
  assert_int_equal(session_synchronize(&session), 0);
  assert_int_equal(aclrtFree(device), 0);
  assert_int_equal(session_close(&session), 0);
}

static void *fail_here(void *argument) {
  (void)argument;
  aclrtSetDevice(99);
  return (void *)aclGetRecentErrMsg();
}

static void error_text_belongs_to_its_thread_and_is_given_once(void **state) {
  (void)state;
  assert_int_equal(aclInit(NULL), 0);
  assert_null(aclGetRecentErrMsg());
  pthread_t thread;
  void *said;
  assert_int_equal(pthread_create(&thread, NULL, fail_here, NULL), 0);
  pthread_join(thread, &said);
  assert_non_null(said);
  assert_null(aclGetRecentErrMsg());
  aclrtSetDevice(77);
  aclrtSetDevice(88);
  const char *text = aclGetRecentErrMsg();
  assert_non_null(strstr(text, "E107001"));
  assert_true(strstr(text, "device 88") < strstr(text, "device 77")); // the newest on top
  assert_null(aclGetRecentErrMsg());
  assert_int_equal(aclFinalize(), 0);
}

static void endless_errors_do_not_overflow_the_text(void **state) {
  (void)state;
  for (int i = 0; i < 1000; i++) {
    aclrtSetDevice(i);
  }
  assert_in_range(strlen(aclGetRecentErrMsg()), 100, 2047);
}

static void options_are_what_cann_knows(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
  assert_int_equal(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0), 0);
  assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(aclrtSetSysParamOpt(17, 1), ACL_STATUS_INVALID_PARAM);
  assert_int_equal(session_close(&session), 0);
}

// What aclFinalize writes to stderr, with its answer.
static aclError finalize_and_read(char *text, size_t text_bytes) {
  int pipe_ends[2], saved = dup(STDERR_FILENO);
  assert_true(saved >= 0 && pipe(pipe_ends) == 0);
  dup2(pipe_ends[1], STDERR_FILENO);
  aclError status = aclFinalize();
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(pipe_ends[1]);
  ssize_t bytes = read(pipe_ends[0], text, text_bytes - 1);
  close(pipe_ends[0]);
  text[bytes < 0 ? 0 : bytes] = '\0';
  return status;
}

static void everything_left_is_reported(void **state) {
  (void)state;
  struct session session;
  session_open(&session);
  void *address;
  const int64_t one = 1;
  session_allocate(100);
  assert_int_equal(aclrtMallocHost(&address, 50), 0);
  assert_non_null(aclCreateTensor(&one, 1, 0, NULL, 0, 0, &one, 1, NULL));
  assert_non_null(aclCreateIntArray(&one, 1));
  char text[512];
  assert_int_equal(finalize_and_read(text, sizeof text), ACL_STATUS_FAILURE);
  assert_string_equal(text,
                      "aclnn emulated device: leaked 1 tensors, 1 integer arrays, 1 allocations on devices, "
                      "100 bytes of the devices' memory, 1 pinned allocations of the host, 50 bytes of "
                      "pinned memory, 1 streams, 1 contexts, 1 devices that weren't reset\n");
}

static void clean_end_says_nothing(void **state) {
  (void)state;
  assert_int_equal(aclInit(NULL), 0);
  char text[512];
  assert_int_equal(finalize_and_read(text, sizeof text), 0);
  assert_string_equal(text, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(nothing_works_before_init, begin),
      cmocka_unit_test_setup(init_and_finalize_come_in_pairs, begin),
      cmocka_unit_test_setup(wrong_environment_is_refused_at_init, begin),
      cmocka_unit_test_setup(profile_has_its_soc_name, begin),
      cmocka_unit_test_setup(there_are_as_many_devices_as_asked_for, begin),
      cmocka_unit_test_setup(thread_without_context_may_do_nothing, begin),
      cmocka_unit_test_setup(stream_belongs_to_its_context, begin),
      cmocka_unit_test_setup(context_outlives_its_streams, begin),
      cmocka_unit_test_setup(default_context_is_not_destroyed_by_hand, begin),
      cmocka_unit_test_setup(stale_stream_is_found_out, begin),
      cmocka_unit_test_setup(allocations_are_counted_against_the_memory, begin),
      cmocka_unit_test_setup(pinned_memory_is_given_back_once, begin),
      cmocka_unit_test_setup(copies_go_where_they_are_said_to_go, begin),
      cmocka_unit_test_setup(wrong_copy_is_refused_at_once, begin),
      cmocka_unit_test_setup(error_text_belongs_to_its_thread_and_is_given_once, begin),
      cmocka_unit_test_setup(endless_errors_do_not_overflow_the_text, begin),
      cmocka_unit_test_setup(options_are_what_cann_knows, begin),
      cmocka_unit_test_setup(everything_left_is_reported, begin),
      cmocka_unit_test_setup(clean_end_says_nothing, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
