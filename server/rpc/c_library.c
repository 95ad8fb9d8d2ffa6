#include "server/rpc/c_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

c_library_any *c_library_find(c_library_function *function, const char *name) {
  c_library_any *found = atomic_load_explicit(function, memory_order_relaxed);
  if (found == NULL) {
    *(void **)&found = dlsym(RTLD_NEXT, name);
    assert(found != NULL);
    atomic_store_explicit(function, found, memory_order_relaxed);
  }
  return found;
}
