// The bandwidth of the memory as a program can have it, for the same bytes that an operator has to touch.
#include "tests/bench/kernel_bench/kernel_bench.h"

#include "kernels/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// The widest vectors that the processor has. Sanitizers don't stand what chooses between the clones.
#if defined(__x86_64__) && !defined(ACLNN_SANITIZED)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

#define LINE_BYTES 64
#define LINES_AT_ONCE 4

typedef uint64_t line_vector __attribute__((vector_size(LINE_BYTES), may_alias));

struct kernel_bench_limit {
  struct parallel *parallel; // NULL for one thread
  size_t threads;
  struct kernel_bench_memory memory;
  int streaming;
};

struct kernel_bench_limit *kernel_bench_limit_create(size_t threads, char *error) {
  struct status status;
  struct kernel_bench_limit *limit = calloc(1, sizeof *limit);
  if (limit == NULL) {
    snprintf(error, KERNEL_BENCH_ERROR_BYTES, "no memory");
    return NULL;
  }
  limit->threads = threads <= 1 ? 1 : threads;
  if (threads > 1 && !parallel_create(threads, &limit->parallel, &status)) {
    snprintf(error, KERNEL_BENCH_ERROR_BYTES, "%s", status.message);
    free(limit);
    return NULL;
  }
  parallel_stay_awake(limit->parallel);
  return limit;
}

void kernel_bench_limit_destroy(struct kernel_bench_limit *limit) {
  if (limit != NULL) {
    parallel_destroy(limit->parallel);
    free(limit);
  }
}

WIDEST static uint64_t read_lines(const char *memory, size_t bytes) {
  line_vector sums[LINES_AT_ONCE] = {0};
  size_t done = 0;
  for (; done + LINES_AT_ONCE * LINE_BYTES <= bytes; done += LINES_AT_ONCE * LINE_BYTES) {
    const line_vector *lines = (const line_vector *)(memory + done);
    for (size_t i = 0; i < LINES_AT_ONCE; i++) {
      sums[i] |= lines[i];
    }
  }
  uint64_t sum = 0;
  for (; done < bytes; done++) {
    sum |= (unsigned char)memory[done];
  }
  for (size_t i = 1; i < LINES_AT_ONCE; i++) {
    sums[0] |= sums[i];
  }
  for (size_t i = 0; i < LINE_BYTES / sizeof sum; i++) {
    sum |= sums[0][i];
  }
  return sum;
}

static void write_zeros(char *memory, size_t bytes, int streaming) {
#if defined(__SSE2__)
  if (streaming) {
    size_t done = 0;
    for (; done + LINE_BYTES <= bytes; done += LINE_BYTES) {
      for (size_t part = 0; part < LINE_BYTES; part += sizeof(__m128i)) {
        _mm_stream_si128((__m128i *)(memory + done + part), _mm_setzero_si128());
      }
    }
    memset(memory + done, 0, bytes - done);
    _mm_sfence();
    return;
  }
#else
  (void)streaming;
#endif
  memset(memory, 0, bytes);
}

// Begin of the part of a range of `bytes` that belongs to thread number `thread`, on a line.
static size_t part_begin(const struct kernel_bench_limit *limit, size_t bytes, size_t thread) {
  return thread == limit->threads ? bytes : bytes / LINE_BYTES * thread / limit->threads * LINE_BYTES;
}

static void touch_parts(void *context, size_t begin, size_t end) {
  struct kernel_bench_limit *limit = context;
  const struct kernel_bench_memory *memory = &limit->memory;
  for (size_t thread = begin; thread < end; thread++) {
    uint64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
      size_t from = part_begin(limit, memory->read_bytes[i], thread);
      size_t to = part_begin(limit, memory->read_bytes[i], thread + 1);
      sum |= read_lines((const char *)memory->reads[i] + from, to - from);
    }
    for (size_t i = 0; i < 2; i++) {
      size_t from = part_begin(limit, memory->write_bytes[i], thread);
      size_t to = part_begin(limit, memory->write_bytes[i], thread + 1);
      write_zeros((char *)memory->writes[i] + from, to - from, limit->streaming);
    }
    // Nobody wants the sum; the compiler has to keep the reads all the same.
    __asm__ volatile("" : : "r"(sum));
  }
}

int64_t kernel_bench_limit_run(struct kernel_bench_limit *limit, const struct kernel_bench_memory *memory,
                               int streaming, int64_t calls) {
  struct timespec begin;
  struct timespec end;
  limit->memory = *memory;
  limit->streaming = streaming;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int64_t i = 0; i < calls; i++) {
    parallel_for(limit->parallel, limit->threads, 1, touch_parts, limit);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((int64_t)end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
}

void kernel_bench_limit_rest(struct kernel_bench_limit *limit) {
  parallel_rest(limit->parallel);
}
