// Small calls of the floor.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_ECHO_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_ECHO_H

#include "tests/bench/transport_bench/bare_call.h"

#include <stdbool.h>

struct bare_echo_plan {
  size_t calls;
  size_t threads;
  size_t slots; // calls under way on each thread
  size_t request_bytes, reply_bytes;
  bool split;
};

// Answers as timing_answer does.
void bare_echo_run(const struct bare_client *client, const struct bare_echo_plan *plan);

#endif
