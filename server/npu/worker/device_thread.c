#include "server/npu/worker/device_thread.h"

#include "server/npu/worker/case_run.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct waiting_job {
  struct waiting_job *next;
  struct control_message message;
};

struct device_thread {
  struct device_thread_settings settings;
  pthread_t thread;
  // Guarded by the mutex; the rest is the thread's own.
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct waiting_job *first, **last;
  size_t waiting;
  bool finishing;
  struct acl_library library;
  struct device *device;
};

_Static_assert(ACL_OPERATORS_MAX == CONTROL_OPERATORS_MAX, "one mask of operators");
_Static_assert(DEVICE_TEXT_BYTES_MAX == CONTROL_NAME_BYTES_MAX, "names of devices");

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// ---- The queue

bool device_thread_submit(struct device_thread *thread, const struct control_message *message) {
  struct waiting_job *job = malloc(sizeof *job);
  if (job == NULL) {
    return false;
  }
  *job = (struct waiting_job){.message = *message};
  pthread_mutex_lock(&thread->mutex);
  bool taken = thread->waiting < DEVICE_THREAD_JOBS_MAX;
  if (taken) {
    *thread->last = job;
    thread->last = &job->next;
    thread->waiting++;
    pthread_cond_signal(&thread->changed);
  }
  pthread_mutex_unlock(&thread->mutex);
  if (!taken) {
    free(job);
  }
  return taken;
}

void device_thread_finish(struct device_thread *thread) {
  pthread_mutex_lock(&thread->mutex);
  thread->finishing = true;
  pthread_cond_signal(&thread->changed);
  pthread_mutex_unlock(&thread->mutex);
}

static struct waiting_job *take(struct device_thread *thread) {
  struct waiting_job *job = thread->first;
  thread->first = job->next;
  if (thread->first == NULL) {
    thread->last = &thread->first;
  }
  thread->waiting--;
  return job;
}

// The next job, or NULL once there will be none.
static struct waiting_job *wait_for_job(struct device_thread *thread) {
  pthread_mutex_lock(&thread->mutex);
  while (thread->first == NULL && !thread->finishing) {
    pthread_cond_wait(&thread->changed, &thread->mutex);
  }
  struct waiting_job *job = thread->first != NULL ? take(thread) : NULL;
  pthread_mutex_unlock(&thread->mutex);
  return job;
}

// Jobs that come are left lying: the server is about to replace this process.
static void wait_for_finish(struct device_thread *thread) {
  pthread_mutex_lock(&thread->mutex);
  while (!thread->finishing) {
    pthread_cond_wait(&thread->changed, &thread->mutex);
  }
  pthread_mutex_unlock(&thread->mutex);
}

// ---- Jobs

static void answer(struct device_thread *thread, const struct control_message *message) {
  thread->settings.answer(thread->settings.context, message);
}

static void run_plan(struct device_thread *thread, const struct control_plan *request) {
  struct control_message message = {.kind = CONTROL_PLANNED, .planned = {.id = request->id}};
  struct control_planned *planned = &message.planned;
  struct plan plan;
  planned->ok = plan_create(&request->request, &plan, &planned->status) &&
                device_plan(thread->device, &plan, &planned->workspace_bytes, &planned->status);
  planned->device_fault = device_is_lost(thread->device);
  answer(thread, &message);
}

static void run_job(struct device_thread *thread, const struct control_run *request) {
  struct control_message message = {.kind = CONTROL_FINISHED, .finished = {.id = request->id}};
  struct control_finished *finished = &message.finished;
  struct plan plan;
  finished->started_ns = now_ns();
  finished->ok =
      plan_create(&request->request, &plan, &finished->status) &&
      control_check_storages(&plan, request->storages, thread->settings.arena_bytes, &finished->status);
  if (finished->ok) {
    void *storages[OPERATOR_PARAMETERS_MAX] = {NULL};
    for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
      if (request->storages[i].present) {
        storages[i] = thread->settings.arena + request->storages[i].offset;
      }
    }
    finished->ok = device_run(thread->device, &plan, storages, &finished->status);
  }
  finished->finished_ns = now_ns();
  finished->device_fault = device_is_lost(thread->device);
  answer(thread, &message);
}

static void serve(struct device_thread *thread) {
  struct waiting_job *job;
  while (!device_is_lost(thread->device) && (job = wait_for_job(thread)) != NULL) {
    if (job->message.kind == CONTROL_PLAN) {
      run_plan(thread, &job->message.plan);
    } else {
      run_job(thread, &job->message.run);
    }
    free(job);
  }
}

// ---- The device

static bool open_device(struct device_thread *thread, struct status *status) {
  const struct device_thread_settings *settings = &thread->settings;
  if (!acl_library_open(settings->library_file, settings->home, &thread->library, status)) {
    return false;
  }
  if (thread->library.missing[0] != '\0') {
    log_event(&settings->log, LOG_WARNING, "operators that the device does not have",
              LOG_TEXT("why", thread->library.missing), LOG_INTEGER("device", settings->device.number));
  }
  if (!device_open(&thread->library, &settings->device, &thread->device, status)) {
    return false;
  }
  if (!case_run_probes(thread->device, &thread->library, status)) {
    struct status ignored; // what failed first is what is told
    if (device_is_lost(thread->device)) {
      device_abandon(thread->device);
    } else {
      (void)!device_close(thread->device, &ignored);
    }
    return false;
  }
  return true;
}

static void tell_ready(struct device_thread *thread) {
  const struct device_description *description = device_describe(thread->device);
  struct control_message message = {
      .kind = CONTROL_READY,
      .ready = {.product = description->product,
                .memory_bytes = description->memory_bytes,
                .operators = thread->library.operator_mask,
                .deterministic = thread->settings.device.deterministic},
  };
  strcpy(message.ready.soc_name, description->soc_name);
  strcpy(message.ready.cann_version, description->cann_version);
  answer(thread, &message);
}

static bool close_device(struct device_thread *thread) {
  if (device_is_lost(thread->device)) {
    device_abandon(thread->device);
    return false;
  }
  struct status status;
  bool closed = device_close(thread->device, &status);
  if (!closed) {
    log_event(&thread->settings.log, LOG_ERROR, "the device could not be closed",
              LOG_TEXT("why", status.message), LOG_INTEGER("device", thread->settings.device.number));
  }
  return closed;
}

static void *run_thread(void *context) {
  struct device_thread *thread = context;
  struct control_message unusable = {.kind = CONTROL_UNUSABLE};
  bool ok = open_device(thread, &unusable.unusable.status);
  if (ok) {
    tell_ready(thread);
    serve(thread);
    wait_for_finish(thread);
    ok = close_device(thread);
  } else {
    answer(thread, &unusable);
  }
  thread->settings.ended(thread->settings.context, ok);
  return NULL;
}

struct device_thread *device_thread_start(const struct device_thread_settings *settings) {
  struct device_thread *thread = calloc(1, sizeof *thread);
  if (thread == NULL) {
    return NULL;
  }
  thread->settings = *settings;
  thread->last = &thread->first;
  pthread_mutex_init(&thread->mutex, NULL);
  pthread_cond_init(&thread->changed, NULL);
  if (pthread_create(&thread->thread, NULL, run_thread, thread) != 0) {
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
    return NULL;
  }
  return thread;
}

void device_thread_destroy(struct device_thread *thread) {
  pthread_join(thread->thread, NULL);
  while (thread->first != NULL) {
    free(take(thread));
  }
  pthread_cond_destroy(&thread->changed);
  pthread_mutex_destroy(&thread->mutex);
  free(thread);
}
