// One client of the C library, and threads that do everything with it at once.

#include "tests/end_to_end/client_jobs.h"
#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <assert.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS 12
#ifdef ACLNN_SANITIZED
#define ROUNDS 40
#else
#define ROUNDS 200
#endif
// Calls between two times that everything is cancelled.
#define CALLS_PER_CANCEL 97

struct stage {
  aclnn_client *client;
  atomic_int calls;
  bool cancels;
};

struct caller {
  struct stage *stage;
  aclnn_plan *plan; // repeatable
  unsigned seed;
  int finished; // jobs that ended well, with their bits
  int broken;   // that ended otherwise than they may
  pthread_t thread;
};

static void count(struct caller *caller, struct identity_job *job, aclnn_result result,
                  const aclnn_error *error) {
  if (result == ACLNN_OK) {
    bool right = memcmp(job->grad_input, job->grad_output, (size_t)job->elements * 4) == 0;
    caller->finished += right ? 1 : 0;
    caller->broken += right ? 0 : 1;
    memset(job->grad_input, 0, (size_t)job->elements * 4);
  } else if (strcmp(aclnn_code_name(error->code), "CANCELLED") != 0 &&
             strcmp(aclnn_code_name(error->code), "DEADLINE_EXCEEDED") != 0) {
    caller->broken++;
    print_message("%d %s %s\n", error->code, error->reason, error->message);
  }
}

static void run_side_by_side(struct caller *caller, struct identity_job jobs[3], bool reversed) {
  struct stage *stage = caller->stage;
  aclnn_execution *executions[3];
  aclnn_error error;
  for (int i = 0; i < 3; i++) {
    aclnn_result result =
        aclnn_execution_begin(stage->client, caller->plan, jobs[i].tensors, 4, &executions[i], &error);
    assert(result == ACLNN_OK);
  }
  for (int i = 0; i < 3; i++) {
    int next = reversed ? 2 - i : i;
    count(caller, &jobs[next], aclnn_execution_wait(executions[next], NULL, &error), &error);
  }
}

static void begin_and_cancel(struct caller *caller, struct identity_job *job) {
  aclnn_execution *execution;
  aclnn_result result =
      aclnn_execution_begin(caller->stage->client, caller->plan, job->tensors, 4, &execution, NULL);
  assert(result == ACLNN_OK);
  aclnn_execution_cancel(execution);
  memset(job->grad_input, 0, (size_t)job->elements * 4);
}

static void stream_two(struct caller *caller, struct identity_job jobs[2]) {
  struct stage *stage = caller->stage;
  aclnn_error error;
  aclnn_stream *stream;
  if (aclnn_stream_open(stage->client, &stream, &error) != ACLNN_OK) {
    caller->broken += strcmp(aclnn_code_name(error.code), "CANCELLED") == 0 ? 0 : 1;
    return;
  }
  aclnn_result result = ACLNN_OK;
  for (int i = 0; i < 2 && result == ACLNN_OK; i++) {
    result = aclnn_stream_submit(stream, caller->plan, jobs[i].tensors, 4, &error);
  }
  for (int i = 0; i < 2 && result == ACLNN_OK; i++) {
    result = aclnn_stream_wait(stream, NULL, &error);
    count(caller, &jobs[i], result, &error);
  }
  aclnn_stream_close(stream);
}

static void *call_at_random(void *argument) {
  struct caller *caller = argument;
  struct stage *stage = caller->stage;
  struct identity_job jobs[3];
  for (int i = 0; i < 3; i++) {
    identity_job_init(&jobs[i], 20, 30, (int)caller->seed + i);
  }
  for (int round = 0; round < ROUNDS; round++) {
    aclnn_error error;
    switch (rand_r(&caller->seed) % 5) {
    case 0:
      count(caller, &jobs[0], aclnn_execute(stage->client, caller->plan, jobs[0].tensors, 4, NULL, &error),
            &error);
      break;
    case 1:
      count(caller, &jobs[1], aclnn_call(stage->client, &jobs[1].arguments, NULL, &error), &error);
      break;
    case 2:
      begin_and_cancel(caller, &jobs[2]);
      break;
    case 3:
      stream_two(caller, jobs);
      break;
    default:
      run_side_by_side(caller, jobs, rand_r(&caller->seed) % 2 == 0);
      break;
    }
    if (stage->cancels && atomic_fetch_add(&stage->calls, 1) % CALLS_PER_CANCEL == 0) {
      aclnn_cancel(stage->client);
    }
  }
  for (int i = 0; i < 3; i++) {
    identity_job_free(&jobs[i]);
  }
  return NULL;
}

// Returns how many jobs ended well. None may end otherwise than well, cancelled or too late.
static int run_callers(struct stage *stage, aclnn_client *planner) {
  struct caller callers[CALLERS];
  struct identity_job job;
  aclnn_error error;
  int finished = 0;
  identity_job_init(&job, 20, 30, 0);
  for (unsigned i = 0; i < CALLERS; i++) {
    callers[i] = (struct caller){.stage = stage, .seed = i};
    assert_int_equal(aclnn_get_workspace_size(planner, &job.arguments, true, 0, &callers[i].plan, &error),
                     ACLNN_OK);
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_at_random, &callers[i]), 0);
  }
  for (unsigned i = 0; i < CALLERS; i++) {
    pthread_join(callers[i].thread, NULL);
    assert_int_equal(callers[i].broken, 0);
    finished += callers[i].finished;
    assert_int_equal(aclnn_destroy(planner, callers[i].plan, &error), ACLNN_OK);
  }
  identity_job_free(&job);
  return finished;
}

static void run_stage(int64_t timeout_ms, bool cancels) {
  struct test_server server;
  test_server_start(&server, "127.0.0.1:0", NULL, NULL);
  aclnn_client *patient = open_client(server.address, -1);
  const aclnn_client_options options = {
      .target_address = server.address, .retries = -1, .timeout_ms = timeout_ms};
  struct stage stage = {.cancels = cancels};
  aclnn_error error;
  assert_int_equal(aclnn_client_open(&options, &stage.client, &error), ACLNN_OK);
  int finished = run_callers(&stage, patient);
  if (!cancels && timeout_ms == 0) {
    assert_true(finished > CALLERS * ROUNDS / 2); // all but those that were begun only to be cancelled
  }
  struct identity_job job;
  identity_job_init(&job, 20, 30, 0);
  assert_int_equal(aclnn_call(patient, &job.arguments, NULL, &error), ACLNN_OK);
  identity_job_check(&job);
  identity_job_free(&job);
  aclnn_client_close(stage.client);
  aclnn_client_close(patient);
  test_server_stop(&server);
}

static void threads_that_do_everything_get_their_results(void **state) {
  (void)state;
  run_stage(0, false);
}

static void threads_that_are_cancelled_all_come_back(void **state) {
  (void)state;
  run_stage(0, true);
}

// Whether a call is in time is chance: either way it ends.
static void threads_that_are_short_of_time_all_come_back(void **state) {
  (void)state;
  run_stage(1, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_that_do_everything_get_their_results),
      cmocka_unit_test(threads_that_are_cancelled_all_come_back),
      cmocka_unit_test(threads_that_are_short_of_time_all_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
