// Times of calls, and what they come to.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_TIMING_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_TIMING_H

#include <stddef.h>
#include <stdint.h>

int64_t timing_now_ns(void);

// Answers with seconds, per_second, p50_us and p99_us of so many calls, which are put in order.
void timing_answer(int64_t begin_ns, int64_t end_ns, int64_t *nanoseconds, size_t count);

#endif
