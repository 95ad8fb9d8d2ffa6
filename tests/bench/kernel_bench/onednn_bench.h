// Max pooling by oneDNN on the caller's memory, for comparison: where every window is as large as the others.
// It keeps positions in a workspace of its own in place of indices; the backward needs a forward run before
// it.
//
// Works with as many threads as OpenMP's setting of the calling thread says when it is created and run. One
// thread at a time may use a pooling; the caller destroys it.
#ifndef ACLNN_TESTS_BENCH_KERNEL_BENCH_ONEDNN_BENCH_H
#define ACLNN_TESTS_BENCH_KERNEL_BENCH_ONEDNN_BENCH_H

#include <stddef.h>
#include <stdint.h>

struct onednn_pooling;

// shape is N, C, H, W, Ho, Wo; H and W are multiples of Ho and Wo. blocked: sixteen channels lie side by side
// (nChw16c; C is a multiple of 16), otherwise NCHW. value_type is "fp32" or "bf16". NULL if oneDNN can't.
struct onednn_pooling *onednn_pooling_create(const char *value_type, const int64_t shape[6], int blocked);
void onednn_pooling_destroy(struct onednn_pooling *pooling);

// From self to output and the workspace; 0 if it worked.
int onednn_pooling_forward(struct onednn_pooling *pooling, void *self, void *output);
// From the gradient of the output, and the workspace, to that of self; 0 if it worked.
int onednn_pooling_backward(struct onednn_pooling *pooling, void *grad_output, void *grad_input);

// "2.6.3" or the like.
const char *onednn_pooling_version(void);

#endif
