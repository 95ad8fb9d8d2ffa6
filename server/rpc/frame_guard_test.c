#include "server/rpc/frame_guard.h"

#include "proto/wire/execute_envelope.h"
#include "server/rpc/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DATA, HEADERS, RST_STREAM = 3, SETTINGS, PING = 6, WINDOW_UPDATE = 8, CONTINUATION };
enum { END_STREAM = 1, END_HEADERS = 4 };
// Of the payloads in these tests; gRPC's frames are no longer.
enum { PAYLOAD_BYTES_MAX = 16384 };

struct fixture {
  struct frame_guard_sum sum;
  struct frame_guard guard;
  size_t piece_bytes; // what one read gives at most
  int64_t now_ns;
  uint8_t frame[9 + PAYLOAD_BYTES_MAX];
};

static enum frame_verdict pass(struct fixture *fixture, const uint8_t *bytes, size_t size) {
  enum frame_verdict verdict = FRAME_PASSES;
  for (size_t at = 0; at < size && verdict == FRAME_PASSES; at += fixture->piece_bytes) {
    size_t left = size - at;
    verdict = frame_guard_pass(&fixture->guard, bytes + at,
                               left < fixture->piece_bytes ? left : fixture->piece_bytes, fixture->now_ns);
  }
  return verdict;
}

static void begin(struct fixture *fixture, struct frame_guard *guard) {
  frame_guard_init(guard, &fixture->sum);
  static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  assert_int_equal(frame_guard_pass(guard, preface, sizeof preface - 1, fixture->now_ns), FRAME_PASSES);
}

static int set_up(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  fixture->piece_bytes = SIZE_MAX;
  fixture->now_ns = 1;
  begin(fixture, &fixture->guard);
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fixture = *state;
  frame_guard_clear(&fixture->guard);
  assert_int_equal(fixture->sum._oversize_bytes, 0);
  assert_null(fixture->guard._streams);
  free(fixture);
  return 0;
}

// A frame whose payload begins with `prefix`.
static enum frame_verdict send(struct fixture *fixture, int type, int flags, uint32_t stream,
                               const void *prefix, size_t prefix_bytes, size_t size) {
  uint8_t *frame = fixture->frame;
  assert_true(size <= PAYLOAD_BYTES_MAX && prefix_bytes <= size);
  const uint8_t head[] = {(uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,
                          (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                          (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  memcpy(frame, head, sizeof head);
  memset(frame + sizeof head, 0xff, size);
  if (prefix_bytes > 0) {
    memcpy(frame + sizeof head, prefix, prefix_bytes);
  }
  return pass(fixture, frame, sizeof head + size);
}

static enum frame_verdict open_stream(struct fixture *fixture, uint32_t stream) {
  return send(fixture, HEADERS, END_HEADERS, stream, NULL, 0, 60);
}

// A DATA frame that announces a message and brings `size` of its bytes.
static enum frame_verdict announce(struct fixture *fixture, uint32_t stream, uint32_t length, size_t size) {
  const uint8_t prefix[] = {0, (uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                            (uint8_t)length};
  return send(fixture, DATA, 0, stream, prefix, sizeof prefix, sizeof prefix + size);
}

static void send_whole_message(struct fixture *fixture, uint32_t stream, uint32_t length) {
  size_t first = length < 1000 ? length : 1000;
  assert_int_equal(announce(fixture, stream, length, first), FRAME_PASSES);
  for (size_t sent = first; sent < length;) {
    size_t size = length - sent < PAYLOAD_BYTES_MAX ? length - sent : PAYLOAD_BYTES_MAX;
    assert_int_equal(send(fixture, DATA, 0, stream, NULL, 0, size), FRAME_PASSES);
    sent += size;
  }
}

// What a well-behaved client sends, read in pieces of the given size.
static void check_usual_traffic(struct fixture *fixture, size_t piece_bytes) {
  fixture->piece_bytes = piece_bytes;
  assert_int_equal(send(fixture, SETTINGS, 0, 0, NULL, 0, 36), FRAME_PASSES);
  for (uint32_t stream = 1; stream < 20; stream += 2) {
    assert_int_equal(open_stream(fixture, stream), FRAME_PASSES);
    send_whole_message(fixture, stream, 5000);
    send_whole_message(fixture, stream, 0);
    send_whole_message(fixture, stream, 40000);
    assert_int_equal(send(fixture, WINDOW_UPDATE, 0, stream, NULL, 0, 4), FRAME_PASSES);
    assert_int_equal(send(fixture, PING, 0, 0, NULL, 0, 8), FRAME_PASSES);
    assert_int_equal(send(fixture, DATA, END_STREAM, stream, NULL, 0, 0), FRAME_PASSES);
    frame_guard_call_over(&fixture->guard);
  }
  assert_null(fixture->guard._streams);
}

static void usual_traffic_passes(void **state) {
  check_usual_traffic(*state, SIZE_MAX);
}

static void usual_traffic_passes_a_byte_at_a_time(void **state) {
  check_usual_traffic(*state, 1);
}

static void usual_traffic_passes_in_odd_pieces(void **state) {
  check_usual_traffic(*state, 13);
}

static void headers_without_an_end_are_cut(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(send(fixture, HEADERS, 0, 1, NULL, 0, 100), FRAME_PASSES);
  size_t passed = 0;
  while (send(fixture, CONTINUATION, 0, 1, NULL, 0, PAYLOAD_BYTES_MAX) == FRAME_PASSES) {
    passed += PAYLOAD_BYTES_MAX;
    assert_true(passed <= FRAME_BLOCK_BYTES_MAX);
  }
}

static void headers_in_tiny_pieces_are_cut_before_reading_them_again_costs_much(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(send(fixture, HEADERS, 0, 1, NULL, 0, 100), FRAME_PASSES);
  uint64_t read_again = 0;
  uint64_t sent = 100;
  while (send(fixture, CONTINUATION, 0, 1, NULL, 0, 1) == FRAME_PASSES) {
    read_again += ++sent;
    assert_true(read_again <= FRAME_BLOCK_WORK_MAX);
  }
  assert_true(sent > 1000); // some tiny pieces are no harm
}

static void pieces_of_the_network_count_like_frames(void **state) {
  struct fixture *fixture = *state;
  fixture->piece_bytes = 1;
  assert_int_equal(send(fixture, HEADERS, 0, 1, NULL, 0, PAYLOAD_BYTES_MAX), FRAME_HEADERS_TOO_LONG);
}

static void headers_that_grpc_refuses_with_an_error_reach_it(void **state) {
  struct fixture *fixture = *state;
  fixture->piece_bytes = 8192;
  for (uint32_t stream = 1; stream < 20; stream += 2) {
    assert_int_equal(send(fixture, HEADERS, 0, stream, NULL, 0, PAYLOAD_BYTES_MAX), FRAME_PASSES);
    for (int i = 0; i < 5; ++i) {
      assert_int_equal(send(fixture, CONTINUATION, 0, stream, NULL, 0, PAYLOAD_BYTES_MAX), FRAME_PASSES);
    }
  }
}

// Opens streams until one doesn't pass; returns how many did.
static int open_many(struct fixture *fixture, int count) {
  int opened = 0;
  uint32_t stream = fixture->guard._newest_stream;
  for (stream += stream == 0 ? 1 : 2; opened < count; stream += 2, ++opened) {
    if (open_stream(fixture, stream) != FRAME_PASSES) {
      return opened;
    }
    assert_int_equal(send(fixture, RST_STREAM, 0, stream, NULL, 0, 4), FRAME_PASSES);
  }
  return opened;
}

static void calls_far_ahead_of_the_server_are_cut(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(open_many(fixture, 100000), FRAME_CALLS_AHEAD_MAX);
}

// Opens as many as there may be, again and again: after calls were over, or a turn.
static void check_room_comes_back(struct fixture *fixture, void (*make_room)(struct frame_guard *guard),
                                  int times) {
  for (int i = 0; i < 10; ++i) {
    assert_int_equal(open_many(fixture, FRAME_CALLS_AHEAD_MAX), FRAME_CALLS_AHEAD_MAX);
    for (int j = 0; j < times; ++j) {
      make_room(&fixture->guard);
    }
  }
  assert_int_equal(open_many(fixture, 100000), FRAME_CALLS_AHEAD_MAX);
}

static void calls_that_are_over_make_room(void **state) {
  check_room_comes_back(*state, frame_guard_call_over, FRAME_CALLS_AHEAD_MAX);
}

static void turn_makes_room(void **state) {
  check_room_comes_back(*state, frame_guard_begin_turn, 1);
}

static void calls_that_never_are_over_are_forgiven_in_time(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(open_many(fixture, FRAME_CALLS_AHEAD_MAX), FRAME_CALLS_AHEAD_MAX);
  fixture->now_ns += 10 * (int64_t)FRAME_CALL_FORGIVEN_NS;
  assert_int_equal(open_many(fixture, 100000), 10);
}

// Forgiven, of an earlier turn, or never counted.
static void calls_that_are_over_never_make_more_room_than_there_is(void **state) {
  check_room_comes_back(*state, frame_guard_call_over, 3 * FRAME_CALLS_AHEAD_MAX);
}

static void trailers_open_no_call(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(open_stream(fixture, 1), FRAME_PASSES);
  for (int i = 0; i < 2 * FRAME_CALLS_AHEAD_MAX; ++i) {
    assert_int_equal(open_stream(fixture, 1), FRAME_PASSES);
  }
}

static void longest_messages_of_all_calls_pass(void **state) {
  struct fixture *fixture = *state;
  for (uint32_t stream = 1; stream < 2 * SERVER_STREAMS_PER_CONNECTION_MAX; stream += 2) {
    assert_int_equal(open_stream(fixture, stream), FRAME_PASSES);
    assert_int_equal(announce(fixture, stream, WIRE_MESSAGE_BYTES_MAX, 10000), FRAME_PASSES);
  }
}

static void message_of_4_gib_is_cut_when_it_is_announced(void **state) {
  struct fixture *fixture = *state;
  assert_int_equal(open_stream(fixture, 1), FRAME_PASSES);
  assert_int_equal(announce(fixture, 1, UINT32_MAX, 0), FRAME_MESSAGES_TOO_LONG);
}

static void long_messages_of_all_connections_count_together(void **state) {
  struct fixture *fixture = *state;
  struct frame_guard other;
  begin(fixture, &other);
  assert_int_equal(announce(fixture, 1, FRAME_OVERSIZE_BYTES_MAX / 2 + 1, 0), FRAME_PASSES);
  struct frame_guard first = fixture->guard;
  fixture->guard = other;
  assert_int_equal(announce(fixture, 1, FRAME_OVERSIZE_BYTES_MAX / 2, 0), FRAME_MESSAGES_TOO_LONG);
  frame_guard_clear(&fixture->guard);
  fixture->guard = first;
}

static void long_message_makes_room_when_it_ends(void **state) {
  struct fixture *fixture = *state;
  for (uint32_t stream = 1; stream < 40; stream += 2) {
    assert_int_equal(open_stream(fixture, stream), FRAME_PASSES);
    assert_int_equal(announce(fixture, stream, FRAME_OVERSIZE_BYTES_MAX, 10), FRAME_PASSES);
    if (stream % 4 == 1) {
      assert_int_equal(send(fixture, RST_STREAM, 0, stream, NULL, 0, 4), FRAME_PASSES);
    } else {
      assert_int_equal(send(fixture, DATA, END_STREAM, stream, NULL, 0, 5), FRAME_PASSES);
    }
  }
  send_whole_message(fixture, 41, WIRE_MESSAGE_BYTES_MAX + 1);
  assert_int_equal(announce(fixture, 43, FRAME_OVERSIZE_BYTES_MAX, 10), FRAME_PASSES);
}

static void streams_that_the_server_ended_take_bounded_room(void **state) {
  struct fixture *fixture = *state;
  for (uint32_t stream = 1; stream < 8 * FRAME_STREAMS_MAX; stream += 2) {
    assert_int_equal(open_stream(fixture, stream), FRAME_PASSES);
    assert_int_equal(announce(fixture, stream, 5000, 10), FRAME_PASSES);
    frame_guard_call_over(&fixture->guard);
  }
  assert_int_equal(frame_guard_streams(&fixture->guard), FRAME_STREAMS_MAX);
}

static void frames_that_move_nothing_are_few(void **state) {
  struct fixture *fixture = *state;
  static const struct {
    int type;
    size_t size;
  } nothings[] = {{DATA, 0}, {2, 5}, {SETTINGS, 6}, {PING, 8}, {7, 8}, {0x55, 10000}};
  for (size_t i = 0; i < sizeof nothings / sizeof nothings[0]; ++i) {
    struct frame_guard first = fixture->guard;
    for (int sent = 0; sent < FRAME_NOTHINGS_MAX; ++sent) {
      assert_int_equal(send(fixture, nothings[i].type, 0, 0, NULL, 0, nothings[i].size), FRAME_PASSES);
    }
    fixture->now_ns += FRAME_NOTHING_FORGIVEN_NS;
    assert_int_equal(send(fixture, nothings[i].type, 0, 0, NULL, 0, nothings[i].size), FRAME_PASSES);
    assert_int_equal(send(fixture, WINDOW_UPDATE, 0, 1, NULL, 0, 4), FRAME_PASSES);
    assert_int_equal(send(fixture, nothings[i].type, 0, 0, NULL, 0, nothings[i].size),
                     FRAME_NOTHING_TOO_OFTEN);
    fixture->guard = first;
  }
}

// Whatever comes, in whatever pieces, what is seen is the same.
static void pieces_never_change_the_verdict(void **state) {
  struct fixture *fixture = *state;
  srand(1);
  for (int round = 0; round < 2000; ++round) {
    uint8_t bytes[600];
    for (size_t i = 0; i < sizeof bytes; ++i) {
      bytes[i] = (uint8_t)(rand() % 3 == 0 ? rand() : rand() % 10);
    }
    enum frame_verdict verdicts[2];
    for (int way = 0; way < 2; ++way) {
      struct frame_guard guard;
      begin(fixture, &guard);
      verdicts[way] = FRAME_PASSES;
      for (size_t at = 0; at < sizeof bytes && verdicts[way] == FRAME_PASSES;) {
        size_t size = way == 0 ? sizeof bytes : (size_t)(rand() % 20);
        size = size < sizeof bytes - at ? size : sizeof bytes - at;
        verdicts[way] = frame_guard_pass(&guard, bytes + at, size, 1);
        at += size;
      }
      frame_guard_clear(&guard);
    }
    assert_int_equal(verdicts[0], verdicts[1]);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(usual_traffic_passes),
      TEST(usual_traffic_passes_a_byte_at_a_time),
      TEST(usual_traffic_passes_in_odd_pieces),
      TEST(headers_without_an_end_are_cut),
      TEST(headers_in_tiny_pieces_are_cut_before_reading_them_again_costs_much),
      TEST(pieces_of_the_network_count_like_frames),
      TEST(headers_that_grpc_refuses_with_an_error_reach_it),
      TEST(calls_far_ahead_of_the_server_are_cut),
      TEST(calls_that_are_over_make_room),
      TEST(turn_makes_room),
      TEST(calls_that_never_are_over_are_forgiven_in_time),
      TEST(calls_that_are_over_never_make_more_room_than_there_is),
      TEST(trailers_open_no_call),
      TEST(longest_messages_of_all_calls_pass),
      TEST(message_of_4_gib_is_cut_when_it_is_announced),
      TEST(long_messages_of_all_connections_count_together),
      TEST(long_message_makes_room_when_it_ends),
      TEST(streams_that_the_server_ended_take_bounded_room),
      TEST(frames_that_move_nothing_are_few),
      TEST(pieces_never_change_the_verdict),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
