// A fuzz target: one function that takes any bytes and ends the program where a promise is broken.
//
// libFuzzer calls it (tests/fuzz/run), and so do the replay tests, which need no clang. A failed assertion or
// a sanitizer's report is a finding.
#ifndef ACLNN_TESTS_FUZZ_FUZZ_TARGET_H
#define ACLNN_TESTS_FUZZ_FUZZ_TARGET_H

#include "kernels/status.h"
#include "proto/wire/wire_buffer.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A refusal has one of the reasons that are allowed, a number of CANN's that belongs to it, and a message.
void fuzz_expect_refusal(const struct status *status, const enum reason *allowed, size_t count);
// Reasons that a request may be refused with while it is read.
void fuzz_expect_request_refusal(const struct status *status);

void fuzz_expect_same_bytes(const struct wire_buffer *first, const struct wire_buffer *second);

#endif
