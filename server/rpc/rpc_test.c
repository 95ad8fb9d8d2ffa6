// The server and a client in one process: the ways of a call, and that everything is given back on each of
// them.
#include "kernels/operator.h"
#include "server/rpc/library.h"
#include "server/rpc/test_client.h"
#include "server/rpc/test_jobs.h"
#include "server/rpc/test_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
  struct test_server *server;
  struct test_client client;
  size_t executors_left; // that the test leaves behind on purpose
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
  test_server_stop(fixture->server, fixture->executors_left);
  rpc_library_stop();
  free(fixture);
  return 0;
}

// ---- Help

static void open_execute(struct fixture *fixture, struct test_stream *stream) {
  test_stream_open(stream, &fixture->client, "/aclnn.v1.OperatorService/Execute");
}

static void expect_failure(struct test_stream *stream, grpc_status_code code, enum reason reason) {
  struct test_outcome outcome;
  test_stream_finish(stream, &outcome);
  assert_int_equal(outcome.code, code);
  assert_int_equal(outcome.failed.reason, reason);
}

static void expect_job_number(const struct status *failed, const char *number) {
  for (size_t i = 0; i < failed->metadata_count; ++i) {
    if (strcmp(failed->metadata[i].key, "job") == 0) {
      assert_string_equal(failed->metadata[i].value, number);
      return;
    }
  }
  fail_msg("the details name no job");
}

static grpc_status_code call_health(struct fixture *fixture, enum health_status *health) {
  struct wire_buffer request = {0}, response = {0};
  struct test_outcome outcome;
  struct status status;
  assert_true(wire_write_health_request("", &request, &status));
  test_client_call(&fixture->client, "/grpc.health.v1.Health/Check", &request, &response, &outcome);
  *health = HEALTH_UNKNOWN;
  if (outcome.code == GRPC_STATUS_OK) {
    assert_true(wire_read_health_response(response.data, response.size, health, &status));
  }
  wire_buffer_free(&response);
  return outcome.code;
}

// Lets the server's one queue finish what it was about when the client saw a message, turns the clock, and
// has the queue look at it.
static void let_time_pass(struct fixture *fixture, int64_t by_ns) {
  enum health_status health;
  assert_int_equal(call_health(fixture, &health), GRPC_STATUS_OK);
  test_server_turn_clock(fixture->server, by_ns);
  assert_int_equal(call_health(fixture, &health), GRPC_STATUS_OK);
}

static void plan_pooling(struct fixture *fixture, struct workspace_size_response *plan) {
  struct operator_request request;
  struct wire_buffer message = {0}, response = {0};
  struct test_outcome outcome;
  struct status status;
  test_job_request(1, &request);
  assert_true(wire_write_operator_request(&request, &message, &status));
  test_client_call(&fixture->client, "/aclnn.v1.OperatorService/GetWorkspaceSize", &message, &response,
                   &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
  assert_true(wire_read_workspace_size_response(response.data, response.size, plan, &status));
  wire_buffer_free(&response);
}

static size_t executors(struct fixture *fixture) {
  struct session_state state;
  session_table_get_state(test_server_context(fixture->server)->sessions, &state);
  return state.executors;
}

// ---- Unary calls

static void phase_one_keeps_an_executor_until_it_is_destroyed(void **state) {
  struct fixture *fixture = *state;
  struct workspace_size_response plan;
  plan_pooling(fixture, &plan);
  assert_int_equal(plan.tensor_count, 3);
  assert_int_equal(plan.tensors[0].storage_bytes, INPUT_BYTES);
  assert_int_equal(plan.tensors[1].storage_bytes, OUTPUT_BYTES);
  assert_int_equal(executors(fixture), 1);
  struct wire_buffer request = {0}, response = {0};
  struct test_outcome outcome;
  struct status status;
  struct wire_handle handle = {.data = plan.executor.data, .size = plan.executor.size};
  assert_true(wire_write_destroy_request(handle, &request, &status));
  test_client_call(&fixture->client, "/aclnn.v1.OperatorService/DestroyExecutor", &request, &response,
                   &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
  assert_int_equal(executors(fixture), 0);
  wire_buffer_free(&response);
  workspace_size_response_free(&plan);
}

static void unknown_method_is_unimplemented_without_details(void **state) {
  struct fixture *fixture = *state;
  struct wire_buffer request = {0}, response = {0};
  struct test_outcome outcome;
  test_client_call(&fixture->client, "/aclnn.v1.OperatorService/Nothing", &request, &response, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNIMPLEMENTED);
  assert_int_equal(outcome.failed.reason, REASON_NONE);
}

static void unary_call_without_a_message_is_refused(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetWorkspaceSize");
  test_stream_half_close(&stream);
  expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_MESSAGE_INVALID);
}

// ---- Jobs

static void job_in_one_message_is_answered_in_one(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), reply;
  struct test_outcome outcome;
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  test_reply_check(&reply, NULL, NULL);
  test_stream_half_close(&stream);
  assert_false(test_stream_receive(&stream, &reply));
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

static void jobs_sent_ahead_are_answered_in_order(void **state) {
  enum { JOBS = 5 };
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer reply;
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server);
  open_execute(fixture, &stream);
  for (int i = 0; i < JOBS; ++i) {
    struct wire_buffer message = test_message_whole_job();
    assert_true(test_stream_send(&stream, &message));
  }
  test_stream_half_close(&stream);
  // Jobs of one stream run one after the other.
  test_server_await_held(fixture->server, 1);
  test_server_release_jobs(fixture->server);
  for (int i = 0; i < JOBS; ++i) {
    assert_true(test_stream_receive(&stream, &reply));
    test_reply_check(&reply, NULL, NULL);
  }
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

static void executor_is_used_once(void **state) {
  struct fixture *fixture = *state;
  struct workspace_size_response plan;
  struct test_stream stream;
  struct wire_buffer reply;
  plan_pooling(fixture, &plan);
  struct execute_begin begin = {.executor = plan.executor, .workspace_size = plan.workspace_size};
  open_execute(fixture, &stream);
  for (int i = 0; i < 2; ++i) {
    struct wire_buffer message = {0};
    test_message_append_begin(&message, &begin);
    test_message_append_input(&message, 0, INPUT_BYTES);
    assert_true(test_stream_send(&stream, &message));
    if (i == 0) {
      assert_true(test_stream_receive(&stream, &reply));
      test_reply_check(&reply, NULL, NULL);
      assert_int_equal(executors(fixture), 0);
    }
  }
  struct test_outcome outcome;
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_FAILED_PRECONDITION);
  assert_int_equal(outcome.failed.reason, REASON_EXECUTOR_CONSUMED);
  expect_job_number(&outcome.failed, "1");
  workspace_size_response_free(&plan);
}

static void refused_begin_gives_the_executor_back(void **state) {
  struct fixture *fixture = *state;
  struct workspace_size_response plan;
  struct test_stream stream;
  struct wire_buffer message = {0};
  plan_pooling(fixture, &plan);
  struct execute_begin begin = {.executor = plan.executor, .max_chunk_bytes = 1};
  test_message_append_begin(&message, &begin);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_ACLNN_ERR_PARAM_INVALID);
  assert_int_equal(executors(fixture), 1);
  fixture->executors_left = 1;
  workspace_size_response_free(&plan);
}

static void half_close_within_a_job_is_refused(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply)); // accepted
  wire_buffer_free(&reply);
  test_stream_half_close(&stream);
  expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_TENSOR_DATA_INVALID);
}

static void message_above_the_limit_is_refused_by_grpc(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct test_outcome outcome;
  struct wire_buffer message = {.size = WIRE_MESSAGE_BYTES_MAX + 1};
  message.data = calloc(1, message.size);
  assert_non_null(message.data);
  open_execute(fixture, &stream);
  (void)test_stream_send(&stream, &message);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(outcome.failed.reason, REASON_NONE);
}

// ---- Clients that leave

static void cancel_and_check(struct fixture *fixture, struct test_stream *stream) {
  struct test_outcome outcome;
  test_stream_cancel(stream);
  test_stream_finish(stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_CANCELLED);
  test_server_await_calls(fixture->server, 0);
}

static void cancelled_before_its_begin(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  open_execute(fixture, &stream);
  test_server_await_calls(fixture->server, 1);
  cancel_and_check(fixture, &stream);
}

static void cancelled_while_it_waits_for_memory(void **state) {
  struct fixture *fixture = *state;
  struct budget *budget = dispatcher_budget(test_server_context(fixture->server)->dispatcher);
  struct budget_request everything = {.bytes = TEST_SERVER_MEMORY_BYTES};
  assert_int_equal(budget_reserve(budget, &everything, 0), BUDGET_GRANTED);
  struct workspace_size_response plan;
  struct test_stream stream;
  struct wire_buffer message = {0};
  plan_pooling(fixture, &plan);
  struct execute_begin begin = {.executor = plan.executor, .workspace_size = plan.workspace_size};
  test_message_append_begin(&message, &begin);
  test_message_append_input(&message, 0, INPUT_BYTES);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_server_await_queued(fixture->server, 1);
  cancel_and_check(fixture, &stream);
  test_server_await_queued(fixture->server, 0);
  assert_int_equal(executors(fixture), 1); // given back
  fixture->executors_left = 1;
  budget_release(budget, TEST_SERVER_MEMORY_BYTES);
  workspace_size_response_free(&plan);
}

static void cancelled_in_its_upload(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  cancel_and_check(fixture, &stream);
}

static void cancelled_while_it_runs(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), next = test_message_first_half();
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_send(&stream, &next)); // a job ahead is dropped, too
  test_server_await_held(fixture->server, 1);
  test_stream_cancel(&stream);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_CANCELLED);
  // The memory is the job's until the backend lets go of it.
  test_server_release_jobs(fixture->server);
  test_server_await_calls(fixture->server, 0);
}

static void cancelled_in_its_download(void **state) {
  enum { PLANES = 32768 };
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  test_message_begin(&message, PLANES);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  for (int64_t offset = 0; offset < (int64_t)PLANES * INPUT_BYTES; offset += 1 << 20) {
    static uint8_t zeros[1 << 20];
    uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
    struct tensor_chunk chunk = {.offset = offset, .data_bytes = sizeof zeros};
    test_message_append(&message, header, execute_chunk_write_header(&chunk, header));
    test_message_append(&message, zeros, sizeof zeros);
    assert_true(test_stream_send(&stream, &message));
  }
  assert_true(test_stream_receive(&stream, &reply)); // accepted
  wire_buffer_free(&reply);
  assert_true(test_stream_receive(&stream, &reply)); // the first chunk, and no more
  wire_buffer_free(&reply);
  cancel_and_check(fixture, &stream);
}

// ---- Time

static void upload_that_stalls_is_ended(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  let_time_pass(fixture, TEST_SERVER_IDLE_NS - 1);
  message = test_message_second_half();
  // In time: the job ends well, and a rest between jobs doesn't count.
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  let_time_pass(fixture, 10 * TEST_SERVER_IDLE_NS);
  message = test_message_first_half();
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  let_time_pass(fixture, TEST_SERVER_IDLE_NS);
  struct test_outcome outcome;
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_ABORTED);
  assert_int_equal(outcome.failed.reason, REASON_IDLE_TIMEOUT);
  expect_job_number(&outcome.failed, "1");
}

static void unary_call_whose_request_does_not_come_is_ended(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer request = {0}, reply;
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetServerInfo");
  let_time_pass(fixture, TEST_SERVER_IDLE_NS - 1);
  // In time.
  assert_true(test_stream_send(&stream, &request));
  test_stream_half_close(&stream);
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  expect_failure(&stream, GRPC_STATUS_OK, REASON_NONE);
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetServerInfo");
  let_time_pass(fixture, TEST_SERVER_IDLE_NS);
  expect_failure(&stream, GRPC_STATUS_ABORTED, REASON_IDLE_TIMEOUT);
}

static void run_does_not_count_as_idle(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), reply;
  test_server_hold_jobs(fixture->server);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_server_await_held(fixture->server, 1);
  let_time_pass(fixture, 10 * TEST_SERVER_IDLE_NS);
  test_server_release_jobs(fixture->server);
  assert_true(test_stream_receive(&stream, &reply));
  test_reply_check(&reply, NULL, NULL);
  test_stream_half_close(&stream);
  struct test_outcome outcome;
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

// ---- Drain

static void draining_refuses_new_jobs_and_says_so(void **state) {
  struct fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job();
  struct test_outcome outcome;
  enum health_status health;
  assert_int_equal(call_health(fixture, &health), GRPC_STATUS_OK);
  assert_int_equal(health, HEALTH_SERVING);
  atomic_store(&test_server_context(fixture->server)->draining, true);
  assert_int_equal(call_health(fixture, &health), GRPC_STATUS_OK);
  assert_int_equal(health, HEALTH_NOT_SERVING);
  open_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(outcome.failed.reason, REASON_DRAINING);
  assert_true(outcome.failed.retry_after_ms > 0);
}

static void stop_lets_a_job_end_and_ends_resting_calls(void **state) {
  struct fixture *fixture = *state;
  struct test_stream running, resting;
  struct wire_buffer message = test_message_whole_job(), reply;
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server);
  open_execute(fixture, &running);
  open_execute(fixture, &resting);
  assert_true(test_stream_send(&running, &message));
  test_server_await_held(fixture->server, 1);
  test_server_await_calls(fixture->server, 2);
  test_server_begin_to_stop(fixture->server);
  expect_failure(&resting, GRPC_STATUS_UNAVAILABLE, REASON_DRAINING);
  test_server_release_jobs(fixture->server);
  assert_true(test_stream_receive(&running, &reply));
  test_reply_check(&reply, NULL, NULL);
  test_stream_finish(&running, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(outcome.failed.reason, REASON_DRAINING);
  expect_job_number(&outcome.failed, "1");
}

#define RPC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      RPC_TEST(phase_one_keeps_an_executor_until_it_is_destroyed),
      RPC_TEST(unknown_method_is_unimplemented_without_details),
      RPC_TEST(unary_call_without_a_message_is_refused),
      RPC_TEST(job_in_one_message_is_answered_in_one),
      RPC_TEST(jobs_sent_ahead_are_answered_in_order),
      RPC_TEST(executor_is_used_once),
      RPC_TEST(refused_begin_gives_the_executor_back),
      RPC_TEST(half_close_within_a_job_is_refused),
      RPC_TEST(message_above_the_limit_is_refused_by_grpc),
      RPC_TEST(cancelled_before_its_begin),
      RPC_TEST(cancelled_while_it_waits_for_memory),
      RPC_TEST(cancelled_in_its_upload),
      RPC_TEST(cancelled_while_it_runs),
      RPC_TEST(cancelled_in_its_download),
      RPC_TEST(upload_that_stalls_is_ended),
      RPC_TEST(unary_call_whose_request_does_not_come_is_ended),
      RPC_TEST(run_does_not_count_as_idle),
      RPC_TEST(draining_refuses_new_jobs_and_says_so),
      RPC_TEST(stop_lets_a_job_end_and_ends_resting_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
