// A pool with fake workers and a clock of the test's own.
#ifndef ACLNN_SERVER_NPU_POOL_POOL_TEST_SUPPORT_H
#define ACLNN_SERVER_NPU_POOL_POOL_TEST_SUPPORT_H

#include "server/npu/pool/fake_worker.h"
#include "server/npu/pool/pool_internal.h"

#include <assert.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TEST_QUEUE_TIME (30 * SECOND)
#define TEST_QUEUE_MAX 3

struct pool_test {
  uv_loop_t loop;
  uv_timer_t watchdog; // keeps the loop alive and ends a test that hangs
  struct log log;
  struct arena *arena;
  struct backend *backend;
  struct npu_pool *pool;
  int64_t now_ns;
  int descriptors; // that were open before
};

struct pool_test_options {
  const char *script;
  size_t devices; // 0: one
  size_t deterministic;
  int64_t stop_time_ns; // 0: long
};

// The file of the fake worker: the test's first argument.
extern const char *pool_test_worker;

// Starts the pool and waits until each worker is up or has failed once.
void pool_test_begin(struct pool_test *test, const struct pool_test_options *options);
// Stops the pool and checks that no process, descriptor and memory is left.
void pool_test_end(struct pool_test *test);

// Runs the loop until the condition holds.
#define pool_test_await(test, condition)                                                                     \
  while (!(condition)) {                                                                                     \
    uv_run(&(test)->loop, UV_RUN_ONCE);                                                                      \
  }
// Turns the clock and lets the pool see it.
void pool_test_turn(struct pool_test *test, int64_t by_ns);
// Turns the clock by a ping's distance and waits for the answer of every device that is up.
void pool_test_ping(struct pool_test *test);
enum device_state pool_test_state(const struct pool_test *test, size_t device);
// Waits until a device that is down is up again, turning the clock as far as needed.
void pool_test_revive(struct pool_test *test, size_t device);
int pool_test_process(const struct pool_test *test, size_t device);

// A job of aclnnAdaptiveMaxPool2dBackward.
struct pool_test_job {
  struct pool_test *test;
  struct plan plan;
  struct backend_run_task task;
  struct backend_plan_task plan_task;
  struct arena_block inputs, outputs;
  atomic_bool cancelled;
  int64_t *indices;
  bool done, ok;
};
void pool_test_job_init(struct pool_test *test, struct pool_test_job *job, enum behaviour behaviour);
// The same with planes that are checked on another thread.
void pool_test_job_init_large(struct pool_test *test, struct pool_test_job *job, enum behaviour behaviour);
void pool_test_run(struct pool_test_job *job);
void pool_test_plan(struct pool_test_job *job);
// Waits for its end.
void pool_test_finish(struct pool_test_job *job);
void pool_test_job_free(struct pool_test_job *job);
// Waits for its failure.
void pool_test_expect_failure(struct pool_test_job *job, enum backend_failure failure, enum reason reason,
                              const char *says);
// Waits for its success; on that device, if it isn't negative.
void pool_test_expect_success(struct pool_test_job *job, int device);

// Runs one job from its beginning to its success.
void pool_test_run_good_job(struct pool_test *test);
void pool_test_detail(const struct pool_test *test, size_t device, struct backend_device *report);

#endif
