// What a client sees of jobs whose devices are lost.
#include "server/rpc/library.h"
#include "server/rpc/test_client.h"
#include "server/rpc/test_jobs.h"
#include "server/rpc/test_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
  struct test_server *server;
  struct test_client client;
};

static int set_up(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  rpc_library_start();
  fixture->server = test_server_start();
  test_client_open(&fixture->client, test_server_connect(fixture->server));
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  test_client_close(&fixture->client);
  test_server_stop(fixture->server, 0);
  rpc_library_stop();
  free(fixture);
  return 0;
}

// Opens a call and sends one whole job.
static void send_job(struct fixture *fixture, enum target target, struct test_stream *stream) {
  struct execute_begin begin = {.has_request = true};
  struct wire_buffer message = {0};
  test_job_request(1, &begin.request);
  begin.request.target = target;
  test_message_append_begin(&message, &begin);
  test_message_append_input(&message, 0, INPUT_BYTES);
  test_stream_open(stream, &fixture->client, "/aclnn.v1.OperatorService/Execute");
  assert_true(test_stream_send(stream, &message));
  test_stream_half_close(stream);
}

static void run_well(struct fixture *fixture, enum target target, struct workspace_size_response *plan,
                     struct execute_done *done) {
  struct test_stream stream;
  struct test_outcome outcome;
  struct wire_buffer reply = {0};
  send_job(fixture, target, &stream);
  assert_true(test_stream_receive(&stream, &reply));
  test_reply_check(&reply, plan, done);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

static void summary_tells_where_a_moved_job_ran(void **state) {
  struct fixture *fixture = *state;
  struct workspace_size_response plan;
  struct execute_done done;
  test_server_lose_device(fixture->server, 1);
  run_well(fixture, TARGET_AUTO, &plan, &done);
  assert_int_equal(plan.target, TARGET_NPU); // what phase 1 chose
  assert_int_equal(plan.numerics, NUMERICS_DEVICE);
  assert_int_equal(done.target, TARGET_CPU);
  assert_int_equal(done.numerics, NUMERICS_EXACT);
  assert_int_equal(done.attempts, 2);
}

static void summary_tells_how_often_a_device_was_lost(void **state) {
  struct fixture *fixture = *state;
  struct workspace_size_response plan;
  struct execute_done done;
  for (int lost = 0; lost < 3; lost++) {
    test_server_lose_device(fixture->server, lost);
    run_well(fixture, TARGET_NPU, &plan, &done);
    assert_int_equal(plan.target, TARGET_NPU);
    assert_int_equal(done.target, TARGET_NPU);
    assert_int_equal(done.numerics, NUMERICS_DEVICE);
    assert_int_equal(done.attempts, lost + 1);
  }
}

static void job_that_loses_every_device_is_unavailable(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct test_outcome outcome;
  test_server_lose_device(fixture->server, 3);
  send_job(fixture, TARGET_NPU, &stream);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(outcome.failed.reason, REASON_DEVICE_LOST);
  assert_int_equal(outcome.failed.retry_after_ms, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(summary_tells_where_a_moved_job_ran, set_up, tear_down),
      cmocka_unit_test_setup_teardown(summary_tells_how_often_a_device_was_lost, set_up, tear_down),
      cmocka_unit_test_setup_teardown(job_that_loses_every_device_is_unavailable, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
