#include "server/rpc/receive_guard.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

// A connection's preface, and the head of a frame with headers without an end.
static const uint8_t preface[24] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const uint8_t long_headers[9] = {0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 1};

struct pair {
  int ours, peer;
};

static struct pair connect_pair(void) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return (struct pair){ends[0], ends[1]};
}

static void disconnect(const struct pair *pair) {
  close(pair->ours);
  close(pair->peer);
}

static void send_all(const struct pair *pair, const void *bytes, size_t size) {
  assert_int_equal(write(pair->peer, bytes, size), size);
}

// As gRPC reads: into several pieces.
static ssize_t receive(const struct pair *pair, uint8_t *bytes, size_t size) {
  struct iovec pieces[] = {{bytes, 5}, {bytes + 5, size - 5}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  return recvmsg(pair->ours, &message, 0);
}

static void send_too_long_headers(const struct pair *pair) {
  static uint8_t nothing[65536];
  uint8_t read[sizeof nothing];
  send_all(pair, preface, sizeof preface);
  assert_int_equal(receive(pair, read, sizeof read), sizeof preface);
  assert_memory_equal(read, preface, sizeof preface);
  send_all(pair, long_headers, sizeof long_headers);
  assert_int_equal(receive(pair, read, sizeof read), sizeof long_headers);
  for (int i = 0; i < 2; ++i) {
    send_all(pair, nothing, sizeof nothing);
    for (size_t received = 0; received < sizeof nothing;) {
      ssize_t size = receive(pair, read, sizeof read);
      assert_true(size > 0);
      received += (size_t)size;
    }
  }
  send_all(pair, nothing, 1);
}

static void watched_connection_is_reset_when_its_guard_says_so(void **state) {
  (void)state;
  struct pair pair = connect_pair();
  assert_true(receive_guard_watch(pair.ours));
  send_too_long_headers(&pair);
  uint8_t read[100];
  assert_int_equal(receive(&pair, read, sizeof read), -1);
  assert_int_equal(errno, EPROTO);
  assert_int_equal(receive_guard_end(pair.ours), FRAME_HEADERS_TOO_LONG);
  disconnect(&pair);
}

static void other_sockets_are_read_as_ever(void **state) {
  (void)state;
  struct pair pair = connect_pair();
  send_too_long_headers(&pair);
  uint8_t read[100];
  assert_int_equal(receive(&pair, read, sizeof read), 1);
  disconnect(&pair);
}

static void number_that_comes_again_begins_anew(void **state) {
  (void)state;
  struct pair first = connect_pair();
  assert_true(receive_guard_watch(first.ours));
  send_too_long_headers(&first);
  uint8_t read[100];
  assert_int_equal(receive(&first, read, sizeof read), -1);
  (void)receive_guard_end(first.ours);
  disconnect(&first);
  struct pair second = connect_pair();
  assert_int_equal(second.ours, first.ours);
  assert_true(receive_guard_watch(second.ours));
  send_all(&second, preface, sizeof preface);
  assert_int_equal(receive(&second, read, sizeof read), sizeof preface);
  assert_int_equal(receive_guard_end(second.ours), FRAME_PASSES);
  // And is anybody's after that.
  send_too_long_headers(&second);
  assert_int_equal(receive(&second, read, sizeof read), 1);
  disconnect(&second);
}

static void socket_of_another_behind_the_same_number_is_left_alone(void **state) {
  (void)state;
  struct pair first = connect_pair();
  assert_true(receive_guard_watch(first.ours));
  struct pair second = connect_pair();
  int number = first.ours;
  assert_int_equal(dup2(second.ours, number), number);
  struct pair taken = {number, second.peer};
  send_too_long_headers(&taken);
  uint8_t read[100];
  assert_int_equal(receive(&taken, read, sizeof read), 1);
  (void)receive_guard_end(number);
  close(number);
  close(first.peer);
  disconnect(&second);
}

static void numbers_beyond_the_table_are_refused(void **state) {
  (void)state;
  assert_false(receive_guard_watch(RECEIVE_GUARD_DESCRIPTORS_MAX));
  receive_guard_call_over(RECEIVE_GUARD_DESCRIPTORS_MAX);
  receive_guard_call_over(-1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(watched_connection_is_reset_when_its_guard_says_so),
      cmocka_unit_test(other_sockets_are_read_as_ever),
      cmocka_unit_test(number_that_comes_again_begins_anew),
      cmocka_unit_test(socket_of_another_behind_the_same_number_is_left_alone),
      cmocka_unit_test(numbers_beyond_the_table_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
