// What a sender does with the chunks of a tensor: sends them plain, or encoded where that is quicker.
//
// It measures: on a sample, how quickly each codec that the receiver takes encodes such data and how small
// they get; and how quickly the transport takes what is sent. Encoding and sending happen in turns, so that
// the time for a byte is 1/encoding + ratio/link against 1/link. It looks again from time to time.
//
// A part of whoever sends, on its thread. Owns nothing.
#ifndef ACLNN_PROTO_WIRE_CODEC_CHOICE_H
#define ACLNN_PROTO_WIRE_CODEC_CHOICE_H

#include "proto/wire/codec.h"
#include "proto/wire/messages.h"

// Smaller chunks go plain: there is little to gain.
#define CODEC_CHOICE_BYTES_MIN 4096
// What is tried of a chunk, from its middle.
#define CODEC_CHOICE_SAMPLE_BYTES 32768
// Chunks between two looks.
#define CODEC_CHOICE_CHUNKS 16
// An encoded chunk has to take this part of a plain one's time at the most: the receiver has to decode it.
#define CODEC_CHOICE_GAIN 0.9
// Bytes a nanosecond that a link is thought to take before it was measured: a fast one.
#define CODEC_CHOICE_LINK 2.5
// Messages that say something of the link: large ones, and those that take long.
#define CODEC_CHOICE_TELLING_BYTES (256 << 10)
#define CODEC_CHOICE_TELLING_NS 1000000

// Now, in nanoseconds from any point.
typedef int64_t codec_choice_clock(void *context);

struct codec_choice {
  codec_set accepted; // by the receiver
  codec_choice_clock *clock;
  void *clock_context;
  double link_rate; // bytes a nanosecond
  // private: what the last look found
  enum codec _codec;
  int _word_bytes;
  double _ratio; // encoded bytes a raw byte
  unsigned _chunks_left;
};

// The clock and its context must outlive the choice.
void codec_choice_init(struct codec_choice *choice, codec_set accepted, codec_choice_clock *clock,
                       void *clock_context);

// Another tensor's chunks come now.
void codec_choice_next_tensor(struct codec_choice *choice);

// How many bytes of memory encoding this chunk needs; 0: send it plain.
size_t codec_choice_room(struct codec_choice *choice, const uint8_t *source, size_t source_bytes);

// Encodes it into that much memory. Returns the encoded length; 0: send it plain after all.
size_t codec_choice_encode(struct codec_choice *choice, const uint8_t *source, size_t source_bytes,
                           uint8_t *destination, size_t room, enum codec *codec);

// The transport took a message of so many bytes in that time.
void codec_choice_sent(struct codec_choice *choice, size_t bytes, int64_t duration_ns);

#endif
