// Memory that costs no page fault while something is measured.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_WARM_MEMORY_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_WARM_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// Tells glibc to keep what is freed: gRPC's slices would be mapped and unmapped otherwise, which costs up to
// ten times the transfer itself. To be called first in a program.
void warm_memory_keep_heap(void);

// Touched, on huge pages where the system gives them, never freed; ends the program if there is none.
uint8_t *warm_memory_get(size_t bytes);

#endif
