#include "kernels/parallel.h"

#include <pthreadpool.h>
#include <sched.h>
#include <stdlib.h>

// pthreadpool isn't built with ThreadSanitizer, which therefore can't see how it hands work over: tell it.
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define HAND_OVER_TAKE(address) __tsan_acquire(address)
#define HAND_OVER_GIVE(address) __tsan_release(address)
#else
#define HAND_OVER_TAKE(address) ((void)(address))
#define HAND_OVER_GIVE(address) ((void)(address))
#endif

struct parallel {
  pthreadpool_t pool;
  size_t threads;
  bool stays_awake;
};

struct loop {
  parallel_task *task;
  void *context;
};

size_t parallel_processors(void) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof processors, &processors) != 0 || CPU_COUNT(&processors) < 1) {
    return 1;
  }
  return (size_t)CPU_COUNT(&processors);
}

bool parallel_create(size_t threads, struct parallel **parallel, struct status *status) {
  if (threads == 0) {
    threads = parallel_processors();
  }
  if (threads > PARALLEL_THREADS_MAX) {
    return status_fail(status, REASON_INTERNAL, NULL,
                       "%zu compute threads asked for, at most %d are possible", threads,
                       PARALLEL_THREADS_MAX);
  }
  struct parallel *created = malloc(sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a pool of compute threads");
  }
  created->threads = threads;
  created->stays_awake = false;
  created->pool = pthreadpool_create(threads);
  if (created->pool == NULL) {
    free(created);
    return status_fail(status, REASON_INTERNAL, NULL, "a pool of %zu compute threads could not be created",
                       threads);
  }
  *parallel = created;
  return true;
}

void parallel_destroy(struct parallel *parallel) {
  if (parallel != NULL) {
    pthreadpool_destroy(parallel->pool);
    free(parallel);
  }
}

size_t parallel_threads(const struct parallel *parallel) {
  return parallel == NULL ? 1 : parallel->threads;
}

static void run_slice(void *loop_pointer, size_t begin, size_t length) {
  struct loop *loop = loop_pointer;
  HAND_OVER_TAKE(loop);
  loop->task(loop->context, begin, begin + length);
  HAND_OVER_GIVE(loop);
}

void parallel_for(struct parallel *parallel, size_t range, size_t tile, parallel_task *task, void *context) {
  struct loop loop = {.task = task, .context = context};
  if (parallel == NULL) {
    for (size_t begin = 0; begin < range; begin += tile) {
      size_t left = range - begin;
      task(context, begin, begin + (left < tile ? left : tile));
      if (left <= tile) {
        break; // begin + tile could wrap
      }
    }
    return;
  }
  if (range == 0) {
    return;
  }
  HAND_OVER_GIVE(&loop);
  // Denormals stay as they are: results are defined bit by bit.
  uint32_t flags = parallel->stays_awake ? 0 : PTHREADPOOL_FLAG_YIELD_WORKERS;
  pthreadpool_parallelize_1d_tile_1d(parallel->pool, run_slice, &loop, range, tile, flags);
  HAND_OVER_TAKE(&loop);
}

static void do_nothing(void *context, size_t thread) {
  (void)context;
  (void)thread;
}

void parallel_stay_awake(struct parallel *parallel) {
  // With more threads than processors those that spin would keep the others from their work.
  if (parallel != NULL) {
    parallel->stays_awake = parallel->threads <= parallel_processors();
  }
}

void parallel_rest(struct parallel *parallel) {
  if (parallel != NULL && parallel->stays_awake) {
    // How workers wait is said by the loop before: they sleep after one that says so.
    pthreadpool_parallelize_1d(parallel->pool, do_nothing, NULL, parallel->threads,
                               PTHREADPOOL_FLAG_YIELD_WORKERS);
  }
}
