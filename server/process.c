#include "server/process.h"

#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>

int64_t process_prepare(void) {
  // gRPC allocates a slice for all that it reads. First touch of a fresh page costs twenty times a warm one,
  // so that a heap which gives memory back after each message is ten times slower than one that keeps it.
  (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
  (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that glibc allows
  (void)signal(SIGPIPE, SIG_IGN);
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 1024;
  }
  if (limit.rlim_cur < limit.rlim_max) {
    struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
      limit = raised;
    }
  }
  return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT_MAX ? INT_MAX : (int64_t)limit.rlim_cur;
}
