#include "server/rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONNECTIONS_MAX = 2, TAKEN_MAX = 16 };

struct fixture {
  char folder[64];
  char path[100];    // for a unix socket
  char address[120]; // "unix:" and the path
  uv_loop_t loop;
  struct log log;
  struct listeners *listeners;
  int taken[TAKEN_MAX]; // what gRPC would have got
  size_t taken_count;
};

static void take(void *context, int descriptor, int64_t round_trip_ns) {
  struct fixture *fixture = context;
  assert_true(round_trip_ns >= 0);
  assert_true(fixture->taken_count < TAKEN_MAX);
  fixture->taken[fixture->taken_count++] = descriptor;
}

static struct listeners *create(struct fixture *fixture) {
  struct listeners_options options = {.loop = &fixture->loop,
                                      .log = &fixture->log,
                                      .connections_max = CONNECTIONS_MAX,
                                      .connected = take,
                                      .context = fixture};
  struct listeners *listeners = NULL;
  struct status status;
  assert_true(listeners_create(&options, &listeners, &status));
  return listeners;
}

static int set_up(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  // Paths of sockets are short, that of the test's own folder may be long.
  snprintf(fixture->folder, sizeof fixture->folder, "/tmp/listener-test-XXXXXX");
  assert_non_null(mkdtemp(fixture->folder));
  snprintf(fixture->path, sizeof fixture->path, "%s/socket", fixture->folder);
  snprintf(fixture->address, sizeof fixture->address, "unix:%s", fixture->path);
  assert_int_equal(uv_loop_init(&fixture->loop), 0);
  fixture->log = (struct log){.descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC), .level = LOG_INFO};
  fixture->listeners = create(fixture);
  *state = fixture;
  return 0;
}

static void destroy(struct fixture *fixture, struct listeners *listeners) {
  listeners_close(listeners);
  uv_run(&fixture->loop, UV_RUN_NOWAIT); // closes handles at the end of a turn
  listeners_destroy(listeners);
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  destroy(fixture, fixture->listeners);
  for (size_t i = 0; i < fixture->taken_count; ++i) {
    close(fixture->taken[i]);
  }
  assert_int_equal(uv_loop_close(&fixture->loop), 0);
  close(fixture->log.descriptor);
  assert_int_equal(rmdir(fixture->folder), 0); // nothing is left in it
  free(fixture);
  return 0;
}

static bool add(struct listeners *listeners, const char *text, struct address *bound, struct status *status) {
  struct address address;
  assert_true(address_parse(text, &address, status));
  return listeners_add(listeners, &address, bound, status);
}

static int connect_to(const struct address *address) {
  int client = socket(address->socket_address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(client >= 0);
  assert_int_equal(connect(client, (const struct sockaddr *)&address->socket_address, address->size), 0);
  return client;
}

// Lets the loop handle what has happened until so many connections are known.
static void run_until_connections(struct fixture *fixture, size_t count) {
  while (listeners_connections(fixture->listeners) != count) {
    uv_run(&fixture->loop, UV_RUN_ONCE);
  }
}

static bool is_closed_by_peer(int client) {
  char byte;
  ssize_t result = read(client, &byte, 1);
  return result == 0 || (result < 0 && errno == ECONNRESET);
}

static void port_zero_is_given_a_real_port(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  char text[ADDRESS_TEXT_BYTES_MAX];
  assert_true(add(fixture->listeners, "127.0.0.1:0", &bound, &status));
  address_format(&bound, text);
  assert_string_not_equal(text, "127.0.0.1:0");
  int client = connect_to(&bound);
  run_until_connections(fixture, 1);
  // A second server can't have the same port.
  struct listeners *second = create(fixture);
  assert_false(add(second, text, &bound, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  destroy(fixture, second);
  close(client);
}

static void peers_on_unix_sockets_are_known_by_uid(void **state) {
  struct fixture *fixture = *state;
  struct address unix_bound, tcp_bound;
  struct status status;
  assert_true(add(fixture->listeners, fixture->address, &unix_bound, &status));
  assert_true(add(fixture->listeners, "127.0.0.1:0", &tcp_bound, &status));
  int unix_client = connect_to(&unix_bound);
  run_until_connections(fixture, 1);
  int tcp_client = connect_to(&tcp_bound);
  run_until_connections(fixture, 2);
  char peer[32], identity[SESSION_IDENTITY_BYTES_MAX + 1], expected[32];
  snprintf(peer, sizeof peer, "fd:%d", fixture->taken[0]);
  listeners_identify(fixture->listeners, peer, identity);
  snprintf(expected, sizeof expected, "uid:%u", (unsigned)getuid());
  assert_string_equal(identity, expected);
  snprintf(peer, sizeof peer, "fd:%d", fixture->taken[1]);
  listeners_identify(fixture->listeners, peer, identity);
  assert_string_equal(identity, "");
  listeners_identify(fixture->listeners, "ipv4:1.2.3.4:5", identity);
  assert_string_equal(identity, "");
  close(unix_client);
  close(tcp_client);
}

static void connections_above_the_limit_are_closed(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, "127.0.0.1:0", &bound, &status));
  int first = connect_to(&bound);
  int second = connect_to(&bound);
  run_until_connections(fixture, CONNECTIONS_MAX);
  int third = connect_to(&bound);
  uv_run(&fixture->loop, UV_RUN_ONCE);
  assert_true(is_closed_by_peer(third));
  // gRPC shuts a connection down before it closes it: then there is room again.
  shutdown(fixture->taken[0], SHUT_RDWR);
  close(first);
  run_until_connections(fixture, CONNECTIONS_MAX - 1);
  int fourth = connect_to(&bound);
  run_until_connections(fixture, CONNECTIONS_MAX);
  assert_int_equal(fixture->taken_count, CONNECTIONS_MAX + 1);
  close(second);
  close(third);
  close(fourth);
}

static void peers_number_is_not_used_again_at_once(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, "127.0.0.1:0", &bound, &status));
  int client = connect_to(&bound);
  run_until_connections(fixture, 1);
  int number = fixture->taken[0];
  shutdown(number, SHUT_RDWR);
  close(number);
  close(client);
  run_until_connections(fixture, 0);
  client = connect_to(&bound);
  run_until_connections(fixture, 1);
  assert_int_not_equal(fixture->taken[1], number);
  fixture->taken[0] = fixture->taken[--fixture->taken_count];
  close(client);
}

// A connection that hung up while gRPC still had it open was told of twice once.
static void connection_that_hung_up_is_forgotten_once(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, fixture->address, &bound, &status));
  int client = connect_to(&bound);
  run_until_connections(fixture, 1);
  close(client); // hangs a unix socket up at once
  run_until_connections(fixture, 0);
  shutdown(fixture->taken[0], SHUT_RDWR);
  uv_run(&fixture->loop, UV_RUN_NOWAIT);
  assert_int_equal(listeners_connections(fixture->listeners), 0);
}

static void socket_file_of_a_dead_server_is_replaced(void **state) {
  struct fixture *fixture = *state;
  struct sockaddr_un dead = {.sun_family = AF_UNIX};
  struct address bound;
  struct status status;
  snprintf(dead.sun_path, sizeof dead.sun_path, "%s", fixture->path);
  int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(server, (const struct sockaddr *)&dead, sizeof dead), 0);
  close(server); // without removing the file
  assert_true(add(fixture->listeners, fixture->address, &bound, &status));
  int client = connect_to(&bound);
  run_until_connections(fixture, 1);
  close(client);
}

static void socket_file_of_a_live_server_is_left_alone(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, fixture->address, &bound, &status));
  struct listeners *second = create(fixture);
  assert_false(add(second, fixture->address, &bound, &status));
  assert_int_equal(status.reason, REASON_CONFIGURATION);
  assert_non_null(strstr(status.message, "another server"));
  destroy(fixture, second);
  assert_int_equal(access(fixture->path, F_OK), 0);
}

static void other_files_are_left_alone(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  close(open(fixture->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  assert_false(add(fixture->listeners, fixture->address, &bound, &status));
  assert_int_equal(unlink(fixture->path), 0);
}

static void file_that_is_another_servers_by_now_stays(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, fixture->address, &bound, &status));
  assert_int_equal(unlink(fixture->path), 0);
  close(open(fixture->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  listeners_stop_accepting(fixture->listeners);
  assert_int_equal(unlink(fixture->path), 0);
}

static void connections_live_on_when_accepting_stops(void **state) {
  struct fixture *fixture = *state;
  struct address bound;
  struct status status;
  assert_true(add(fixture->listeners, "127.0.0.1:0", &bound, &status));
  int client = connect_to(&bound);
  run_until_connections(fixture, 1);
  listeners_stop_accepting(fixture->listeners);
  uv_run(&fixture->loop, UV_RUN_NOWAIT);
  assert_int_equal(listeners_connections(fixture->listeners), 1);
  int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(late, (const struct sockaddr *)&bound.socket_address, bound.size), -1);
  close(late);
  close(client);
}

#define LISTENER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      LISTENER_TEST(port_zero_is_given_a_real_port),
      LISTENER_TEST(peers_on_unix_sockets_are_known_by_uid),
      LISTENER_TEST(connections_above_the_limit_are_closed),
      LISTENER_TEST(peers_number_is_not_used_again_at_once),
      LISTENER_TEST(connection_that_hung_up_is_forgotten_once),
      LISTENER_TEST(socket_file_of_a_dead_server_is_replaced),
      LISTENER_TEST(socket_file_of_a_live_server_is_left_alone),
      LISTENER_TEST(other_files_are_left_alone),
      LISTENER_TEST(file_that_is_another_servers_by_now_stays),
      LISTENER_TEST(connections_live_on_when_accepting_stops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
