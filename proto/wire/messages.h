// Control messages: bytes on the wire <-> plain structs. The only place that sees protobuf-c's types.
//
// Reading a request is strict: unknown fields below 1000 at any depth, unknown enum values and empty oneofs
// are FEATURE_UNSUPPORTED with the number named; what isn't a protobuf message of that type, bad UTF-8, a NUL
// in a string, or a sub-message given twice where one may be is MESSAGE_INVALID (message_validator.h has the
// whole list); more arguments or tensors than the structs hold, or a message that would take too much memory
// (message_io.h), is ACLNN_ERR_PARAM_INVALID. Names that are too long are cut and end with "...", so that
// they equal no valid one. Reading a response is lenient: unknown fields are skipped, unknown enum values
// become UNSPECIFIED, and what the structs can't hold is left out where that does no harm, else
// MESSAGE_INVALID. Written messages are malloc'ed into a wire_buffer that the caller frees. A failed call
// leaves its outputs untouched. Any thread.
#ifndef ACLNN_PROTO_WIRE_MESSAGES_H
#define ACLNN_PROTO_WIRE_MESSAGES_H

#include "kernels/argument.h"
#include "kernels/status.h"
#include "proto/wire/execute_envelope.h"
#include "proto/wire/wire_buffer.h"

// A longer one can't be one of ours: reading it is EXECUTOR_INVALID.
#define WIRE_HANDLE_BYTES_MAX 8192
#define WIRE_TENSORS_MAX REQUEST_ARGUMENTS_MAX

// A set of codecs: bit 1 << enum codec. Where a set is what a peer accepts, reading adds CODEC_NONE: it is
// always implied.
typedef uint32_t codec_set;

struct wire_handle {
  const uint8_t *data; // borrowed
  size_t size;
};

struct tensor_plan {
  char name[ARGUMENT_TEXT_BYTES_MAX + 1];
  enum direction direction;
  struct tensor_desc desc;
  int64_t storage_bytes;
  bool transferred;
};

struct workspace_size_response {
  struct wire_buffer
      executor; // owned by the struct when read (workspace_size_response_free), borrowed when written
  uint64_t workspace_size;
  int64_t ttl_ms;
  int64_t expire_unix_ms;
  enum target target;
  enum numerics numerics;
  struct tensor_plan tensors[WIRE_TENSORS_MAX];
  size_t tensor_count;
  int64_t max_chunk_bytes;
  codec_set accept_codecs;
};

struct execute_begin {
  bool has_request;            // else executor
  struct wire_buffer executor; // owned when read (execute_begin_free), borrowed when written
  struct operator_request request;
  uint64_t workspace_size;
  codec_set accept_codecs; // known ones only
  int64_t max_chunk_bytes; // as sent; 0 = default
};

struct execute_done {
  enum target target;
  enum numerics numerics;
  int32_t attempts;
  int64_t queue_ns, upload_ns, compute_ns, download_ns;
};

// GetWorkspaceSizeRequest.
MUST_CHECK bool wire_read_operator_request(const uint8_t *data, size_t size, struct operator_request *request,
                                           struct status *status);
MUST_CHECK bool wire_write_operator_request(const struct operator_request *request, struct wire_buffer *out,
                                            struct status *status);

// GetWorkspaceSizeResponse.
MUST_CHECK bool wire_write_workspace_size_response(const struct workspace_size_response *response,
                                                   struct wire_buffer *out, struct status *status);
MUST_CHECK bool wire_read_workspace_size_response(const uint8_t *data, size_t size,
                                                  struct workspace_size_response *response,
                                                  struct status *status);
void workspace_size_response_free(struct workspace_size_response *response);

// ExecuteBegin. The bytes are those of the sub-message, without tag and length.
MUST_CHECK bool wire_read_execute_begin(const uint8_t *data, size_t size, struct execute_begin *begin,
                                        struct status *status);
MUST_CHECK bool wire_write_execute_begin(const struct execute_begin *begin, struct wire_buffer *out,
                                         struct status *status);
void execute_begin_free(struct execute_begin *begin);

// ExecuteAccepted; plan may be NULL.
MUST_CHECK bool wire_write_execute_accepted(const struct workspace_size_response *plan,
                                            struct wire_buffer *out, struct status *status);
// *has_plan tells whether *plan was filled.
MUST_CHECK bool wire_read_execute_accepted(const uint8_t *data, size_t size, bool *has_plan,
                                           struct workspace_size_response *plan, struct status *status);

// ExecuteDone.
MUST_CHECK bool wire_write_execute_done(const struct execute_done *done, struct wire_buffer *out,
                                        struct status *status);
MUST_CHECK bool wire_read_execute_done(const uint8_t *data, size_t size, struct execute_done *done,
                                       struct status *status);

// DestroyExecutorRequest; the handle is copied into *executor, freed by the caller.
MUST_CHECK bool wire_read_destroy_request(const uint8_t *data, size_t size, struct wire_buffer *executor,
                                          struct status *status);
MUST_CHECK bool wire_write_destroy_request(struct wire_handle executor, struct wire_buffer *out,
                                           struct status *status);

// A request message that has no fields (GetServerInfoRequest, ListOperatorsRequest): strict as the others.
MUST_CHECK bool wire_read_empty_request(const uint8_t *data, size_t size, struct status *status);

// ---- GetServerInfoResponse

struct server_limits {
  int64_t max_chunk_bytes, max_message_bytes, memory_budget_bytes, max_executors, default_ttl_ms, max_ttl_ms,
      max_queue, max_queue_time_ms, idle_timeout_ms, max_connections;
};

#define WIRE_DEVICES_MAX 64
#define WIRE_TARGETS_MAX 4
#define WIRE_FEATURES_MAX 16

struct device_info {
  char name[64];
  bool healthy;
  char detail[256];
};

struct target_info {
  enum target target;
  bool available;
  struct device_info devices[WIRE_DEVICES_MAX];
  size_t device_count;
  uint32_t numerics; // bit 1 << enum numerics
};

struct server_info {
  char server_version[64];
  int32_t contract_revision;
  char features[WIRE_FEATURES_MAX][64];
  size_t feature_count;
  struct server_limits limits;
  codec_set codecs;
  struct target_info targets[WIRE_TARGETS_MAX];
  size_t target_count;
  char cpu_path[32];
};

MUST_CHECK bool wire_write_server_info(const struct server_info *info, struct wire_buffer *out,
                                       struct status *status);
MUST_CHECK bool wire_read_server_info(const uint8_t *data, size_t size, struct server_info *info,
                                      struct status *status);

// ---- ListOperatorsResponse

enum effect { EFFECT_UNSPECIFIED = 0, EFFECT_PURE = 1 };

struct parameter_info {
  char name[ARGUMENT_TEXT_BYTES_MAX + 1];
  enum parameter_kind kind;
  enum direction direction;
  bool optional;
  bool shape_only;
  uint64_t data_types; // bit 1 << enum data_type
  uint32_t ranks;      // bit 1 << rank
};

struct operator_info {
  char name[ARGUMENT_TEXT_BYTES_MAX + 1];
  struct parameter_info parameters[REQUEST_ARGUMENTS_MAX];
  size_t parameter_count;
  enum effect effect;
  uint32_t targets; // bit 1 << enum target
};

// Far more than there are; bounds what a reply can make a client allocate.
#define WIRE_OPERATORS_MAX 1024

MUST_CHECK bool wire_write_operator_list(const struct operator_info *operators, size_t count,
                                         struct wire_buffer *out, struct status *status);
// *operators is malloc'ed; the caller frees it. Operators with more than REQUEST_ARGUMENTS_MAX parameters,
// which can't be called from here, are left out.
MUST_CHECK bool wire_read_operator_list(const uint8_t *data, size_t size, struct operator_info **operators,
                                        size_t *count, struct status *status);

// ---- grpc.health.v1

enum health_status {
  HEALTH_UNKNOWN = 0,
  HEALTH_SERVING = 1,
  HEALTH_NOT_SERVING = 2,
  HEALTH_SERVICE_UNKNOWN = 3
};

// service is malloc'ed into out (NUL-terminated); lenient about unknown fields, as the protocol isn't ours.
MUST_CHECK bool wire_read_health_request(const uint8_t *data, size_t size, struct wire_buffer *service,
                                         struct status *status);
MUST_CHECK bool wire_write_health_request(const char *service, struct wire_buffer *out,
                                          struct status *status);
MUST_CHECK bool wire_write_health_response(enum health_status health, struct wire_buffer *out,
                                           struct status *status);
MUST_CHECK bool wire_read_health_response(const uint8_t *data, size_t size, enum health_status *health,
                                          struct status *status);

#endif
