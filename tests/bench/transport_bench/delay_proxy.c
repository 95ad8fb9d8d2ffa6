// delay_proxy ADDRESS TARGET MICROSECONDS: takes connections to ADDRESS further to TARGET; every byte, either
// way, leaves so much later than it came. What it holds is bounded (PIPE_BYTES): with 10 ms that lets 400
// MB/s through, more than the links that it is used with.

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/sockets.h"
#include "tests/bench/transport_bench/timing.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIPE_BYTES ((size_t)4 << 20)
// Pieces that came at different times.
#define PIECES_MAX 4096
#define READ_BYTES_MAX ((size_t)64 << 10)

struct piece {
  size_t bytes;
  int64_t due_ns;
};

// One direction of one connection: a thread reads and another writes.
struct pipe {
  int from, to;
  int64_t delay_ns;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint8_t *ring;
  struct piece pieces[PIECES_MAX];
  uint64_t read_bytes, written_bytes; // of the whole stream
  uint64_t read_pieces, written_pieces;
  bool ended;
};

struct proxy {
  int listening;
  const char *target;
  int64_t delay_ns;
};

static size_t wait_for_room(struct pipe *pipe) {
  pthread_mutex_lock(&pipe->lock);
  while (pipe->read_bytes - pipe->written_bytes == PIPE_BYTES ||
         pipe->read_pieces - pipe->written_pieces == PIECES_MAX) {
    pthread_cond_wait(&pipe->changed, &pipe->lock);
  }
  size_t room = PIPE_BYTES - (size_t)(pipe->read_bytes - pipe->written_bytes);
  pthread_mutex_unlock(&pipe->lock);
  return room;
}

static void *read_on(void *argument) {
  struct pipe *pipe = argument;
  for (;;) {
    size_t room = wait_for_room(pipe);
    size_t place = pipe->read_bytes % PIPE_BYTES;
    size_t most = PIPE_BYTES - place < room ? PIPE_BYTES - place : room;
    ssize_t got = recv(pipe->from, pipe->ring + place, most < READ_BYTES_MAX ? most : READ_BYTES_MAX, 0);
    pthread_mutex_lock(&pipe->lock);
    size_t bytes = got > 0 ? (size_t)got : 0;
    pipe->ended = bytes == 0;
    pipe->pieces[pipe->read_pieces++ % PIECES_MAX] = (struct piece){bytes, timing_now_ns() + pipe->delay_ns};
    pipe->read_bytes += bytes;
    pthread_cond_signal(&pipe->changed);
    pthread_mutex_unlock(&pipe->lock);
    if (bytes == 0) {
      return NULL;
    }
  }
}

static struct piece wait_for_piece(struct pipe *pipe) {
  pthread_mutex_lock(&pipe->lock);
  while (pipe->read_pieces == pipe->written_pieces) {
    pthread_cond_wait(&pipe->changed, &pipe->lock);
  }
  struct piece piece = pipe->pieces[pipe->written_pieces % PIECES_MAX];
  pthread_mutex_unlock(&pipe->lock);
  return piece;
}

static void sleep_until(int64_t due_ns) {
  const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {
  }
}

static bool write_piece(struct pipe *pipe, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    size_t place = (pipe->written_bytes + done) % PIPE_BYTES;
    size_t most = PIPE_BYTES - place < bytes - done ? PIPE_BYTES - place : bytes - done;
    ssize_t put = send(pipe->to, pipe->ring + place, most, MSG_NOSIGNAL);
    if (put <= 0) {
      return false;
    }
    done += (size_t)put;
  }
  return true;
}

static void *write_on(void *argument) {
  struct pipe *pipe = argument;
  prctl(PR_SET_TIMERSLACK, 1); // wakes when it is due, not up to 50 us later
  for (;;) {
    struct piece piece = wait_for_piece(pipe);
    sleep_until(piece.due_ns);
    bool open = piece.bytes > 0 && write_piece(pipe, piece.bytes);
    pthread_mutex_lock(&pipe->lock);
    pipe->written_bytes += piece.bytes;
    ++pipe->written_pieces;
    pthread_cond_signal(&pipe->changed);
    pthread_mutex_unlock(&pipe->lock);
    if (!open) {
      // Descriptors and memory stay until the program ends: it has few connections.
      shutdown(pipe->to, SHUT_WR);
      shutdown(pipe->from, SHUT_RD);
      return NULL;
    }
  }
}

static void start_pipe(int from, int to, int64_t delay_ns) {
  struct pipe *pipe = calloc(1, sizeof *pipe);
  pthread_t threads[2];
  if (pipe == NULL || (pipe->ring = malloc(PIPE_BYTES)) == NULL) {
    command_fail("no memory for a connection");
  }
  pipe->from = from;
  pipe->to = to;
  pipe->delay_ns = delay_ns;
  pthread_mutex_init(&pipe->lock, NULL);
  pthread_cond_init(&pipe->changed, NULL);
  if (pthread_create(&threads[0], NULL, read_on, pipe) != 0 ||
      pthread_create(&threads[1], NULL, write_on, pipe) != 0) {
    command_fail("no thread");
  }
  pthread_detach(threads[0]);
  pthread_detach(threads[1]);
}

static void *accept_connections(void *argument) {
  const struct proxy *proxy = argument;
  for (;;) {
    int near = sockets_accept(proxy->listening);
    int far = sockets_connect(proxy->target);
    start_pipe(near, far, proxy->delay_ns);
    start_pipe(far, near, proxy->delay_ns);
  }
  return NULL;
}

int main(int argument_count, char **words) {
  long microseconds = argument_count == 4 ? strtol(words[3], NULL, 10) : 0;
  if (microseconds < 1 || microseconds > 10000000) {
    command_fail("usage: delay_proxy ADDRESS TARGET MICROSECONDS");
  }
  char bound[SOCKETS_ADDRESS_BYTES_MAX];
  struct proxy proxy = {sockets_listen(words[1], bound), words[2], microseconds * 1000};
  pthread_t thread;
  if (pthread_create(&thread, NULL, accept_connections, &proxy) != 0) {
    command_fail("no thread");
  }
  command_serve_until_end(bound);
  _Exit(0);
}
