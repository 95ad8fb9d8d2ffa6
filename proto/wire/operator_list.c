// ListOperatorsResponse.
#include "proto/wire/message_io.h"
#include "proto/wire/message_parts.h"
#include "proto/wire/messages.h"
#include "proto/wire/utf8.h"

#include <assert.h>
#include <stdlib.h>

#define BITS_64 64
#define BITS_32 32

_Static_assert(DATA_TYPE_COUNT <= BITS_64, "a set of data types is a 64-bit mask");
_Static_assert((int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_TENSOR == (int)PARAMETER_KIND_TENSOR &&
                   (int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_INT_ARRAY ==
                       (int)PARAMETER_KIND_INT_ARRAY &&
                   (int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_INTEGER == (int)PARAMETER_KIND_INTEGER &&
                   (int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_REAL == (int)PARAMETER_KIND_REAL &&
                   (int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_BOOLEAN == (int)PARAMETER_KIND_BOOLEAN &&
                   (int)ACLNN__V1__PARAMETER_KIND__PARAMETER_KIND_TEXT == (int)PARAMETER_KIND_TEXT,
               "kinds have the contract's numbers");
_Static_assert((int)ACLNN__V1__EFFECT__EFFECT_PURE == (int)EFFECT_PURE, "effects too");

static const struct message_rules lenient_rules = {.strict = false};

// The numbers whose bits are set, as a list; NULL when memory runs out. protobuf-c's enums and int32 are both
// int-sized.
static int32_t *mask_compose(uint64_t mask, struct message_memory *memory, size_t *count) {
  int32_t *list = message_memory_array(memory, BITS_64, sizeof *list);
  if (list == NULL) {
    return NULL;
  }
  *count = 0;
  for (int32_t bit = 0; bit < BITS_64; bit++) {
    if ((mask >> bit & 1) != 0) {
      list[(*count)++] = bit;
    }
  }
  return list;
}

static bool parameter_compose(const struct parameter_info *parameter, struct message_memory *memory,
                              Aclnn__V1__ParameterInfo *message) {
  aclnn__v1__parameter_info__init(message);
  message->name = text_compose(parameter->name, memory);
  message->kind = (Aclnn__V1__ParameterKind)parameter->kind;
  message->direction = (Aclnn__V1__Direction)parameter->direction;
  message->optional = parameter->optional;
  message->shape_only = parameter->shape_only;
  message->data_types =
      (Aclnn__V1__DataType *)mask_compose(parameter->data_types, memory, &message->n_data_types);
  message->ranks = mask_compose(parameter->ranks, memory, &message->n_ranks);
  return message->name != NULL && message->data_types != NULL && message->ranks != NULL;
}

static bool operator_compose(const struct operator_info *info, struct message_memory *memory,
                             Aclnn__V1__OperatorInfo *message) {
  size_t count = info->parameter_count;
  assert(count <= REQUEST_ARGUMENTS_MAX);
  aclnn__v1__operator_info__init(message);
  Aclnn__V1__ParameterInfo *parameters = message_memory_array(memory, count, sizeof *parameters);
  message->parameters = message_memory_array(memory, count, sizeof(void *));
  message->name = text_compose(info->name, memory);
  message->targets = (Aclnn__V1__Target *)mask_compose(info->targets, memory, &message->n_targets);
  if (parameters == NULL || message->parameters == NULL || message->name == NULL ||
      message->targets == NULL) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    message->parameters[i] = &parameters[i];
    if (!parameter_compose(&info->parameters[i], memory, &parameters[i])) {
      return false;
    }
  }
  message->n_parameters = count;
  message->effect = (Aclnn__V1__Effect)info->effect;
  return true;
}

static bool list_compose(const struct operator_info *operators, size_t count, struct message_memory *memory,
                         Aclnn__V1__ListOperatorsResponse *message) {
  aclnn__v1__list_operators_response__init(message);
  Aclnn__V1__OperatorInfo *infos = message_memory_array(memory, count, sizeof *infos);
  message->operators = message_memory_array(memory, count, sizeof(void *));
  if (infos == NULL || message->operators == NULL) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    message->operators[i] = &infos[i];
    if (!operator_compose(&operators[i], memory, &infos[i])) {
      return false;
    }
  }
  message->n_operators = count;
  return true;
}

bool wire_write_operator_list(const struct operator_info *operators, size_t count, struct wire_buffer *out,
                              struct status *status) {
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_RESPONSE_MEMORY_MAX);
  Aclnn__V1__ListOperatorsResponse message;
  bool ok = list_compose(operators, count, &memory, &message) ? message_pack(&message.base, out, status)
                                                              : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

// The set of the numbers in a list; those that are zero or don't fit below bit_count are left out.
static uint64_t mask_from_list(const int32_t *list, size_t count, int32_t bit_count) {
  uint64_t mask = 0;
  for (size_t i = 0; i < count; i++) {
    if (list[i] >= 0 && list[i] < bit_count) {
      mask |= UINT64_C(1) << list[i];
    }
  }
  return mask;
}

static void parameter_from_message(const Aclnn__V1__ParameterInfo *message,
                                   struct parameter_info *parameter) {
  utf8_copy_shortened(parameter->name, sizeof parameter->name, message->name);
  const ProtobufCEnumDescriptor *kinds = &aclnn__v1__parameter_kind__descriptor;
  if (protobuf_c_enum_descriptor_get_value(kinds, (int)message->kind) != NULL) {
    parameter->kind = (enum parameter_kind)message->kind;
  }
  parameter->direction = direction_from_message(message->direction);
  parameter->optional = message->optional != 0;
  parameter->shape_only = message->shape_only != 0;
  parameter->data_types =
      mask_from_list((const int32_t *)message->data_types, message->n_data_types, DATA_TYPE_COUNT);
  parameter->ranks = (uint32_t)mask_from_list(message->ranks, message->n_ranks, BITS_32);
}

static void operator_from_message(const Aclnn__V1__OperatorInfo *message, struct operator_info *info) {
  utf8_copy_shortened(info->name, sizeof info->name, message->name);
  info->parameter_count = message->n_parameters;
  for (size_t i = 0; i < message->n_parameters; i++) {
    parameter_from_message(message->parameters[i], &info->parameters[i]);
  }
  info->effect = message->effect == ACLNN__V1__EFFECT__EFFECT_PURE ? EFFECT_PURE : EFFECT_UNSPECIFIED;
  info->targets =
      (uint32_t)mask_from_list((const int32_t *)message->targets, message->n_targets, TARGET_NPU + 1);
}

static bool list_from_message(const Aclnn__V1__ListOperatorsResponse *message,
                              struct operator_info **operators, size_t *count, struct status *status) {
  if (message->n_operators > WIRE_OPERATORS_MAX) {
    return status_fail(status, REASON_MESSAGE_INVALID, NULL,
                       "the server lists %zu operators; at most %d are possible", message->n_operators,
                       WIRE_OPERATORS_MAX);
  }
  struct operator_info *list = calloc(message->n_operators + 1, sizeof *list);
  if (list == NULL) {
    return message_out_of_memory(status);
  }
  size_t kept = 0;
  for (size_t i = 0; i < message->n_operators; i++) {
    if (message->operators[i]->n_parameters <= REQUEST_ARGUMENTS_MAX) {
      operator_from_message(message->operators[i], &list[kept++]);
    }
  }
  *operators = list;
  *count = kept;
  return true;
}

bool wire_read_operator_list(const uint8_t *data, size_t size, struct operator_info **operators,
                             size_t *count, struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__ListOperatorsResponse *message = (const Aclnn__V1__ListOperatorsResponse *)message_unpack(
      &aclnn__v1__list_operators_response__descriptor, &lenient_rules, data, size, &memory, status);
  bool ok = message != NULL && list_from_message(message, operators, count, status);
  message_memory_free(&memory);
  return ok;
}
