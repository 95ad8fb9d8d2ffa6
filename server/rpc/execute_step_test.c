#include "server/rpc/execute_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- Walks along the ways that the contract describes. Each step names what is to be done after it.

static void start(struct execute_state *state) {
  assert_int_equal(execute_start(state), EXECUTE_DO_RECEIVE);
}

// A begin with all of its input, up to the end of its run.
static void run_small_job(struct execute_state *state, uint64_t job) {
  assert_int_equal(execute_received(state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(state, job), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(state, job), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT | EXECUTE_DO_RECEIVE);
  assert_int_equal(execute_ended(state, job), EXECUTE_DO_SEND);
}

static void end_well(struct execute_state *state) {
  assert_int_equal(execute_status_sent(state), 0);
  assert_int_equal(execute_closed(state, false), EXECUTE_DO_RELEASE);
  assert_int_equal(state->phase, EXECUTE_OVER);
}

static void small_job_is_one_message_each_way(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_half_closed(&state), 0);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(state.failed_job, UINT64_MAX);
  end_well(&state);
}

static void status_goes_with_the_last_message_of_a_call_that_was_half_closed(void **unused) {
  (void)unused;
  for (int order = 0; order < 3; ++order) {
    struct execute_state state;
    start(&state);
    run_small_job(&state, 0);
    if (order == 0) {
      assert_false(execute_close_with_send(&state)); // a further job may come
      assert_int_equal(execute_half_closed(&state), 0);
      assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
      end_well(&state);
      continue;
    }
    assert_int_equal(execute_half_closed(&state), 0);
    assert_true(execute_close_with_send(&state));
    if (order == 1) {
      assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP);
      assert_int_equal(execute_closed(&state, false), EXECUTE_DO_RELEASE);
    } else { // the notice of the end may come before
      assert_int_equal(execute_closed(&state, false), 0);
      assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_RELEASE);
    }
    assert_int_equal(state.failed_job, UINT64_MAX);
  }
}

static void call_without_jobs_ends_well(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_half_closed(&state), EXECUTE_DO_STATUS);
  end_well(&state);
}

static void accepted_goes_out_when_input_is_awaited(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 0), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(&state, false), EXECUTE_DO_DISCARD | EXECUTE_DO_SEND | EXECUTE_DO_RECEIVE);
  assert_true(execute_receive_is_timed(&state));
  assert_true(execute_send_is_timed(&state));
  assert_int_equal(execute_sent(&state, false), 0);
  assert_false(execute_send_is_timed(&state));
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_CHUNKS), EXECUTE_DO_TAKE);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT | EXECUTE_DO_RECEIVE);
  assert_false(execute_receive_is_timed(&state));
  assert_int_equal(execute_ended(&state, 0), EXECUTE_DO_SEND);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP);
  assert_int_equal(execute_half_closed(&state), EXECUTE_DO_STATUS);
  end_well(&state);
}

static void nothing_is_read_until_memory_is_granted(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  execute_job_waits(&state, 0);
  assert_int_equal(execute_planned(&state, 0), EXECUTE_DO_RESERVE);
  execute_job_waits(&state, 0);
  assert_int_equal(state.pending, EXECUTE_PENDING_CLOSE);
  assert_false(execute_receive_is_timed(&state));
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
}

static void one_job_is_read_ahead_and_no_more(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 1), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 1), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT);
  assert_false(execute_is_followed(&state)); // its run may take its time
  assert_int_equal(execute_ended(&state, 1), 0);
  assert_true(execute_is_followed(&state));
  assert_int_equal(execute_sent(&state, false), EXECUTE_DO_SEND);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_SEND | EXECUTE_DO_RECEIVE);
  assert_int_equal(state.first_job, 1);
}

static void job_runs_and_consumes_after_the_one_before_ended_well(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 0), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT | EXECUTE_DO_RECEIVE);
  execute_job_waits(&state, 0);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 1), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 1), EXECUTE_DO_TAKE);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD);
  assert_false(execute_job(&state, 1)->consumed);
  assert_int_equal(execute_ended(&state, 0), EXECUTE_DO_CONSUME | EXECUTE_DO_SUBMIT | EXECUTE_DO_SEND);
  assert_true(execute_job(&state, 1)->consumed);
}

static void failed_run_leaves_the_next_job_unconsumed(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 0), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT | EXECUTE_DO_RECEIVE);
  execute_job_waits(&state, 0);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 1), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 1), EXECUTE_DO_TAKE);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD);
  assert_int_equal(execute_failed(&state, 0), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(state.failed_job, 0);
}

static void responses_of_earlier_jobs_go_before_an_error(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_true(execute_failure_counts(&state, 1));
  assert_int_equal(execute_failed(&state, 1), EXECUTE_DO_DROP | EXECUTE_DO_DISCARD);
  assert_int_equal(execute_sent(&state, false), EXECUTE_DO_SEND);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(state.failed_job, 1);
}

static void failure_of_an_earlier_job_takes_precedence(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_BEGIN), EXECUTE_DO_BEGIN);
  assert_int_equal(execute_planned(&state, 0), EXECUTE_DO_RESERVE);
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  assert_int_equal(execute_taken(&state, true), EXECUTE_DO_DISCARD | EXECUTE_DO_SUBMIT | EXECUTE_DO_RECEIVE);
  execute_job_waits(&state, 0);
  assert_int_equal(execute_received(&state, EXECUTE_CONTENT_INVALID), EXECUTE_DO_DISCARD);
  assert_int_equal(state.failed_job, 1);
  assert_true(execute_failure_counts(&state, 0));
  assert_int_equal(execute_failed(&state, 0), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(state.failed_job, 0);
}

static void wrong_messages_are_faults(void **unused) {
  (void)unused;
  static const struct {
    bool job_lacks_input, job_before;
    enum execute_content content;
    enum execute_fault fault;
    uint64_t job;
  } cases[] = {
      {false, false, EXECUTE_CONTENT_CHUNKS, EXECUTE_FAULT_CHUNK_BEFORE_BEGIN, 0},
      {false, false, EXECUTE_CONTENT_NOTHING, EXECUTE_FAULT_EMPTY_MESSAGE, 0},
      {true, false, EXECUTE_CONTENT_BEGIN, EXECUTE_FAULT_BEGIN_TOO_EARLY, 0},
      {true, false, EXECUTE_CONTENT_NOTHING, EXECUTE_FAULT_EMPTY_MESSAGE, 0},
      {false, true, EXECUTE_CONTENT_CHUNKS, EXECUTE_FAULT_SURPLUS, 1},
      {false, true, EXECUTE_CONTENT_NOTHING, EXECUTE_FAULT_EMPTY_MESSAGE, 1},
      {true, false, EXECUTE_CONTENT_INVALID, EXECUTE_FAULT_NONE, 0},
      {false, true, EXECUTE_CONTENT_INVALID, EXECUTE_FAULT_NONE, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    struct execute_state state;
    start(&state);
    if (cases[i].job_before) {
      run_small_job(&state, 0);
    } else if (cases[i].job_lacks_input) {
      execute_received(&state, EXECUTE_CONTENT_BEGIN);
      execute_planned(&state, 0);
      execute_reserved(&state, 0);
      execute_taken(&state, false);
    }
    assert_int_equal(execute_received(&state, cases[i].content) & EXECUTE_DO_DISCARD, EXECUTE_DO_DISCARD);
    assert_int_equal(execute_take_fault(&state), cases[i].fault);
    assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_NONE);
    assert_int_equal(state.failed_job, cases[i].job);
    assert_int_not_equal(state.phase, EXECUTE_OPEN);
  }
}

static void half_close_before_the_last_byte_is_a_fault(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 0);
  execute_reserved(&state, 0);
  execute_taken(&state, false);
  assert_int_equal(execute_half_closed(&state), EXECUTE_DO_DROP);
  assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_HALF_CLOSED_EARLY);
  assert_int_equal(execute_sent(&state, false), EXECUTE_DO_STATUS);
}

static void input_ahead_is_timed_once_its_client_may_know(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 1);
  execute_reserved(&state, 1);
  assert_int_equal(execute_taken(&state, false), EXECUTE_DO_DISCARD | EXECUTE_DO_RECEIVE);
  // Its client may wait for `accepted`, which waits for the job before.
  assert_false(execute_receive_is_timed(&state));
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_SEND);
  assert_true(execute_receive_is_timed(&state));
  assert_int_equal(execute_receive_timed_out(&state), EXECUTE_DO_DROP);
  assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_RECEIVE_IDLE);
  assert_int_equal(state.failed_job, 1);
}

static void message_is_taken_in_turns(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 0);
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_TAKE | EXECUTE_DO_CONSUME);
  for (int turn = 0; turn < 3; ++turn) {
    execute_take_paused(&state);
    assert_false(execute_receive_is_timed(&state)); // the client has done its part
    assert_int_equal(execute_drain(&state), 0);
    assert_int_equal(execute_turned(&state), EXECUTE_DO_TAKE);
  }
  assert_int_equal(execute_taken(&state, false), EXECUTE_DO_DISCARD | EXECUTE_DO_SEND | EXECUTE_DO_RECEIVE);
}

static void cancelled_call_waits_for_the_turn_that_it_asked_for(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 0);
  execute_reserved(&state, 0);
  execute_take_paused(&state);
  assert_int_equal(execute_closed(&state, true), EXECUTE_DO_CANCEL | EXECUTE_DO_DROP | EXECUTE_DO_DISCARD);
  assert_int_equal(execute_turned(&state), EXECUTE_DO_RELEASE);
}

static void failure_of_an_earlier_job_ends_a_message_that_is_taken_in_turns(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 0);
  execute_reserved(&state, 0);
  execute_taken(&state, true);
  execute_job_waits(&state, 0);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 1);
  assert_int_equal(execute_reserved(&state, 1), EXECUTE_DO_TAKE);
  execute_take_paused(&state);
  assert_int_equal(execute_failed(&state, 0), EXECUTE_DO_DROP | EXECUTE_DO_DISCARD | EXECUTE_DO_STATUS);
  assert_int_equal(execute_status_sent(&state), 0);
  assert_int_equal(execute_closed(&state, false), 0);
  assert_int_equal(execute_turned(&state), EXECUTE_DO_RELEASE);
}

static void reader_that_stalls_is_cancelled(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_send_timed_out(&state), EXECUTE_DO_CANCEL | EXECUTE_DO_DROP);
  assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_SEND_IDLE);
  assert_int_equal(execute_send_failed(&state), 0);
  assert_int_equal(execute_receive_failed(&state), 0);
  assert_int_equal(execute_closed(&state, true), EXECUTE_DO_RELEASE);
}

static void cancelled_call_waits_for_the_answer_that_is_owed(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  execute_received(&state, EXECUTE_CONTENT_BEGIN);
  execute_planned(&state, 0);
  execute_job_waits(&state, 0);
  assert_int_equal(execute_closed(&state, true), EXECUTE_DO_CANCEL | EXECUTE_DO_DROP | EXECUTE_DO_DISCARD);
  assert_int_equal(state.phase, EXECUTE_ABANDONED);
  // Granted when it was cancelled already: the job is dropped again, now for good.
  assert_int_equal(execute_reserved(&state, 0), EXECUTE_DO_DROP | EXECUTE_DO_RELEASE);
}

static void draining_ends_a_resting_call_at_once(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  assert_int_equal(execute_drain(&state), EXECUTE_DO_STATUS);
  assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_DRAINING);
  assert_int_equal(state.failed_job, 0);
}

static void draining_lets_jobs_end(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_drain(&state), 0);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(execute_take_fault(&state), EXECUTE_FAULT_DRAINING);
  assert_int_equal(state.failed_job, 1);
}

static void draining_does_not_spoil_a_call_that_ended(void **unused) {
  (void)unused;
  struct execute_state state;
  start(&state);
  run_small_job(&state, 0);
  assert_int_equal(execute_half_closed(&state), 0);
  assert_int_equal(execute_drain(&state), 0);
  assert_int_equal(execute_sent(&state, true), EXECUTE_DO_DROP | EXECUTE_DO_STATUS);
  assert_int_equal(state.failed_job, UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_job_is_one_message_each_way),
      cmocka_unit_test(status_goes_with_the_last_message_of_a_call_that_was_half_closed),
      cmocka_unit_test(call_without_jobs_ends_well),
      cmocka_unit_test(accepted_goes_out_when_input_is_awaited),
      cmocka_unit_test(nothing_is_read_until_memory_is_granted),
      cmocka_unit_test(one_job_is_read_ahead_and_no_more),
      cmocka_unit_test(job_runs_and_consumes_after_the_one_before_ended_well),
      cmocka_unit_test(failed_run_leaves_the_next_job_unconsumed),
      cmocka_unit_test(responses_of_earlier_jobs_go_before_an_error),
      cmocka_unit_test(failure_of_an_earlier_job_takes_precedence),
      cmocka_unit_test(wrong_messages_are_faults),
      cmocka_unit_test(half_close_before_the_last_byte_is_a_fault),
      cmocka_unit_test(input_ahead_is_timed_once_its_client_may_know),
      cmocka_unit_test(message_is_taken_in_turns),
      cmocka_unit_test(cancelled_call_waits_for_the_turn_that_it_asked_for),
      cmocka_unit_test(failure_of_an_earlier_job_ends_a_message_that_is_taken_in_turns),
      cmocka_unit_test(reader_that_stalls_is_cancelled),
      cmocka_unit_test(cancelled_call_waits_for_the_answer_that_is_owed),
      cmocka_unit_test(draining_ends_a_resting_call_at_once),
      cmocka_unit_test(draining_lets_jobs_end),
      cmocka_unit_test(draining_does_not_spoil_a_call_that_ended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
