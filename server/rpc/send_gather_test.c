#include "server/rpc/send_gather.h"

#include "server/rpc/limits.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { FIRST = 100, SECOND = 200, OTHER_FLAG = MSG_NOSIGNAL };

static void begin_calls(int descriptor, int count) {
  for (int i = 0; i < count; ++i) {
    send_gather_call_begins(descriptor);
  }
}

static void end_calls(int descriptor, int count) {
  for (int i = 0; i < count; ++i) {
    send_gather_call_ends(descriptor);
  }
}

static bool is_held(int descriptor, size_t size) {
  int flags = send_gather_flags(descriptor, size, OTHER_FLAG);
  assert_int_equal(flags & ~MSG_MORE, OTHER_FLAG);
  assert_int_equal(send_gather_holds(), (flags & MSG_MORE) != 0);
  return flags & MSG_MORE;
}

static void replies_gather_up_to_a_number(void **state) {
  (void)state;
  begin_calls(FIRST, 2);
  send_gather_begin_event();
  for (int i = 1; i <= 3 * SEND_GATHER_REPLIES_MAX; ++i) {
    assert_int_equal(is_held(FIRST, 100), i % SEND_GATHER_REPLIES_MAX != 0);
  }
  send_gather_end_event(0);
  end_calls(FIRST, 2);
}

static void numbers_begin_anew_after_a_release(void **state) {
  (void)state;
  begin_calls(FIRST, 2);
  send_gather_begin_event();
  assert_true(is_held(FIRST, 100));
  send_gather_release();
  assert_false(send_gather_holds());
  for (int i = 1; i < SEND_GATHER_REPLIES_MAX; ++i) {
    assert_true(is_held(FIRST, 100));
  }
  assert_false(is_held(FIRST, 100));
  send_gather_end_event(0);
  end_calls(FIRST, 2);
}

static void the_only_call_of_a_connection_is_answered_at_once(void **state) {
  (void)state;
  send_gather_begin_event();
  assert_false(is_held(FIRST, 100));
  begin_calls(FIRST, 1);
  begin_calls(SECOND, 5);
  assert_false(is_held(FIRST, 100));
  begin_calls(FIRST, 1);
  assert_true(is_held(FIRST, 100));
  end_calls(FIRST, 1);
  assert_false(is_held(FIRST, 100));
  end_calls(FIRST, 1);
  end_calls(SECOND, 5);
  send_gather_end_event(0);
}

static void what_is_long_goes_at_once(void **state) {
  (void)state;
  begin_calls(FIRST, 2);
  send_gather_begin_event();
  assert_true(is_held(FIRST, SEND_GATHER_BYTES_MAX));
  assert_false(is_held(FIRST, SEND_GATHER_BYTES_MAX + 1));
  send_gather_end_event(0);
  end_calls(FIRST, 2);
}

static void one_connection_is_held_at_a_time(void **state) {
  (void)state;
  begin_calls(FIRST, 2);
  begin_calls(SECOND, 2);
  send_gather_begin_event();
  for (int i = 1; i < 3 * SEND_GATHER_REPLIES_MAX; ++i) {
    assert_true(is_held(i % 2 ? FIRST : SECOND, 100));
  }
  send_gather_end_event(0);
  send_gather_release();
  end_calls(FIRST, 2);
  end_calls(SECOND, 2);
}

static void what_is_held_goes_in_time(void **state) {
  (void)state;
  const int64_t begin_ns = INT64_C(1000000000000);
  begin_calls(FIRST, 2);
  for (int i = 0; i < 3; ++i) {
    send_gather_begin_event();
    assert_true(is_held(FIRST, 100));
    send_gather_end_event(begin_ns + i * (SEND_GATHER_NS_MAX / 2 - 1));
    assert_true(send_gather_holds());
  }
  send_gather_begin_event();
  send_gather_end_event(begin_ns + SEND_GATHER_NS_MAX);
  assert_false(send_gather_holds());
  // The time begins anew with what is held next.
  send_gather_begin_event();
  assert_true(is_held(FIRST, 100));
  send_gather_end_event(begin_ns + 10 * SEND_GATHER_NS_MAX);
  assert_true(send_gather_holds());
  send_gather_release();
  end_calls(FIRST, 2);
}

static void *hold(void *argument) {
  send_gather_begin_event();
  *(bool *)argument = is_held(FIRST, 100);
  return NULL;
}

static void threads_hold_by_themselves_and_only_in_events(void **state) {
  (void)state;
  begin_calls(FIRST, 2);
  assert_false(is_held(FIRST, 100));
  bool held = false;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, hold, &held), 0);
  pthread_join(thread, NULL);
  assert_true(held);
  assert_false(send_gather_holds());
  assert_false(is_held(FIRST, 100));
  end_calls(FIRST, 2);
}

static void numbers_of_no_connection_are_never_held(void **state) {
  (void)state;
  static const int numbers[] = {-1, CONNECTION_DESCRIPTORS_MAX, INT_MAX, INT_MIN};
  send_gather_begin_event();
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
    begin_calls(numbers[i], 2);
    assert_false(is_held(numbers[i], 100));
    end_calls(numbers[i], 2);
  }
  send_gather_end_event(0);
}

// ---- With sockets

struct pair {
  int ours, peer;
};

static struct pair connect_over_tcp(void) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
  int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(peer, (struct sockaddr *)&address, size), 0);
  int ours = accept(listener, NULL, NULL);
  assert_true(ours >= 0);
  close(listener);
  return (struct pair){ours, peer};
}

static void send_byte(int descriptor, uint8_t byte) {
  struct iovec piece = {&byte, 1};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  assert_int_equal(sendmsg(descriptor, &message, MSG_NOSIGNAL), 1);
}

// Whether the bytes 0, 1 and 2 come only when they are released. The kernel lets them go by itself after a
// fifth of a second, in which this thread may not have run.
static bool gathers(const struct pair *pair) {
  uint8_t read[4];
  begin_calls(pair->ours, 2);
  send_gather_begin_event();
  send_byte(pair->ours, 0);
  send_byte(pair->ours, 1);
  send_gather_end_event(0);
  bool held = recv(pair->peer, read, sizeof read, MSG_DONTWAIT | MSG_PEEK) < 0;
  send_gather_begin_event();
  send_byte(pair->ours, 2);
  send_gather_end_event(0);
  send_gather_release();
  assert_int_equal(recv(pair->peer, read, 3, MSG_WAITALL), 3);
  for (uint8_t i = 0; i < 3; ++i) {
    assert_int_equal(read[i], i);
  }
  end_calls(pair->ours, 2);
  return held;
}

static void replies_come_together(void **state) {
  (void)state;
  struct pair pair = connect_over_tcp();
  int attempts = 0;
  while (!gathers(&pair)) {
    assert_true(++attempts < 100);
  }
  close(pair.ours);
  close(pair.peer);
}

static void sockets_that_hold_nothing_back_are_sent_to_as_ever(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  struct pair pair = {ends[0], ends[1]};
  assert_false(gathers(&pair));
  close(pair.ours);
  close(pair.peer);
}

static void connection_that_is_gone_is_released(void **state) {
  (void)state;
  struct pair pair = connect_over_tcp();
  begin_calls(pair.ours, 2);
  send_gather_begin_event();
  send_byte(pair.ours, 0);
  send_gather_end_event(0);
  close(pair.ours);
  send_gather_release();
  uint8_t read[2];
  assert_int_equal(recv(pair.peer, read, sizeof read, MSG_WAITALL), 1);
  end_calls(pair.ours, 2);
  close(pair.peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replies_gather_up_to_a_number),
      cmocka_unit_test(numbers_begin_anew_after_a_release),
      cmocka_unit_test(the_only_call_of_a_connection_is_answered_at_once),
      cmocka_unit_test(what_is_long_goes_at_once),
      cmocka_unit_test(one_connection_is_held_at_a_time),
      cmocka_unit_test(what_is_held_goes_in_time),
      cmocka_unit_test(threads_hold_by_themselves_and_only_in_events),
      cmocka_unit_test(numbers_of_no_connection_are_never_held),
      cmocka_unit_test(replies_come_together),
      cmocka_unit_test(sockets_that_hold_nothing_back_are_sent_to_as_ever),
      cmocka_unit_test(connection_that_is_gone_is_released),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
