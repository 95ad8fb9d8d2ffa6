// The messages of an Execute stream, read and written by hand around their payloads.
//
// Payload bytes are never copied here: reading gives a cursor to where a chunk's data lie in the spans,
// writing gives the bytes that go before and after the data. Any thread; memory is the caller's.
#ifndef ACLNN_PROTO_WIRE_EXECUTE_ENVELOPE_H
#define ACLNN_PROTO_WIRE_EXECUTE_ENVELOPE_H

#include "kernels/status.h"
#include "proto/wire/span.h"

#include <stdint.h>

#define WIRE_MESSAGE_BYTES_MAX ((size_t)4 << 20) // gRPC's default limit on both sides
#define WIRE_CHUNK_BYTES_DEFAULT ((int64_t)1 << 20)
#define WIRE_CHUNK_BYTES_MIN ((int64_t)4096)
// Leaves room for the envelope below gRPC's limit.
#define WIRE_CHUNK_BYTES_MAX (((int64_t)4 << 20) - 65536)

// Numbers of the contract. CODEC_END is above all of them; not all below it are codecs.
enum codec { CODEC_NONE = 0, CODEC_LZ4_BLOCK = 1, CODEC_NONZERO_WORDS = 16, CODEC_END = 17 };

static inline bool codec_is_known(uint64_t number) {
  return number == CODEC_NONE || number == CODEC_LZ4_BLOCK || number == CODEC_NONZERO_WORDS;
}

struct tensor_chunk {
  uint32_t tensor_index;
  int64_t offset;
  enum codec codec;
  int64_t raw_bytes;       // 0 if not given
  size_t data_bytes;       // as encoded
  struct span_cursor data; // stands at the first data byte when reading; not used for writing
};

// Which of the two messages is read: a server reads requests (begin = field 1, chunks = 2), a client
// responses (accepted = 1, chunks = 2, done = 3). A request's unknown fields are refused, a response's are
// skipped.
enum execute_message_kind { EXECUTE_MESSAGE_REQUEST, EXECUTE_MESSAGE_RESPONSE };

struct execute_message {
  bool has_head; // begin or accepted
  bool has_done;
  size_t chunk_count;
  size_t head_bytes;
  size_t done_bytes;
  struct span_cursor head; // at the first byte of the sub-message
  struct span_cursor done;
  // private: where execute_message_next_chunk goes on
  struct span_cursor _next;
  enum execute_message_kind _kind;
};

// Checks the whole message (structure of every chunk's envelope included) and finds its parts, in whatever
// order they come. Two heads (or dones) in one message are refused (SEQUENCE_INVALID) where protobuf would
// merge them: one job a message. Of a chunk's field that comes twice the last counts; a chunk without data
// has data_bytes 0, which is the receiver's to refuse. Fails with MESSAGE_INVALID (a tensor_index of more
// than 32 bits too), FEATURE_UNSUPPORTED (unknown field or codec, the number named) or SEQUENCE_INVALID.
// Takes time linear in chunks and spans. The spans must outlive *message.
MUST_CHECK bool execute_message_read(enum execute_message_kind kind, const struct span *spans,
                                     size_t span_count, struct execute_message *message,
                                     struct status *status);

// The next chunk in the order of the message; false when there is none left.
bool execute_message_next_chunk(struct execute_message *message, struct tensor_chunk *chunk);

// Upper bound of what each of the writers below puts out, besides the parts handed to them.
#define EXECUTE_ENVELOPE_BYTES_MAX 96

// Writes all that goes before the data of one chunk within an ExecuteRequest or ExecuteResponse (the field
// number is the same): tag and length of the chunk, its fields, tag and length of data. The message is then:
// head field, for each chunk (these bytes, data), done field. Returns the number of bytes written.
size_t execute_chunk_write_header(const struct tensor_chunk *chunk, uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX]);

// Tag and length of the head (field 1) or done (field 3) sub-message that follows.
size_t execute_part_write_header(uint32_t field, size_t part_bytes, uint8_t out[EXECUTE_ENVELOPE_BYTES_MAX]);

#endif
