#include "server/npu/emulator/stream.h"

#include "server/npu/acl/acl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stream {
  pthread_t thread;
  pthread_mutex_t mutex;  // guards what follows
  pthread_cond_t changed; // more to do, something done, or stopping
  struct stream_task *first, **last;
  uint64_t submitted, ended; // tasks so far
  bool stopping;
  int32_t failure;
  char text[STREAM_TEXT_BYTES];
};

static struct timespec after(int64_t milliseconds) {
  struct timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  moment.tv_sec += milliseconds / 1000;
  moment.tv_nsec += milliseconds % 1000 * 1000000;
  if (moment.tv_nsec >= 1000000000) {
    moment.tv_sec++;
    moment.tv_nsec -= 1000000000;
  }
  return moment;
}

// Takes the next task; NULL when the stream is to stop. The mutex is held.
static struct stream_task *next_task(struct stream *stream) {
  while (stream->first == NULL && !stream->stopping) {
    pthread_cond_wait(&stream->changed, &stream->mutex);
  }
  struct stream_task *task = stream->stopping ? NULL : stream->first;
  if (task != NULL) {
    stream->first = task->_next;
    if (stream->first == NULL) {
      stream->last = &stream->first;
    }
  }
  return task;
}

static void *run_tasks(void *argument) {
  struct stream *stream = argument;
  pthread_mutex_lock(&stream->mutex);
  struct stream_task *task;
  while ((task = next_task(stream)) != NULL) {
    bool failed = stream->failure != 0;
    pthread_mutex_unlock(&stream->mutex);
    char text[STREAM_TEXT_BYTES] = "";
    int32_t status = failed ? 0 : task->run(task, stream, text);
    task->destroy(task);
    pthread_mutex_lock(&stream->mutex);
    if (status != 0) {
      stream->failure = status;
      memcpy(stream->text, text, sizeof text);
    }
    stream->ended++;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->mutex);
  return NULL;
}

struct stream *stream_create(void) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) {
    return NULL;
  }
  stream->last = &stream->first;
  pthread_mutex_init(&stream->mutex, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&stream->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (pthread_create(&stream->thread, NULL, run_tasks, stream) != 0) {
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
    return NULL;
  }
  return stream;
}

bool stream_destroy(struct stream *stream) {
  pthread_mutex_lock(&stream->mutex);
  bool complete = stream->ended == stream->submitted;
  stream->stopping = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
  pthread_join(stream->thread, NULL);
  while (stream->first != NULL) {
    struct stream_task *task = stream->first;
    stream->first = task->_next;
    task->destroy(task);
  }
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->mutex);
  free(stream);
  return complete;
}

void stream_submit(struct stream *stream, struct stream_task *task) {
  task->_next = NULL;
  pthread_mutex_lock(&stream->mutex);
  *stream->last = task;
  stream->last = &task->_next;
  stream->submitted++;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->mutex);
}

int32_t stream_wait(struct stream *stream, int32_t milliseconds, char text[STREAM_TEXT_BYTES]) {
  struct timespec moment = after(milliseconds < 0 ? 0 : milliseconds);
  pthread_mutex_lock(&stream->mutex);
  uint64_t awaited = stream->submitted;
  int expired = 0;
  while (stream->ended < awaited && expired == 0) {
    expired = milliseconds < 0 ? pthread_cond_wait(&stream->changed, &stream->mutex)
                               : pthread_cond_timedwait(&stream->changed, &stream->mutex, &moment);
  }
  int32_t status = stream->failure;
  memcpy(text, stream->text, STREAM_TEXT_BYTES);
  if (stream->ended < awaited) {
    status = ACL_STATUS_RT_STREAM_SYNC_TIMEOUT;
    snprintf(text, STREAM_TEXT_BYTES, "the stream hasn't ended after %d ms", milliseconds);
  }
  pthread_mutex_unlock(&stream->mutex);
  return status;
}

void stream_sleep(struct stream *stream, int64_t milliseconds) {
  struct timespec moment = after(milliseconds < 0 ? 0 : milliseconds);
  pthread_mutex_lock(&stream->mutex);
  int expired = 0;
  while (!stream->stopping && expired == 0) {
    expired = milliseconds < 0 ? pthread_cond_wait(&stream->changed, &stream->mutex)
                               : pthread_cond_timedwait(&stream->changed, &stream->mutex, &moment);
  }
  pthread_mutex_unlock(&stream->mutex);
}
