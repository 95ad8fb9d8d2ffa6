// One job for the tests of whole calls, a forward pooling of one plane: its request, its messages, its reply.
#ifndef ACLNN_SERVER_RPC_TEST_JOBS_H
#define ACLNN_SERVER_RPC_TEST_JOBS_H

#include "kernels/operator.h"
#include "proto/wire/execute_envelope.h"
#include "proto/wire/messages.h"

// 8 x 8 floats to 4 x 4.
enum { SIDE = 8, POOLED = 4, INPUT_BYTES = SIDE * SIDE * 4, OUTPUT_BYTES = POOLED * POOLED * 4 };

// For target CPU.
void test_job_request(int64_t planes, struct operator_request *request);

// Messages grow at their end and are freed by whoever sends them.
void test_message_append(struct wire_buffer *message, const void *data, size_t size);
void test_message_append_begin(struct wire_buffer *message, const struct execute_begin *begin);
// Input that counts up: the maximum of each window is its last element.
void test_message_append_input(struct wire_buffer *message, int64_t offset, size_t size);
void test_message_begin(struct wire_buffer *message, int64_t planes);
struct wire_buffer test_message_whole_job(void);
struct wire_buffer test_message_first_half(void);
struct wire_buffer test_message_second_half(void);

// Checks a reply that is one message, accepted, both outputs and done, and frees it. plan (that accepted
// holds) and done are filled unless they are NULL.
void test_reply_check(struct wire_buffer *reply, struct workspace_size_response *plan,
                      struct execute_done *done);

#endif
