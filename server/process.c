#include "server/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// Else the first socket would be descriptor 1, where lines are printed to, and libuv refuses to close it.
static void open_standard_descriptors(void) {
  int descriptor;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) {
    close(descriptor);
  }
}

// Memory that the process has for itself: neither files nor the tensors' arena.
static int64_t private_bytes(void) {
  int64_t resident = 0, shared = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL) {
    return 0;
  }
  if (fscanf(file, "%*d %" SCNd64 " %" SCNd64, &resident, &shared) != 2) {
    resident = shared = 0;
  }
  fclose(file);
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int64_t process_heap_kept_bytes(void) {
  struct mallinfo2 heap = mallinfo2();
  int64_t kept = private_bytes() - (int64_t)heap.uordblks - (int64_t)heap.hblkhd;
  return kept < 0 ? 0 : kept;
}

void process_look_at_heap(bool *was_over) {
  bool over = process_heap_kept_bytes() > PROCESS_HEAP_KEPT_BYTES;
  if (over && *was_over) {
    (void)malloc_trim(0);
    over = false;
  }
  *was_over = over;
}

int64_t process_prepare(void) {
  open_standard_descriptors();
  // gRPC allocates a slice for all that it reads. First touch of a fresh page costs twenty times a warm one,
  // so that a heap which gives memory back after each message is ten times slower than one that keeps it.
  (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
  (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that glibc allows
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error like others
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
