// Many small jobs on one stream: the client holds some back to send them together, the server joins their
// replies. Nobody may notice anything but the speed.

#include "tests/end_to_end/client_jobs.h"
#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 60 };

struct stage {
  struct test_server server;
  char socket_address[64];
  aclnn_client *client;
  struct identity_job jobs[JOBS];
  aclnn_plan *plans[JOBS];
  aclnn_stream *stream;
};

static int start(void **state) {
  struct stage *stage = calloc(1, sizeof *stage);
  assert_non_null(stage);
  (void)snprintf(stage->socket_address, sizeof stage->socket_address, "unix:/tmp/c_client_small_%d.sock",
                 getpid());
  test_server_start(&stage->server, stage->socket_address, NULL, NULL);
  stage->client = open_client(stage->server.address, 3);
  *state = stage;
  return 0;
}

static int stop(void **state) {
  struct stage *stage = *state;
  aclnn_client_close(stage->client);
  test_server_stop(&stage->server);
  free(stage);
  return 0;
}

// Plans small jobs, but the one of number `large`, and opens a stream.
static void prepare(struct stage *stage, int large, bool repeatable) {
  aclnn_error error;
  for (int i = 0; i < JOBS; i++) {
    identity_job_init(&stage->jobs[i], i == large ? 900 : 3, i == large ? 900 : 4, i);
    must(aclnn_get_workspace_size(stage->client, &stage->jobs[i].arguments, repeatable, 0, &stage->plans[i],
                                  &error),
         &error);
  }
  must(aclnn_stream_open(stage->client, &stage->stream, &error), &error);
}

static void submit(struct stage *stage, int begin, int end) {
  aclnn_error error;
  for (int i = begin; i < end; i++) {
    must(aclnn_stream_submit(stage->stream, stage->plans[i], stage->jobs[i].tensors, 4, &error), &error);
  }
}

static void wait_for(struct stage *stage, int begin, int end) {
  aclnn_error error;
  for (int i = begin; i < end; i++) {
    must(aclnn_stream_wait(stage->stream, NULL, &error), &error);
    identity_job_check(&stage->jobs[i]);
  }
}

static void clear(struct stage *stage) {
  aclnn_error error;
  aclnn_stream_close(stage->stream);
  for (int i = 0; i < JOBS; i++) {
    must(aclnn_destroy(NULL, stage->plans[i], &error), &error);
    identity_job_free(&stage->jobs[i]);
  }
}

static void all_that_were_sent_ahead_have_their_results(void **state) {
  struct stage *stage = *state;
  for (int large = -1; large < JOBS; large += 20) { // none, then one in the middle of the small
    prepare(stage, large, true);
    submit(stage, 0, JOBS);
    wait_for(stage, 0, JOBS);
    clear(stage);
  }
}

static void results_come_whenever_they_are_waited_for(void **state) {
  struct stage *stage = *state;
  unsigned seed = 5;
  for (int round = 0; round < 20; round++) {
    prepare(stage, round == 7 ? 31 : -1, round % 2 == 0);
    for (int sent = 0, done = 0; done < JOBS;) {
      // Runs of both, long enough for jobs to be held back, and short enough for none.
      int run = 1 + rand_r(&seed) % (round + 4);
      bool sends = sent == done || (sent < JOBS && rand_r(&seed) % 2 == 0);
      int *from = sends ? &sent : &done;
      int limit = sends ? JOBS : sent;
      int to = *from + run < limit ? *from + run : limit;
      (sends ? submit : wait_for)(stage, *from, to);
      *from = to;
    }
    clear(stage);
  }
}

static void replacing_the_server_loses_no_job(void **state) {
  enum { SENT_AHEAD = 40 };
  struct stage *stage = *state;
  for (int repeatable = 0; repeatable < 2; repeatable++) {
    const int waits[] = {0, 25, SENT_AHEAD};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
      prepare(stage, -1, repeatable != 0);
      test_server_freeze(&stage->server); // so that it can't have read all
      submit(stage, 0, SENT_AHEAD);
      test_server_thaw(&stage->server);
      wait_for(stage, 0, waits[i]);
      test_server_kill(&stage->server);
      test_server_start(&stage->server, stage->socket_address, NULL, NULL);
      submit(stage, SENT_AHEAD, JOBS);
      wait_for(stage, waits[i], JOBS);
      clear(stage);
    }
  }
}

static void results_before_a_failed_job_come_and_none_after_it(void **state) {
  struct stage *stage = *state;
  for (int failing = 0; failing < 40; failing += 13) {
    aclnn_error error;
    prepare(stage, -1, true);
    stage->jobs[failing].indices[2] = 1000000;
    int sent = 0;
    while (sent < JOBS && aclnn_stream_submit(stage->stream, stage->plans[sent], stage->jobs[sent].tensors, 4,
                                              &error) == ACLNN_OK) {
      sent++;
    }
    assert_true(sent > failing);
    wait_for(stage, 0, failing);
    assert_int_equal(aclnn_stream_wait(stage->stream, NULL, &error), ACLNN_FAILED);
    assert_string_equal(error.parameter, "indices");
    assert_int_equal(aclnn_stream_wait(stage->stream, NULL, &error), ACLNN_FAILED);
    clear(stage);
  }
}

static void jobs_held_back_may_be_left(void **state) {
  struct stage *stage = *state;
  for (int waited = 0; waited < 30; waited += 5) {
    prepare(stage, -1, true);
    submit(stage, 0, 30);
    wait_for(stage, 0, waited);
    clear(stage);
  }
}

static void cancel_ends_jobs_held_back_too(void **state) {
  struct stage *stage = *state;
  aclnn_error error;
  prepare(stage, -1, true);
  test_server_freeze(&stage->server);
  submit(stage, 0, 30);
  aclnn_cancel(stage->client);
  assert_int_equal(aclnn_stream_wait(stage->stream, NULL, &error), ACLNN_FAILED);
  assert_string_equal(aclnn_code_name(error.code), "CANCELLED");
  test_server_thaw(&stage->server);
  clear(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_that_were_sent_ahead_have_their_results),
      cmocka_unit_test(results_come_whenever_they_are_waited_for),
      cmocka_unit_test(replacing_the_server_loses_no_job),
      cmocka_unit_test(results_before_a_failed_job_come_and_none_after_it),
      cmocka_unit_test(jobs_held_back_may_be_left),
      cmocka_unit_test(cancel_ends_jobs_held_back_too),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
