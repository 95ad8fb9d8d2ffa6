#include "tests/bench/transport_bench/warm_memory.h"

#include "tests/bench/transport_bench/command.h"

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define KEPT_BYTES_MAX (1 << 30)

void warm_memory_keep_heap(void) {
  mallopt(M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
  mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX);
}

uint8_t *warm_memory_get(size_t bytes) {
  size_t mapped = (bytes + 2 * HUGE_PAGE_BYTES) & ~(HUGE_PAGE_BYTES - 1);
  void *found = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) {
    command_fail("no memory for %zu bytes", bytes);
  }
  uintptr_t aligned = ((uintptr_t)found + HUGE_PAGE_BYTES - 1) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
  if (bytes >= HUGE_PAGE_BYTES) {
    // Where there are no huge pages plain ones do.
    (void)madvise((void *)aligned, mapped - HUGE_PAGE_BYTES, MADV_HUGEPAGE);
  }
  memset((void *)aligned, 1, bytes);
  return (uint8_t *)aligned;
}
