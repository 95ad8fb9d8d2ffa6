// The codecs of a chunk. Stateless, any thread, memory is the caller's.
#ifndef ACLNN_PROTO_WIRE_CODEC_H
#define ACLNN_PROTO_WIRE_CODEC_H

#include "kernels/status.h"
#include "proto/wire/execute_envelope.h"

// "NONE", "LZ4_BLOCK", "NONZERO_WORDS".
const char *codec_name(enum codec codec);

// Decodes (or copies) the chunk's data to destination, which has room for `room` bytes. With a codec
// raw_bytes must be given (above 0), be at most room and be exactly what comes out: else CODEC_INVALID. With
// CODEC_NONE raw_bytes must be 0 or data_bytes. `scratch` of scratch_bytes serves to join the data of a chunk
// whose encoded bytes lie in several spans; it has to hold chunk->data_bytes when codec isn't NONE. The
// decoded length goes to *decoded_bytes.
MUST_CHECK bool codec_decode(const struct tensor_chunk *chunk, uint8_t *destination, size_t room,
                             uint8_t *scratch, size_t scratch_bytes, size_t *decoded_bytes,
                             struct status *status);

// Encodes source into destination (room bytes). word_bytes (2 or 4) is for NONZERO_WORDS, others don't look
// at it. Returns the encoded length, or 0 if it would not be smaller than room: then send it plain.
size_t codec_encode(enum codec codec, int word_bytes, const uint8_t *source, size_t source_bytes,
                    uint8_t *destination, size_t room);

#endif
