// Plans and messages for the tests of jobs.
#ifndef ACLNN_CLIENT_C_JOB_TEST_SUPPORT_H
#define ACLNN_CLIENT_C_JOB_TEST_SUPPORT_H

#include "client/c/job.h"

// The plan of a backward over a gradOutput and indices of `small_bytes` each and a gradInput of
// `output_bytes`; self is not transferred. Tensor indices: gradOutput 0, self 1, indices 2, gradInput 3. The
// executor is "handle".
void test_plan_fill(struct workspace_size_response *plan, int64_t small_bytes, int64_t output_bytes);

// The caller's tensors for that plan, in the same order; memory is the caller's.
void test_tensors_fill(aclnn_tensor tensors[4], void *grad_output, void *indices, size_t small_bytes,
                       void *grad_input, size_t output_bytes);

// A message of bytes that is put together piece by piece, freed with wire_buffer_free.
void test_message_add(struct wire_buffer *message, const void *data, size_t size);
void test_message_add_accepted(struct wire_buffer *message, const struct workspace_size_response *plan);
void test_message_add_chunk(struct wire_buffer *message, const struct tensor_chunk *chunk, const void *data);
void test_message_add_done(struct wire_buffer *message);

// The job's next message as bytes; size 0 if there is none. Data go plain, or as `choice` finds.
struct wire_buffer test_next_message(struct job *job);
struct wire_buffer test_next_message_encoded(struct job *job, struct codec_choice *choice);

// Hands the message to the job as one span and frees it.
bool test_receive(struct job *job, struct wire_buffer *message, struct status *status);

#endif
