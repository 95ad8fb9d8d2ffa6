// A word to the C library's allocator.
#ifndef ACLNN_CLIENT_C_HEAP_HINT_H
#define ACLNN_CLIENT_C_HEAP_HINT_H

// gRPC allocates and frees the pieces of every message. By default glibc gives such memory back to the system
// at once, and its next use costs page faults: a large download took five times as long (measured). glibc
// stops that by itself once the program has freed a large block: from then on it keeps up to twice that size.
// This frees one. It is the gentlest way: it sets nothing, a program's own choice of mallopt or of another
// allocator holds. Any thread, as often as wanted.
void heap_hint_keep_memory(void);

#endif
