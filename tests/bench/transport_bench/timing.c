#include "tests/bench/transport_bench/timing.h"

#include "tests/bench/transport_bench/command.h"

#include <stdlib.h>
#include <time.h>

int64_t timing_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

void timing_answer(int64_t begin_ns, int64_t end_ns, int64_t *nanoseconds, size_t count) {
  qsort(nanoseconds, count, sizeof *nanoseconds, compare);
  double seconds = (double)(end_ns - begin_ns) / 1e9;
  command_figure("seconds", seconds);
  command_figure("per_second", (double)count / seconds);
  command_figure("p50_us", (double)nanoseconds[count / 2] / 1e3);
  command_figure("p99_us", (double)nanoseconds[count * 99 / 100] / 1e3);
}
