// The server and a client in one process, and time that passes when the test says so: who may take how long.
#include "server/rpc/limits.h"
#include "server/rpc/test_fixture.h"
#include "server/rpc/test_jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void upload_that_stalls_is_ended(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS - 1);
  message = test_message_second_half();
  // In time: the job ends well, and a rest between jobs doesn't count.
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  test_fixture_let_time_pass(fixture, 10 * TEST_SERVER_IDLE_NS);
  message = test_message_first_half();
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS);
  struct test_outcome outcome;
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_ABORTED);
  assert_int_equal(outcome.failed.reason, REASON_IDLE_TIMEOUT);
  test_expect_job_number(&outcome.failed, "1");
}

// Messages of a few bytes, each well in time: the job moves too little for its memory.
static void upload_that_drips_is_ended(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  struct test_outcome outcome;
  test_message_begin(&message, 1);
  test_message_append_input(&message, 0, 4);
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply)); // accepted
  wire_buffer_free(&reply);
  for (int64_t offset = 4; offset < 16; offset += 4) {
    test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS / 4);
    test_message_append_input(&message, offset, 4);
    assert_true(test_stream_send(&stream, &message));
  }
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS / 4);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_ABORTED);
  assert_int_equal(outcome.failed.reason, REASON_IDLE_TIMEOUT);
}

static void send_zeros(struct test_stream *stream, struct wire_buffer *message, int64_t offset, size_t size) {
  static uint8_t zeros[EXECUTE_PACE_BYTES];
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  struct tensor_chunk chunk = {.offset = offset, .data_bytes = size};
  test_message_append(message, header, execute_chunk_write_header(&chunk, header));
  test_message_append(message, zeros, size);
  assert_true(test_stream_send(stream, message));
}

// Slow, but at its pace: it takes as long as it needs.
static void upload_at_its_pace_may_take_long(void **state) {
  enum { PIECES = 4, PLANES = PIECES * EXECUTE_PACE_BYTES / INPUT_BYTES };
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  struct test_outcome outcome;
  test_message_begin(&message, PLANES);
  test_fixture_execute(fixture, &stream);
  for (int64_t half = 0; half < 2 * PIECES; ++half) {
    send_zeros(&stream, &message, half * EXECUTE_PACE_BYTES / 2, EXECUTE_PACE_BYTES / 2);
    if (half == 0) {
      assert_true(test_stream_receive(&stream, &reply)); // accepted
      wire_buffer_free(&reply);
    }
    test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS * 2 / 5);
  }
  test_stream_half_close(&stream);
  while (test_stream_receive(&stream, &reply)) {
    wire_buffer_free(&reply);
  }
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

// A chunk of the least size now and then is not reading.
static void reader_that_drips_is_ended(void **state) {
  enum { PLANES = 32 * EXECUTE_PACE_BYTES / INPUT_BYTES };
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  struct test_outcome outcome;
  struct execute_begin begin = {.has_request = true, .max_chunk_bytes = WIRE_CHUNK_BYTES_MIN};
  test_job_request(PLANES, &begin.request);
  test_message_append_begin(&message, &begin);
  test_fixture_execute(fixture, &stream);
  for (int64_t piece = 0; piece < 32; ++piece) {
    send_zeros(&stream, &message, piece * EXECUTE_PACE_BYTES, EXECUTE_PACE_BYTES);
  }
  while (test_stream_receive(&stream, &reply)) {
    wire_buffer_free(&reply);
    test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS / 3);
  }
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_ABORTED);
}

// What rests before a begin may have sent half a message: only so many of them have all the time they like.
static void too_many_calls_that_rest_are_ended_the_longest_first(void **state) {
  enum { SURPLUS = 3, CALLS = SERVER_RESTING_CALLS_MAX + SURPLUS };
  struct test_fixture *fixture = *state;
  static struct test_stream streams[CALLS];
  struct test_outcome outcome;
  struct wire_buffer reply;
  for (size_t i = 0; i < SERVER_RESTING_CALLS_MAX; ++i) {
    test_fixture_execute(fixture, &streams[i]);
  }
  test_server_await_calls(fixture->server, SERVER_RESTING_CALLS_MAX);
  test_fixture_let_time_pass(fixture, 10 * TEST_SERVER_IDLE_NS); // as many as may
  for (size_t i = SERVER_RESTING_CALLS_MAX; i < CALLS; ++i) {
    test_fixture_execute(fixture, &streams[i]);
  }
  test_server_await_calls(fixture->server, CALLS);
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS - 1); // nobody has rested for too long since
  test_server_await_calls(fixture->server, CALLS);
  test_fixture_let_time_pass(fixture, 1);
  test_server_await_calls(fixture->server, SERVER_RESTING_CALLS_MAX);
  size_t ended = 0;
  for (size_t i = 0; i < CALLS; ++i) {
    struct wire_buffer message = test_message_whole_job();
    if (i < SURPLUS) {
      wire_buffer_free(&message);
      test_stream_finish(&streams[i], &outcome);
      assert_int_equal(outcome.code, GRPC_STATUS_ABORTED);
      assert_int_equal(outcome.failed.reason, REASON_IDLE_TIMEOUT);
      ++ended;
      continue;
    }
    assert_true(test_stream_send(&streams[i], &message));
    assert_true(test_stream_receive(&streams[i], &reply));
    test_reply_check(&reply, NULL, NULL);
    test_stream_half_close(&streams[i]);
    test_stream_finish(&streams[i], &outcome);
    assert_int_equal(outcome.code, GRPC_STATUS_OK);
  }
  assert_int_equal(ended, SURPLUS);
}

static void unary_call_whose_request_does_not_come_is_ended(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer request = {0}, reply;
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetServerInfo");
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS - 1);
  // In time.
  assert_true(test_stream_send(&stream, &request));
  test_stream_half_close(&stream);
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  test_stream_expect_failure(&stream, GRPC_STATUS_OK, REASON_NONE);
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetServerInfo");
  test_fixture_let_time_pass(fixture, TEST_SERVER_IDLE_NS);
  test_stream_expect_failure(&stream, GRPC_STATUS_ABORTED, REASON_IDLE_TIMEOUT);
}

static void run_does_not_count_as_idle(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), reply;
  test_server_hold_jobs(fixture->server, 0);
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_server_await_held(fixture->server, 1);
  test_fixture_let_time_pass(fixture, 10 * TEST_SERVER_IDLE_NS);
  test_server_release_jobs(fixture->server);
  assert_true(test_stream_receive(&stream, &reply));
  test_reply_check(&reply, NULL, NULL);
  test_stream_half_close(&stream);
  struct test_outcome outcome;
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

#define RPC_TEST(name) cmocka_unit_test_setup_teardown(name, test_fixture_set_up, test_fixture_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      RPC_TEST(upload_that_stalls_is_ended),
      RPC_TEST(upload_that_drips_is_ended),
      RPC_TEST(upload_at_its_pace_may_take_long),
      RPC_TEST(reader_that_drips_is_ended),
      RPC_TEST(too_many_calls_that_rest_are_ended_the_longest_first),
      RPC_TEST(unary_call_whose_request_does_not_come_is_ended),
      RPC_TEST(run_does_not_count_as_idle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
