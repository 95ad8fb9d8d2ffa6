// Jobs whose results are known without computing: pooling to the size of the input gives the input, and its
// gradient is the gradient that came in.
#ifndef ACLNN_TESTS_END_TO_END_CLIENT_JOBS_H
#define ACLNN_TESTS_END_TO_END_CLIENT_JOBS_H

#include "client/c/aclnn_client.h"

// An identity backward over a plane of `rows` x `columns`: gradOutput, self (shape only), indices and
// gradInput.
struct identity_job {
  aclnn_tensor tensors[4];
  aclnn_call_arguments arguments;
  int64_t elements;
  float *grad_output;
  int32_t *indices;
  float *grad_input;
};

enum identity_tensor { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT };

// `seed` makes jobs differ.
void identity_job_init(struct identity_job *job, int64_t rows, int64_t columns, int seed);
// Fails the test if gradInput isn't gradOutput. Then wipes it.
void identity_job_check(struct identity_job *job);
void identity_job_free(struct identity_job *job);

// Fails the test, with what the error says, unless the result is ACLNN_OK.
void must(aclnn_result result, const aclnn_error *error);

// A client, or a failed test. Never tries again by itself unless `retries` says so.
aclnn_client *open_client(const char *address, int retries);

#endif
