#include "server/dispatch/growth.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct growth {
  pthread_t thread;
  pthread_mutex_t mutex; // guards what follows
  pthread_cond_t changed;
  struct growth_request *first, *last;
  bool stopping;
};

// Waits for a request; NULL when there is none and none will come.
static struct growth_request *take(struct growth *growth) {
  pthread_mutex_lock(&growth->mutex);
  while (growth->first == NULL && !growth->stopping) {
    pthread_cond_wait(&growth->changed, &growth->mutex);
  }
  struct growth_request *request = growth->first;
  if (request != NULL) {
    growth->first = request->_next;
    if (growth->first == NULL) {
      growth->last = NULL;
    }
  }
  pthread_mutex_unlock(&growth->mutex);
  return request;
}

static void *run(void *argument) {
  struct growth_request *request;
  while ((request = take(argument)) != NULL) {
    request->grow(request);
  }
  return NULL;
}

bool growth_create(struct growth **growth, struct status *status) {
  struct growth *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the thread that takes memory");
  }
  pthread_mutex_init(&created->mutex, NULL);
  pthread_cond_init(&created->changed, NULL);
  // Signals are the main thread's business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&created->thread, NULL, run, created);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error != 0) {
    pthread_cond_destroy(&created->changed);
    pthread_mutex_destroy(&created->mutex);
    free(created);
    return status_fail(status, REASON_INTERNAL, NULL, "the thread that takes memory cannot be started: %s",
                       strerror(error));
  }
  *growth = created;
  return true;
}

void growth_destroy(struct growth *growth) {
  if (growth == NULL) {
    return;
  }
  pthread_mutex_lock(&growth->mutex);
  assert(growth->first == NULL);
  growth->stopping = true;
  pthread_cond_signal(&growth->changed);
  pthread_mutex_unlock(&growth->mutex);
  pthread_join(growth->thread, NULL);
  pthread_cond_destroy(&growth->changed);
  pthread_mutex_destroy(&growth->mutex);
  free(growth);
}

void growth_add(struct growth *growth, struct growth_request *request) {
  pthread_mutex_lock(&growth->mutex);
  assert(!growth->stopping);
  request->_next = NULL;
  *(growth->last != NULL ? &growth->last->_next : &growth->first) = request;
  growth->last = request;
  pthread_cond_signal(&growth->changed);
  pthread_mutex_unlock(&growth->mutex);
}
