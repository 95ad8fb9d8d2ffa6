// The floor: what gRPC's C core does with nothing on top. What its server and client agree on.
//
// Echo: a request of some bytes, whose first eight are the length of the reply, and that reply. Download: a
// request of two lengths, the bytes and those of a message, and so many bytes. Upload: bytes, and when the
// client has closed its side a reply of eight. All numbers are int64 in the machine's order.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_BARE_H

#include <grpc/grpc.h>
#include <stddef.h>
#include <stdint.h>

#define BARE_ECHO "/bench/Echo"
#define BARE_DOWNLOAD "/bench/Download"
#define BARE_UPLOAD "/bench/Upload"

// The largest download and upload.
#define BARE_BYTES_MAX ((size_t)256 << 20)
#define BARE_ARGUMENTS_MAX 24

// "grpc.some_argument=1" and so on, as a channel's arguments; the strings are borrowed.
grpc_channel_args bare_arguments(char **words, int count, grpc_arg arguments[BARE_ARGUMENTS_MAX]);

// A message over memory that outlives it: nothing is copied or counted.
grpc_byte_buffer *bare_message(const uint8_t *data, size_t bytes);

// Copies a message to where it belongs, slice by slice, and frees it; the number of its bytes. At most
// `room`.
size_t bare_take_message(grpc_byte_buffer *message, uint8_t *to, size_t room);

#endif
