#include "server/rpc/test_fixture.h"

#include "server/rpc/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int test_fixture_set_up(void **state) {
  struct test_fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  rpc_library_start();
  fixture->server = test_server_start();
  test_client_open(&fixture->client, test_server_connect(fixture->server));
  *state = fixture;
  return 0;
}

int test_fixture_tear_down(void **state) {
  struct test_fixture *fixture = *state;
  test_client_close(&fixture->client);
  test_server_stop(fixture->server, fixture->executors_left);
  rpc_library_stop();
  free(fixture);
  return 0;
}

void test_fixture_execute(struct test_fixture *fixture, struct test_stream *stream) {
  test_stream_open(stream, &fixture->client, "/aclnn.v1.OperatorService/Execute");
}

void test_stream_expect_failure(struct test_stream *stream, grpc_status_code code, enum reason reason) {
  struct test_outcome outcome;
  test_stream_finish(stream, &outcome);
  assert_int_equal(outcome.code, code);
  assert_int_equal(outcome.failed.reason, reason);
}

void test_expect_job_number(const struct status *failed, const char *number) {
  for (size_t i = 0; i < failed->metadata_count; ++i) {
    if (strcmp(failed->metadata[i].key, "job") == 0) {
      assert_string_equal(failed->metadata[i].value, number);
      return;
    }
  }
  fail_msg("the details name no job");
}

grpc_status_code test_fixture_health(struct test_fixture *fixture, enum health_status *health) {
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

void test_fixture_let_time_pass(struct test_fixture *fixture, int64_t by_ns) {
  enum health_status health;
  assert_int_equal(test_fixture_health(fixture, &health), GRPC_STATUS_OK);
  test_server_turn_clock(fixture->server, by_ns);
  assert_int_equal(test_fixture_health(fixture, &health), GRPC_STATUS_OK);
}
