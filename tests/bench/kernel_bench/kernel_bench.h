// The operators on the CPU as a shared library for measurements: plan once, run many times on the caller's
// memory. Beside them the least that a memory must do for the same bytes. No network, no server, no copies.
//
// From Python, after `bazel build //tests/bench/kernel_bench:libkernel_bench.so`
// (tests/bench/kernel_bench/ours.py does it in full):
//
//     lib = ctypes.CDLL("bazel-bin/tests/bench/kernel_bench/libkernel_bench.so")
//     lib.kernel_bench_create.restype = ctypes.c_void_p
//     lib.kernel_bench_run.restype = ctypes.c_int64
//     error = ctypes.create_string_buffer(600)
//     shape = (ctypes.c_int64 * 6)(32, 64, 112, 112, 7, 7)                    # N, C, H, W, Ho, Wo
//     bench = ctypes.c_void_p(lib.kernel_bench_create(
//         b"aclnnAdaptiveMaxPool2dBackward", b"fp32", b"int64", shape, b"avx512", ctypes.c_size_t(2), error))
//     assert bench, error.value
//     buffers = (ctypes.c_void_p * 3)(grad_output.ctypes.data, indices.ctypes.data, grad_input.ctypes.data)
//     nanoseconds = lib.kernel_bench_run(bench, buffers, ctypes.c_int64(10), error)   # of ten calls; -1: see
//     error lib.kernel_bench_destroy(bench)
//
// One thread at a time may use a bench; the caller destroys it.
#ifndef ACLNN_TESTS_BENCH_KERNEL_BENCH_KERNEL_BENCH_H
#define ACLNN_TESTS_BENCH_KERNEL_BENCH_KERNEL_BENCH_H

#include <stddef.h>
#include <stdint.h>

// How long every buffer for messages has to be.
#define KERNEL_BENCH_ERROR_BYTES 600

enum { KERNEL_BENCH_BUFFERS = 3 };

struct kernel_bench;

// Names of the code paths that this processor can run, from the plainest to the widest, separated by blanks.
const char *kernel_bench_paths(void);

// Plans "aclnnAdaptiveMaxPool2dBackward" or "aclnnAdaptiveMaxPool2d" for contiguous tensors; shape is N, C,
// H, W, Ho, Wo. Or "aclnnMm": shape is m, k, n and three numbers that don't matter, nor does the index type.
// value_type and index_type are short names ("fp32", "fp16", "bf16"; "int32", "int64"). path is
// one of kernel_bench_paths or "best". One thread means no pool at all; the threads of a pool stay awake
// between runs, as torch's and oneDNN's do, where the server's sleep. Returns NULL and fills error if it
// can't.
struct kernel_bench *kernel_bench_create(const char *operator_name, const char *value_type,
                                         const char *index_type, const int64_t shape[6], const char *path,
                                         size_t threads, char *error);
void kernel_bench_destroy(struct kernel_bench *bench);

uint64_t kernel_bench_workspace_bytes(const struct kernel_bench *bench);

// Runs `calls` times and returns the nanoseconds of all of them, or -1 with a filled error. Buffers are
// 64-byte aligned: gradOutput, indices, gradInput of the backward; self, output, indices of the forward.
int64_t kernel_bench_run(struct kernel_bench *bench, void *const buffers[KERNEL_BENCH_BUFFERS], int64_t calls,
                         char *error);

// Sends the threads of the pool to sleep after a row of runs.
void kernel_bench_rest(struct kernel_bench *bench);

// What aclnnMm stands on, called directly: c = a * b for contiguous fp32 matrices of m x k and k x n, with as
// many threads of OpenBLAS's own.
void kernel_bench_sgemm(const int64_t shape[3], int threads, const float *a, const float *b, float *c);
// The processor that OpenBLAS thinks this is.
const char *kernel_bench_blas_core(void);

// The limit: reads some memory once and writes zeros over other memory once, nothing else.
struct kernel_bench_limit;

struct kernel_bench_limit *kernel_bench_limit_create(size_t threads, char *error);
void kernel_bench_limit_destroy(struct kernel_bench_limit *limit);

// Memory is 64-byte aligned; a range may be empty.
struct kernel_bench_memory {
  const void *reads[2];
  size_t read_bytes[2];
  void *writes[2];
  size_t write_bytes[2];
};

// streaming: with stores that go past the caches, where the architecture has them; otherwise memset. Returns
// nanoseconds.
int64_t kernel_bench_limit_run(struct kernel_bench_limit *limit, const struct kernel_bench_memory *memory,
                               int streaming, int64_t calls);
void kernel_bench_limit_rest(struct kernel_bench_limit *limit);

#endif
