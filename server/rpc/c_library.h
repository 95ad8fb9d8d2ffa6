// Functions of the C library behind those that this program defines in their place. Any thread.
#ifndef ACLNN_SERVER_RPC_C_LIBRARY_H
#define ACLNN_SERVER_RPC_C_LIBRARY_H

typedef void c_library_any(void);
typedef _Atomic(c_library_any *) c_library_function; // one that was found; zero at first

// The next of that name after the program's: the C library's, or a sanitizer's before it.
c_library_any *c_library_find(c_library_function *function, const char *name);

#endif
