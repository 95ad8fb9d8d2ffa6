#include "server/npu/emulator/executor_cache.h"

#include <pthread.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct cached {
  int64_t *key;
  uint64_t workspace_bytes;
  UT_hash_handle hh;
};

static _Thread_local struct cached *entries;
static _Thread_local uint64_t entries_generation;

// Only there to have the cache freed when a thread ends.
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

void executor_cache_clear(void) {
  struct cached *entry, *next;
  HASH_ITER(hh, entries, entry, next) {
    HASH_DEL(entries, entry);
    free(entry->key);
    free(entry);
  }
}

static void on_thread_end(void *unused) {
  (void)unused;
  executor_cache_clear();
}

static void make_thread_end(void) {
  if (pthread_key_create(&thread_end, on_thread_end) != 0) {
    abort();
  }
}

bool executor_cache_find(uint64_t generation, const int64_t *key, size_t count, uint64_t *workspace_bytes) {
  struct cached *entry = NULL;
  if (entries_generation == generation) {
    HASH_FIND(hh, entries, key, count * sizeof *key, entry);
  }
  if (entry != NULL) {
    *workspace_bytes = entry->workspace_bytes;
  }
  return entry != NULL;
}

void executor_cache_add(uint64_t generation, size_t limit, int64_t *key, size_t count,
                        uint64_t workspace_bytes) {
  if (entries_generation != generation) {
    executor_cache_clear();
    entries_generation = generation;
  }
  uint64_t known;
  struct cached *entry = NULL;
  if (HASH_COUNT(entries) < limit && !executor_cache_find(generation, key, count, &known)) {
    entry = calloc(1, sizeof *entry);
  }
  if (entry == NULL) {
    free(key);
    return;
  }
  pthread_once(&thread_end_once, make_thread_end);
  pthread_setspecific(thread_end, &entries);
  *entry = (struct cached){.key = key, .workspace_bytes = workspace_bytes};
  HASH_ADD_KEYPTR(hh, entries, entry->key, count * sizeof *key, entry);
  if (entry->hh.tbl == NULL) {
    free(entry->key);
    free(entry);
  }
}
