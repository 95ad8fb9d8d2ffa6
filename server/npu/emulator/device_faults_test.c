// Faults on demand, as a caller meets them.
#include "server/npu/emulator/device_call.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int begin(void **state) {
  (void)state;
  environment_clear();
  aclFinalize();
  return 0;
}

// One job of a repeatable executor.
static aclnnStatus do_job(struct device_call *call) {
  assert_int_equal(device_call_run(call), 0);
  return session_synchronize(call->session);
}

static void open_repeatable(struct session *session, struct device_call *call) {
  small_call_open(session, call);
  assert_int_equal(device_call_plan(call), 0);
  assert_int_equal(aclSetAclOpExecutorRepeatable(call->executor), 0);
}

static void close_repeatable(struct session *session, struct device_call *call) {
  assert_int_equal(aclDestroyAclOpExecutor(call->executor), 0);
  small_call_close(session, call);
}

static void ecc_error_comes_at_synchronize_of_its_job(void **state) {
  (void)state;
  environment_set("FAULT", "ecc@3");
  struct session session;
  struct device_call call;
  open_repeatable(&session, &call);
  assert_int_equal(do_job(&call), 0);
  assert_int_equal(do_job(&call), 0);
  assert_int_equal(do_job(&call), ACL_STATUS_RT_HBM_ECC);
  assert_error_said("E507054");
  assert_int_equal(do_job(&call), ACL_STATUS_RT_HBM_ECC); // the stream doesn't recover
  close_repeatable(&session, &call);
}

static void hanging_job_meets_the_time_limit(void **state) {
  (void)state;
  environment_set("FAULT", "hang@2");
  struct session session;
  struct device_call call;
  open_repeatable(&session, &call);
  assert_int_equal(do_job(&call), 0);
  assert_int_equal(device_call_run(&call), 0);
  assert_int_equal(aclrtSynchronizeStreamWithTimeout(session.stream, 1), ACL_STATUS_RT_STREAM_SYNC_TIMEOUT);
  assert_error_said("E507046");
  assert_int_equal(aclrtDestroyStream(session.stream), ACL_STATUS_RT_PARAM_INVALID);
  assert_error_said("before all of its tasks had ended");
  assert_int_equal(aclrtCreateStream(&session.stream), 0);
  close_repeatable(&session, &call);
}

static void crash_takes_the_process_along(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    environment_set("FAULT", "crash@2");
    struct session session;
    struct device_call call;
    open_repeatable(&session, &call);
    if (do_job(&call) == 0) {
      do_job(&call);
    }
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void slow_job_ends_all_the_same(void **state) {
  (void)state;
  environment_set("FAULT", "slow:ms=1");
  struct session session;
  struct device_call call;
  open_repeatable(&session, &call);
  assert_int_equal(do_job(&call), 0);
  small_call_assert_result(&call, call.addresses[BACKWARD_GRAD_INPUT]);
  close_repeatable(&session, &call);
}

static void flip_changes_one_bit_of_every_second_result(void **state) {
  (void)state;
  environment_set("FAULT", "flip:every=2");
  static const float expected[8] = {[1] = 3, [6] = 5};
  struct session session;
  struct device_call call;
  open_repeatable(&session, &call);
  for (int job = 1; job <= 10; job++) {
    assert_int_equal(do_job(&call), 0);
    float given[8];
    assert_int_equal(session_download(&session, given, call.addresses[BACKWARD_GRAD_INPUT], sizeof given), 0);
    int bits = 0;
    for (size_t i = 0; i < sizeof given; i++) {
      bits += __builtin_popcount(((unsigned char *)given)[i] ^ ((const unsigned char *)expected)[i]);
    }
    assert_int_equal(bits, job % 2 == 0);
  }
  close_repeatable(&session, &call);
}

static void device_runs_out_of_memory_at_that_allocation(void **state) {
  (void)state;
  environment_set("FAULT", "memory@2:count=2");
  struct session session;
  session_open(&session);
  void *address = session_allocate(64), *more;
  assert_int_equal(aclrtMalloc(&more, 64, 0), ACL_STATUS_RT_MEMORY_ALLOCATION);
  assert_int_equal(aclrtMalloc(&more, 64, 0), ACL_STATUS_RT_MEMORY_ALLOCATION);
  assert_error_said("E207018");
  assert_int_equal(aclrtMalloc(&more, 64, 0), 0);
  assert_int_equal(aclrtFree(more), 0);
  assert_int_equal(aclrtFree(address), 0);
  assert_int_equal(session_close(&session), 0);
}

static void one_bad_device_of_several(void **state) {
  (void)state;
  environment_set("DEVICES", "2");
  environment_set("FAULT", "refuse-init:device=1");
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclrtSetDevice(1), ACL_STATUS_RT_DRIVER_INTERNAL);
  assert_int_equal(aclrtSetDevice(0), 0);
  assert_int_equal(aclrtResetDevice(0), 0);
  assert_int_equal(aclFinalize(), 0);
}

static void stub_library_says_so(void **state) {
  (void)state;
  environment_set("FAULT", "stub");
  assert_int_equal(aclInit(NULL), ACL_STATUS_STUB_LIBRARY);
  assert_error_said("stub");
  environment_set("FAULT", "stub:device=0");
  assert_int_equal(aclInit(NULL), 0);
  assert_int_equal(aclrtSetDevice(0), ACL_STATUS_STUB_LIBRARY);
  assert_int_equal(aclFinalize(), 0);
}

static void refused_calls_are_no_jobs(void **state) {
  (void)state;
  environment_set("FAULT", "ecc@1");
  struct session session;
  struct device_call call;
  open_repeatable(&session, &call);
  assert_int_equal(small_call_launch(&call, NULL, 1), ACL_STATUS_NULLPTR);
  assert_int_equal(small_call_launch(&call, NULL, 0), ACL_STATUS_INVALID);
  assert_int_equal(session_synchronize(&session), 0);
  assert_int_equal(do_job(&call), ACL_STATUS_RT_HBM_ECC);
  close_repeatable(&session, &call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(ecc_error_comes_at_synchronize_of_its_job, begin),
      cmocka_unit_test_setup(hanging_job_meets_the_time_limit, begin),
      cmocka_unit_test_setup(crash_takes_the_process_along, begin),
      cmocka_unit_test_setup(slow_job_ends_all_the_same, begin),
      cmocka_unit_test_setup(flip_changes_one_bit_of_every_second_result, begin),
      cmocka_unit_test_setup(device_runs_out_of_memory_at_that_allocation, begin),
      cmocka_unit_test_setup(one_bad_device_of_several, begin),
      cmocka_unit_test_setup(stub_library_says_so, begin),
      cmocka_unit_test_setup(refused_calls_are_no_jobs, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
