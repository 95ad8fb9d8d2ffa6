#include "proto/wire/codec_choice.h"

// The weight of a new figure of the link against all before it.
#define LINK_WEIGHT 0.5
// An encoded chunk may be larger than the sample promised.
#define ROOM_FACTOR 1.5
#define ROOM_SPARE 4096

// From the quickest: where two are as good, the first is taken.
static const struct way {
  enum codec codec;
  int word_bytes;
} ways[] = {{CODEC_NONZERO_WORDS, 4}, {CODEC_NONZERO_WORDS, 2}, {CODEC_LZ4_BLOCK, 0}};

void codec_choice_init(struct codec_choice *choice, codec_set accepted, codec_choice_clock *clock,
                       void *clock_context) {
  *choice = (struct codec_choice){
      .accepted = accepted, .clock = clock, .clock_context = clock_context, .link_rate = CODEC_CHOICE_LINK};
}

void codec_choice_next_tensor(struct codec_choice *choice) {
  choice->_chunks_left = 0;
}

// Nanoseconds for a raw byte this way; `ratio` is what remains of the sample.
static double cost_of(const struct codec_choice *choice, const struct way *way, const uint8_t *sample,
                      size_t sample_bytes, double *ratio) {
  uint8_t encoded[CODEC_CHOICE_SAMPLE_BYTES];
  int64_t begin = choice->clock(choice->clock_context);
  size_t size = codec_encode(way->codec, way->word_bytes, sample, sample_bytes, encoded, sample_bytes);
  int64_t duration = choice->clock(choice->clock_context) - begin;
  *ratio = size == 0 ? 1 : (double)size / (double)sample_bytes;
  return (double)duration / (double)sample_bytes + *ratio / choice->link_rate;
}

static void look(struct codec_choice *choice, const uint8_t *source, size_t source_bytes) {
  size_t sample_bytes = source_bytes < CODEC_CHOICE_SAMPLE_BYTES ? source_bytes : CODEC_CHOICE_SAMPLE_BYTES;
  const uint8_t *sample = source + (source_bytes - sample_bytes) / 2;
  double best = CODEC_CHOICE_GAIN / choice->link_rate;
  choice->_codec = CODEC_NONE;
  choice->_chunks_left = CODEC_CHOICE_CHUNKS;
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    double ratio;
    if ((choice->accepted & 1u << ways[i].codec) == 0) {
      continue;
    }
    double cost = cost_of(choice, &ways[i], sample, sample_bytes, &ratio);
    if (cost < best) {
      best = cost;
      choice->_codec = ways[i].codec;
      choice->_word_bytes = ways[i].word_bytes;
      choice->_ratio = ratio;
    }
  }
}

size_t codec_choice_room(struct codec_choice *choice, const uint8_t *source, size_t source_bytes) {
  if ((choice->accepted & ~(1u << CODEC_NONE)) == 0 || source_bytes < CODEC_CHOICE_BYTES_MIN) {
    return 0;
  }
  if (choice->_chunks_left == 0) {
    look(choice, source, source_bytes);
  }
  choice->_chunks_left--;
  if (choice->_codec == CODEC_NONE) {
    return 0;
  }
  double room = ROOM_FACTOR * choice->_ratio * (double)source_bytes + ROOM_SPARE;
  return room < (double)source_bytes ? (size_t)room : source_bytes;
}

size_t codec_choice_encode(struct codec_choice *choice, const uint8_t *source, size_t source_bytes,
                           uint8_t *destination, size_t room, enum codec *codec) {
  *codec = choice->_codec;
  size_t size = codec_encode(choice->_codec, choice->_word_bytes, source, source_bytes, destination, room);
  if (size == 0) {
    // These data aren't like the sample.
    choice->_chunks_left = 0;
  }
  return size;
}

void codec_choice_sent(struct codec_choice *choice, size_t bytes, int64_t duration_ns) {
  if (duration_ns <= 0 || (bytes < CODEC_CHOICE_TELLING_BYTES && duration_ns < CODEC_CHOICE_TELLING_NS)) {
    return;
  }
  double rate = (double)bytes / (double)duration_ns;
  choice->link_rate += LINK_WEIGHT * (rate - choice->link_rate);
}
