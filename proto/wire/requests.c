// The control messages that a client sends: GetWorkspaceSizeRequest, ExecuteBegin, DestroyExecutorRequest and
// the empty ones.
#include "proto/wire/message_io.h"
#include "proto/wire/message_parts.h"
#include "proto/wire/messages.h"
#include "proto/wire/utf8.h"

#include <string.h>

static const struct message_rules strict_rules = {.strict = true};

// A codec that the client offers and the server lacks is simply not used.
static const struct message_rules begin_rules = {
    .strict = true, .open_message = &aclnn__v1__execute_begin__descriptor, .open_field = "accept_codecs"};

// ---- GetWorkspaceSizeRequest

static struct int_array int_array_from_message(const Aclnn__V1__IntArray *message) {
  struct int_array array = {.count = message->n_values};
  for (size_t i = 0; i < message->n_values && i < ARGUMENT_INT_ARRAY_MAX; i++) {
    array.values[i] = message->values[i];
  }
  return array;
}

static void argument_from_message(const Aclnn__V1__Argument *message, struct argument *argument) {
  utf8_copy_shortened(argument->name, sizeof argument->name, message->name);
  struct argument_value *value = &argument->value;
  switch (message->value_case) {
  case ACLNN__V1__ARGUMENT__VALUE_TENSOR:
    value->kind = PARAMETER_KIND_TENSOR;
    value->tensor = tensor_desc_from_message(message->tensor);
    break;
  case ACLNN__V1__ARGUMENT__VALUE_INT_ARRAY:
    value->kind = PARAMETER_KIND_INT_ARRAY;
    value->int_array = int_array_from_message(message->int_array);
    break;
  case ACLNN__V1__ARGUMENT__VALUE_INTEGER:
    value->kind = PARAMETER_KIND_INTEGER;
    value->integer = message->integer;
    break;
  case ACLNN__V1__ARGUMENT__VALUE_REAL:
    value->kind = PARAMETER_KIND_REAL;
    value->real = message->real;
    break;
  case ACLNN__V1__ARGUMENT__VALUE_BOOLEAN:
    value->kind = PARAMETER_KIND_BOOLEAN;
    value->boolean = message->boolean != 0;
    break;
  case ACLNN__V1__ARGUMENT__VALUE_TEXT:
    value->kind = PARAMETER_KIND_TEXT;
    utf8_copy_shortened(value->text, sizeof value->text, message->text);
    break;
  default:
    break;
  }
}

// What the plain struct can't hold is refused here, so that converting can't fail.
static bool check_operator_request(const Aclnn__V1__GetWorkspaceSizeRequest *message, struct status *status) {
  if (message->n_arguments > REQUEST_ARGUMENTS_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                       "the request has %zu arguments; at most %d are allowed", message->n_arguments,
                       REQUEST_ARGUMENTS_MAX);
  }
  for (size_t i = 0; i < message->n_arguments; i++) {
    if (message->arguments[i]->value_case == ACLNN__V1__ARGUMENT__VALUE__NOT_SET) {
      char name[ARGUMENT_TEXT_BYTES_MAX + 1];
      utf8_copy_shortened(name, sizeof name, message->arguments[i]->name);
      return status_fail(status, REASON_FEATURE_UNSUPPORTED, name,
                         "argument %zu (%s) has no value of a kind that is known here", i, name);
    }
  }
  return true;
}

static void operator_request_from_message(const Aclnn__V1__GetWorkspaceSizeRequest *message,
                                          struct operator_request *request) {
  *request = (struct operator_request){.argument_count = message->n_arguments,
                                       .target = target_from_message(message->target),
                                       .numerics = numerics_from_message(message->numerics),
                                       .repeatable = message->repeatable != 0,
                                       .ttl_ms = message->ttl_ms};
  utf8_copy_shortened(request->operator_name, sizeof request->operator_name, message->operator_name);
  for (size_t i = 0; i < message->n_arguments; i++) {
    argument_from_message(message->arguments[i], &request->arguments[i]);
  }
}

bool wire_read_operator_request(const uint8_t *data, size_t size, struct operator_request *request,
                                struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__GetWorkspaceSizeRequest *message =
      (const Aclnn__V1__GetWorkspaceSizeRequest *)message_unpack(
          &aclnn__v1__get_workspace_size_request__descriptor, &strict_rules, data, size, &memory, status);
  bool ok = message != NULL && check_operator_request(message, status);
  if (ok) {
    operator_request_from_message(message, request);
  }
  message_memory_free(&memory);
  return ok;
}

static bool check_text(const char *what, const char *text, struct status *status) {
  return utf8_is_valid(text, strlen(text)) ||
         status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL, "%s is not valid UTF-8", what);
}

static bool check_argument(const struct argument *argument, struct status *status) {
  const struct argument_value *value = &argument->value;
  if (!check_text("the name of an argument", argument->name, status)) {
    return false;
  }
  if (value->kind == PARAMETER_KIND_TENSOR &&
      (value->tensor.rank > TENSOR_RANK_MAX || value->tensor.stride_count > TENSOR_RANK_MAX)) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, argument->name,
                       "%s has %zu dims and %zu strides; at most %d are allowed", argument->name,
                       value->tensor.rank, value->tensor.stride_count, TENSOR_RANK_MAX);
  }
  if (value->kind == PARAMETER_KIND_INT_ARRAY && value->int_array.count > ARGUMENT_INT_ARRAY_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, argument->name,
                       "%s has %zu values; at most %d are allowed", argument->name, value->int_array.count,
                       ARGUMENT_INT_ARRAY_MAX);
  }
  if (value->kind < PARAMETER_KIND_TENSOR || value->kind > PARAMETER_KIND_TEXT) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, argument->name, "%s has no value",
                       argument->name);
  }
  return value->kind != PARAMETER_KIND_TEXT || check_text("the text of an argument", value->text, status);
}

static bool check_plain_request(const struct operator_request *request, struct status *status) {
  if (request->argument_count > REQUEST_ARGUMENTS_MAX) {
    return status_fail(status, REASON_ACLNN_ERR_PARAM_INVALID, NULL,
                       "the request has %zu arguments; at most %d are allowed", request->argument_count,
                       REQUEST_ARGUMENTS_MAX);
  }
  for (size_t i = 0; i < request->argument_count; i++) {
    if (!check_argument(&request->arguments[i], status)) {
      return false;
    }
  }
  return check_text("the operator's name", request->operator_name, status);
}

static Aclnn__V1__IntArray *int_array_compose(const struct int_array *array, struct message_memory *memory) {
  Aclnn__V1__IntArray *message = message_memory_take(memory, sizeof *message);
  if (message != NULL) {
    aclnn__v1__int_array__init(message);
    message->n_values = array->count;
    message->values = (int64_t *)array->values;
  }
  return message;
}

static Aclnn__V1__Argument *argument_compose(const struct argument *argument, struct message_memory *memory) {
  Aclnn__V1__Argument *message = message_memory_take(memory, sizeof *message);
  if (message == NULL) {
    return NULL;
  }
  aclnn__v1__argument__init(message);
  message->name = (char *)argument->name;
  const struct argument_value *value = &argument->value;
  switch (value->kind) {
  case PARAMETER_KIND_TENSOR:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_TENSOR;
    message->tensor = tensor_desc_compose(&value->tensor, memory);
    return message->tensor != NULL ? message : NULL;
  case PARAMETER_KIND_INT_ARRAY:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_INT_ARRAY;
    message->int_array = int_array_compose(&value->int_array, memory);
    return message->int_array != NULL ? message : NULL;
  case PARAMETER_KIND_INTEGER:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_INTEGER;
    message->integer = value->integer;
    break;
  case PARAMETER_KIND_REAL:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_REAL;
    message->real = value->real;
    break;
  case PARAMETER_KIND_BOOLEAN:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_BOOLEAN;
    message->boolean = value->boolean;
    break;
  case PARAMETER_KIND_TEXT:
    message->value_case = ACLNN__V1__ARGUMENT__VALUE_TEXT;
    message->text = (char *)value->text;
    break;
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
  return message;
}

static Aclnn__V1__GetWorkspaceSizeRequest *operator_request_compose(const struct operator_request *request,
                                                                    struct message_memory *memory) {
  Aclnn__V1__GetWorkspaceSizeRequest *message = message_memory_take(memory, sizeof *message);
  Aclnn__V1__Argument **arguments = message_memory_array(memory, request->argument_count, sizeof *arguments);
  if (message == NULL || arguments == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < request->argument_count; i++) {
    arguments[i] = argument_compose(&request->arguments[i], memory);
    if (arguments[i] == NULL) {
      return NULL;
    }
  }
  aclnn__v1__get_workspace_size_request__init(message);
  message->operator_name = (char *)request->operator_name;
  message->n_arguments = request->argument_count;
  message->arguments = arguments;
  message->target = (Aclnn__V1__Target)request->target;
  message->numerics = (Aclnn__V1__Numerics)request->numerics;
  message->repeatable = request->repeatable;
  message->ttl_ms = request->ttl_ms;
  return message;
}

bool wire_write_operator_request(const struct operator_request *request, struct wire_buffer *out,
                                 struct status *status) {
  if (!check_plain_request(request, status)) {
    return false;
  }
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_REQUEST_MEMORY_MAX);
  const Aclnn__V1__GetWorkspaceSizeRequest *message = operator_request_compose(request, &memory);
  bool ok = message != NULL ? message_pack(&message->base, out, status) : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

// ---- ExecuteBegin

static bool check_handle(const ProtobufCBinaryData *handle, struct status *status) {
  return handle->len <= WIRE_HANDLE_BYTES_MAX ||
         status_fail(status, REASON_EXECUTOR_INVALID, NULL,
                     "the executor has %zu bytes; no handle has more than %d", handle->len,
                     WIRE_HANDLE_BYTES_MAX);
}

static bool check_begin(const Aclnn__V1__ExecuteBegin *message, struct status *status) {
  switch (message->plan_case) {
  case ACLNN__V1__EXECUTE_BEGIN__PLAN_EXECUTOR:
    return check_handle(&message->executor, status);
  case ACLNN__V1__EXECUTE_BEGIN__PLAN_REQUEST:
    return check_operator_request(message->request, status);
  default:
    return status_fail(status, REASON_FEATURE_UNSUPPORTED, NULL,
                       "ExecuteBegin has neither executor nor request, and no other plan is known here");
  }
}

bool wire_read_execute_begin(const uint8_t *data, size_t size, struct execute_begin *begin,
                             struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__ExecuteBegin *message = (const Aclnn__V1__ExecuteBegin *)message_unpack(
      &aclnn__v1__execute_begin__descriptor, &begin_rules, data, size, &memory, status);
  struct wire_buffer executor = {0};
  bool ok = message != NULL && check_begin(message, status);
  bool has_request = ok && message->plan_case == ACLNN__V1__EXECUTE_BEGIN__PLAN_REQUEST;
  if (ok && !has_request) {
    ok = message_copy_bytes(&message->executor, &executor, status);
  }
  if (ok) {
    begin->has_request = has_request;
    begin->executor = executor;
    begin->workspace_size = message->workspace_size;
    begin->accept_codecs =
        codec_set_from_message(message->accept_codecs, message->n_accept_codecs) | 1u << CODEC_NONE;
    begin->max_chunk_bytes = message->max_chunk_bytes;
    if (has_request) {
      operator_request_from_message(message->request, &begin->request);
    } else {
      begin->request = (struct operator_request){0};
    }
  }
  message_memory_free(&memory);
  return ok;
}

static bool begin_compose(const struct execute_begin *begin, struct message_memory *memory,
                          Aclnn__V1__ExecuteBegin *message) {
  aclnn__v1__execute_begin__init(message);
  if (begin->has_request) {
    message->plan_case = ACLNN__V1__EXECUTE_BEGIN__PLAN_REQUEST;
    message->request = operator_request_compose(&begin->request, memory);
    if (message->request == NULL) {
      return false;
    }
  } else {
    message->plan_case = ACLNN__V1__EXECUTE_BEGIN__PLAN_EXECUTOR;
    message->executor = (ProtobufCBinaryData){.len = begin->executor.size, .data = begin->executor.data};
  }
  message->workspace_size = begin->workspace_size;
  message->max_chunk_bytes = begin->max_chunk_bytes;
  return codec_set_compose(begin->accept_codecs, memory, &message->n_accept_codecs, &message->accept_codecs);
}

bool wire_write_execute_begin(const struct execute_begin *begin, struct wire_buffer *out,
                              struct status *status) {
  if (begin->has_request && !check_plain_request(&begin->request, status)) {
    return false;
  }
  struct message_memory memory;
  message_memory_init(&memory, MESSAGE_REQUEST_MEMORY_MAX);
  Aclnn__V1__ExecuteBegin message;
  bool ok = begin_compose(begin, &memory, &message) ? message_pack(&message.base, out, status)
                                                    : message_out_of_memory(status);
  message_memory_free(&memory);
  return ok;
}

void execute_begin_free(struct execute_begin *begin) {
  wire_buffer_free(&begin->executor);
}

// ---- DestroyExecutorRequest

bool wire_read_destroy_request(const uint8_t *data, size_t size, struct wire_buffer *executor,
                               struct status *status) {
  struct message_memory memory;
  const Aclnn__V1__DestroyExecutorRequest *message =
      (const Aclnn__V1__DestroyExecutorRequest *)message_unpack(
          &aclnn__v1__destroy_executor_request__descriptor, &strict_rules, data, size, &memory, status);
  bool ok = message != NULL && check_handle(&message->executor, status) &&
            message_copy_bytes(&message->executor, executor, status);
  message_memory_free(&memory);
  return ok;
}

bool wire_write_destroy_request(struct wire_handle executor, struct wire_buffer *out, struct status *status) {
  Aclnn__V1__DestroyExecutorRequest message = ACLNN__V1__DESTROY_EXECUTOR_REQUEST__INIT;
  message.executor = (ProtobufCBinaryData){.len = executor.size, .data = (uint8_t *)executor.data};
  return message_pack(&message.base, out, status);
}

// ---- Requests without fields

bool wire_read_empty_request(const uint8_t *data, size_t size, struct status *status) {
  // They are all alike; the name in messages has to fit them all.
  ProtobufCMessageDescriptor descriptor = aclnn__v1__get_server_info_request__descriptor;
  descriptor.short_name = "this request";
  return message_validate(&descriptor, &strict_rules, data, size, status);
}
