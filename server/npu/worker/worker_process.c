#include "server/npu/worker/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKER_FILE "server/npu/worker/aclnn-npu-worker"
#define ARGUMENTS_MAX 16

extern char **environ;

int worker_process_make_arena(uint64_t bytes, bool sealed) {
  int descriptor = memfd_create("test-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(descriptor >= 0);
  assert_int_equal(ftruncate(descriptor, (off_t)bytes), 0);
  if (sealed) {
    assert_int_equal(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  }
  return descriptor;
}

void worker_process_spawn(struct worker_process *worker, pid_t parent, const char *const *arguments) {
  char parent_text[32];
  snprintf(parent_text, sizeof parent_text, "%d", (int)(parent != 0 ? parent : getpid()));
  char *list[ARGUMENTS_MAX] = {WORKER_FILE, "--parent", parent_text};
  for (size_t i = 0; arguments[i] != NULL; i++) {
    assert_true(i + 4 < ARGUMENTS_MAX);
    list[i + 3] = (char *)arguments[i];
  }
  int pipes[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipes), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], CONTROL_PIPE_DESCRIPTOR);
  posix_spawn_file_actions_adddup2(&actions, worker->arena_descriptor, CONTROL_ARENA_DESCRIPTOR);
  assert_int_equal(posix_spawn(&worker->pid, WORKER_FILE, &actions, NULL, list, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  worker->pipe = pipes[0];
}

void worker_process_start(struct worker_process *worker, const char *const *arguments) {
  memset(worker, 0, sizeof *worker);
  worker->arena_descriptor = worker_process_make_arena(WORKER_ARENA_BYTES, true);
  worker->arena =
      mmap(NULL, WORKER_ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, worker->arena_descriptor, 0);
  assert_ptr_not_equal(worker->arena, MAP_FAILED);
  worker_process_spawn(worker, 0, arguments);
}

void worker_process_close_pipe(struct worker_process *worker) {
  if (worker->pipe >= 0) {
    close(worker->pipe);
  }
  worker->pipe = -1;
}

int worker_process_wait(struct worker_process *worker) {
  int result = 0;
  pid_t pid;
  while ((pid = waitpid(worker->pid, &result, 0)) < 0 && errno == EINTR) {
  }
  assert_int_equal(pid, worker->pid);
  worker->pid = 0;
  return result;
}

void worker_process_end(struct worker_process *worker) {
  if (worker->pid != 0) {
    kill(worker->pid, SIGKILL);
    (void)worker_process_wait(worker);
  }
  worker_process_close_pipe(worker);
  munmap(worker->arena, WORKER_ARENA_BYTES);
  close(worker->arena_descriptor);
}

void worker_process_send_bytes(struct worker_process *worker, const void *bytes, size_t count) {
  for (size_t sent = 0; sent < count;) {
    ssize_t now = send(worker->pipe, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
    assert_true(now > 0);
    sent += (size_t)now;
  }
}

void worker_process_send(struct worker_process *worker, const struct control_message *message) {
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  worker_process_send_bytes(worker, frame, control_write(message, frame));
}

// False at the end of the pipe.
static bool read_more(struct worker_process *worker) {
  ssize_t count;
  while ((count = recv(worker->pipe, worker->bytes, sizeof worker->bytes, 0)) < 0 && errno == EINTR) {
  }
  // A process that dies with messages unread resets the connection.
  worker->data = worker->bytes;
  worker->size = count > 0 ? (size_t)count : 0;
  return count > 0;
}

bool worker_process_receive(struct worker_process *worker, struct control_message *message) {
  for (;;) {
    struct status status;
    bool need_more = false;
    if (control_read(&worker->reader, &worker->data, &worker->size, message, &need_more, &status)) {
      return true;
    }
    if (!need_more) {
      fail_msg("the worker sent a broken message: %s", status.message);
    }
    if (!read_more(worker)) {
      return false;
    }
  }
}

void worker_process_expect(struct worker_process *worker, enum control_kind kind,
                           struct control_message *message) {
  if (!worker_process_receive(worker, message)) {
    fail_msg("the worker is gone, expected was message %d", (int)kind);
  }
  if (message->kind == CONTROL_UNUSABLE && kind != CONTROL_UNUSABLE) {
    fail_msg("the device is unusable: %s", message->unusable.status.message);
  }
  assert_int_equal(message->kind, kind);
}
