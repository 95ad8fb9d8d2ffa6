// tcp_client ADDRESS: the physical limit's client. Its command:
//
//   exchange CALLS SEND_BYTES RECEIVE_BYTES     one after the other, on one connection

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/sockets.h"
#include "tests/bench/transport_bench/tcp_limits.h"
#include "tests/bench/transport_bench/timing.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <stdlib.h>

struct client {
  int connection;
  uint8_t *memory;
};

static void exchange(void *context, const int64_t *arguments) {
  const struct client *client = context;
  size_t calls = (size_t)arguments[0];
  int64_t *nanoseconds = malloc(calls * sizeof *nanoseconds);
  if (calls < 1 || nanoseconds == NULL || arguments[1] > TCP_BYTES_MAX || arguments[2] > TCP_BYTES_MAX) {
    command_fail("a number out of range");
  }
  int64_t begin_ns = timing_now_ns();
  for (size_t i = 0; i < calls; ++i) {
    int64_t call_ns = timing_now_ns();
    sockets_write_all(client->connection, &arguments[1], 2 * sizeof arguments[1]);
    sockets_write_all(client->connection, client->memory, (size_t)arguments[1]);
    if (!sockets_read_all(client->connection, client->memory, (size_t)arguments[2])) {
      command_fail("the server has gone");
    }
    nanoseconds[i] = timing_now_ns() - call_ns;
  }
  timing_answer(begin_ns, timing_now_ns(), nanoseconds, calls);
  free(nanoseconds);
}

static const struct command commands[] = {{"exchange", 3, exchange}, {NULL, 0, NULL}};

int main(int argument_count, char **words) {
  if (argument_count != 2) {
    command_fail("usage: tcp_client ADDRESS");
  }
  struct client client = {sockets_connect(words[1]), warm_memory_get(TCP_BYTES_MAX)};
  command_loop(commands, &client);
  return 0;
}
