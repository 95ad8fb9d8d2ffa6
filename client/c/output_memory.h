// Memory for outputs that the caller left to the library. Any thread.
#ifndef ACLNN_CLIENT_C_OUTPUT_MEMORY_H
#define ACLNN_CLIENT_C_OUTPUT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// Aligned for vector code, not NULL for size 0; NULL if there is no memory.
uint8_t *output_memory_allocate(size_t bytes);
// Accepts NULL.
void output_memory_free(void *data);

#endif
