#include "server/npu/control/message.h"

#include <assert.h>
#include <string.h>

// A frame begins with the length of its payload and its kind.
#define HEADER_BYTES 8
#define PAYLOAD_BYTES_MAX (CONTROL_FRAME_BYTES_MAX - HEADER_BYTES)

// Goes through a message's fields once, in either direction: so what is written is what is read.
struct codec {
  bool writing;
  uint8_t *bytes; // only read from unless writing
  size_t position, size;
  const char *trouble; // the first thing that isn't as it must be
};

static void trouble(struct codec *codec, const char *what) {
  if (codec->trouble == NULL) {
    codec->trouble = what;
  }
}

// Where the next bytes of the frame are, or NULL.
static uint8_t *advance(struct codec *codec, size_t size) {
  if (codec->trouble != NULL) {
    return NULL;
  }
  if (size > codec->size - codec->position) {
    assert(!codec->writing); // the longest message fits
    trouble(codec, "it ends too early");
    return NULL;
  }
  uint8_t *at = codec->bytes + codec->position;
  codec->position += size;
  return at;
}

// Fields are little-endian, whatever the machine is.
static void store(uint8_t *at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; i++) {
    at[i] = (uint8_t)(value >> (8 * i));
  }
}

static uint64_t load(const uint8_t *at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++) {
    value |= (uint64_t)at[i] << (8 * i);
  }
  return value;
}

// The value as it stands after the field was passed; 0 where there is no such field.
static uint64_t pass_bytes(struct codec *codec, uint64_t value, size_t size) {
  uint8_t *at = advance(codec, size);
  if (at == NULL) {
    return 0;
  }
  if (codec->writing) {
    store(at, value, size);
    return value;
  }
  return load(at, size);
}

static void pass_u32(struct codec *codec, uint32_t *value) {
  *value = (uint32_t)pass_bytes(codec, *value, sizeof *value);
}

static void pass_u64(struct codec *codec, uint64_t *value) {
  *value = pass_bytes(codec, *value, sizeof *value);
}

static void pass_i32(struct codec *codec, int32_t *value) {
  *value = (int32_t)(uint32_t)pass_bytes(codec, (uint32_t)*value, sizeof *value);
}

static void pass_i64(struct codec *codec, int64_t *value) {
  *value = (int64_t)pass_bytes(codec, (uint64_t)*value, sizeof *value);
}

static void pass_real(struct codec *codec, double *value) {
  uint64_t bits;
  memcpy(&bits, value, sizeof bits);
  pass_u64(codec, &bits);
  memcpy(value, &bits, sizeof bits);
}

// A number of one byte below `end`.
static unsigned pass_number(struct codec *codec, unsigned value, unsigned end, const char *what) {
  assert(!codec->writing || value < end);
  value = (unsigned)pass_bytes(codec, value, 1);
  if (value >= end) {
    trouble(codec, what);
    return 0;
  }
  return value;
}

static void pass_boolean(struct codec *codec, bool *value) {
  *value = pass_number(codec, *value, 2, "a boolean is neither 0 nor 1") != 0;
}

static void pass_count(struct codec *codec, size_t *count, size_t most, const char *what) {
  *count = pass_number(codec, (unsigned)*count, (unsigned)most + 1, what);
}

// Bytes of the character at text, 0 where there is none of UTF-8's. A NUL isn't one here.
static size_t character_bytes(const uint8_t *text, size_t size) {
  uint8_t first = text[0];
  size_t bytes = first < 0x80   ? 1
                 : first < 0xc2 ? 0
                 : first < 0xe0 ? 2
                 : first < 0xf0 ? 3
                 : first < 0xf5 ? 4
                                : 0;
  if (first == 0 || bytes == 0 || bytes > size) {
    return 0;
  }
  for (size_t i = 1; i < bytes; i++) {
    if ((text[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  // Overlong forms, surrogates and what lies beyond the last character.
  bool bad = (first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
             (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f);
  return bad ? 0 : bytes;
}

// Texts come from libraries, too: what isn't UTF-8 is written as "?", so that no text breaks a connection.
static void write_text(uint8_t *at, const char *text, size_t size) {
  memcpy(at, text, size);
  for (size_t i = 0; i < size;) {
    size_t bytes = character_bytes(at + i, size - i);
    if (bytes == 0) {
      at[i] = '?';
      bytes = 1;
    }
    i += bytes;
  }
}

static void read_text(struct codec *codec, const uint8_t *at, char *text, size_t size) {
  for (size_t i = 0; i < size;) {
    size_t bytes = character_bytes(at + i, size - i);
    if (bytes == 0) {
      trouble(codec, "a text isn't UTF-8");
      return;
    }
    i += bytes;
  }
  memcpy(text, at, size);
  text[size] = '\0';
}

// A text in a buffer of that size, the NUL included.
static void pass_text(struct codec *codec, char *text, size_t buffer_bytes) {
  size_t size = codec->writing ? strnlen(text, buffer_bytes - 1) : 0;
  size = (size_t)pass_bytes(codec, size, 2);
  if (size >= buffer_bytes) {
    trouble(codec, "a text is too long");
    return;
  }
  uint8_t *at = advance(codec, size);
  if (at == NULL) {
    return;
  }
  if (codec->writing) {
    write_text(at, text, size);
  } else {
    read_text(codec, at, text, size);
  }
}

static void pass_tensor(struct codec *codec, struct tensor_desc *desc) {
  desc->data_type =
      (enum data_type)pass_number(codec, desc->data_type, DATA_TYPE_COUNT, "an unknown data type");
  desc->format = (enum format)pass_number(codec, desc->format, FORMAT_COUNT, "an unknown format");
  pass_count(codec, &desc->rank, TENSOR_RANK_MAX, "too many dims");
  pass_count(codec, &desc->stride_count, TENSOR_RANK_MAX, "too many strides");
  for (size_t i = 0; i < desc->rank; i++) {
    pass_i64(codec, &desc->shape[i]);
  }
  for (size_t i = 0; i < desc->stride_count; i++) {
    pass_i64(codec, &desc->strides[i]);
  }
  pass_i64(codec, &desc->storage_offset);
  pass_i64(codec, &desc->storage_elements);
}

static void pass_int_array(struct codec *codec, struct int_array *array) {
  pass_count(codec, &array->count, ARGUMENT_INT_ARRAY_MAX, "too many values in an array");
  for (size_t i = 0; i < array->count; i++) {
    pass_i64(codec, &array->values[i]);
  }
}

static void pass_value(struct codec *codec, struct argument_value *value) {
  value->kind = (enum parameter_kind)pass_number(codec, value->kind, PARAMETER_KIND_TEXT + 1,
                                                 "an unknown kind of argument");
  switch (value->kind) {
  case PARAMETER_KIND_UNSPECIFIED:
    trouble(codec, "an argument without a value");
    break;
  case PARAMETER_KIND_TENSOR:
    pass_tensor(codec, &value->tensor);
    break;
  case PARAMETER_KIND_INT_ARRAY:
    pass_int_array(codec, &value->int_array);
    break;
  case PARAMETER_KIND_INTEGER:
    pass_i64(codec, &value->integer);
    break;
  case PARAMETER_KIND_REAL:
    pass_real(codec, &value->real);
    break;
  case PARAMETER_KIND_BOOLEAN:
    pass_boolean(codec, &value->boolean);
    break;
  case PARAMETER_KIND_TEXT:
    pass_text(codec, value->text, sizeof value->text);
    break;
  }
}

static void pass_request(struct codec *codec, struct operator_request *request) {
  pass_text(codec, request->operator_name, sizeof request->operator_name);
  request->target = (enum target)pass_number(codec, request->target, TARGET_NPU + 1, "an unknown target");
  request->numerics =
      (enum numerics)pass_number(codec, request->numerics, NUMERICS_EXACT + 1, "unknown numerics");
  pass_boolean(codec, &request->repeatable);
  pass_i64(codec, &request->ttl_ms);
  pass_count(codec, &request->argument_count, REQUEST_ARGUMENTS_MAX, "too many arguments");
  for (size_t i = 0; i < request->argument_count; i++) {
    pass_text(codec, request->arguments[i].name, sizeof request->arguments[i].name);
    pass_value(codec, &request->arguments[i].value);
  }
}

static void pass_storage(struct codec *codec, struct control_storage *storage) {
  pass_boolean(codec, &storage->present);
  if (storage->present) {
    pass_u64(codec, &storage->offset);
    pass_u64(codec, &storage->bytes);
  }
}

static void pass_status(struct codec *codec, struct status *status) {
  status->reason = (enum reason)pass_number(codec, status->reason, REASON_COUNT, "an unknown reason");
  if (status->reason == REASON_NONE) {
    trouble(codec, "a failure without a reason");
  }
  pass_i32(codec, &status->aclnn_status);
  pass_i64(codec, &status->retry_after_ms);
  pass_text(codec, status->parameter, sizeof status->parameter);
  pass_text(codec, status->message, sizeof status->message);
  pass_count(codec, &status->metadata_count, STATUS_METADATA_MAX, "too much metadata");
  for (size_t i = 0; i < status->metadata_count; i++) {
    pass_text(codec, status->metadata[i].key, sizeof status->metadata[i].key);
    pass_text(codec, status->metadata[i].value, sizeof status->metadata[i].value);
  }
}

static void pass_ready(struct codec *codec, struct control_ready *ready) {
  ready->product =
      (enum npu_product)pass_number(codec, ready->product, NPU_PRODUCT_COUNT, "an unknown product");
  pass_text(codec, ready->soc_name, sizeof ready->soc_name);
  pass_text(codec, ready->cann_version, sizeof ready->cann_version);
  pass_u64(codec, &ready->memory_bytes);
  pass_u32(codec, &ready->operators);
  pass_boolean(codec, &ready->deterministic);
}

static void pass_run(struct codec *codec, struct control_run *run) {
  pass_u64(codec, &run->id);
  pass_request(codec, &run->request);
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    pass_storage(codec, &run->storages[i]);
  }
}

static void pass_planned(struct codec *codec, struct control_planned *planned) {
  pass_u64(codec, &planned->id);
  pass_boolean(codec, &planned->ok);
  pass_u64(codec, &planned->workspace_bytes);
  pass_boolean(codec, &planned->device_fault);
  if (!planned->ok) {
    pass_status(codec, &planned->status);
  }
}

static void pass_finished(struct codec *codec, struct control_finished *finished) {
  pass_u64(codec, &finished->id);
  pass_boolean(codec, &finished->ok);
  pass_boolean(codec, &finished->device_fault);
  pass_i64(codec, &finished->started_ns);
  pass_i64(codec, &finished->finished_ns);
  if (!finished->ok) {
    pass_status(codec, &finished->status);
  }
}

static void pass_payload(struct codec *codec, struct control_message *message) {
  switch (message->kind) {
  case CONTROL_START:
    pass_u32(codec, &message->start.version);
    pass_u64(codec, &message->start.arena_bytes);
    return;
  case CONTROL_PLAN:
    pass_u64(codec, &message->plan.id);
    pass_request(codec, &message->plan.request);
    return;
  case CONTROL_RUN:
    pass_run(codec, &message->run);
    return;
  case CONTROL_PING:
    pass_u64(codec, &message->ping.sequence);
    return;
  case CONTROL_STOP:
    return;
  case CONTROL_READY:
    pass_ready(codec, &message->ready);
    return;
  case CONTROL_UNUSABLE:
    pass_status(codec, &message->unusable.status);
    return;
  case CONTROL_PLANNED:
    pass_planned(codec, &message->planned);
    return;
  case CONTROL_FINISHED:
    pass_finished(codec, &message->finished);
    return;
  case CONTROL_PONG:
    pass_u64(codec, &message->pong.sequence);
    return;
  }
  trouble(codec, "its kind is unknown");
}

size_t control_write(const struct control_message *message, uint8_t frame[CONTROL_FRAME_BYTES_MAX]) {
  struct control_message copy = *message;
  struct codec codec = {.writing = true, .bytes = frame + HEADER_BYTES, .size = PAYLOAD_BYTES_MAX};
  pass_payload(&codec, &copy);
  assert(codec.trouble == NULL); // who writes knows what a message may hold
  store(frame, codec.position, 4);
  store(frame + 4, message->kind, 4);
  return HEADER_BYTES + codec.position;
}

// Moves bytes from the pipe into the frame until it has `wanted` of them.
static bool collect(struct control_reader *reader, const uint8_t **data, size_t *size, size_t wanted) {
  size_t missing = wanted > reader->count ? wanted - reader->count : 0;
  size_t taken = missing < *size ? missing : *size;
  if (taken > 0) {
    memcpy(reader->bytes + reader->count, *data, taken);
    reader->count += taken;
    *data += taken;
    *size -= taken;
  }
  return taken == missing;
}

bool control_read(struct control_reader *reader, const uint8_t **data, size_t *size,
                  struct control_message *message, bool *need_more, struct status *status) {
  *need_more = false;
  if (!collect(reader, data, size, HEADER_BYTES)) {
    *need_more = true;
    return false;
  }
  size_t payload_bytes = (size_t)load(reader->bytes, 4);
  unsigned kind = (unsigned)load(reader->bytes + 4, 4);
  if (payload_bytes > PAYLOAD_BYTES_MAX) {
    return status_fail(status, REASON_INTERNAL, NULL,
                       "a control message has %zu bytes, at most %d are allowed", payload_bytes,
                       PAYLOAD_BYTES_MAX);
  }
  if (!collect(reader, data, size, HEADER_BYTES + payload_bytes)) {
    *need_more = true;
    return false;
  }
  reader->count = 0;
  struct codec codec = {.bytes = reader->bytes + HEADER_BYTES, .size = payload_bytes};
  memset(message, 0, sizeof *message);
  message->kind = (enum control_kind)kind;
  pass_payload(&codec, message);
  if (codec.position < codec.size) {
    trouble(&codec, "it is longer than its fields");
  }
  if (codec.trouble != NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "a control message of kind %u is broken: %s", kind,
                       codec.trouble);
  }
  return true;
}

static bool check_place(const char *name, const struct control_storage *storage, int64_t planned_bytes,
                        uint64_t arena_bytes, struct status *status) {
  if (storage->bytes != (uint64_t)planned_bytes) {
    return status_fail(status, REASON_INTERNAL, name, "the storage of %s has %llu bytes, planned are %lld",
                       name, (unsigned long long)storage->bytes, (long long)planned_bytes);
  }
  if (storage->offset % TENSOR_ALIGNMENT != 0) {
    return status_fail(status, REASON_INTERNAL, name,
                       "the storage of %s lies at %llu, which isn't a multiple of %d", name,
                       (unsigned long long)storage->offset, TENSOR_ALIGNMENT);
  }
  if (storage->offset > arena_bytes || storage->bytes > arena_bytes - storage->offset) {
    return status_fail(status, REASON_INTERNAL, name,
                       "the storage of %s (%llu bytes at %llu) reaches beyond the arena's %llu", name,
                       (unsigned long long)storage->bytes, (unsigned long long)storage->offset,
                       (unsigned long long)arena_bytes);
  }
  return true;
}

// Of storages that are known to lie inside the arena: no sum overflows.
static bool overlap(const struct control_storage *one, const struct control_storage *other) {
  return one->offset < other->offset + other->bytes && other->offset < one->offset + one->bytes;
}

static bool check_alone(const struct plan *plan, size_t output, const struct control_storage *storages,
                        struct status *status) {
  const struct operator_parameter *parameters = plan->definition->parameters;
  for (size_t i = 0; i < plan->definition->parameter_count; i++) {
    if (i != output && storages[i].present && overlap(&storages[output], &storages[i])) {
      return status_fail(status, REASON_INTERNAL, parameters[output].name,
                         "the storages of %s and %s overlap", parameters[output].name, parameters[i].name);
    }
  }
  return true;
}

bool control_check_storages(const struct plan *plan, const struct control_storage *storages,
                            uint64_t arena_bytes, struct status *status) {
  bool wanted[OPERATOR_PARAMETERS_MAX] = {false};
  for (size_t i = 0; i < plan->tensor_count; i++) {
    const struct plan_tensor *tensor = &plan->tensors[i];
    const char *name = plan->definition->parameters[tensor->parameter].name;
    wanted[tensor->parameter] = tensor->transferred;
    if (!tensor->transferred) {
      continue;
    }
    if (!storages[tensor->parameter].present) {
      return status_fail(status, REASON_INTERNAL, name, "%s has no storage", name);
    }
    if (!check_place(name, &storages[tensor->parameter], tensor->storage_bytes, arena_bytes, status)) {
      return false;
    }
  }
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    if (storages[i].present && !wanted[i]) {
      return status_fail(status, REASON_INTERNAL, NULL,
                         "parameter number %zu has a storage that nobody wants", i);
    }
  }
  for (size_t i = 0; i < plan->tensor_count; i++) {
    if (plan->tensors[i].direction == DIRECTION_OUTPUT &&
        !check_alone(plan, plan->tensors[i].parameter, storages, status)) {
      return false;
    }
  }
  return true;
}
