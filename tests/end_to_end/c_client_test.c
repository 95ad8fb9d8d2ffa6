// The C library against a real server: what works.

#include "tests/end_to_end/client_jobs.h"
#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Sanitizers make the same way of bytes ten times as long.
#ifdef ACLNN_SANITIZED
#define LARGE_ROWS 1024
#else
#define LARGE_ROWS 8192
#endif
#define LARGE_COLUMNS 8192 // x 4 bytes: 256 MiB with all rows

static struct test_server server;
static aclnn_client *client;

static int start(void **state) {
  (void)state;
  test_server_start(&server, "127.0.0.1:0", NULL, NULL);
  client = open_client(server.address, -1);
  return 0;
}

static int stop(void **state) {
  (void)state;
  aclnn_client_close(client);
  test_server_stop(&server);
  return 0;
}

static void two_phases_compute(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, 30, 40, 1);
  aclnn_error error;
  aclnn_plan *plan;
  must(aclnn_get_workspace_size(client, &job.arguments, false, 0, &plan, &error), &error);
  assert_int_equal(aclnn_plan_target(plan), ACLNN_TARGET_CPU);
  assert_int_equal(aclnn_plan_numerics(plan), ACLNN_NUMERICS_EXACT);
  size_t executor_bytes;
  assert_non_null(aclnn_plan_executor(plan, &executor_bytes));
  assert_true(executor_bytes > 0);
  bool transferred;
  assert_int_equal(aclnn_plan_storage_bytes(plan, "gradInput", &transferred), 4800);
  assert_true(transferred);
  assert_int_equal(aclnn_plan_storage_bytes(plan, "self", &transferred), 4800);
  assert_false(transferred);
  assert_int_equal(aclnn_plan_storage_bytes(plan, "nothing", NULL), -1);

  aclnn_summary summary;
  must(aclnn_execute(client, plan, job.tensors, 4, &summary, &error), &error);
  identity_job_check(&job);
  assert_int_equal(summary.target, ACLNN_TARGET_CPU);
  assert_int_equal(summary.attempts, 1);
  // Less if encoding is found to pay.
  assert_in_range(summary.bytes_sent, 1, 9600);
  assert_in_range(summary.bytes_received, 1, 4800);
  assert_int_equal(summary.workspace_size, aclnn_plan_workspace_size(plan));
  must(aclnn_destroy(client, plan, &error), &error);
  identity_job_free(&job);
}

static void one_call_computes_small_and_large(void **state) {
  (void)state;
  // Sent with the begin; one message too much for that; many chunks.
  const int64_t rows[] = {1, 31, 1000, 3000};
  for (size_t i = 0; i < 4; i++) {
    struct identity_job job;
    identity_job_init(&job, rows[i], 1057, (int)i);
    aclnn_error error;
    aclnn_summary summary;
    must(aclnn_call(client, &job.arguments, &summary, &error), &error);
    identity_job_check(&job);
    assert_in_range(summary.bytes_sent, 1, 8 * job.elements);
    identity_job_free(&job);
  }
}

static void one_shot_runs_once_repeatable_often(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, 8, 8, 1);
  aclnn_error error;
  aclnn_plan *plan;
  for (int repeatable = 0; repeatable < 2; repeatable++) {
    must(aclnn_get_workspace_size(client, &job.arguments, repeatable, 60000, &plan, &error), &error);
    must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error);
    identity_job_check(&job);
    for (int i = 0; i < 3; i++) {
      aclnn_result result = aclnn_execute(client, plan, job.tensors, 4, NULL, &error);
      assert_int_equal(result, repeatable ? ACLNN_OK : ACLNN_FAILED);
      if (repeatable) {
        identity_job_check(&job);
      } else {
        assert_string_equal(error.reason, "EXECUTOR_CONSUMED");
      }
    }
    must(aclnn_destroy(client, plan, &error), &error);
  }
  identity_job_free(&job);
}

#define EXECUTIONS 40

static void executions_run_side_by_side_and_end_in_any_order(void **state) {
  (void)state;
  struct identity_job jobs[EXECUTIONS];
  aclnn_plan *plans[EXECUTIONS];
  aclnn_execution *executions[EXECUTIONS];
  aclnn_error error;
  for (int i = 0; i < EXECUTIONS; i++) {
    // Every eighth is sent in many chunks.
    identity_job_init(&jobs[i], i % 8 == 7 ? 1500 : 4, 500, i);
    must(aclnn_get_workspace_size(client, &jobs[i].arguments, i % 2 == 0, 0, &plans[i], &error), &error);
    must(aclnn_execution_begin(client, plans[i], jobs[i].tensors, 4, &executions[i], &error), &error);
  }
  for (int i = EXECUTIONS; i-- > 0;) {
    aclnn_summary summary = {0};
    must(aclnn_execution_wait(executions[i], &summary, &error), &error);
    identity_job_check(&jobs[i]);
    assert_int_equal(summary.workspace_size, aclnn_plan_workspace_size(plans[i]));
    must(aclnn_destroy(client, plans[i], &error), &error);
    identity_job_free(&jobs[i]);
  }
}

struct wait_elsewhere {
  aclnn_execution *execution;
  aclnn_result result;
};

static void *wait_elsewhere(void *argument) {
  struct wait_elsewhere *wait = argument;
  wait->result = aclnn_execution_wait(wait->execution, NULL, NULL);
  return NULL;
}

static void executions_are_waited_for_on_any_thread(void **state) {
  (void)state;
  struct identity_job jobs[8];
  struct wait_elsewhere waits[8];
  pthread_t threads[8];
  aclnn_plan *plans[8];
  aclnn_error error;
  for (int i = 0; i < 8; i++) {
    identity_job_init(&jobs[i], 30, 40, i);
    must(aclnn_get_workspace_size(client, &jobs[i].arguments, true, 0, &plans[i], &error), &error);
    must(aclnn_execution_begin(client, plans[i], jobs[i].tensors, 4, &waits[i].execution, &error), &error);
  }
  for (int i = 0; i < 8; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, wait_elsewhere, &waits[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(waits[i].result, ACLNN_OK);
    identity_job_check(&jobs[i]);
    identity_job_free(&jobs[i]);
    must(aclnn_destroy(client, plans[i], &error), &error);
  }
}

static void execution_of_a_used_one_shot_fails_when_it_is_waited_for(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, 8, 8, 1);
  aclnn_error error;
  aclnn_plan *plan;
  aclnn_execution *execution;
  must(aclnn_get_workspace_size(client, &job.arguments, false, 0, &plan, &error), &error);
  must(aclnn_execution_begin(client, plan, job.tensors, 4, &execution, &error), &error);
  must(aclnn_execution_wait(execution, NULL, &error), &error);
  identity_job_check(&job);
  must(aclnn_execution_begin(client, plan, job.tensors, 4, &execution, &error), &error);
  assert_int_equal(aclnn_execution_wait(execution, NULL, &error), ACLNN_FAILED);
  assert_string_equal(error.reason, "EXECUTOR_CONSUMED");
  must(aclnn_destroy(client, plan, &error), &error);
  identity_job_free(&job);
}

static void execution_may_be_cancelled_instead_of_waited_for(void **state) {
  (void)state;
  struct identity_job job;
  aclnn_error error;
  aclnn_plan *plan;
  aclnn_execution *execution;
  aclnn_execution_cancel(NULL);
  for (int repeatable = 0; repeatable < 2; repeatable++) {
    identity_job_init(&job, 1000, 700, repeatable);
    must(aclnn_get_workspace_size(client, &job.arguments, repeatable, 0, &plan, &error), &error);
    must(aclnn_execution_begin(client, plan, job.tensors, 4, &execution, &error), &error);
    aclnn_execution_cancel(execution);
    memset(job.grad_input, 0, (size_t)job.elements * 4);
    must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error); // a one-shot is planned anew
    identity_job_check(&job);
    must(aclnn_destroy(client, plan, &error), &error);
    identity_job_free(&job);
  }
}

static void execution_with_a_wrong_tensor_does_not_begin(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, 8, 8, 1);
  aclnn_error error;
  aclnn_plan *plan;
  must(aclnn_get_workspace_size(client, &job.arguments, false, 0, &plan, &error), &error);
  aclnn_execution *execution = NULL;
  job.tensors[GRAD_OUTPUT].data_bytes -= 1;
  assert_int_equal(aclnn_execution_begin(client, plan, job.tensors, 4, &execution, &error), ACLNN_FAILED);
  assert_string_equal(error.reason, "ACLNN_ERR_PARAM_INVALID");
  assert_string_equal(error.parameter, "gradOutput");
  assert_null(execution);
  job.tensors[GRAD_OUTPUT].data_bytes += 1;
  must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error); // the one-shot is still there
  identity_job_check(&job);
  must(aclnn_destroy(client, plan, &error), &error);
  identity_job_free(&job);
}

static void outputs_are_inferred_and_allocated(void **state) {
  (void)state;
  float image[2 * 6] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t size[] = {1, 3};
  for (int two_phases = 0; two_phases < 2; two_phases++) {
    aclnn_tensor tensors[] = {
        {"self", false, ACLNN_FLOAT, 3, {1, 2, 6}, .data = image, .data_bytes = sizeof image},
        {"outputOut", true},
        {"indicesOut", true},
    };
    const aclnn_attribute attribute = {"outputSize", ACLNN_INT_ARRAY, .values = size, .value_count = 2};
    const aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2d", tensors, 3, &attribute, 1};
    aclnn_error error;
    if (two_phases) {
      aclnn_plan *plan;
      must(aclnn_get_workspace_size(client, &arguments, false, 0, &plan, &error), &error);
      assert_int_equal(tensors[1].rank, 3);
      assert_int_equal(tensors[2].data_type, ACLNN_INT64);
      must(aclnn_execute(client, plan, tensors, 3, NULL, &error), &error);
      must(aclnn_destroy(client, plan, &error), &error);
    } else {
      must(aclnn_call(client, &arguments, NULL, &error), &error);
    }
    assert_int_equal(tensors[1].data_type, ACLNN_FLOAT);
    assert_int_equal(tensors[1].shape[2], 3);
    assert_int_equal(tensors[1].data_bytes, 12);
    assert_int_equal(tensors[2].data_type, ACLNN_INT64);
    assert_int_equal(tensors[2].data_bytes, 24);
    const float *pooled = tensors[1].data;
    const int64_t *indices = tensors[2].data;
    for (int i = 0; i < 3; i++) {
      assert_true(pooled[i] == (float)(8 + 2 * i));
      assert_int_equal(indices[i], 7 + 2 * i);
    }
    aclnn_free(tensors[1].data);
    aclnn_free(tensors[2].data);
  }
}

static void strided_views_are_sent_as_they_lie(void **state) {
  (void)state;
  // gradOutput and gradInput lie transposed in their storages, gradInput with a hole of one column.
  struct identity_job job;
  identity_job_init(&job, 3, 5, 1);
  float transposed[15], storage[20];
  for (int row = 0; row < 3; row++) {
    for (int column = 0; column < 5; column++) {
      transposed[column * 3 + row] = job.grad_output[row * 5 + column];
    }
  }
  const int64_t strides[] = {15, 1, 3};
  const int64_t output_strides[] = {20, 1, 4};
  job.tensors[GRAD_OUTPUT].has_strides = job.tensors[GRAD_INPUT].has_strides = true;
  memcpy(job.tensors[GRAD_OUTPUT].strides, strides, sizeof strides);
  memcpy(job.tensors[GRAD_INPUT].strides, output_strides, sizeof output_strides);
  job.tensors[GRAD_OUTPUT].data = transposed;
  job.tensors[GRAD_INPUT].data = storage;
  job.tensors[GRAD_INPUT].data_bytes = sizeof storage;
  job.tensors[GRAD_INPUT].storage_elements = 20;
  memset(storage, 0xff, sizeof storage);
  aclnn_error error;
  must(aclnn_call(client, &job.arguments, NULL, &error), &error);
  for (int column = 0; column < 5; column++) {
    for (int row = 0; row < 3; row++) {
      assert_true(storage[column * 4 + row] == job.grad_output[row * 5 + column]);
    }
    assert_true(storage[column * 4 + 3] == 0); // holes come back as zeros
  }
  identity_job_free(&job);
}

static void sixteen_bit_floats_keep_their_bits(void **state) {
  (void)state;
  const aclnn_data_type types[] = {ACLNN_BF16, ACLNN_FLOAT16};
  uint16_t bits[4] = {0x3f80, 0x4000, 0x0001, 0xc2c8};
  int64_t indices[4] = {3, 0, 1, 2};
  for (int i = 0; i < 2; i++) {
    uint16_t result[4];
    aclnn_tensor tensors[] = {
        {"gradOutput", false, types[i], 3, {1, 2, 2}, .data = bits, .data_bytes = sizeof bits},
        {"self", false, types[i], 3, {1, 2, 2}},
        {"indices", false, ACLNN_INT64, 3, {1, 2, 2}, .data = indices, .data_bytes = sizeof indices},
        {"gradInput", true, types[i], 3, {1, 2, 2}, .data = result, .data_bytes = sizeof result},
    };
    const aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2dBackward", tensors, 4, NULL, 0};
    aclnn_error error;
    must(aclnn_call(client, &arguments, NULL, &error), &error);
    for (int j = 0; j < 4; j++) {
      assert_int_equal(result[indices[j]], bits[j]);
    }
  }
}

static void empty_tensors_are_served(void **state) {
  (void)state;
  aclnn_tensor tensors[] = {
      {"gradOutput", false, ACLNN_FLOAT, 4, {0, 1, 2, 2}},
      {"self", false, ACLNN_FLOAT, 4, {0, 1, 4, 4}},
      {"indices", false, ACLNN_INT64, 4, {0, 1, 2, 2}},
      {"gradInput", true},
  };
  const aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2dBackward", tensors, 4, NULL, 0};
  aclnn_error error;
  must(aclnn_call(client, &arguments, NULL, &error), &error);
  assert_int_equal(tensors[GRAD_INPUT].data_bytes, 0);
  assert_int_equal(tensors[GRAD_INPUT].rank, 4);
  aclnn_free(tensors[GRAD_INPUT].data);
}

static void stream_runs_jobs_in_order(void **state) {
  (void)state;
  enum { JOBS = 6 };
  struct identity_job jobs[JOBS];
  aclnn_plan *plan;
  aclnn_stream *stream;
  aclnn_error error;
  for (int i = 0; i < JOBS; i++) {
    identity_job_init(&jobs[i], 1000, 700, i); // 5.6 MB up, 2.8 down: more than any window holds
  }
  must(aclnn_get_workspace_size(client, &jobs[0].arguments, true, 0, &plan, &error), &error);
  must(aclnn_stream_open(client, &stream, &error), &error);
  for (int i = 0; i < JOBS; i++) {
    must(aclnn_stream_submit(stream, plan, jobs[i].tensors, 4, &error), &error);
  }
  for (int i = 0; i < JOBS; i++) {
    aclnn_summary summary;
    must(aclnn_stream_wait(stream, &summary, &error), &error);
    assert_in_range(summary.bytes_received, 1, 2800000);
    identity_job_check(&jobs[i]);
  }
  assert_int_equal(aclnn_stream_wait(stream, NULL, &error), ACLNN_FAILED);
  assert_string_equal(error.reason, "SEQUENCE_INVALID");
  must(aclnn_stream_submit(stream, plan, jobs[0].tensors, 4, &error), &error);
  must(aclnn_stream_wait(stream, NULL, &error), &error);
  identity_job_check(&jobs[0]);
  aclnn_stream_close(stream);
  must(aclnn_destroy(client, plan, &error), &error);
  for (int i = 0; i < JOBS; i++) {
    identity_job_free(&jobs[i]);
  }
}

static void stream_may_be_left_in_the_middle(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, 1000, 700, 1);
  aclnn_plan *plan;
  aclnn_stream *stream;
  aclnn_error error;
  must(aclnn_get_workspace_size(client, &job.arguments, true, 0, &plan, &error), &error);
  must(aclnn_stream_open(client, &stream, &error), &error);
  aclnn_stream_close(stream); // nothing was sent
  must(aclnn_stream_open(client, &stream, &error), &error);
  must(aclnn_stream_submit(stream, plan, job.tensors, 4, &error), &error);
  aclnn_stream_close(stream); // not waited for
  must(aclnn_execute(client, plan, job.tensors, 4, NULL, &error), &error);
  identity_job_check(&job);
  must(aclnn_destroy(client, plan, &error), &error);
  identity_job_free(&job);
}

static void large_tensors_pass(void **state) {
  (void)state;
  struct identity_job job;
  identity_job_init(&job, LARGE_ROWS, LARGE_COLUMNS, 1);
  aclnn_error error;
  must(aclnn_call(client, &job.arguments, NULL, &error), &error);
  identity_job_check(&job);
  identity_job_free(&job);
}

static void chunk_size_and_codec_are_the_clients_choice(void **state) {
  (void)state;
  const aclnn_client_options choices[] = {
      {.target_address = server.address, .max_chunk_bytes = 4096},
      {.target_address = server.address, .max_chunk_bytes = (4 << 20) - 65536},
      {.target_address = server.address, .max_chunk_bytes = 65536},
      {.target_address = server.address, .plain_data = true},
  };
  for (size_t i = 0; i < 4; i++) {
    aclnn_client *other;
    aclnn_error error;
    aclnn_summary summary;
    must(aclnn_client_open(&choices[i], &other, &error), &error);
    struct identity_job job;
    identity_job_init(&job, 500, 1000, 1);
    // The gradient of few values is mostly zeros.
    for (int64_t at = 0; at < job.elements; at++) {
      job.grad_output[at] = at % 97 == 0 ? job.grad_output[at] : 0;
    }
    aclnn_plan *plan;
    must(aclnn_get_workspace_size(other, &job.arguments, false, 0, &plan, &error), &error);
    must(aclnn_execute(other, plan, job.arguments.tensors, job.arguments.tensor_count, &summary, &error),
         &error);
    must(aclnn_destroy(other, plan, &error), &error);
    identity_job_check(&job);
    if (choices[i].plain_data) {
      assert_int_equal(summary.bytes_received, 4 * job.elements);
      assert_int_equal(summary.bytes_sent, 8 * job.elements);
    }
    identity_job_free(&job);
    aclnn_client_close(other);
  }
}

static void *call_often(void *context) {
  struct identity_job job;
  int seed = *(int *)context;
  identity_job_init(&job, 20 + 100 * (seed % 3), 50, seed);
  for (int i = 0; i < 30; i++) {
    aclnn_error error;
    if (aclnn_call(client, &job.arguments, NULL, &error) != ACLNN_OK ||
        memcmp(job.grad_input, job.grad_output, (size_t)job.elements * 4) != 0) {
      identity_job_free(&job);
      return context;
    }
    memset(job.grad_input, 0, (size_t)job.elements * 4);
  }
  identity_job_free(&job);
  return NULL;
}

static void threads_share_a_client(void **state) {
  (void)state;
  enum { THREADS = 20 };
  pthread_t threads[THREADS];
  int seeds[THREADS];
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &seeds[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
}

static void server_describes_itself(void **state) {
  (void)state;
  static aclnn_server_info info;
  aclnn_error error;
  must(aclnn_get_server_info(client, &info, &error), &error);
  assert_true(info.server_version[0] != '\0');
  assert_int_equal(info.contract_revision, 1);
  assert_true(info.memory_budget_bytes > 0);
  assert_non_null(strstr(info.codecs, "NONE"));
  assert_int_equal(info.targets[0].target, ACLNN_TARGET_CPU);
  assert_string_equal(info.targets[0].numerics, "EXACT");

  aclnn_operator_info *operators;
  size_t count;
  must(aclnn_list_operators(client, &operators, &count, &error), &error);
  bool found = false;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(operators[i].name, "aclnnAdaptiveMaxPool2dBackward") == 0) {
      found = true;
      assert_true(operators[i].pure);
      assert_int_equal(operators[i].parameter_count, 4);
      assert_string_equal(operators[i].parameters[1].name, "self");
      assert_true(operators[i].parameters[1].shape_only);
      assert_string_equal(operators[i].parameters[2].data_types, "int32, int64");
      assert_string_equal(operators[i].parameters[2].ranks, "3, 4");
    }
  }
  assert_true(found);
  aclnn_free(operators);

  bool serving = false;
  must(aclnn_check_health(client, "", &serving, &error), &error);
  assert_true(serving);
  assert_int_equal(aclnn_check_health(client, "no.such.Service", &serving, &error), ACLNN_FAILED);
  assert_string_equal(aclnn_code_name(error.code), "NOT_FOUND");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_phases_compute),
      cmocka_unit_test(one_call_computes_small_and_large),
      cmocka_unit_test(one_shot_runs_once_repeatable_often),
      cmocka_unit_test(executions_run_side_by_side_and_end_in_any_order),
      cmocka_unit_test(executions_are_waited_for_on_any_thread),
      cmocka_unit_test(execution_of_a_used_one_shot_fails_when_it_is_waited_for),
      cmocka_unit_test(execution_may_be_cancelled_instead_of_waited_for),
      cmocka_unit_test(execution_with_a_wrong_tensor_does_not_begin),
      cmocka_unit_test(outputs_are_inferred_and_allocated),
      cmocka_unit_test(strided_views_are_sent_as_they_lie),
      cmocka_unit_test(sixteen_bit_floats_keep_their_bits),
      cmocka_unit_test(empty_tensors_are_served),
      cmocka_unit_test(stream_runs_jobs_in_order),
      cmocka_unit_test(stream_may_be_left_in_the_middle),
      cmocka_unit_test(large_tensors_pass),
      cmocka_unit_test(chunk_size_and_codec_are_the_clients_choice),
      cmocka_unit_test(threads_share_a_client),
      cmocka_unit_test(server_describes_itself),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
