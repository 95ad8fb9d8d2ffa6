// A thread's executor cache, as CANN keeps one: calls that ran once are planned without another look.
//
// What is remembered is that a call with just these arguments was accepted, and its workspace. Everything
// belongs to the calling thread and goes with it; what an earlier life of the emulator left is not found.
#ifndef ACLNN_SERVER_NPU_EMULATOR_EXECUTOR_CACHE_H
#define ACLNN_SERVER_NPU_EMULATOR_EXECUTOR_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The key is bound_call_key's.
bool executor_cache_find(uint64_t generation, const int64_t *key, size_t count, uint64_t *workspace_bytes);
// Remembers, unless `limit` calls are remembered already or there is no memory. The key is the cache's from
// here on.
void executor_cache_add(uint64_t generation, size_t limit, int64_t *key, size_t count,
                        uint64_t workspace_bytes);
// Forgets all of this thread's.
void executor_cache_clear(void);

#endif
