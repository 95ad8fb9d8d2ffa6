#include "server/npu/pool/worker_process.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// What a process wrote before its end is read in so many pieces at most: more than a pipe holds comes from
// somebody who lives on.
#define LAST_WORDS_READS_MAX 64

// The pipe, stdout, stderr, the arena.
#define STDIO_COUNT 4
_Static_assert(CONTROL_PIPE_DESCRIPTOR == 0 && CONTROL_ARENA_DESCRIPTOR == STDIO_COUNT - 1,
               "the descriptors that both sides know");

struct worker_process {
  uv_process_t process;
  uv_pipe_t pipe;
  struct worker_process_callbacks callbacks;
  struct control_reader reader;
  char input[CONTROL_FRAME_BYTES_MAX];
  bool exited;     // it was reaped
  bool pipe_ended; // nothing more is read
  bool killed;
  int64_t exit_status;
  int signal_number;
  int handles; // that are not closed yet
};

struct sending {
  uv_write_t request;
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
};

// ---- The end

static void on_closed_unstarted(uv_handle_t *handle) {
  struct worker_process *process = handle->data;
  if (--process->handles == 0) {
    free(process);
  }
}

static void on_closed(uv_handle_t *handle) {
  struct worker_process *process = handle->data;
  if (--process->handles > 0) {
    return;
  }
  struct worker_process_callbacks callbacks = process->callbacks;
  int64_t exit_status = process->exit_status;
  int signal_number = process->signal_number;
  free(process);
  callbacks.ended(callbacks.context, exit_status, signal_number);
}

static void close_handles(struct worker_process *process, uv_close_cb closed) {
  uv_close((uv_handle_t *)&process->process, closed);
  uv_close((uv_handle_t *)&process->pipe, closed);
}

static void end_pipe(struct worker_process *process, const char *why) {
  if (process->pipe_ended) {
    return;
  }
  process->pipe_ended = true;
  uv_read_stop((uv_stream_t *)&process->pipe);
  if (!process->exited && !process->killed) {
    process->callbacks.broken(process->callbacks.context, why);
  }
}

// What the process has started is in its group, unless it took pains to leave it.
static void kill_group(const struct worker_process *process) {
  (void)kill(-process->process.pid, SIGKILL);
}

void worker_process_kill(struct worker_process *process) {
  process->killed = true;
  if (!process->exited) {
    kill_group(process);
  }
}

bool worker_process_listens(const struct worker_process *process) {
  return !process->killed && !process->exited && !process->pipe_ended;
}

// ---- The pipe

static void allocate_input(uv_handle_t *handle, size_t suggested_bytes, uv_buf_t *buffer) {
  (void)suggested_bytes;
  struct worker_process *process = handle->data;
  *buffer = uv_buf_init(process->input, sizeof process->input);
}

static void read_messages(struct worker_process *process, const uint8_t *data, size_t size) {
  while (!process->killed && !process->pipe_ended) {
    struct control_message message;
    struct status status;
    bool need_more = false;
    if (control_read(&process->reader, &data, &size, &message, &need_more, &status)) {
      process->callbacks.message(process->callbacks.context, &message);
    } else if (need_more) {
      return;
    } else {
      end_pipe(process, status.message);
      return;
    }
  }
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
  struct worker_process *process = stream->data;
  if (count < 0) {
    // A reset pipe has come to its end, too.
    end_pipe(process, NULL);
  } else if (count > 0) {
    read_messages(process, (const uint8_t *)buffer->base, (size_t)count);
  }
}

// A failure shows in reading as well.
static void on_sent(uv_write_t *request, int error) {
  (void)error;
  free((char *)request - offsetof(struct sending, request));
}

void worker_process_send(struct worker_process *process, const struct control_message *message) {
  if (!worker_process_listens(process)) {
    return;
  }
  struct sending *sending = malloc(sizeof *sending);
  if (sending == NULL) {
    end_pipe(process, "there is no memory for a message to it");
    return;
  }
  uv_buf_t buffer = uv_buf_init((char *)sending->frame, (unsigned)control_write(message, sending->frame));
  if (uv_write(&sending->request, (uv_stream_t *)&process->pipe, &buffer, 1, on_sent) != 0) {
    free(sending);
    end_pipe(process, NULL);
  }
}

// ---- The end of the process

// The end of the pipe isn't waited for: what the process has started may hold it for as long as it likes.
static void read_last_words(struct worker_process *process) {
  uv_os_fd_t descriptor;
  ssize_t count = 1;
  for (size_t i = 0; i < LAST_WORDS_READS_MAX && count > 0 && !process->killed && !process->pipe_ended; i++) {
    int error = uv_fileno((uv_handle_t *)&process->pipe, &descriptor);
    assert(error == 0); // it is open until the end is told
    count = recv(descriptor, process->input, sizeof process->input, MSG_DONTWAIT);
    if (count > 0) {
      read_messages(process, (const uint8_t *)process->input, (size_t)count);
    }
  }
  end_pipe(process, NULL);
}

static void on_exit_of_process(uv_process_t *handle, int64_t exit_status, int signal_number) {
  struct worker_process *process = handle->data;
  process->exited = true;
  process->exit_status = exit_status;
  process->signal_number = signal_number;
  kill_group(process);
  read_last_words(process);
  close_handles(process, on_closed);
}

// ---- The beginning

static int spawn(struct worker_process *process, const struct worker_process_options *options) {
  uv_stdio_container_t stdio[STDIO_COUNT] = {
      {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
       .data.stream = (uv_stream_t *)&process->pipe},
      {.flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO},
      {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
      {.flags = UV_INHERIT_FD, .data.fd = options->arena_descriptor},
  };
  // With a group of its own.
  uv_process_options_t spawned = {.exit_cb = on_exit_of_process,
                                  .flags = UV_PROCESS_DETACHED,
                                  .file = options->arguments[0],
                                  .args = options->arguments,
                                  .env = options->environment,
                                  .stdio = stdio,
                                  .stdio_count = STDIO_COUNT};
  return uv_spawn(options->loop, &process->process, &spawned);
}

bool worker_process_start(const struct worker_process_options *options, struct worker_process **process,
                          struct status *status) {
  struct worker_process *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a worker process");
  }
  created->callbacks = options->callbacks;
  int error = uv_pipe_init(options->loop, &created->pipe, 0);
  assert(error == 0); // opens nothing
  error = spawn(created, options);
  created->process.data = created->pipe.data = created;
  created->handles = 2;
  if (error != 0) {
    close_handles(created, on_closed_unstarted);
    return status_fail(status, REASON_INTERNAL, NULL, "%s can't be started: %s", options->arguments[0],
                       uv_strerror(error));
  }
  uv_unref((uv_handle_t *)&created->process);
  uv_unref((uv_handle_t *)&created->pipe);
  error = uv_read_start((uv_stream_t *)&created->pipe, allocate_input, on_input);
  assert(error == 0); // the pipe is open
  *process = created;
  return true;
}

int worker_process_id(const struct worker_process *process) {
  return process->process.pid;
}
