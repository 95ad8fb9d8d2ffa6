// The server and a client in one process: the ways of a call, and that everything is given back on each of
// them.
#include "server/rpc/test_fixture.h"
#include "server/rpc/test_jobs.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- Help

static void plan_pooling(struct test_fixture *fixture, struct workspace_size_response *plan) {
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

static size_t executors(struct test_fixture *fixture) {
  struct session_state state;
  session_table_get_state(test_server_context(fixture->server)->sessions, &state);
  return state.executors;
}

// ---- Unary calls

static void phase_one_keeps_an_executor_until_it_is_destroyed(void **state) {
  struct test_fixture *fixture = *state;
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
  struct test_fixture *fixture = *state;
  struct wire_buffer request = {0}, response = {0};
  struct test_outcome outcome;
  test_client_call(&fixture->client, "/aclnn.v1.OperatorService/Nothing", &request, &response, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNIMPLEMENTED);
  assert_int_equal(outcome.failed.reason, REASON_NONE);
}

static void unary_call_without_a_message_is_refused(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  test_stream_open(&stream, &fixture->client, "/aclnn.v1.OperatorService/GetWorkspaceSize");
  test_stream_half_close(&stream);
  test_stream_expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_MESSAGE_INVALID);
}

// ---- Jobs

static void job_in_one_message_is_answered_in_one(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), reply;
  struct test_outcome outcome;
  test_fixture_execute(fixture, &stream);
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
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer reply;
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server, 0);
  test_fixture_execute(fixture, &stream);
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

static void reply_does_not_wait_for_the_next_job_to_run(void **state) {
  enum { JOBS = 4 };
  struct test_fixture *fixture = *state;
  for (size_t running = 1; running < JOBS; ++running) {
    struct test_stream stream;
    struct wire_buffer reply;
    struct test_outcome outcome;
    test_server_hold_jobs(fixture->server, running);
    test_fixture_execute(fixture, &stream);
    for (int i = 0; i < JOBS; ++i) {
      struct wire_buffer message = test_message_whole_job();
      assert_true(test_stream_send(&stream, &message));
    }
    for (size_t i = 0; i < JOBS; ++i) {
      if (i == running) {
        test_server_await_held(fixture->server, 1);
        test_server_release_jobs(fixture->server);
      }
      assert_true(test_stream_receive(&stream, &reply));
      test_reply_check(&reply, NULL, NULL);
    }
    test_stream_half_close(&stream);
    test_stream_finish(&stream, &outcome);
    assert_int_equal(outcome.code, GRPC_STATUS_OK);
  }
}

static void executor_is_used_once(void **state) {
  struct test_fixture *fixture = *state;
  struct workspace_size_response plan;
  struct test_stream stream;
  struct wire_buffer reply;
  plan_pooling(fixture, &plan);
  struct execute_begin begin = {.executor = plan.executor, .workspace_size = plan.workspace_size};
  test_fixture_execute(fixture, &stream);
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
  test_expect_job_number(&outcome.failed, "1");
  workspace_size_response_free(&plan);
}

static void refused_begin_gives_the_executor_back(void **state) {
  struct test_fixture *fixture = *state;
  struct workspace_size_response plan;
  struct test_stream stream;
  struct wire_buffer message = {0};
  plan_pooling(fixture, &plan);
  struct execute_begin begin = {.executor = plan.executor, .max_chunk_bytes = 1};
  test_message_append_begin(&message, &begin);
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_stream_expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_ACLNN_ERR_PARAM_INVALID);
  assert_int_equal(executors(fixture), 1);
  fixture->executors_left = 1;
  workspace_size_response_free(&plan);
}

static void half_close_within_a_job_is_refused(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply)); // accepted
  wire_buffer_free(&reply);
  test_stream_half_close(&stream);
  test_stream_expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_TENSOR_DATA_INVALID);
}

// The client goes on sending and is cut off in a write: why reaches it each time.
static void refusal_in_the_middle_of_an_upload_always_arrives(void **state) {
  enum { TIMES = 100, PLANES = 16384 };
  static uint8_t zeros[64 << 10];
  struct test_fixture *fixture = *state;
  for (int i = 0; i < TIMES; ++i) {
    struct test_stream stream;
    struct wire_buffer message = {0}, reply;
    struct tensor_chunk chunk = {.offset = 1, .data_bytes = sizeof zeros}; // of data that don't begin there
    test_message_begin(&message, PLANES);
    test_fixture_execute(fixture, &stream);
    assert_true(test_stream_send(&stream, &message));
    assert_true(test_stream_receive(&stream, &reply)); // accepted
    wire_buffer_free(&reply);
    bool open = true;
    for (size_t sent = 0; open && sent < (size_t)PLANES * INPUT_BYTES; sent += sizeof zeros) {
      uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
      test_message_append(&message, header, execute_chunk_write_header(&chunk, header));
      test_message_append(&message, zeros, sizeof zeros);
      open = test_stream_send(&stream, &message);
    }
    assert_false(open);
    test_stream_expect_failure(&stream, GRPC_STATUS_INVALID_ARGUMENT, REASON_TENSOR_DATA_INVALID);
  }
}

static void message_above_the_limit_is_refused_by_grpc(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct test_outcome outcome;
  struct wire_buffer message = {.size = WIRE_MESSAGE_BYTES_MAX + 1};
  message.data = calloc(1, message.size);
  assert_non_null(message.data);
  test_fixture_execute(fixture, &stream);
  (void)test_stream_send(&stream, &message);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(outcome.failed.reason, REASON_NONE);
}

// ---- Copies

static void uploaded_byte_is_copied_once_and_a_downloaded_one_never(void **state) {
  enum { PLANES = 32768, UP_BYTES = PLANES * INPUT_BYTES, DOWN_BYTES = PLANES * 3 * OUTPUT_BYTES };
  static uint8_t piece[1 << 20];
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  struct test_outcome outcome;
  struct server_traffic traffic;
  size_t replies = 0;
  for (size_t i = 0; i < sizeof piece; ++i) {
    piece[i] = (uint8_t)(i * 2654435761u >> 24); // no codec would make less of it
  }
  test_message_begin(&message, PLANES);
  test_fixture_execute(fixture, &stream);
  for (int64_t offset = 0; offset < UP_BYTES; offset += sizeof piece) {
    uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
    struct tensor_chunk chunk = {.offset = offset, .data_bytes = sizeof piece};
    test_message_append(&message, header, execute_chunk_write_header(&chunk, header));
    test_message_append(&message, piece, sizeof piece);
    assert_true(test_stream_send(&stream, &message));
  }
  test_stream_half_close(&stream);
  while (test_stream_receive(&stream, &reply)) {
    wire_buffer_free(&reply);
    ++replies;
  }
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
  test_server_get_traffic(fixture->server, &traffic);
  assert_int_equal(traffic.received_bytes, UP_BYTES);
  assert_int_equal(traffic.sent_bytes, DOWN_BYTES);
  // The envelopes: accepted with its plan, done, and a header for each chunk.
  assert_true(traffic.copied_bytes >= UP_BYTES);
  assert_true(traffic.copied_bytes < UP_BYTES + 1024 + replies * 4 * EXECUTE_ENVELOPE_BYTES_MAX);
}

// ---- Messages that stand for far more than they hold

// NONZERO_WORDS of zeros: the width of a word, and for each group of 32 of them a bit that isn't set.
static void append_zeros(struct wire_buffer *message, int64_t offset, int64_t raw_bytes) {
  static const uint8_t zeros[1 + WIRE_CHUNK_BYTES_MAX / 4 / 32 / 8 + 1] = {4};
  uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
  struct tensor_chunk chunk = {.offset = offset,
                               .codec = CODEC_NONZERO_WORDS,
                               .raw_bytes = raw_bytes,
                               .data_bytes = 1 + ((size_t)(raw_bytes / 4 + 31) / 32 + 7) / 8};
  test_message_append(message, header, execute_chunk_write_header(&chunk, header));
  test_message_append(message, zeros, chunk.data_bytes);
}

// `planes` planes of zeros, in chunks of so many bytes.
static struct wire_buffer message_of_zeros(int64_t planes, int64_t chunk_bytes) {
  const int64_t all = planes * INPUT_BYTES;
  struct wire_buffer message = {0};
  test_message_begin(&message, planes);
  for (int64_t offset = 0; offset < all; offset += chunk_bytes) {
    append_zeros(&message, offset, all - offset < chunk_bytes ? all - offset : chunk_bytes);
  }
  return message;
}

static void expect_good_end(struct test_stream *stream) {
  struct wire_buffer reply;
  struct test_outcome outcome;
  test_stream_half_close(stream);
  while (test_stream_receive(stream, &reply)) {
    wire_buffer_free(&reply);
  }
  test_stream_finish(stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_OK);
}

struct watched_runs {
  struct test_server *server;
  sem_t first_runs, first_may_end;
  size_t count;
  uint64_t received_bytes[3]; // before each run
};

// The first run stops the server's one queue.
static void note_run(void *context) {
  struct watched_runs *watched = context;
  struct server_traffic traffic;
  test_server_get_traffic(watched->server, &traffic);
  watched->received_bytes[watched->count++] = traffic.received_bytes;
  if (watched->count == 1) {
    sem_post(&watched->first_runs);
    while (sem_wait(&watched->first_may_end) != 0) {
    }
  }
}

// Sends the messages of one call each while the queue stands still, so that it finds them all at once, in
// this order.
static void send_at_once(struct test_fixture *fixture, struct watched_runs *watched,
                         struct test_stream *streams, struct wire_buffer *messages, size_t count) {
  struct wire_buffer first = test_message_whole_job();
  struct test_stream stream;
  *watched = (struct watched_runs){.server = fixture->server};
  sem_init(&watched->first_runs, 0, 0);
  sem_init(&watched->first_may_end, 0, 0);
  test_server_watch_runs(fixture->server, note_run, watched);
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &first));
  while (sem_wait(&watched->first_runs) != 0) {
  }
  for (size_t i = 0; i < count; ++i) {
    test_fixture_execute(fixture, &streams[i]);
    assert_true(test_stream_send(&streams[i], &messages[i]));
  }
  sem_post(&watched->first_may_end);
  expect_good_end(&stream);
}

// A whole job in one message, and behind it a small one of another call.
static void expect_small_job_in_between(struct test_fixture *fixture, struct wire_buffer *message,
                                        uint64_t input_bytes) {
  struct watched_runs watched;
  struct test_stream streams[2];
  struct wire_buffer messages[2] = {*message, test_message_whole_job()};
  struct server_traffic before;
  test_server_get_traffic(fixture->server, &before);
  send_at_once(fixture, &watched, streams, messages, 2);
  expect_good_end(&streams[0]);
  expect_good_end(&streams[1]);
  assert_int_equal(watched.count, 3);
  // The second run is the small job's: of the other one something had been taken, and not all.
  uint64_t small_bytes = before.received_bytes + 2 * INPUT_BYTES;
  assert_true(watched.received_bytes[1] > small_bytes);
  assert_true(watched.received_bytes[1] < before.received_bytes + input_bytes);
  assert_int_equal(watched.received_bytes[2], small_bytes + input_bytes);
}

static void other_calls_get_their_turn_while_a_message_is_decoded(void **state) {
  enum { PLANES = 28 << 12 }; // a message that a stream's first window has room for
  struct test_fixture *fixture = *state;
  struct wire_buffer message = message_of_zeros(PLANES, WIRE_CHUNK_BYTES_MAX);
  struct test_stream stream;
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  expect_good_end(&stream); // and leaves its memory warm: the next one has its own at once
  message = message_of_zeros(PLANES, WIRE_CHUNK_BYTES_MAX);
  expect_small_job_in_between(fixture, &message, (uint64_t)PLANES * INPUT_BYTES);
}

static void other_calls_get_their_turn_while_tiny_chunks_are_taken(void **state) {
  enum { PLANES = 16, ALL = PLANES * INPUT_BYTES };
  struct wire_buffer message = {0};
  test_message_begin(&message, PLANES);
  for (int64_t offset = 0; offset < ALL; ++offset) {
    uint8_t header[EXECUTE_ENVELOPE_BYTES_MAX];
    struct tensor_chunk chunk = {.offset = offset, .data_bytes = 1};
    test_message_append(&message, header, execute_chunk_write_header(&chunk, header));
    test_message_append(&message, "", 1);
  }
  expect_small_job_in_between(*state, &message, ALL);
}

static void cancelled_while_its_message_is_decoded(void **state) {
  struct test_fixture *fixture = *state;
  struct watched_runs watched;
  struct test_stream stream;
  struct wire_buffer message = message_of_zeros(28 << 12, 1 << 19);
  struct test_outcome outcome;
  send_at_once(fixture, &watched, &stream, &message, 1);
  test_stream_cancel(&stream);
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_CANCELLED);
  test_server_await_calls(fixture->server, 0);
}

// ---- Clients that leave

static void cancel_and_check(struct test_fixture *fixture, struct test_stream *stream) {
  struct test_outcome outcome;
  test_stream_cancel(stream);
  test_stream_finish(stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_CANCELLED);
  test_server_await_calls(fixture->server, 0);
}

static void cancelled_before_its_begin(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  test_fixture_execute(fixture, &stream);
  test_server_await_calls(fixture->server, 1);
  cancel_and_check(fixture, &stream);
}

static void cancelled_while_it_waits_for_memory(void **state) {
  struct test_fixture *fixture = *state;
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
  test_fixture_execute(fixture, &stream);
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
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_first_half(), reply;
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  assert_true(test_stream_receive(&stream, &reply));
  wire_buffer_free(&reply);
  cancel_and_check(fixture, &stream);
}

static void cancelled_while_it_runs(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job(), next = test_message_first_half();
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server, 0);
  test_fixture_execute(fixture, &stream);
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
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = {0}, reply;
  test_message_begin(&message, PLANES);
  test_fixture_execute(fixture, &stream);
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

// ---- Drain

static void draining_refuses_new_jobs_and_says_so(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream stream;
  struct wire_buffer message = test_message_whole_job();
  struct test_outcome outcome;
  enum health_status health;
  assert_int_equal(test_fixture_health(fixture, &health), GRPC_STATUS_OK);
  assert_int_equal(health, HEALTH_SERVING);
  atomic_store(&test_server_context(fixture->server)->draining, true);
  assert_int_equal(test_fixture_health(fixture, &health), GRPC_STATUS_OK);
  assert_int_equal(health, HEALTH_NOT_SERVING);
  test_fixture_execute(fixture, &stream);
  assert_true(test_stream_send(&stream, &message));
  test_stream_finish(&stream, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(outcome.failed.reason, REASON_DRAINING);
  assert_true(outcome.failed.retry_after_ms > 0);
}

static void stop_lets_a_job_end_and_ends_resting_calls(void **state) {
  struct test_fixture *fixture = *state;
  struct test_stream running, resting;
  struct wire_buffer message = test_message_whole_job(), reply;
  struct test_outcome outcome;
  test_server_hold_jobs(fixture->server, 0);
  test_fixture_execute(fixture, &running);
  test_fixture_execute(fixture, &resting);
  assert_true(test_stream_send(&running, &message));
  test_server_await_held(fixture->server, 1);
  test_server_await_calls(fixture->server, 2);
  test_server_begin_to_stop(fixture->server);
  test_stream_expect_failure(&resting, GRPC_STATUS_UNAVAILABLE, REASON_DRAINING);
  test_server_release_jobs(fixture->server);
  assert_true(test_stream_receive(&running, &reply));
  test_reply_check(&reply, NULL, NULL);
  test_stream_finish(&running, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(outcome.failed.reason, REASON_DRAINING);
  test_expect_job_number(&outcome.failed, "1");
}

#define RPC_TEST(name) cmocka_unit_test_setup_teardown(name, test_fixture_set_up, test_fixture_tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      RPC_TEST(phase_one_keeps_an_executor_until_it_is_destroyed),
      RPC_TEST(unknown_method_is_unimplemented_without_details),
      RPC_TEST(unary_call_without_a_message_is_refused),
      RPC_TEST(job_in_one_message_is_answered_in_one),
      RPC_TEST(jobs_sent_ahead_are_answered_in_order),
      RPC_TEST(reply_does_not_wait_for_the_next_job_to_run),
      RPC_TEST(executor_is_used_once),
      RPC_TEST(refused_begin_gives_the_executor_back),
      RPC_TEST(half_close_within_a_job_is_refused),
      RPC_TEST(refusal_in_the_middle_of_an_upload_always_arrives),
      RPC_TEST(message_above_the_limit_is_refused_by_grpc),
      RPC_TEST(uploaded_byte_is_copied_once_and_a_downloaded_one_never),
      RPC_TEST(other_calls_get_their_turn_while_a_message_is_decoded),
      RPC_TEST(other_calls_get_their_turn_while_tiny_chunks_are_taken),
      RPC_TEST(cancelled_while_its_message_is_decoded),
      RPC_TEST(cancelled_before_its_begin),
      RPC_TEST(cancelled_while_it_waits_for_memory),
      RPC_TEST(cancelled_in_its_upload),
      RPC_TEST(cancelled_while_it_runs),
      RPC_TEST(cancelled_in_its_download),
      RPC_TEST(draining_refuses_new_jobs_and_says_so),
      RPC_TEST(stop_lets_a_job_end_and_ends_resting_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
