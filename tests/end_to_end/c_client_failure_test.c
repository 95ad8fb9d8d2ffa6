// The C library against a real server: what fails, and how.

#include "tests/end_to_end/client_jobs.h"
#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_server server;
static char socket_address[128];

static int start(void **state) {
  (void)state;
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(socket_address, sizeof socket_address, "unix:%s/c_client_%d.sock",
           folder == NULL ? "/tmp" : folder, (int)getpid());
  // A socket's path has to be short.
  if (strlen(socket_address) > 100) {
    snprintf(socket_address, sizeof socket_address, "unix:/tmp/c_client_%d.sock", (int)getpid());
  }
  test_server_start(&server, socket_address, NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  test_server_stop(&server);
  return 0;
}

// ---- What the server refuses

static void check_call_fails(aclnn_client *client, const aclnn_call_arguments *arguments, const char *code,
                             const char *reason, int aclnn_status, const char *parameter) {
  aclnn_error error;
  assert_int_equal(aclnn_call(client, arguments, NULL, &error), ACLNN_FAILED);
  assert_string_equal(aclnn_code_name(error.code), code);
  assert_string_equal(error.reason, reason);
  assert_int_equal(error.aclnn_status, aclnn_status);
  assert_string_equal(error.parameter, parameter);
  assert_true(error.message[0] != '\0');
}

static void refusals_carry_all_that_the_server_says(void **state) {
  (void)state;
  aclnn_client *client = open_client(server.address, -1);
  struct identity_job job;
  // Small enough to go with the begin, and too large for that.
  for (int64_t rows = 10; rows <= 10000; rows *= 1000) {
    identity_job_init(&job, rows, 50, 1);
    job.arguments.operator_name = "aclnnNothing";
    check_call_fails(client, &job.arguments, "NOT_FOUND", "OPERATOR_UNKNOWN", 0, "");
    job.arguments.operator_name = "aclnnAdaptiveMaxPool2dBackward";

    job.arguments.tensor_count = 3;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_NULLPTR", 161001,
                     "gradInput");
    job.arguments.tensor_count = 4;

    job.tensors[INDICES].data_type = ACLNN_FLOAT;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", 161002,
                     "indices");
    job.tensors[INDICES].data_type = ACLNN_INT32;

    job.indices[7] = (int32_t)job.elements;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", 161002,
                     "indices");
    job.indices[7] = 7;

    aclnn_error error;
    must(aclnn_call(client, &job.arguments, NULL, &error), &error);
    identity_job_check(&job);
    identity_job_free(&job);
  }
  assert_int_equal(aclnn_call(client, &(aclnn_call_arguments){"aclnnNothing", NULL, 0, NULL, 0}, NULL, NULL),
                   ACLNN_FAILED); // nobody has to ask why
  aclnn_client_close(client);
}

static void unfit_buffers_are_refused_on_this_side(void **state) {
  (void)state;
  aclnn_client *client = open_client(server.address, -1);
  for (int64_t rows = 10; rows <= 10000; rows *= 1000) {
    struct identity_job job;
    identity_job_init(&job, rows, 50, 1);
    job.tensors[GRAD_INPUT].data_bytes--;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", 161002,
                     "gradInput");
    job.tensors[GRAD_INPUT].data_bytes++;
    job.tensors[GRAD_OUTPUT].data_bytes--;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", 161002,
                     "gradOutput");
    job.tensors[GRAD_OUTPUT].data_bytes++;
    job.tensors[INDICES].data = NULL;
    check_call_fails(client, &job.arguments, "INVALID_ARGUMENT", "ACLNN_ERR_PARAM_NULLPTR", 161001,
                     "indices");
    identity_job_free(&job);
  }
  aclnn_client_close(client);
}

static void failed_job_ends_its_stream(void **state) {
  (void)state;
  aclnn_client *client = open_client(server.address, -1);
  struct identity_job jobs[3];
  aclnn_plan *plan;
  aclnn_stream *stream;
  aclnn_error error;
  for (int i = 0; i < 3; i++) {
    identity_job_init(&jobs[i], 20, 30, i);
  }
  jobs[1].indices[100] = -1;
  must(aclnn_get_workspace_size(client, &jobs[0].arguments, true, 0, &plan, &error), &error);
  must(aclnn_stream_open(client, &stream, &error), &error);
  for (int i = 0; i < 3; i++) {
    // The third may or may not be sent before the second one's failure is known.
    if (aclnn_stream_submit(stream, plan, jobs[i].tensors, 4, &error) != ACLNN_OK) {
      assert_int_equal(i, 2);
    }
  }
  must(aclnn_stream_wait(stream, NULL, &error), &error);
  identity_job_check(&jobs[0]);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(aclnn_stream_wait(stream, NULL, &error), ACLNN_FAILED);
    assert_string_equal(error.reason, "ACLNN_ERR_PARAM_INVALID");
    assert_string_equal(error.parameter, "indices");
  }
  assert_int_equal(aclnn_stream_submit(stream, plan, jobs[0].tensors, 4, &error), ACLNN_FAILED);
  assert_string_equal(error.reason, "ACLNN_ERR_PARAM_INVALID");
  aclnn_stream_close(stream);
  must(aclnn_destroy(client, plan, &error), &error);
  for (int i = 0; i < 3; i++) {
    identity_job_free(&jobs[i]);
  }
  aclnn_client_close(client);
}

static void wrong_options_open_no_client(void **state) {
  (void)state;
  const aclnn_client_options wrong[] = {
      {.target_address = NULL},
      {.target_address = ""},
      {.target_address = "x:1", .max_chunk_bytes = 4095},
      {.target_address = "x:1", .max_chunk_bytes = 4 << 20},
      {.target_address = "x:1", .timeout_ms = -1},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    aclnn_client *client = NULL;
    aclnn_error error;
    assert_int_equal(aclnn_client_open(&wrong[i], &client, &error), ACLNN_FAILED);
    assert_string_equal(aclnn_code_name(error.code), "INVALID_ARGUMENT");
    assert_null(client);
  }
}

// ---- Cancel, time and lost servers

// So small that what is under way fits into the socket's buffer also when the server stands still, and no
// call has to wait for ACLNN_STUCK_MS.
#define CHUNK_BYTES 32768

// What a test does once so many bytes were sent.
struct interruption {
  int64_t after_bytes;
  void (*act)(void);
  sem_t *announced;
  bool done;
};

static void interrupt(void *context, int64_t sent, int64_t sent_total, int64_t received,
                      int64_t received_total) {
  (void)sent_total;
  (void)received;
  (void)received_total;
  struct interruption *interruption = context;
  if (interruption->done || sent < interruption->after_bytes) {
    return;
  }
  interruption->done = true;
  if (interruption->act != NULL) {
    interruption->act();
  }
  if (interruption->announced != NULL) {
    sem_post(interruption->announced);
  }
}

static void freeze_server(void) {
  test_server_freeze(&server);
}

static void kill_server(void) {
  test_server_kill(&server);
}

static void replace_server(void) {
  test_server_kill(&server);
  test_server_start(&server, socket_address, NULL, NULL);
}

static aclnn_client *open_interrupted_client(struct interruption *interruption, int64_t timeout_ms,
                                             int retries) {
  const aclnn_client_options options = {.target_address = server.address,
                                        .timeout_ms = timeout_ms,
                                        .max_chunk_bytes = CHUNK_BYTES,
                                        .retries = retries,
                                        .progress = interrupt,
                                        .progress_context = interruption};
  aclnn_client *client = NULL;
  aclnn_error error;
  must(aclnn_client_open(&options, &client, &error), &error);
  return client;
}

struct canceller {
  aclnn_client *client;
  sem_t *announced;
};

static void *cancel_when_announced(void *context) {
  struct canceller *canceller = context;
  sem_wait(canceller->announced);
  aclnn_cancel(canceller->client);
  return NULL;
}

static void cancel_from_another_thread_ends_the_call(void **state) {
  (void)state;
  // The server stands still, so that nothing else can end the call; at the start and in the middle of an
  // upload.
  const int64_t moments[] = {1, 9 << 20};
  for (size_t i = 0; i < 2; i++) {
    sem_t announced;
    sem_init(&announced, 0, 0);
    struct interruption interruption = {moments[i], freeze_server, &announced, false};
    aclnn_client *client = open_interrupted_client(&interruption, 0, 5);
    struct canceller canceller = {client, &announced};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_announced, &canceller), 0);
    struct identity_job job;
    identity_job_init(&job, 2000, 2000, 1);
    aclnn_error error;
    assert_int_equal(aclnn_call(client, &job.arguments, NULL, &error), ACLNN_FAILED);
    assert_string_equal(aclnn_code_name(error.code), "CANCELLED");
    assert_string_equal(error.reason, "");
    pthread_join(thread, NULL);
    test_server_thaw(&server);

    must(aclnn_call(client, &job.arguments, NULL, &error), &error); // the client goes on
    identity_job_check(&job);
    identity_job_free(&job);
    aclnn_client_close(client);
    sem_destroy(&announced);
  }
}

static void timeout_ends_the_call(void **state) {
  (void)state;
  struct interruption interruption = {9 << 20, freeze_server, NULL, false};
  aclnn_client *client = open_interrupted_client(&interruption, 300, 5);
  struct identity_job job;
  identity_job_init(&job, 2000, 2000, 1);
  aclnn_error error;
  assert_int_equal(aclnn_call(client, &job.arguments, NULL, &error), ACLNN_FAILED);
  test_server_thaw(&server);
  assert_string_equal(aclnn_code_name(error.code), "DEADLINE_EXCEEDED");
  assert_string_equal(error.message, "the call did not end within its timeout of 300 ms");
  identity_job_free(&job);
  aclnn_client_close(client);
}

static void stuck_write_does_not_hold_the_call(void **state) {
  (void)state;
  // Chunks larger than the socket's buffer: where the server stops in the middle of one, the rest can't be
  // written.
  const int64_t moments[] = {7 << 20, 9 << 20, 12 << 20};
  for (size_t i = 0; i < 3; i++) {
    struct interruption interruption = {moments[i], freeze_server, NULL, false};
    const aclnn_client_options options = {.target_address = server.address,
                                          .timeout_ms = 1000,
                                          .retries = 5,
                                          .progress = interrupt,
                                          .progress_context = &interruption};
    aclnn_client *client = NULL;
    struct identity_job job;
    aclnn_error error;
    must(aclnn_client_open(&options, &client, &error), &error);
    identity_job_init(&job, 2000, 2000, 1);
    assert_int_equal(aclnn_call(client, &job.arguments, NULL, &error), ACLNN_FAILED);
    assert_string_equal(aclnn_code_name(error.code), "DEADLINE_EXCEEDED");
    test_server_thaw(&server);
    identity_job_free(&job);
    aclnn_client_close(client);
  }
}

// Three jobs on one stream, whose server is replaced by another one, which knows none of the executors, when
// the bytes so far have passed.
static void replace_under_stream(bool repeatable, int64_t when) {
  struct interruption interruption = {when, replace_server, NULL, false};
  aclnn_client *client = open_interrupted_client(&interruption, 0, 3);
  struct identity_job jobs[3];
  aclnn_plan *plans[3];
  aclnn_stream *stream;
  aclnn_error error;
  for (int i = 0; i < 3; i++) {
    identity_job_init(&jobs[i], i == 0 ? 20 : 1200, 1000, i);
    must(aclnn_get_workspace_size(client, &jobs[i].arguments, repeatable, 0, &plans[i], &error), &error);
  }
  must(aclnn_stream_open(client, &stream, &error), &error);
  for (int i = 0; i < 3; i++) {
    must(aclnn_stream_submit(stream, plans[i], jobs[i].tensors, 4, &error), &error);
  }
  for (int i = 0; i < 3; i++) {
    must(aclnn_stream_wait(stream, NULL, &error), &error);
    identity_job_check(&jobs[i]);
  }
  assert_true(interruption.done);
  aclnn_stream_close(stream);
  for (int i = 0; i < 3; i++) {
    must(aclnn_destroy(NULL, plans[i], &error), &error); // the first one's executor went with its server
    identity_job_free(&jobs[i]);
  }
  aclnn_client_close(client);
}

static void jobs_of_a_stream_without_a_result_are_sent_again(void **state) {
  (void)state;
  const int64_t moments[] = {1, 3 << 20, 6 << 20};
  for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
    replace_under_stream(true, moments[i]);
    replace_under_stream(false, moments[i]);
  }
}

static void a_stream_gives_up_after_so_many_tries(void **state) {
  (void)state;
  struct interruption interruption = {1, kill_server, NULL, false};
  aclnn_client *client = open_interrupted_client(&interruption, 0, 1);
  struct identity_job job;
  aclnn_plan *plan;
  aclnn_stream *stream;
  aclnn_error error;
  identity_job_init(&job, 600, 1000, 1);
  must(aclnn_get_workspace_size(client, &job.arguments, true, 0, &plan, &error), &error);
  must(aclnn_stream_open(client, &stream, &error), &error);
  bool sent = aclnn_stream_submit(stream, plan, job.tensors, 4, &error) == ACLNN_OK;
  assert_true(!sent || aclnn_stream_wait(stream, NULL, &error) == ACLNN_FAILED);
  assert_string_equal(aclnn_code_name(error.code), "UNAVAILABLE");
  assert_int_equal(aclnn_stream_wait(stream, NULL, &error), ACLNN_FAILED); // and it stays so
  assert_string_equal(aclnn_code_name(error.code), "UNAVAILABLE");
  aclnn_stream_close(stream);
  must(aclnn_destroy(NULL, plan, &error), &error);
  identity_job_free(&job);
  aclnn_client_close(client);
  test_server_start(&server, socket_address, NULL, NULL);
}

static void timeout_of_a_stream_is_that_of_each_wait(void **state) {
  (void)state;
  aclnn_client *patient = open_client(server.address, -1);
  const aclnn_client_options options = {.target_address = server.address, .timeout_ms = 300, .retries = -1};
  aclnn_client *client = NULL;
  struct identity_job job;
  aclnn_plan *plan;
  aclnn_stream *stream;
  aclnn_error error;
  identity_job_init(&job, 20, 30, 1);
  must(aclnn_get_workspace_size(patient, &job.arguments, true, 0, &plan, &error), &error);
  must(aclnn_client_open(&options, &client, &error), &error);
  test_server_freeze(&server);
  must(aclnn_stream_open(client, &stream, &error), &error);
  must(aclnn_stream_submit(stream, plan, job.tensors, 4, &error), &error);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(aclnn_stream_wait(stream, NULL, &error), ACLNN_FAILED);
    assert_string_equal(aclnn_code_name(error.code), "DEADLINE_EXCEEDED");
  }
  aclnn_stream_close(stream);
  test_server_thaw(&server);
  must(aclnn_destroy(patient, plan, &error), &error);
  identity_job_free(&job);
  aclnn_client_close(client);
  aclnn_client_close(patient);
}

static void lost_server_fails_the_call(void **state) {
  (void)state;
  struct interruption interruption = {9 << 20, kill_server, NULL, false};
  aclnn_client *client = open_interrupted_client(&interruption, 0, -1);
  struct identity_job job;
  identity_job_init(&job, 2000, 2000, 1);
  aclnn_error error;
  assert_int_equal(aclnn_call(client, &job.arguments, NULL, &error), ACLNN_FAILED);
  assert_string_equal(aclnn_code_name(error.code), "UNAVAILABLE");
  assert_string_equal(error.reason, "");
  assert_true(interruption.done);
  assert_int_equal(aclnn_call(client, &job.arguments, NULL, &error), ACLNN_FAILED); // nobody there
  assert_string_equal(aclnn_code_name(error.code), "UNAVAILABLE");
  aclnn_client_close(client);

  test_server_start(&server, socket_address, NULL, NULL);
  client = open_client(server.address, -1);
  must(aclnn_call(client, &job.arguments, NULL, &error), &error);
  identity_job_check(&job);
  identity_job_free(&job);
  aclnn_client_close(client);
}

static void call_survives_a_new_server_in_its_middle(void **state) {
  (void)state;
  for (int two_phases = 0; two_phases < 2; two_phases++) {
    struct interruption interruption = {9 << 20, replace_server, NULL, false};
    aclnn_client *client = open_interrupted_client(&interruption, 0, 5);
    struct identity_job job;
    identity_job_init(&job, 2000, 2000, 1);
    aclnn_error error;
    if (two_phases) {
      aclnn_plan *plan; // a one-shot of the old server's
      must(aclnn_get_workspace_size(client, &job.arguments, false, 0, &plan, &error), &error);
      must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error);
      must(aclnn_destroy(client, plan, &error), &error);
    } else {
      must(aclnn_call(client, &job.arguments, NULL, &error), &error);
    }
    assert_true(interruption.done);
    identity_job_check(&job);
    identity_job_free(&job);
    aclnn_client_close(client);
  }
}

static void plan_of_a_former_server_is_made_anew(void **state) {
  (void)state;
  aclnn_client *client = open_client(server.address, 5);
  struct identity_job job;
  identity_job_init(&job, 20, 30, 1);
  aclnn_plan *plan;
  aclnn_error error;
  must(aclnn_get_workspace_size(client, &job.arguments, true, 0, &plan, &error), &error);
  replace_server();
  for (int i = 0; i < 2; i++) {
    must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error);
    identity_job_check(&job);
  }
  must(aclnn_destroy(client, plan, &error), &error);
  identity_job_free(&job);
  aclnn_client_close(client);
}

static void executions_survive_a_new_server_before_they_are_waited_for(void **state) {
  (void)state;
  for (int repeatable = 0; repeatable < 2; repeatable++) {
    aclnn_client *client = open_client(server.address, 5);
    struct identity_job jobs[6];
    aclnn_plan *plans[6];
    aclnn_execution *executions[6];
    aclnn_error error;
    for (int i = 0; i < 6; i++) {
      identity_job_init(&jobs[i], 20, 30, i);
      must(aclnn_get_workspace_size(client, &jobs[i].arguments, repeatable, 0, &plans[i], &error), &error);
    }
    for (int i = 0; i < 3; i++) {
      must(aclnn_execution_begin(client, plans[i], jobs[i].tensors, 4, &executions[i], &error), &error);
    }
    replace_server();
    for (int i = 3; i < 6; i++) {
      must(aclnn_execution_begin(client, plans[i], jobs[i].tensors, 4, &executions[i], &error), &error);
    }
    for (int i = 0; i < 6; i++) {
      must(aclnn_execution_wait(executions[i], NULL, &error), &error);
      identity_job_check(&jobs[i]);
      must(aclnn_destroy(client, plans[i], &error), &error);
      identity_job_free(&jobs[i]);
    }
    aclnn_client_close(client);
  }
}

struct busy_caller {
  const char *address;
  aclnn_error error;
  bool ok;
};

static void *call_busy_server(void *context) {
  struct busy_caller *caller = context;
  aclnn_client *client = open_client(caller->address, 1000);
  struct identity_job job;
  identity_job_init(&job, 700, 1000, 1);
  caller->ok = aclnn_call(client, &job.arguments, NULL, &caller->error) == ACLNN_OK &&
               memcmp(job.grad_input, job.grad_output, (size_t)job.elements * 4) == 0;
  identity_job_free(&job);
  aclnn_client_close(client);
  return NULL;
}

static void busy_server_is_tried_again(void **state) {
  (void)state;
  // Room for one job at a time, and no queue.
  enum { CALLERS = 6 };
  struct test_server small = {0};
  struct busy_caller callers[CALLERS];
  pthread_t threads[CALLERS];
  test_server_start(&small, "127.0.0.1:0", "--memory-limit=16MiB", "--max-queue=0");
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (struct busy_caller){.address = small.address};
    assert_int_equal(pthread_create(&threads[i], NULL, call_busy_server, &callers[i]), 0);
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < CALLERS; i++) {
    must(callers[i].ok ? ACLNN_OK : ACLNN_FAILED, &callers[i].error);
  }
  test_server_stop(&small);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals_carry_all_that_the_server_says),
      cmocka_unit_test(unfit_buffers_are_refused_on_this_side),
      cmocka_unit_test(failed_job_ends_its_stream),
      cmocka_unit_test(wrong_options_open_no_client),
      cmocka_unit_test(cancel_from_another_thread_ends_the_call),
      cmocka_unit_test(timeout_ends_the_call),
      cmocka_unit_test(stuck_write_does_not_hold_the_call),
      cmocka_unit_test(jobs_of_a_stream_without_a_result_are_sent_again),
      cmocka_unit_test(a_stream_gives_up_after_so_many_tries),
      cmocka_unit_test(timeout_of_a_stream_is_that_of_each_wait),
      cmocka_unit_test(lost_server_fails_the_call),
      cmocka_unit_test(call_survives_a_new_server_in_its_middle),
      cmocka_unit_test(plan_of_a_former_server_is_made_anew),
      cmocka_unit_test(executions_survive_a_new_server_before_they_are_waited_for),
      cmocka_unit_test(busy_server_is_tried_again),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
