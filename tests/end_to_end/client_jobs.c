#include "tests/end_to_end/client_jobs.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void identity_job_init(struct identity_job *job, int64_t rows, int64_t columns, int seed) {
  memset(job, 0, sizeof *job);
  size_t elements = (size_t)(rows * columns);
  job->elements = rows * columns;
  job->grad_output = malloc(elements * sizeof(float));
  job->indices = malloc(elements * sizeof(int32_t));
  job->grad_input = malloc(elements * sizeof(float));
  assert_true(job->grad_output != NULL && job->indices != NULL && job->grad_input != NULL);
  for (size_t i = 0; i < elements; i++) {
    job->grad_output[i] = (float)((i * 31 + (size_t)seed * 7) % 1000003 + 1);
    job->indices[i] = (int32_t)i;
  }
  memset(job->grad_input, 0xff, elements * sizeof(float));
  const char *names[] = {"gradOutput", "self", "indices", "gradInput"};
  void *data[] = {job->grad_output, NULL, job->indices, job->grad_input};
  for (size_t i = 0; i < 4; i++) {
    job->tensors[i] = (aclnn_tensor){.name = names[i],
                                     .output = i == GRAD_INPUT,
                                     .data_type = i == INDICES ? ACLNN_INT32 : ACLNN_FLOAT,
                                     .rank = 3,
                                     .shape = {1, rows, columns},
                                     .data = data[i],
                                     .data_bytes = data[i] == NULL ? 0 : elements * 4};
  }
  job->arguments = (aclnn_call_arguments){"aclnnAdaptiveMaxPool2dBackward", job->tensors, 4, NULL, 0};
}

void identity_job_check(struct identity_job *job) {
  size_t bytes = (size_t)job->elements * sizeof(float);
  assert_int_equal(memcmp(job->grad_input, job->grad_output, bytes), 0);
  memset(job->grad_input, 0xff, bytes);
}

void identity_job_free(struct identity_job *job) {
  free(job->grad_output);
  free(job->indices);
  free(job->grad_input);
}

void must(aclnn_result result, const aclnn_error *error) {
  if (result != ACLNN_OK) {
    fail_msg("%s (%d): %s", error->reason, error->code, error->message);
  }
}

aclnn_client *open_client(const char *address, int retries) {
  const aclnn_client_options options = {.target_address = address, .retries = retries};
  aclnn_client *client = NULL;
  aclnn_error error;
  assert_int_equal(aclnn_client_open(&options, &client, &error), ACLNN_OK);
  return client;
}
