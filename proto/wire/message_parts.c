#include "proto/wire/message_parts.h"

#include "proto/wire/utf8.h"

#include <assert.h>
#include <string.h>

// The plain enums have the contract's numbers, so that converting is a check and a cast.
#define SAME_NUMBER(message, plain) _Static_assert((int)(message) == (int)(plain), #plain)
#define SAME_DATA_TYPE(name, number, cann, bits, text)                                                       \
  SAME_NUMBER(ACLNN__V1__DATA_TYPE__DATA_TYPE_##name, DATA_TYPE_##name);
TENSOR_DATA_TYPES(SAME_DATA_TYPE)
SAME_NUMBER(ACLNN__V1__FORMAT__FORMAT_ND, FORMAT_ND);
SAME_NUMBER(ACLNN__V1__FORMAT__FORMAT_NCHW, FORMAT_NCHW);
SAME_NUMBER(ACLNN__V1__FORMAT__FORMAT_NCL, FORMAT_NCL);
SAME_NUMBER(ACLNN__V1__FORMAT__FORMAT_NHWC, FORMAT_NHWC);
SAME_NUMBER(ACLNN__V1__TARGET__TARGET_AUTO, TARGET_AUTO);
SAME_NUMBER(ACLNN__V1__TARGET__TARGET_CPU, TARGET_CPU);
SAME_NUMBER(ACLNN__V1__TARGET__TARGET_NPU, TARGET_NPU);
SAME_NUMBER(ACLNN__V1__NUMERICS__NUMERICS_DEVICE, NUMERICS_DEVICE);
SAME_NUMBER(ACLNN__V1__NUMERICS__NUMERICS_DETERMINISTIC, NUMERICS_DETERMINISTIC);
SAME_NUMBER(ACLNN__V1__NUMERICS__NUMERICS_EXACT, NUMERICS_EXACT);
SAME_NUMBER(ACLNN__V1__DIRECTION__DIRECTION_INPUT, DIRECTION_INPUT);
SAME_NUMBER(ACLNN__V1__DIRECTION__DIRECTION_OUTPUT, DIRECTION_OUTPUT);
SAME_NUMBER(ACLNN__V1__CODEC__CODEC_NONE, CODEC_NONE);
SAME_NUMBER(ACLNN__V1__CODEC__CODEC_LZ4_BLOCK, CODEC_LZ4_BLOCK);
SAME_NUMBER(ACLNN__V1__CODEC__CODEC_NONZERO_WORDS, CODEC_NONZERO_WORDS);

static int known_or_zero(int value, const ProtobufCEnumDescriptor *descriptor) {
  return protobuf_c_enum_descriptor_get_value(descriptor, value) != NULL ? value : 0;
}

enum data_type data_type_from_message(Aclnn__V1__DataType value) {
  return (enum data_type)known_or_zero((int)value, &aclnn__v1__data_type__descriptor);
}

enum format format_from_message(Aclnn__V1__Format value) {
  return (enum format)known_or_zero((int)value, &aclnn__v1__format__descriptor);
}

enum target target_from_message(Aclnn__V1__Target value) {
  return (enum target)known_or_zero((int)value, &aclnn__v1__target__descriptor);
}

enum numerics numerics_from_message(Aclnn__V1__Numerics value) {
  return (enum numerics)known_or_zero((int)value, &aclnn__v1__numerics__descriptor);
}

enum direction direction_from_message(Aclnn__V1__Direction value) {
  return (enum direction)known_or_zero((int)value, &aclnn__v1__direction__descriptor);
}

static void copy_dims(int64_t kept[TENSOR_RANK_MAX], const int64_t *dims, size_t count) {
  for (size_t i = 0; i < count && i < TENSOR_RANK_MAX; i++) {
    kept[i] = dims[i];
  }
}

struct tensor_desc tensor_desc_from_message(const Aclnn__V1__TensorDesc *message) {
  struct tensor_desc desc = {0};
  if (message != NULL) {
    desc.data_type = data_type_from_message(message->data_type);
    desc.format = format_from_message(message->format);
    desc.rank = message->n_shape;
    desc.stride_count = message->n_strides;
    copy_dims(desc.shape, message->shape, message->n_shape);
    copy_dims(desc.strides, message->strides, message->n_strides);
    desc.storage_offset = message->storage_offset;
    desc.storage_elements = message->storage_elements;
  }
  return desc;
}

Aclnn__V1__TensorDesc *tensor_desc_compose(const struct tensor_desc *desc, struct message_memory *memory) {
  assert(desc->rank <= TENSOR_RANK_MAX && desc->stride_count <= TENSOR_RANK_MAX);
  Aclnn__V1__TensorDesc *message = message_memory_take(memory, sizeof *message);
  if (message == NULL) {
    return NULL;
  }
  aclnn__v1__tensor_desc__init(message);
  message->data_type = (Aclnn__V1__DataType)desc->data_type;
  message->format = (Aclnn__V1__Format)desc->format;
  // protobuf-c's messages don't know const; packing only reads.
  message->n_shape = desc->rank;
  message->shape = (int64_t *)desc->shape;
  message->n_strides = desc->stride_count;
  message->strides = (int64_t *)desc->strides;
  message->storage_offset = desc->storage_offset;
  message->storage_elements = desc->storage_elements;
  return message;
}

codec_set codec_set_from_message(const Aclnn__V1__Codec *codecs, size_t count) {
  codec_set set = 0;
  for (size_t i = 0; i < count; i++) {
    int codec = (int)codecs[i];
    if (codec >= 0 && codec_is_known((uint64_t)codec)) {
      set |= 1u << codec;
    }
  }
  return set;
}

bool codec_set_compose(codec_set set, struct message_memory *memory, size_t *count,
                       Aclnn__V1__Codec **codecs) {
  Aclnn__V1__Codec *list = message_memory_array(memory, CODEC_END, sizeof *list);
  if (list == NULL) {
    return false;
  }
  size_t length = 0;
  for (int codec = 0; codec < CODEC_END; codec++) {
    if ((set & 1u << codec) != 0) {
      list[length++] = (Aclnn__V1__Codec)codec;
    }
  }
  *codecs = list;
  *count = length;
  return true;
}

char *text_compose(const char *text, struct message_memory *memory) {
  size_t bytes = strlen(text) + 1;
  char *copy = message_memory_take(memory, bytes);
  if (copy != NULL) {
    memcpy(copy, text, bytes);
    utf8_repair(copy);
  }
  return copy;
}
