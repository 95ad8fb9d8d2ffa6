#include "tests/bench/transport_bench/sockets.h"

#include "tests/bench/transport_bench/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// What one call moves at the most: as much as caches hold while the other side takes it.
#define PIECE_BYTES ((size_t)256 << 10)

static struct sockaddr_in parse(const char *text) {
  char host[SOCKETS_ADDRESS_BYTES_MAX];
  const char *colon = strrchr(text, ':');
  struct sockaddr_in address = {.sin_family = AF_INET};
  snprintf(host, sizeof host, "%.*s", (int)(colon == NULL ? 0 : colon - text), text);
  if (colon == NULL || inet_pton(AF_INET, host, &address.sin_addr) != 1) {
    command_fail("'%s' is no address", text);
  }
  address.sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10));
  return address;
}

static int set_up(int socket) {
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

int sockets_listen(const char *address, char bound[SOCKETS_ADDRESS_BYTES_MAX]) {
  struct sockaddr_in wanted = parse(address);
  int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening < 0 || bind(listening, (const struct sockaddr *)&wanted, sizeof wanted) != 0 ||
      listen(listening, SOMAXCONN) != 0) {
    command_fail("can't listen on %s: %s", address, strerror(errno));
  }
  socklen_t size = sizeof wanted;
  getsockname(listening, (struct sockaddr *)&wanted, &size);
  char host[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &wanted.sin_addr, host, sizeof host);
  snprintf(bound, SOCKETS_ADDRESS_BYTES_MAX, "%s:%u", host, ntohs(wanted.sin_port));
  return listening;
}

int sockets_accept(int listening) {
  int accepted = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
  if (accepted < 0) {
    command_fail("can't accept: %s", strerror(errno));
  }
  return set_up(accepted);
}

int sockets_connect(const char *address) {
  struct sockaddr_in peer = parse(address);
  int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connected < 0 || connect(connected, (const struct sockaddr *)&peer, sizeof peer) != 0) {
    command_fail("can't connect to %s: %s", address, strerror(errno));
  }
  return set_up(connected);
}

bool sockets_read_all(int socket, void *to, size_t bytes) {
  for (uint8_t *place = to; bytes > 0;) {
    ssize_t got = recv(socket, place, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, 0);
    if (got <= 0) {
      return false;
    }
    place += got;
    bytes -= (size_t)got;
  }
  return true;
}

void sockets_write_all(int socket, const void *from, size_t bytes) {
  for (const uint8_t *place = from; bytes > 0;) {
    ssize_t put = send(socket, place, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, MSG_NOSIGNAL);
    if (put <= 0) {
      command_fail("a write failed: %s", strerror(errno));
    }
    place += put;
    bytes -= (size_t)put;
  }
}
