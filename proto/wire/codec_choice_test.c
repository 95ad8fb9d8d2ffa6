#include "proto/wire/codec_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define ALL_CODECS ((codec_set)(1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK | 1u << CODEC_NONZERO_WORDS))
#define ONLY_LZ4 ((codec_set)(1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK))

// A clock that is looked at before and after each try, and goes on by what that try is to take.
struct steps {
  int64_t now;
  int64_t tries[3]; // words of 4 and of 2 bytes, LZ4
  size_t first;     // of the tries that the receiver's codecs leave
  size_t looks;
};

static int64_t next_step(void *context) {
  struct steps *steps = context;
  size_t try = steps->looks / 2 % (3 - steps->first);
  steps->now += steps->looks % 2 == 1 ? steps->tries[steps->first + try] : 0;
  steps->looks++;
  return steps->now;
}

struct fixture {
  struct steps steps;
  struct codec_choice choice;
  uint8_t *chunk, *encoded;
};

static int setup(void **state) {
  struct fixture *fixture = calloc(1, sizeof *fixture);
  fixture->chunk = calloc(1, CHUNK_BYTES);
  fixture->encoded = malloc(CHUNK_BYTES);
  *state = fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *fixture = *state;
  free(fixture->chunk);
  free(fixture->encoded);
  free(fixture);
  return 0;
}

// Encoding runs at so many bytes a nanosecond.
static void start(struct fixture *fixture, codec_set accepted, double words_rate, double lz4_rate) {
  int64_t words = (int64_t)(CODEC_CHOICE_SAMPLE_BYTES / words_rate);
  fixture->steps = (struct steps){
      .tries = {words, words, (int64_t)(CODEC_CHOICE_SAMPLE_BYTES / lz4_rate)},
      .first = (accepted & 1u << CODEC_NONZERO_WORDS) != 0 ? 0 : 2,
  };
  codec_choice_init(&fixture->choice, accepted, next_step, &fixture->steps);
}

static void fill_with_noise(uint8_t *data, size_t size) {
  uint32_t seed = 1;
  for (size_t i = 0; i < size; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (uint8_t)(seed >> 24 | 1);
  }
}

// One word in `period` isn't zero.
static void fill_sparsely(uint8_t *data, size_t size, size_t period) {
  memset(data, 0, size);
  for (size_t at = 0; at < size; at += 4 * period) {
    fill_with_noise(data + at, 4);
  }
}

static bool is_encoded(struct fixture *fixture, enum codec *codec) {
  size_t room = codec_choice_room(&fixture->choice, fixture->chunk, CHUNK_BYTES);
  assert_true(room <= CHUNK_BYTES);
  return room > 0 && codec_choice_encode(&fixture->choice, fixture->chunk, CHUNK_BYTES, fixture->encoded,
                                         room, codec) > 0;
}

static void sparse_data_are_encoded_on_a_fast_link(void **state) {
  struct fixture *fixture = *state;
  enum codec codec;
  fill_sparsely(fixture->chunk, CHUNK_BYTES, 100);
  start(fixture, ALL_CODECS, 10, 1);
  assert_true(is_encoded(fixture, &codec));
  assert_int_equal(codec, CODEC_NONZERO_WORDS);
  start(fixture, ONLY_LZ4, 10, 10);
  assert_true(is_encoded(fixture, &codec));
  assert_int_equal(codec, CODEC_LZ4_BLOCK);
}

static void a_receiver_without_codecs_gets_plain_data(void **state) {
  struct fixture *fixture = *state;
  start(fixture, 1u << CODEC_NONE, 10, 10);
  assert_int_equal(codec_choice_room(&fixture->choice, fixture->chunk, CHUNK_BYTES), 0);
  start(fixture, 0, 10, 10);
  assert_int_equal(codec_choice_room(&fixture->choice, fixture->chunk, CHUNK_BYTES), 0);
  assert_int_equal(fixture->steps.looks, 0);
}

static void noise_goes_plain_however_slow_the_link(void **state) {
  struct fixture *fixture = *state;
  fill_with_noise(fixture->chunk, CHUNK_BYTES);
  start(fixture, ALL_CODECS, 10, 1);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(codec_choice_room(&fixture->choice, fixture->chunk, CHUNK_BYTES), 0);
    codec_choice_sent(&fixture->choice, CHUNK_BYTES, 100000000);
  }
}

static void small_chunks_go_plain(void **state) {
  struct fixture *fixture = *state;
  start(fixture, ALL_CODECS, 100, 100);
  assert_int_equal(codec_choice_room(&fixture->choice, fixture->chunk, CODEC_CHOICE_BYTES_MIN - 1), 0);
  assert_true(codec_choice_room(&fixture->choice, fixture->chunk, CODEC_CHOICE_BYTES_MIN) > 0);
}

// With 0.3 bytes a nanosecond and a third left it pays below 0.2 bytes a nanosecond, not above.
static void a_slow_codec_pays_on_a_slow_link_only(void **state) {
  struct fixture *fixture = *state;
  enum codec codec;
  fill_sparsely(fixture->chunk, CHUNK_BYTES, 4);
  start(fixture, ONLY_LZ4, 10, 0.3);
  assert_false(is_encoded(fixture, &codec));
  for (int i = 0; i < 10; i++) {
    codec_choice_sent(&fixture->choice, CHUNK_BYTES, (int64_t)(CHUNK_BYTES / 0.1));
  }
  for (int i = 1; i < CODEC_CHOICE_CHUNKS; i++) {
    assert_false(is_encoded(fixture, &codec)); // until it looks again
  }
  assert_true(is_encoded(fixture, &codec));
  for (int i = 0; i < 10; i++) {
    codec_choice_sent(&fixture->choice, CHUNK_BYTES, (int64_t)(CHUNK_BYTES / 4.0));
  }
  codec_choice_next_tensor(&fixture->choice);
  assert_false(is_encoded(fixture, &codec));
}

static void small_quick_messages_say_nothing_of_the_link(void **state) {
  struct fixture *fixture = *state;
  start(fixture, ALL_CODECS, 10, 1);
  codec_choice_sent(&fixture->choice, 100, 50000);
  codec_choice_sent(&fixture->choice, CHUNK_BYTES, 0);
  codec_choice_sent(&fixture->choice, CHUNK_BYTES, -5);
  assert_true(fixture->choice.link_rate == CODEC_CHOICE_LINK);
  codec_choice_sent(&fixture->choice, 100, CODEC_CHOICE_TELLING_NS);
  assert_true(fixture->choice.link_rate < CODEC_CHOICE_LINK);
}

static void data_unlike_the_sample_go_plain_and_are_looked_at_again(void **state) {
  struct fixture *fixture = *state;
  enum codec codec;
  fill_with_noise(fixture->chunk, CHUNK_BYTES);
  memset(fixture->chunk + CHUNK_BYTES / 2 - CODEC_CHOICE_SAMPLE_BYTES / 2, 0, CODEC_CHOICE_SAMPLE_BYTES);
  start(fixture, ALL_CODECS, 10, 1);
  assert_false(is_encoded(fixture, &codec));
  memset(fixture->chunk, 0, CHUNK_BYTES);
  assert_true(is_encoded(fixture, &codec));
}

// Two bytes in eight aren't zero, as with indices of 64 bits.
static void words_of_two_bytes_are_found(void **state) {
  struct fixture *fixture = *state;
  enum codec codec;
  for (size_t at = 0; at < CHUNK_BYTES; at += 8) {
    fill_with_noise(fixture->chunk + at, 2);
  }
  start(fixture, ALL_CODECS, 10, 1);
  size_t room = codec_choice_room(&fixture->choice, fixture->chunk, CHUNK_BYTES);
  size_t size =
      codec_choice_encode(&fixture->choice, fixture->chunk, CHUNK_BYTES, fixture->encoded, room, &codec);
  assert_int_equal(codec, CODEC_NONZERO_WORDS);
  assert_in_range(size, 1, CHUNK_BYTES / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(sparse_data_are_encoded_on_a_fast_link, setup, teardown),
      cmocka_unit_test_setup_teardown(a_receiver_without_codecs_gets_plain_data, setup, teardown),
      cmocka_unit_test_setup_teardown(noise_goes_plain_however_slow_the_link, setup, teardown),
      cmocka_unit_test_setup_teardown(small_chunks_go_plain, setup, teardown),
      cmocka_unit_test_setup_teardown(a_slow_codec_pays_on_a_slow_link_only, setup, teardown),
      cmocka_unit_test_setup_teardown(small_quick_messages_say_nothing_of_the_link, setup, teardown),
      cmocka_unit_test_setup_teardown(data_unlike_the_sample_go_plain_and_are_looked_at_again, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(words_of_two_bytes_are_found, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
