#include "client/c/job.h"
#include "client/c/job_test_support.h"
#include "client/c/reply_breach.h"
#include "client/c/request.h"
#include "proto/wire/codec.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BYTES 100
#define GRAD_INPUT 3

// A job whose inputs are sent and whose output has OUTPUT_BYTES.
struct fixture {
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  uint8_t grad_output[40], indices[40], grad_input[OUTPUT_BYTES];
  uint8_t expected[OUTPUT_BYTES];
  struct job job;
};

static struct fixture *start_job(codec_set codecs) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  test_plan_fill(&fixture->plan, 40, OUTPUT_BYTES);
  test_tensors_fill(fixture->tensors, fixture->grad_output, fixture->indices, 40, fixture->grad_input,
                    OUTPUT_BYTES);
  for (size_t i = 0; i < OUTPUT_BYTES; i++) {
    fixture->expected[i] = (uint8_t)(3 * i + 1);
  }
  const struct job_options options = {.chunk_bytes = 1 << 20, .codecs = codecs};
  struct status status;
  job_init(&fixture->job, &options, fixture->tensors, 4);
  assert_true(job_use_plan(&fixture->job, &fixture->plan, &status));
  struct wire_buffer message = test_next_message(&fixture->job);
  wire_buffer_free(&message);
  assert_true(job_is_sent(&fixture->job));
  return fixture;
}

static void end_job(struct fixture *fixture) {
  job_finish(&fixture->job, false, NULL);
  free(fixture);
}

static void add_output(struct wire_buffer *message, const struct fixture *fixture, int64_t offset,
                       size_t size) {
  const struct tensor_chunk chunk = {.tensor_index = GRAD_INPUT, .offset = offset, .data_bytes = size};
  test_message_add_chunk(message, &chunk, fixture->expected + offset);
}

static void reply_fills_the_output(void **state) {
  (void)state;
  struct fixture *fixture = start_job(0);
  struct status status;
  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, NULL);
  add_output(&reply, fixture, 0, 60);
  add_output(&reply, fixture, 60, 40);
  test_message_add_done(&reply);
  assert_true(test_receive(&fixture->job, &reply, &status));
  assert_true(job_is_done(&fixture->job));
  assert_memory_equal(fixture->grad_input, fixture->expected, OUTPUT_BYTES);
  aclnn_summary summary;
  job_finish(&fixture->job, true, &summary);
  assert_int_equal(summary.target, ACLNN_TARGET_CPU);
  assert_int_equal(summary.numerics, ACLNN_NUMERICS_EXACT);
  assert_int_equal(summary.workspace_size, 128);
  assert_int_equal(summary.compute_ns, 7);
  assert_int_equal(summary.bytes_sent, 80);
  assert_int_equal(summary.bytes_received, OUTPUT_BYTES);
  free(fixture);
}

static void reply_may_come_byte_by_byte_and_in_many_messages(void **state) {
  (void)state;
  struct fixture *fixture = start_job(0);
  struct status status;
  struct wire_buffer parts[3] = {0};
  test_message_add_accepted(&parts[0], NULL);
  add_output(&parts[0], fixture, 0, 33);
  add_output(&parts[1], fixture, 33, 67);
  test_message_add_done(&parts[2]);
  for (size_t i = 0; i < 3; i++) {
    struct span *spans = calloc(parts[i].size, sizeof *spans);
    assert_non_null(spans);
    for (size_t j = 0; j < parts[i].size; j++) {
      spans[j] = (struct span){parts[i].data + j, 1};
    }
    assert_false(job_is_done(&fixture->job));
    assert_true(job_receive(&fixture->job, spans, parts[i].size, &status));
    free(spans);
    wire_buffer_free(&parts[i]);
  }
  assert_true(job_is_done(&fixture->job));
  assert_memory_equal(fixture->grad_input, fixture->expected, OUTPUT_BYTES);
  end_job(fixture);
}

static void offered_codec_is_decoded(void **state) {
  (void)state;
  uint8_t zeros[OUTPUT_BYTES] = {0};
  uint8_t encoded[OUTPUT_BYTES];
  struct tensor_chunk chunk = {
      .tensor_index = GRAD_INPUT, .codec = CODEC_LZ4_BLOCK, .raw_bytes = OUTPUT_BYTES};
  chunk.data_bytes = codec_encode(CODEC_LZ4_BLOCK, 0, zeros, OUTPUT_BYTES, encoded, sizeof encoded);
  assert_true(chunk.data_bytes > 0);
  struct status status;
  for (int offered = 0; offered < 2; offered++) {
    struct fixture *fixture = start_job(offered ? 1U << CODEC_LZ4_BLOCK : 0);
    memset(fixture->grad_input, 9, OUTPUT_BYTES);
    struct wire_buffer reply = {0};
    test_message_add_accepted(&reply, NULL);
    test_message_add_chunk(&reply, &chunk, encoded);
    test_message_add_done(&reply);
    assert_int_equal(test_receive(&fixture->job, &reply, &status), offered);
    assert_int_equal(job_is_done(&fixture->job), offered);
    if (offered) {
      assert_memory_equal(fixture->grad_input, zeros, OUTPUT_BYTES);
      assert_int_equal(fixture->job.wire_bytes_received, chunk.data_bytes);
    } else {
      assert_int_equal(status.reason, REASON_INTERNAL);
    }
    end_job(fixture);
  }
}

typedef void add_breach(struct wire_buffer *reply, const struct fixture *fixture);

static void add_gap(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  add_output(reply, fixture, 0, 10);
  add_output(reply, fixture, 11, 89);
}

static void add_overlap(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  add_output(reply, fixture, 0, 10);
  add_output(reply, fixture, 9, 91);
}

static void add_surplus(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  add_output(reply, fixture, 0, OUTPUT_BYTES);
  const struct tensor_chunk chunk = {.tensor_index = GRAD_INPUT, .offset = OUTPUT_BYTES, .data_bytes = 1};
  test_message_add_chunk(reply, &chunk, fixture->expected);
}

static void add_empty_chunk(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  add_output(reply, fixture, 0, 0);
}

static void add_data_for_an_input(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  const struct tensor_chunk chunk = {.tensor_index = 0, .data_bytes = 1};
  test_message_add_chunk(reply, &chunk, fixture->expected);
}

static void add_data_for_no_tensor(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  const struct tensor_chunk chunk = {.tensor_index = 4000000000U, .data_bytes = 1};
  test_message_add_chunk(reply, &chunk, fixture->expected);
}

static void add_data_before_accepted(struct wire_buffer *reply, const struct fixture *fixture) {
  add_output(reply, fixture, 0, 10);
}

static void add_unasked_plan(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, &fixture->plan);
}

static void add_early_done(struct wire_buffer *reply, const struct fixture *fixture) {
  test_message_add_accepted(reply, NULL);
  add_output(reply, fixture, 0, OUTPUT_BYTES - 1);
  test_message_add_done(reply);
}

static void add_done_alone(struct wire_buffer *reply, const struct fixture *fixture) {
  (void)fixture;
  test_message_add_done(reply);
}

static void add_garbage(struct wire_buffer *reply, const struct fixture *fixture) {
  (void)fixture;
  test_message_add(reply, "\xff\xff\xff", 3);
}

static void add_encoded(struct wire_buffer *reply, const struct fixture *fixture, enum codec codec) {
  test_message_add_accepted(reply, NULL);
  const struct tensor_chunk chunk = {
      .tensor_index = GRAD_INPUT, .codec = codec, .raw_bytes = OUTPUT_BYTES, .data_bytes = 40};
  test_message_add_chunk(reply, &chunk, fixture->expected);
}

static void add_what_does_not_decode(struct wire_buffer *reply, const struct fixture *fixture) {
  add_encoded(reply, fixture, CODEC_LZ4_BLOCK);
}

static void add_unknown_codec(struct wire_buffer *reply, const struct fixture *fixture) {
  add_encoded(reply, fixture, (enum codec)77);
}

static void add_longer_output(struct wire_buffer *reply, const struct fixture *fixture) {
  static const uint8_t longer[OUTPUT_BYTES + 1];
  (void)fixture;
  test_message_add_accepted(reply, NULL);
  const struct tensor_chunk chunk = {.tensor_index = GRAD_INPUT, .data_bytes = sizeof longer};
  test_message_add_chunk(reply, &chunk, longer);
}

// It is the server's fault, whatever the same would be in a request.
static void breaches_of_the_contract_fail(void **state) {
  (void)state;
  add_breach *breaches[] = {add_gap,
                            add_overlap,
                            add_surplus,
                            add_empty_chunk,
                            add_data_for_an_input,
                            add_data_for_no_tensor,
                            add_data_before_accepted,
                            add_unasked_plan,
                            add_early_done,
                            add_done_alone,
                            add_garbage,
                            add_what_does_not_decode,
                            add_unknown_codec,
                            add_longer_output};
  for (size_t i = 0; i < sizeof breaches / sizeof breaches[0]; i++) {
    struct fixture *fixture = start_job(1U << CODEC_LZ4_BLOCK);
    struct wire_buffer reply = {0};
    struct status status = {0};
    breaches[i](&reply, fixture);
    assert_false(test_receive(&fixture->job, &reply, &status));
    assert_int_equal(status.reason, REASON_INTERNAL);
    assert_memory_equal(status.message, REPLY_BREACH, strlen(REPLY_BREACH));
    assert_false(job_is_done(&fixture->job));
    end_job(fixture);
  }
}

static void second_accepted_fails(void **state) {
  (void)state;
  struct fixture *fixture = start_job(0);
  struct status status;
  for (int i = 0; i < 2; i++) {
    struct wire_buffer reply = {0};
    test_message_add_accepted(&reply, NULL);
    assert_int_equal(test_receive(&fixture->job, &reply, &status), i == 0);
  }
  end_job(fixture);
}

static void done_before_all_was_sent_fails(void **state) {
  (void)state;
  uint8_t grad_output[8192] = {0}, indices[8192] = {0};
  struct workspace_size_response plan;
  aclnn_tensor tensors[4];
  test_plan_fill(&plan, sizeof indices, 0);
  test_tensors_fill(tensors, grad_output, indices, sizeof indices, NULL, 0);
  const struct job_options options = {.chunk_bytes = 4096};
  struct job job;
  struct status status;
  job_init(&job, &options, tensors, 4);
  assert_true(job_use_plan(&job, &plan, &status));
  struct wire_buffer message = test_next_message(&job);
  wire_buffer_free(&message);
  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, NULL);
  test_message_add_done(&reply);
  assert_false(test_receive(&job, &reply, &status));
  job_finish(&job, false, NULL);
}

static void output_without_memory_is_allocated(void **state) {
  (void)state;
  for (int deliver = 0; deliver < 2; deliver++) {
    struct fixture *fixture = start_job(0);
    job_finish(&fixture->job, false, NULL);
    fixture->tensors[GRAD_INPUT].data = NULL;
    fixture->tensors[GRAD_INPUT].data_bytes = 0;
    const struct job_options options = {.chunk_bytes = 1 << 20};
    struct status status;
    job_init(&fixture->job, &options, fixture->tensors, 4);
    assert_true(job_use_plan(&fixture->job, &fixture->plan, &status));
    struct wire_buffer message = test_next_message(&fixture->job);
    wire_buffer_free(&message);
    struct wire_buffer reply = {0};
    test_message_add_accepted(&reply, NULL);
    add_output(&reply, fixture, 0, OUTPUT_BYTES);
    test_message_add_done(&reply);
    assert_true(test_receive(&fixture->job, &reply, &status));
    job_finish(&fixture->job, deliver, NULL);
    if (deliver) {
      assert_memory_equal(fixture->tensors[GRAD_INPUT].data, fixture->expected, OUTPUT_BYTES);
      assert_int_equal(fixture->tensors[GRAD_INPUT].data_bytes, OUTPUT_BYTES);
      aclnn_free(fixture->tensors[GRAD_INPUT].data);
    } else {
      assert_null(fixture->tensors[GRAD_INPUT].data);
    }
    free(fixture);
  }
}

static void inferred_output_is_described_with_the_result(void **state) {
  (void)state;
  struct fixture *fixture = start_job(0);
  job_finish(&fixture->job, false, NULL);
  const aclnn_call_arguments arguments = {
      .operator_name = "aclnnX", .tensors = fixture->tensors, .tensor_count = 4};
  const struct job_options options = {.chunk_bytes = 1 << 20};
  struct operator_request request;
  struct status status;
  assert_true(request_build(&arguments, ACLNN_TARGET_AUTO, ACLNN_NUMERICS_EXACT, &request, &status));
  job_init(&fixture->job, &options, fixture->tensors, 4);
  assert_true(job_use_request(&fixture->job, &request, NULL, 0, &status));
  struct wire_buffer message = test_next_message(&fixture->job);
  wire_buffer_free(&message);
  fixture->plan.executor = (struct wire_buffer){0};
  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, &fixture->plan);
  assert_true(test_receive(&fixture->job, &reply, &status));
  message = test_next_message(&fixture->job);
  wire_buffer_free(&message);
  add_output(&reply, fixture, 0, OUTPUT_BYTES);
  test_message_add_done(&reply);
  assert_true(test_receive(&fixture->job, &reply, &status));
  aclnn_summary summary;
  job_finish(&fixture->job, true, &summary);
  assert_int_equal(fixture->tensors[GRAD_INPUT].data_type, ACLNN_UINT8);
  assert_int_equal(fixture->tensors[GRAD_INPUT].rank, 1);
  assert_int_equal(fixture->tensors[GRAD_INPUT].shape[0], OUTPUT_BYTES);
  assert_int_equal(summary.workspace_size, 128);
  free(fixture);
}

// Neither phase of the job may go on with such a plan: chunks would have no place to go.
static void inconsistent_plan_in_the_reply_ends_the_job(void **state) {
  (void)state;
  for (int lie = 0; lie < 3; lie++) {
    struct fixture *fixture = start_job(0);
    job_finish(&fixture->job, false, NULL);
    fixture->tensors[GRAD_INPUT].data = NULL;
    const aclnn_call_arguments arguments = {
        .operator_name = "aclnnX", .tensors = fixture->tensors, .tensor_count = 4};
    const struct job_options options = {.chunk_bytes = 1 << 20};
    struct operator_request request;
    struct status status;
    assert_true(request_build(&arguments, ACLNN_TARGET_AUTO, ACLNN_NUMERICS_EXACT, &request, &status));
    job_init(&fixture->job, &options, fixture->tensors, 4);
    assert_true(job_use_request(&fixture->job, &request, NULL, 0, &status));
    fixture->plan.executor = (struct wire_buffer){0};
    struct tensor_plan *output = &fixture->plan.tensors[GRAD_INPUT];
    output->transferred = lie != 0;
    output->storage_bytes = lie == 1 ? 4 : OUTPUT_BYTES;
    output->desc.data_type = lie == 2 ? DATA_TYPE_STRING : DATA_TYPE_UINT8;
    struct wire_buffer reply = {0};
    test_message_add_accepted(&reply, &fixture->plan);
    add_output(&reply, fixture, 0, 4);
    assert_false(test_receive(&fixture->job, &reply, &status));
    assert_int_equal(status.reason, REASON_INTERNAL);
    assert_string_equal(status.parameter, "gradInput");
    job_finish(&fixture->job, false, NULL);
    assert_null(fixture->tensors[GRAD_INPUT].data);
    free(fixture);
  }
}

static void progress_counts_both_ways(void **state) {
  (void)state;
  struct fixture *fixture = start_job(0);
  struct status status;
  struct wire_buffer reply = {0};
  test_message_add_accepted(&reply, NULL);
  add_output(&reply, fixture, 0, 60);
  assert_true(test_receive(&fixture->job, &reply, &status));
  int64_t sent, sent_total, received, received_total;
  job_progress(&fixture->job, &sent, &sent_total, &received, &received_total);
  assert_int_equal(sent, 80);
  assert_int_equal(sent_total, 80);
  assert_int_equal(received, 60);
  assert_int_equal(received_total, OUTPUT_BYTES);
  end_job(fixture);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reply_fills_the_output),
      cmocka_unit_test(reply_may_come_byte_by_byte_and_in_many_messages),
      cmocka_unit_test(offered_codec_is_decoded),
      cmocka_unit_test(breaches_of_the_contract_fail),
      cmocka_unit_test(second_accepted_fails),
      cmocka_unit_test(done_before_all_was_sent_fails),
      cmocka_unit_test(output_without_memory_is_allocated),
      cmocka_unit_test(inferred_output_is_described_with_the_result),
      cmocka_unit_test(inconsistent_plan_in_the_reply_ends_the_job),
      cmocka_unit_test(progress_counts_both_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
