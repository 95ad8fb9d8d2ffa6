// Conversions that several messages share: descriptors, codec sets, enums, texts. Any thread.
//
// What is composed borrows from its source and from *memory, and lives as long as both. The composing
// functions return NULL when memory runs out.
#ifndef ACLNN_PROTO_WIRE_MESSAGE_PARTS_H
#define ACLNN_PROTO_WIRE_MESSAGE_PARTS_H

#include "aclnn/v1/operator_service.pb-c.h"
#include "proto/wire/message_memory.h"
#include "proto/wire/messages.h"

// Values that this build doesn't know become UNSPECIFIED: a strict reading has refused them before.
enum data_type data_type_from_message(Aclnn__V1__DataType value);
enum format format_from_message(Aclnn__V1__Format value);
enum target target_from_message(Aclnn__V1__Target value);
enum numerics numerics_from_message(Aclnn__V1__Numerics value);
enum direction direction_from_message(Aclnn__V1__Direction value);

// NULL is an empty descriptor. Dims and strides beyond TENSOR_RANK_MAX are counted but not kept.
struct tensor_desc tensor_desc_from_message(const Aclnn__V1__TensorDesc *message);
// rank and stride_count must be at most TENSOR_RANK_MAX.
Aclnn__V1__TensorDesc *tensor_desc_compose(const struct tensor_desc *desc, struct message_memory *memory);

// Unknown codecs are left out.
codec_set codec_set_from_message(const Aclnn__V1__Codec *codecs, size_t count);
// False when memory runs out.
MUST_CHECK bool codec_set_compose(codec_set set, struct message_memory *memory, size_t *count,
                                  Aclnn__V1__Codec **codecs);

// A copy with '?' for what is no UTF-8: texts may come from a device's library.
char *text_compose(const char *text, struct message_memory *memory);

#endif
