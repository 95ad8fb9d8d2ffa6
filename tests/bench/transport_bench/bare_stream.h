// Streams of raw bytes: each answers with the seconds that it took from the call's start to its end.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_STREAM_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_STREAM_H

#include "tests/bench/transport_bench/bare_call.h"

void bare_stream_download(const struct bare_client *client, size_t bytes, size_t message_bytes);
void bare_stream_upload(const struct bare_client *client, size_t bytes, size_t message_bytes);

#endif
