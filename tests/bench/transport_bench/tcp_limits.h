// What both sides of the plain TCP exchange keep to.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_TCP_LIMITS_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_TCP_LIMITS_H

// Bytes one way.
#define TCP_BYTES_MAX (256 << 20)

#endif
