// Tensor data of which most is zero, as the words that aren't and where they are. Gradients of pooling are
// such data, and so are indices, whose upper bytes are zeros. Stateless, any thread, memory is the caller's.
//
// The encoded form, little endian, for `raw_bytes` bytes:
//
//   uint8   word_bytes: 2 or 4. There are words = raw_bytes / word_bytes words in groups of 32; the last
//   group
//           may have fewer.
//   bits    one for each group, (groups + 7) / 8 bytes, the lowest first: has it a word that isn't zero?
//   uint32  for each such group, one bit for each of its words, the lowest first: isn't it zero?
//   words   those that aren't zero, in order
//   bytes   the last raw_bytes % word_bytes ones as they are
//
// Bits beyond the last group or word are 0. A word is zero if all its bits are: -0.0 isn't, so that every bit
// of the data comes back.
#ifndef ACLNN_PROTO_WIRE_NONZERO_WORDS_H
#define ACLNN_PROTO_WIRE_NONZERO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Larger data are not encoded: chunks are far smaller.
#define NONZERO_WORDS_RAW_MAX ((size_t)64 << 20)

// Encodes raw_bytes bytes at source into at most `room` bytes at destination. word_bytes is 2 or 4. Returns
// the encoded length, or 0 if it would be more than room. Less than memory's rate is needed where little is
// not zero.
size_t nonzero_words_encode(int word_bytes, const uint8_t *source, size_t raw_bytes, uint8_t *destination,
                            size_t room);

// Decodes to exactly raw_bytes bytes at destination. False if the data aren't the encoded form of so many;
// what lies at destination is undefined then, but nothing beyond it is touched.
bool nonzero_words_decode(const uint8_t *source, size_t source_bytes, uint8_t *destination, size_t raw_bytes);

#endif
