// Pooling jobs with their data, and whether a result is right. Made once, used again and again: their memory
// is warm.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_POOL_JOB_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_POOL_JOB_H

#include "client/c/aclnn_client.h"

// N, C, H, W, Ho, Wo.
#define POOL_SHAPE_DIMS 6

struct pool_job {
  bool forward;
  int64_t shape[POOL_SHAPE_DIMS];
  aclnn_tensor tensors[4];
  size_t tensor_count;
  int64_t output_size[2];
  aclnn_attribute attribute;
  aclnn_call_arguments arguments;
  bool checked;
};

// gradOutput (random) and indices (int32, one of each window) to gradInput.
void pool_job_make_backward(struct pool_job *job, const int64_t shape[POOL_SHAPE_DIMS]);

// self (random) to outputOut and indicesOut (int32).
void pool_job_make_forward(struct pool_job *job, const int64_t shape[POOL_SHAPE_DIMS]);

// Ends the program if the outputs aren't what they have to be; looks at a job's first result only.
void pool_job_check(struct pool_job *job);

#endif
