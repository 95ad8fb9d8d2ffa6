#include "client/c/heap_hint.h"

#include <stdlib.h>

// Just below 32 MiB, above which glibc draws no conclusions.
#define LARGE_BLOCK_BYTES (((size_t)32 << 20) - 65536)

void heap_hint_keep_memory(void) {
  // Volatile, as a compiler may leave out an allocation that it sees freed. The block is never touched.
  void *volatile block = malloc(LARGE_BLOCK_BYTES);
  free(block);
}
