// tcp_server ADDRESS: the physical limit's server. A request is two int64: bytes that follow, bytes that come
// back.

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/sockets.h"
#include "tests/bench/transport_bench/tcp_limits.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static uint8_t *memory;

static void *serve_connection(void *argument) {
  int connection = (int)(intptr_t)argument;
  int64_t request[2];
  while (sockets_read_all(connection, request, sizeof request)) {
    if (request[0] < 0 || request[0] > TCP_BYTES_MAX || request[1] < 0 || request[1] > TCP_BYTES_MAX) {
      command_fail("a length out of range");
    }
    if (!sockets_read_all(connection, memory, (size_t)request[0])) {
      break;
    }
    sockets_write_all(connection, memory, (size_t)request[1]);
  }
  close(connection);
  return NULL;
}

static void *accept_connections(void *argument) {
  int listening = (int)(intptr_t)argument;
  for (;;) {
    pthread_t thread;
    int connection = sockets_accept(listening);
    if (pthread_create(&thread, NULL, serve_connection, (void *)(intptr_t)connection) != 0) {
      command_fail("no thread");
    }
    pthread_detach(thread);
  }
  return NULL;
}

int main(int argument_count, char **words) {
  if (argument_count != 2) {
    command_fail("usage: tcp_server ADDRESS");
  }
  memory = warm_memory_get(TCP_BYTES_MAX);
  char bound[SOCKETS_ADDRESS_BYTES_MAX];
  int listening = sockets_listen(words[1], bound);
  pthread_t thread;
  if (pthread_create(&thread, NULL, accept_connections, (void *)(intptr_t)listening) != 0) {
    command_fail("no thread");
  }
  command_serve_until_end(bound);
  _Exit(0); // with connections, whose threads wait
}
