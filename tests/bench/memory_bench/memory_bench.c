// What the arena's huge pages and its warm blocks give: the same memory from plain pages and from the arena,
// first touched, touched again, and under a kernel. Contestants take turns; figures are medians.
//
//     memory_bench [MIB [ROUNDS]]
#include "server/memory/arena.h"
#include "tests/bench/kernel_bench/kernel_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 99
#define MIB_MAX 16384
#define MIB_USUAL 512
#define ROUNDS_USUAL 5
#define PAGE_BYTES ((size_t)4096)

enum figure { PLAIN_FIRST, PLAIN_AGAIN, ARENA_FIRST, ARENA_REUSED, PLAIN_KERNEL, ARENA_KERNEL, FIGURES };

static const char *const figure_names[FIGURES] = {
    [PLAIN_FIRST] = "plain pages, written for the first time",
    [PLAIN_AGAIN] = "plain pages, written again",
    [ARENA_FIRST] = "arena, block taken and written for the first time",
    [ARENA_REUSED] = "arena, block freed, taken and written again",
    [PLAIN_KERNEL] = "backward 2048x2048 -> 1024x1024, int64, on plain pages",
    [ARENA_KERNEL] = "the same in the arena",
};

struct figures {
  double seconds[FIGURES][ROUNDS_MAX];
  size_t rounds;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double median(double *values, size_t count) {
  qsort(values, count, sizeof values[0], compare);
  return values[count / 2];
}

// A mapping of a memfd, as the arena's is, in pages of the usual size. NULL if there is none.
static uint8_t *map_plain(size_t bytes) {
  int descriptor = memfd_create("plain", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, (off_t)bytes) != 0) {
    return NULL;
  }
  uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (data == MAP_FAILED) {
    return NULL;
  }
  (void)madvise(data, bytes, MADV_NOHUGEPAGE);
  return data;
}

#define ROWS 2048
#define OUTPUT_ROWS (ROWS / 2)

// gradOutput, indices and gradInput in one piece of memory.
#define GRADIENTS ((size_t)OUTPUT_ROWS * OUTPUT_ROWS)
#define KERNEL_BYTES (GRADIENTS * 4 + GRADIENTS * 8 + (size_t)ROWS * ROWS * 4)

static double time_kernel(struct kernel_bench *bench, uint8_t *memory) {
  int64_t *indices = (int64_t *)(memory + GRADIENTS * 4);
  void *buffers[KERNEL_BENCH_BUFFERS] = {memory, indices, indices + GRADIENTS};
  char error[KERNEL_BENCH_ERROR_BYTES];
  memset(memory, 0, KERNEL_BYTES);
  for (size_t i = 0; i < GRADIENTS; i++) {
    // Any of the four elements of the window, by a rule that isn't regular.
    size_t row = i / OUTPUT_ROWS * 2 + i * 2654435761u / 65536 % 2;
    indices[i] = (int64_t)(row * ROWS + i % OUTPUT_ROWS * 2 + i * 2246822519u / 65536 % 2);
  }
  if (kernel_bench_run(bench, buffers, 1, error) < 0) {
    fprintf(stderr, "memory_bench: %s\n", error);
    exit(1);
  }
  int64_t nanoseconds = kernel_bench_run(bench, buffers, 4, error);
  return (double)nanoseconds * 1e-9 / 4;
}

static void take_block(struct arena *arena, size_t bytes, struct arena_block *block) {
  struct status status;
  if (!arena_allocate(arena, bytes, block, &status)) {
    fprintf(stderr, "memory_bench: %s\n", status.message);
    exit(1);
  }
}

static void measure_plain(struct figures *figures, size_t round, size_t bytes, struct kernel_bench *bench) {
  double begin = now();
  uint8_t *data = map_plain(bytes);
  if (data == NULL) {
    perror("memory_bench");
    exit(1);
  }
  memset(data, 1, bytes);
  figures->seconds[PLAIN_FIRST][round] = now() - begin;
  begin = now();
  memset(data, 2, bytes);
  figures->seconds[PLAIN_AGAIN][round] = now() - begin;
  figures->seconds[PLAIN_KERNEL][round] = time_kernel(bench, data);
  munmap(data, bytes);
}

static void measure_arena(struct figures *figures, size_t round, size_t bytes, struct kernel_bench *bench) {
  struct arena *arena;
  struct arena_block block;
  struct status status;
  if (!arena_create(bytes * 2, &arena, &status)) {
    fprintf(stderr, "memory_bench: %s\n", status.message);
    exit(1);
  }
  double begin = now();
  take_block(arena, bytes, &block);
  memset(block.data, 1, bytes);
  figures->seconds[ARENA_FIRST][round] = now() - begin;
  arena_free(arena, &block);
  begin = now();
  take_block(arena, bytes, &block);
  memset(block.data, 2, bytes);
  figures->seconds[ARENA_REUSED][round] = now() - begin;
  figures->seconds[ARENA_KERNEL][round] = time_kernel(bench, block.data);
  arena_free(arena, &block);
  arena_destroy(arena);
}

static void print(struct figures *figures, size_t bytes) {
  double middle[FIGURES];
  for (int figure = 0; figure < FIGURES; figure++) {
    middle[figure] = median(figures->seconds[figure], figures->rounds);
    if (figure < PLAIN_KERNEL) {
      printf("%-56s %9.2f GB/s\n", figure_names[figure], (double)bytes * 1e-9 / middle[figure]);
    } else {
      printf("%-56s %9.2f ms\n", figure_names[figure], middle[figure] * 1e3);
    }
  }
  printf("first use: the arena's huge pages are %.1f times as fast as plain ones\n",
         middle[PLAIN_FIRST] / middle[ARENA_FIRST]);
  printf("a warm block of the arena is %.1f times as fast as a new one\n",
         middle[ARENA_FIRST] / middle[ARENA_REUSED]);
  printf("the kernel in the arena is %.2f times as fast as on plain pages\n",
         middle[PLAIN_KERNEL] / middle[ARENA_KERNEL]);
}

// A whole number in [1, most], or `usual` where nothing is given.
static long number_of(int argc, char **argv, int position, const char *name, long usual, long most) {
  if (argc <= position) {
    return usual;
  }
  char *end;
  long number = strtol(argv[position], &end, 10);
  if (*end != '\0' || end == argv[position] || number < 1 || number > most) {
    fprintf(stderr, "memory_bench: %s is \"%s\", allowed are 1 to %ld\n", name, argv[position], most);
    exit(2);
  }
  return number;
}

int main(int argc, char **argv) {
  size_t bytes = (size_t)number_of(argc, argv, 1, "MIB", MIB_USUAL, MIB_MAX) << 20;
  static struct figures figures;
  figures.rounds = (size_t)number_of(argc, argv, 2, "ROUNDS", ROUNDS_USUAL, ROUNDS_MAX);
  bytes = bytes > KERNEL_BYTES ? bytes : KERNEL_BYTES / PAGE_BYTES * PAGE_BYTES;
  static const int64_t shape[6] = {1, 1, ROWS, ROWS, OUTPUT_ROWS, OUTPUT_ROWS};
  char error[KERNEL_BENCH_ERROR_BYTES];
  struct kernel_bench *bench =
      kernel_bench_create("aclnnAdaptiveMaxPool2dBackward", "fp32", "int64", shape, "best", 1, error);
  if (bench == NULL) {
    fprintf(stderr, "memory_bench: %s\n", error);
    return 1;
  }
  for (size_t round = 0; round < figures.rounds; round++) {
    measure_plain(&figures, round, bytes, bench);
    measure_arena(&figures, round, bytes, bench);
  }
  kernel_bench_destroy(bench);
  printf("%zu MiB, medians of %zu rounds\n", bytes >> 20, figures.rounds);
  print(&figures, bytes);
  return 0;
}
