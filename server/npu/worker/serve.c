#include "server/npu/worker/serve.h"

#include "server/npu/worker/arena_mapping.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

enum { EXIT_SERVER_GONE = 0, EXIT_SERVER_BROKEN = 5 };

#define READ_BYTES 65536

// A message on its way out: from the device's thread to the loop, then into the pipe.
struct outgoing {
  struct outgoing *next;
  uv_write_t request;
  struct control_message message;
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
};

struct server_side {
  const struct serve_settings *settings;
  uv_loop_t loop;
  uv_pipe_t pipe;
  uv_async_t wake;
  struct control_reader reader;
  char bytes[READ_BYTES];
  struct arena_mapping arena;
  struct device_thread *thread; // NULL before START
  bool stopping;                // STOP was read
  bool unusable;
  size_t writes;
  // Shared with the device's thread.
  pthread_mutex_t mutex;
  pthread_cond_t handed_over;
  struct outgoing *first, **last;
  uint64_t answers_made, answers_written;
  bool ended, ended_well;
};

// ---- The end

static _Noreturn void end_at_once(struct server_side *side, const char *why) {
  log_event(&side->settings->log, LOG_ERROR, "the server sent what a worker can't take", LOG_TEXT("why", why),
            LOG_INTEGER("device", side->settings->device.number));
  _exit(EXIT_SERVER_BROKEN);
}

static void close_when_all_is_said(struct server_side *side) {
  pthread_mutex_lock(&side->mutex);
  bool ended = side->ended && side->first == NULL;
  pthread_mutex_unlock(&side->mutex);
  if (ended && side->writes == 0 && !uv_is_closing((uv_handle_t *)&side->pipe)) {
    uv_close((uv_handle_t *)&side->pipe, NULL);
    uv_close((uv_handle_t *)&side->wake, NULL);
  }
}

// ---- To the server

static void on_written(uv_write_t *request, int result) {
  struct outgoing *outgoing = request->data;
  struct server_side *side = request->handle->data;
  free(outgoing);
  side->writes--;
  if (result < 0 && result != UV_ECANCELED) {
    _exit(EXIT_SERVER_GONE); // nobody is there to be told
  }
  close_when_all_is_said(side);
}

static void write_out(struct server_side *side, struct outgoing *outgoing) {
  size_t bytes = control_write(&outgoing->message, outgoing->frame);
  uv_buf_t buffer = uv_buf_init((char *)outgoing->frame, (unsigned)bytes);
  outgoing->request.data = outgoing;
  if (uv_write(&outgoing->request, (uv_stream_t *)&side->pipe, &buffer, 1, on_written) != 0) {
    _exit(EXIT_SERVER_GONE);
  }
  side->writes++;
}

static struct outgoing *make_outgoing(const struct control_message *message) {
  struct outgoing *outgoing = malloc(sizeof *outgoing);
  if (outgoing == NULL) {
    abort(); // the server sees the death and sends the jobs elsewhere
  }
  outgoing->next = NULL;
  outgoing->message = *message;
  return outgoing;
}

// The number of the answer, to wait for.
static uint64_t hand_over(struct server_side *side, const struct control_message *message) {
  struct outgoing *outgoing = make_outgoing(message);
  pthread_mutex_lock(&side->mutex);
  *side->last = outgoing;
  side->last = &outgoing->next;
  uint64_t number = ++side->answers_made;
  pthread_mutex_unlock(&side->mutex);
  uv_async_send(&side->wake);
  return number;
}

// On the device's thread. The next job isn't begun before the answer is in the pipe: if it ends the process,
// the server must not take the one that was answered for the cause.
static void on_answer(void *context, const struct control_message *message) {
  struct server_side *side = context;
  uint64_t number = hand_over(side, message);
  pthread_mutex_lock(&side->mutex);
  while (side->answers_written < number) {
    pthread_cond_wait(&side->handed_over, &side->mutex);
  }
  pthread_mutex_unlock(&side->mutex);
}

static void on_ended(void *context, bool ok) {
  struct server_side *side = context;
  pthread_mutex_lock(&side->mutex);
  side->ended = true;
  side->ended_well = ok;
  // Under the lock: once the loop sees the end it closes the handle.
  uv_async_send(&side->wake);
  pthread_mutex_unlock(&side->mutex);
}

static void on_wake(uv_async_t *wake) {
  struct server_side *side = wake->data;
  pthread_mutex_lock(&side->mutex);
  struct outgoing *outgoing = side->first;
  side->first = NULL;
  side->last = &side->first;
  pthread_mutex_unlock(&side->mutex);
  uint64_t written = 0;
  while (outgoing != NULL) {
    struct outgoing *next = outgoing->next;
    side->unusable = side->unusable || outgoing->message.kind == CONTROL_UNUSABLE;
    write_out(side, outgoing);
    outgoing = next;
    written++;
  }
  pthread_mutex_lock(&side->mutex);
  side->answers_written += written;
  pthread_cond_signal(&side->handed_over);
  pthread_mutex_unlock(&side->mutex);
  close_when_all_is_said(side);
}

// ---- From the server

static void refuse_start(struct server_side *side, const struct status *status) {
  struct control_message message = {.kind = CONTROL_UNUSABLE, .unusable = {.status = *status}};
  (void)hand_over(side, &message);
  on_ended(side, false);
}

static void start(struct server_side *side, const struct control_start *start) {
  const struct serve_settings *settings = side->settings;
  struct status status;
  if (start->version != CONTROL_VERSION) {
    status_fail(&status, REASON_INTERNAL, NULL,
                "the worker speaks version %d of the control protocol, the server %u: they are of different "
                "builds",
                CONTROL_VERSION, (unsigned)start->version);
    refuse_start(side, &status);
    return;
  }
  if (!arena_mapping_open(settings->arena_descriptor, start->arena_bytes, &side->arena, &status)) {
    refuse_start(side, &status);
    return;
  }
  close(settings->arena_descriptor);
  struct device_thread_settings thread_settings = {
      .library_file = settings->library_file,
      .home = settings->home,
      .device = settings->device,
      .arena = side->arena.data,
      .arena_bytes = side->arena.bytes,
      .log = settings->log,
      .answer = on_answer,
      .ended = on_ended,
      .context = side,
  };
  side->thread = device_thread_start(&thread_settings);
  if (side->thread == NULL) {
    status_fail(&status, REASON_INTERNAL, NULL, "no thread for the device");
    refuse_start(side, &status);
  }
}

static void handle_job(struct server_side *side, const struct control_message *message) {
  if (side->thread == NULL) {
    end_at_once(side, "a job before START");
  }
  if (side->stopping) {
    end_at_once(side, "a job after STOP");
  }
  if (!device_thread_submit(side->thread, message)) {
    end_at_once(side, "more jobs than can wait");
  }
}

static void handle(struct server_side *side, const struct control_message *message) {
  switch (message->kind) {
  case CONTROL_START:
    if (side->thread != NULL) {
      end_at_once(side, "a second START");
    }
    start(side, &message->start);
    break;
  case CONTROL_PLAN:
  case CONTROL_RUN:
    handle_job(side, message);
    break;
  case CONTROL_PING: {
    struct control_message pong = {.kind = CONTROL_PONG, .pong = {.sequence = message->ping.sequence}};
    write_out(side, make_outgoing(&pong));
    break;
  }
  case CONTROL_STOP:
    side->stopping = true;
    if (side->thread != NULL) {
      device_thread_finish(side->thread);
    } else {
      on_ended(side, true);
    }
    break;
  default:
    end_at_once(side, "a message that only workers send");
  }
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
  (void)suggested;
  struct server_side *side = handle->data;
  *buffer = uv_buf_init(side->bytes, sizeof side->bytes);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
  struct server_side *side = stream->data;
  if (count < 0) {
    _exit(EXIT_SERVER_GONE);
  }
  const uint8_t *data = (const uint8_t *)buffer->base;
  size_t size = (size_t)count;
  bool need_more = false;
  while (!need_more && !uv_is_closing((uv_handle_t *)stream)) {
    struct control_message message;
    struct status status;
    if (control_read(&side->reader, &data, &size, &message, &need_more, &status)) {
      handle(side, &message);
    } else if (!need_more) {
      end_at_once(side, status.message);
    }
  }
}

// ---- The loop

static bool open_loop(struct server_side *side) {
  if (uv_loop_init(&side->loop) != 0 || uv_pipe_init(&side->loop, &side->pipe, 0) != 0 ||
      uv_async_init(&side->loop, &side->wake, on_wake) != 0) {
    return false;
  }
  side->pipe.data = side;
  side->wake.data = side;
  return uv_pipe_open(&side->pipe, side->settings->pipe_descriptor) == 0 &&
         uv_read_start((uv_stream_t *)&side->pipe, on_allocate, on_read) == 0;
}

enum serve_exit serve(const struct serve_settings *settings) {
  struct server_side *side = calloc(1, sizeof *side);
  if (side == NULL) {
    return SERVE_UNUSABLE;
  }
  side->settings = settings;
  side->last = &side->first;
  pthread_mutex_init(&side->mutex, NULL);
  pthread_cond_init(&side->handed_over, NULL);
  if (!open_loop(side)) {
    log_event(&settings->log, LOG_ERROR, "descriptor 0 is no pipe to a server", LOG_TEXT("see", "--help"));
    _exit(SERVE_UNUSABLE);
  }
  uv_run(&side->loop, UV_RUN_DEFAULT);
  if (side->thread != NULL) {
    device_thread_destroy(side->thread);
  }
  if (side->arena.data != NULL) {
    arena_mapping_close(&side->arena);
  }
  enum serve_exit result = side->unusable ? SERVE_UNUSABLE : side->ended_well ? SERVE_STOPPED : SERVE_UNCLEAN;
  int closed = uv_loop_close(&side->loop);
  assert(closed == 0);
  (void)closed;
  pthread_cond_destroy(&side->handed_over);
  pthread_mutex_destroy(&side->mutex);
  free(side);
  return result;
}
