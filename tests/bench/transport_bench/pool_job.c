#include "tests/bench/transport_bench/pool_job.h"

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <stdlib.h>
#include <string.h>

enum { GRAD_OUTPUT, SELF, INDICES, GRAD_INPUT };
enum { FORWARD_SELF, FORWARD_OUTPUT, FORWARD_INDICES };

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

// Values in [1, 2) and (-2, -1]: no codec finds anything in them.
static void fill(float *values, size_t count) {
  uint64_t state = 88172645463325252ULL;
  for (size_t i = 0; i < count; ++i) {
    uint64_t random = next_random(&state);
    uint32_t bits = 0x3f800000u | (uint32_t)(random & 0x807fffffu);
    memcpy(&values[i], &bits, sizeof bits);
  }
}

static size_t planes(const struct pool_job *job) {
  return (size_t)(job->shape[0] * job->shape[1]);
}

static size_t large_cells(const struct pool_job *job) {
  return (size_t)(job->shape[2] * job->shape[3]);
}

static size_t small_cells(const struct pool_job *job) {
  return (size_t)(job->shape[4] * job->shape[5]);
}

static aclnn_tensor make_tensor(const struct pool_job *job, const char *name, aclnn_data_type type,
                                bool small, bool output) {
  aclnn_tensor tensor = {.name = name, .output = output, .data_type = type, .rank = 4};
  const int64_t *shape = job->shape;
  const int64_t dims[] = {shape[0], shape[1], shape[small ? 4 : 2], shape[small ? 5 : 3]};
  memcpy(tensor.shape, dims, sizeof dims);
  tensor.data_bytes = planes(job) * (small ? small_cells(job) : large_cells(job)) * 4;
  return tensor;
}

static void give_memory(aclnn_tensor *tensor) {
  tensor->data = warm_memory_get(tensor->data_bytes);
}

// A random cell of the window of each output: all different where windows don't overlap.
static void choose_indices(const struct pool_job *job, int32_t *indices) {
  uint64_t state = 1181783497276652981ULL;
  const int64_t *shape = job->shape;
  for (size_t plane = 0; plane < planes(job); ++plane) {
    for (int64_t y = 0; y < shape[4]; ++y) {
      for (int64_t x = 0; x < shape[5]; ++x) {
        int64_t top = y * shape[2] / shape[4], bottom = ((y + 1) * shape[2] + shape[4] - 1) / shape[4];
        int64_t left = x * shape[3] / shape[5], right = ((x + 1) * shape[3] + shape[5] - 1) / shape[5];
        uint64_t random = next_random(&state) >> 16;
        int64_t row = top + (int64_t)(random % (uint64_t)(bottom - top));
        int64_t column = left + (int64_t)((random >> 20) % (uint64_t)(right - left));
        *indices++ = (int32_t)(row * shape[3] + column);
      }
    }
  }
}

void pool_job_make_backward(struct pool_job *job, const int64_t shape[POOL_SHAPE_DIMS]) {
  *job = (struct pool_job){.forward = false, .tensor_count = 4};
  memcpy(job->shape, shape, sizeof job->shape);
  job->tensors[GRAD_OUTPUT] = make_tensor(job, "gradOutput", ACLNN_FLOAT, true, false);
  job->tensors[SELF] = make_tensor(job, "self", ACLNN_FLOAT, false, false);
  job->tensors[SELF].data_bytes = 0; // only its shape is read
  job->tensors[INDICES] = make_tensor(job, "indices", ACLNN_INT32, true, false);
  job->tensors[GRAD_INPUT] = make_tensor(job, "gradInput", ACLNN_FLOAT, false, true);
  give_memory(&job->tensors[GRAD_OUTPUT]);
  give_memory(&job->tensors[INDICES]);
  give_memory(&job->tensors[GRAD_INPUT]);
  fill(job->tensors[GRAD_OUTPUT].data, job->tensors[GRAD_OUTPUT].data_bytes / 4);
  choose_indices(job, job->tensors[INDICES].data);
  job->arguments = (aclnn_call_arguments){"aclnnAdaptiveMaxPool2dBackward", job->tensors, 4, NULL, 0};
}

void pool_job_make_forward(struct pool_job *job, const int64_t shape[POOL_SHAPE_DIMS]) {
  *job = (struct pool_job){.forward = true, .tensor_count = 3};
  memcpy(job->shape, shape, sizeof job->shape);
  job->tensors[FORWARD_SELF] = make_tensor(job, "self", ACLNN_FLOAT, false, false);
  job->tensors[FORWARD_OUTPUT] = make_tensor(job, "outputOut", ACLNN_FLOAT, true, true);
  job->tensors[FORWARD_INDICES] = make_tensor(job, "indicesOut", ACLNN_INT32, true, true);
  for (size_t i = 0; i < job->tensor_count; ++i) {
    give_memory(&job->tensors[i]);
  }
  fill(job->tensors[FORWARD_SELF].data, job->tensors[FORWARD_SELF].data_bytes / 4);
  job->output_size[0] = shape[4];
  job->output_size[1] = shape[5];
  job->attribute = (aclnn_attribute){
      .name = "outputSize", .kind = ACLNN_INT_ARRAY, .values = job->output_size, .value_count = 2};
  job->arguments = (aclnn_call_arguments){"aclnnAdaptiveMaxPool2d", job->tensors, 3, &job->attribute, 1};
}

static bool is_right_backward(const struct pool_job *job, float *plane_expected) {
  const float *grad_output = job->tensors[GRAD_OUTPUT].data;
  const int32_t *indices = job->tensors[INDICES].data;
  const float *grad_input = job->tensors[GRAD_INPUT].data;
  for (size_t plane = 0; plane < planes(job); ++plane) {
    memset(plane_expected, 0, large_cells(job) * sizeof *plane_expected);
    for (size_t cell = 0; cell < small_cells(job); ++cell) {
      plane_expected[*indices++] += *grad_output++;
    }
    if (memcmp(plane_expected, grad_input, large_cells(job) * sizeof *plane_expected) != 0) {
      return false;
    }
    grad_input += large_cells(job);
  }
  return true;
}

// That each value is its index's; that it is the greatest is for other tests to see.
static bool is_right_forward(const struct pool_job *job) {
  const float *self = job->tensors[FORWARD_SELF].data;
  const float *output = job->tensors[FORWARD_OUTPUT].data;
  const int32_t *indices = job->tensors[FORWARD_INDICES].data;
  for (size_t plane = 0; plane < planes(job); ++plane) {
    for (size_t cell = 0; cell < small_cells(job); ++cell, ++output, ++indices) {
      if (*indices < 0 || (size_t)*indices >= large_cells(job) || self[*indices] != *output) {
        return false;
      }
    }
    self += large_cells(job);
  }
  return true;
}

void pool_job_check(struct pool_job *job) {
  if (job->checked) {
    return;
  }
  float *scratch = malloc(large_cells(job) * sizeof *scratch);
  if (scratch == NULL || !(job->forward ? is_right_forward(job) : is_right_backward(job, scratch))) {
    command_fail("a result is wrong");
  }
  free(scratch);
  job->checked = true;
}
