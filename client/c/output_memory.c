#include "client/c/output_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define VECTOR_ALIGNMENT ((size_t)64)
// From this size on memory is asked for in huge pages: the first touch of a small page costs more than to
// fill it.
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

uint8_t *output_memory_allocate(size_t bytes) {
  size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : VECTOR_ALIGNMENT;
  if (bytes > SIZE_MAX - alignment) {
    return NULL;
  }
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded == 0) {
    rounded = alignment;
  }
  uint8_t *data = aligned_alloc(alignment, rounded);
  if (data != NULL && alignment == HUGE_PAGE_BYTES) {
    // Advice only: without huge pages all works the same.
    (void)madvise(data, rounded, MADV_HUGEPAGE);
  }
  return data;
}

void output_memory_free(void *data) {
  free(data);
}
