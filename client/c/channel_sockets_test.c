#include "client/c/channel_sockets.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// What gRPC does with a new socket of a client's: the first function of the mutator's table.
static void show(struct channel_sockets *sockets, int descriptor) {
  bool (*mutate)(int descriptor, void *mutator);
  mutate = **(bool (***)(int, void *))(void *)sockets;
  assert_true(mutate(descriptor, sockets));
}

static bool is_open(int peer) {
  char byte;
  ssize_t got = recv(peer, &byte, 1, MSG_DONTWAIT);
  return got < 0 && errno == EAGAIN;
}

static void known_sockets_are_shut_down(void **state) {
  (void)state;
  int pairs[3][2];
  struct channel_sockets *sockets = channel_sockets_create();
  assert_non_null(sockets);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
  }
  show(sockets, pairs[0][0]);
  show(sockets, pairs[1][0]);
  channel_sockets_break(sockets);
  assert_false(is_open(pairs[0][1]));
  assert_false(is_open(pairs[1][1]));
  assert_true(is_open(pairs[2][1]));
  channel_sockets_release(sockets);
  for (int i = 0; i < 3; i++) {
    close(pairs[i][0]);
    close(pairs[i][1]);
  }
}

static void number_of_a_closed_socket_is_left_alone(void **state) {
  (void)state;
  int shown[2], other[2];
  struct channel_sockets *sockets = channel_sockets_create();
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, shown), 0);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
  show(sockets, shown[0]);
  assert_int_equal(dup2(other[0], shown[0]), shown[0]); // closes it; the number is the other socket's now
  channel_sockets_break(sockets);
  assert_true(is_open(other[1]));
  close(shown[0]);
  channel_sockets_break(sockets); // nobody's now
  channel_sockets_release(sockets);
  close(shown[1]);
  close(other[0]);
  close(other[1]);
}

// The layout is gRPC's own business: this fails where it is another.
static void grpc_shows_its_sockets(void **state) {
  (void)state;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Abstract, with a name of the kernel's choice.
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
  socklen_t length = sizeof address;
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
  assert_int_equal(listen(listener, 1), 0);
  char target[64] = "unix-abstract:";
  size_t name = length - offsetof(struct sockaddr_un, sun_path) - 1;
  for (size_t i = 0; i < name; i++) {
    target[14 + i] = address.sun_path[1 + i];
  }

  grpc_init();
  struct channel_sockets *sockets = channel_sockets_create();
  grpc_arg argument = channel_sockets_argument(sockets);
  const grpc_channel_args arguments = {.num_args = 1, .args = &argument};
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, credentials, &arguments);
  grpc_channel_credentials_release(credentials);
  grpc_channel_check_connectivity_state(channel, 1); // makes it connect
  int peer = accept(listener, NULL, NULL);
  assert_true(peer >= 0);
  channel_sockets_break(sockets);
  char bytes[256]; // what gRPC had sent until then, and the end
  while (recv(peer, bytes, sizeof bytes, 0) > 0) {
  }
  grpc_channel_destroy(channel);
  channel_sockets_release(sockets);
  grpc_shutdown();
  close(peer);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_sockets_are_shut_down),
      cmocka_unit_test(number_of_a_closed_socket_is_left_alone),
      cmocka_unit_test(grpc_shows_its_sockets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
