#include "server/rpc/receive_guard.h"

#include "server/rpc/limits.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

static void send_preface(const struct pair *pair) {
  uint8_t read[sizeof preface];
  send_all(pair, preface, sizeof preface);
  assert_int_equal(receive(pair, read, sizeof read), sizeof preface);
  assert_memory_equal(read, preface, sizeof preface);
}

static void send_too_long_headers(const struct pair *pair) {
  static uint8_t nothing[65536];
  uint8_t read[sizeof nothing];
  send_preface(pair);
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

static struct pair connect_watched_pair(void) {
  struct pair pair = connect_pair();
  assert_true(receive_guard_watch(pair.ours));
  return pair;
}

static void watched_connection_is_reset_when_its_guard_says_so(void **state) {
  (void)state;
  struct pair pair = connect_watched_pair();
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
  struct pair first = connect_watched_pair();
  send_too_long_headers(&first);
  uint8_t read[100];
  assert_int_equal(receive(&first, read, sizeof read), -1);
  (void)receive_guard_end(first.ours);
  disconnect(&first);
  struct pair second = connect_pair();
  assert_int_equal(second.ours, first.ours);
  assert_true(receive_guard_watch(second.ours));
  send_preface(&second);
  assert_int_equal(receive_guard_end(second.ours), FRAME_PASSES);
  // And is anybody's after that.
  send_too_long_headers(&second);
  assert_int_equal(receive(&second, read, sizeof read), 1);
  disconnect(&second);
}

static void socket_of_another_behind_the_same_number_is_left_alone(void **state) {
  (void)state;
  struct pair first = connect_watched_pair();
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
  assert_false(receive_guard_watch(CONNECTION_DESCRIPTORS_MAX));
  static const int numbers[] = {-1, CONNECTION_DESCRIPTORS_MAX, INT_MAX};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
    struct pair none = {.ours = numbers[i]};
    uint8_t read[100];
    assert_int_equal(receive(&none, read, sizeof read), -1);
    assert_int_equal(errno, EBADF);
    receive_guard_call_over(numbers[i]);
  }
}

// ---- Turns

#define MOST_OF_A_TURN (FRAME_CALLS_AHEAD_MAX / 2 + 1)

struct calls {
  struct pair pair;
  uint32_t newest;
  uint8_t bytes[MOST_OF_A_TURN * 9];
};

static ssize_t open_most_of_a_turn(struct calls *calls) {
  static uint8_t read[sizeof calls->bytes];
  for (size_t i = 0; i < MOST_OF_A_TURN; ++i) {
    calls->newest += calls->newest == 0 ? 1 : 2;
    const uint8_t head[9] = {0, 0, 0, 1, 4, 0, 0, (uint8_t)(calls->newest >> 8), (uint8_t)calls->newest};
    memcpy(calls->bytes + 9 * i, head, sizeof head);
  }
  send_all(&calls->pair, calls->bytes, sizeof calls->bytes);
  return receive(&calls->pair, read, sizeof read);
}

static void begin_calls(struct calls *calls) {
  *calls = (struct calls){.pair = connect_watched_pair()};
  send_preface(&calls->pair);
}

static void end_calls(struct calls *calls, enum frame_verdict verdict) {
  assert_int_equal(receive_guard_end(calls->pair.ours), verdict);
  disconnect(&calls->pair);
}

static void calls_count_until_the_next_turn(void **state) {
  (void)state;
  struct calls calls;
  begin_calls(&calls);
  for (int i = 0; i < 5; ++i) {
    receive_guard_begin_turn();
    assert_int_equal(open_most_of_a_turn(&calls), sizeof calls.bytes);
  }
  assert_int_equal(open_most_of_a_turn(&calls), -1);
  assert_int_equal(errno, EPROTO);
  end_calls(&calls, FRAME_CALLS_TOO_MANY);
}

struct reader {
  struct calls *calls;
  bool has_turns;
  ssize_t received;
};

static void *open_calls(void *argument) {
  struct reader *reader = argument;
  if (reader->has_turns) {
    receive_guard_begin_turn();
  }
  reader->received = open_most_of_a_turn(reader->calls);
  return NULL;
}

static ssize_t open_on_another_thread(struct calls *calls, bool has_turns) {
  struct reader reader = {.calls = calls, .has_turns = has_turns};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, open_calls, &reader), 0);
  pthread_join(thread, NULL);
  return reader.received;
}

static void turns_of_all_threads_count(void **state) {
  (void)state;
  struct calls calls;
  begin_calls(&calls);
  for (int i = 0; i < 5; ++i) {
    assert_int_equal(open_on_another_thread(&calls, true), sizeof calls.bytes);
  }
  end_calls(&calls, FRAME_PASSES);
}

// gRPC has some of its own.
static void threads_that_handle_no_calls_have_no_turns(void **state) {
  (void)state;
  struct calls calls;
  begin_calls(&calls);
  assert_int_equal(open_on_another_thread(&calls, false), sizeof calls.bytes);
  assert_int_equal(open_on_another_thread(&calls, false), -1);
  end_calls(&calls, FRAME_CALLS_TOO_MANY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(watched_connection_is_reset_when_its_guard_says_so),
      cmocka_unit_test(other_sockets_are_read_as_ever),
      cmocka_unit_test(number_that_comes_again_begins_anew),
      cmocka_unit_test(socket_of_another_behind_the_same_number_is_left_alone),
      cmocka_unit_test(numbers_beyond_the_table_are_refused),
      cmocka_unit_test(calls_count_until_the_next_turn),
      cmocka_unit_test(turns_of_all_threads_count),
      cmocka_unit_test(threads_that_handle_no_calls_have_no_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
