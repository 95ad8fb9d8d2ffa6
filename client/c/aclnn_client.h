// aclnn-client: CANN operators on a remote aclnn-server, from C.
//
// Two phases, as in CANN: aclnn_get_workspace_size checks the arguments and gives a plan with an executor,
// aclnn_execute runs it on tensors. aclnn_call does both in one round trip. A client may be used by several
// threads at once; plans and streams by one at a time. Calls block until they end, their timeout passes or
// aclnn_cancel is called. Failures are ACLNN_FAILED with an aclnn_error; nothing is printed, nothing aborts.
// The pointer to the error may be NULL everywhere.
//
// Tensors are sent out of the caller's memory without a copy. A call therefore returns, also when it failed,
// only after the transport has let go of that memory: at once as a rule. If the connection has stopped taking
// bytes in the middle of a write, timeout and cancel are late by up to ACLNN_STUCK_MS; then the connection is
// given up, other calls on it fail with UNAVAILABLE (and are tried again), and the next call makes a new one.
//
// fork is not supported while a client is open: a child process must not touch a client of its parent's, only
// exec or open its own.
#ifndef ACLNN_CLIENT_H
#define ACLNN_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclnn_client aclnn_client;
typedef struct aclnn_plan aclnn_plan;
typedef struct aclnn_stream aclnn_stream;

#define ACLNN_CLIENT_VERSION "0.1.0"

#define ACLNN_RANK_MAX 8
#define ACLNN_TENSORS_MAX 16
#define ACLNN_STUCK_MS 3000

typedef enum aclnn_result { ACLNN_OK = 0, ACLNN_FAILED = -1 } aclnn_result;

// Numbers are those of the contract (proto/aclnn/v1).
typedef enum aclnn_data_type {
  ACLNN_UNSPECIFIED = 0,
  ACLNN_FLOAT = 1,
  ACLNN_FLOAT16 = 2,
  ACLNN_BF16 = 3,
  ACLNN_INT32 = 4,
  ACLNN_INT64 = 5,
  ACLNN_INT8 = 6,
  ACLNN_UINT8 = 7,
  ACLNN_INT16 = 8,
  ACLNN_UINT16 = 9,
  ACLNN_UINT32 = 10,
  ACLNN_UINT64 = 11,
  ACLNN_DOUBLE = 12,
  ACLNN_BOOL = 13,
} aclnn_data_type;

typedef enum aclnn_target { ACLNN_TARGET_AUTO = 1, ACLNN_TARGET_CPU = 2, ACLNN_TARGET_NPU = 3 } aclnn_target;
typedef enum aclnn_numerics {
  ACLNN_NUMERICS_DEVICE = 1,
  ACLNN_NUMERICS_DETERMINISTIC = 2,
  ACLNN_NUMERICS_EXACT = 3,
} aclnn_numerics;

// What went wrong. aclnn_status is CANN's number (161001, 161002, ...) or 0; code is gRPC's status code.
// Where a call was tried again and the last try found only that the way was broken, this is what the server
// had said before, that it is drained (DRAINING) or too busy.
typedef struct aclnn_error {
  int code;
  int aclnn_status;
  char reason[64];    // "ACLNN_ERR_PARAM_INVALID", "QUEUE_FULL", ...; "" if the transport failed
  char parameter[64]; // the parameter to blame, or ""
  char message[513];
  int64_t retry_after_ms; // advice of the server, 0 for none
} aclnn_error;

// How far the tensors of a job have travelled. Called on the thread that makes the call, after each message;
// it must not use the client. received_total is 0 as long as the outputs' sizes aren't known.
typedef void aclnn_progress(void *context, int64_t sent, int64_t sent_total, int64_t received,
                            int64_t received_total);

typedef struct aclnn_client_options {
  const char *target_address; // "127.0.0.1:50051" or "unix:/run/aclnn.sock"
  aclnn_target target;        // 0: AUTO
  aclnn_numerics numerics;    // 0: DEVICE
  int64_t timeout_ms;         // for each call, retries included; of a stream: submit and wait each; 0: none
  int64_t max_chunk_bytes;    // for both ways, 4 KiB to 4 MiB - 64 KiB; 0: 1 MiB
  // How often a call is tried again when the server can't be reached or asks to come back later (never after
  // other failures); 0: 2 times, negative: not at all. Without advice of the server the pauses are 0.1 s, 0.2
  // s, 0.4 s ... 5 s: two bridge 0.3 s, a lost connection; 8 bridge 16 s, a server that is started anew.
  int retries;
  bool plain_data; // no chunk is encoded, in neither direction; else the sender does so where it is quicker
  aclnn_progress *progress; // or NULL
  void *progress_context;
} aclnn_client_options;

// A tensor argument: what it looks like and, for phase 2, where its storage lies.
typedef struct aclnn_tensor {
  const char *name; // CANN's parameter name, such as "gradOutput"
  bool output;
  aclnn_data_type data_type; // UNSPECIFIED and rank 0 on an output: the operator infers it
  size_t rank;
  int64_t shape[ACLNN_RANK_MAX];
  bool has_strides; // else contiguous
  int64_t strides[ACLNN_RANK_MAX];
  int64_t storage_offset;
  int64_t storage_elements; // 0: just what the view spans
  void *data; // the storage. An input's is only read. An output's with NULL is allocated by the library
              // (aclnn_free). An input of which only the shape is read needs none.
  size_t data_bytes; // bytes at data, at least the storage's; set to that for an allocated output
} aclnn_tensor;

typedef struct aclnn_attribute {
  const char *name;
  enum { ACLNN_INT_ARRAY, ACLNN_INTEGER, ACLNN_REAL, ACLNN_BOOLEAN, ACLNN_TEXT } kind;
  const int64_t *values; // INT_ARRAY
  size_t value_count;
  int64_t integer; // INTEGER, BOOLEAN
  double real;
  const char *text;
} aclnn_attribute;

typedef struct aclnn_call_arguments {
  const char *operator_name; // "aclnnAdaptiveMaxPool2dBackward"
  aclnn_tensor *tensors;     // inputs and outputs in any order
  size_t tensor_count;
  const aclnn_attribute *attributes;
  size_t attribute_count;
} aclnn_call_arguments;

// What the server says of a finished job.
typedef struct aclnn_summary {
  aclnn_target target;
  aclnn_numerics numerics;
  int attempts;
  uint64_t workspace_size;
  int64_t queue_ns, upload_ns, compute_ns, download_ns;
  int64_t bytes_sent, bytes_received; // tensor bytes as they travelled
} aclnn_summary;

// Connects lazily: a server that isn't there shows at the first call. Also frees a large block of memory,
// after which glibc keeps what is freed later (up to 64 MiB): gRPC's buffers would cost page faults
// otherwise. A program that has used mallopt is left alone. The client is freed by aclnn_client_close, when
// no call, plan or stream uses it any more.
aclnn_result aclnn_client_open(const aclnn_client_options *options, aclnn_client **client,
                               aclnn_error *error);
void aclnn_client_close(aclnn_client *client);

// Ends all calls and streams that the client has under way, from any thread; they fail with code CANCELLED.
void aclnn_cancel(aclnn_client *client);

// Phase 1. ttl_ms 0: the server's default. On success the outputs that were left to the operator are filled
// in (data_type, rank, shape) in arguments->tensors.
aclnn_result aclnn_get_workspace_size(aclnn_client *client, const aclnn_call_arguments *arguments,
                                      bool repeatable, int64_t ttl_ms, aclnn_plan **plan, aclnn_error *error);
uint64_t aclnn_plan_workspace_size(const aclnn_plan *plan);
aclnn_target aclnn_plan_target(const aclnn_plan *plan);
aclnn_numerics aclnn_plan_numerics(const aclnn_plan *plan);
// The handle, for another process; valid as long as the plan.
const void *aclnn_plan_executor(const aclnn_plan *plan, size_t *bytes);
// Bytes of the storage of the tensor of that name, and whether it travels; -1 if there is none.
int64_t aclnn_plan_storage_bytes(const aclnn_plan *plan, const char *name, bool *transferred);

// Phase 2: sends the inputs' storages and fills the outputs'. `tensors` are those of phase 1, matched by
// name; only their data count, the shapes are the plan's. On failure the contents of the outputs are
// undefined and none is allocated. A plan that the server no longer knows (EXECUTOR_EXPIRED,
// EXECUTOR_INVALID) is planned anew once.
aclnn_result aclnn_execute(aclnn_client *client, aclnn_plan *plan, aclnn_tensor *tensors, size_t tensor_count,
                           aclnn_summary *summary, aclnn_error *error);

// The same in two halves, for one thread with many jobs under way: begin sends the inputs, wait is
// aclnn_execute from there on and frees the execution in any case. They can be waited for in any order, on
// any thread, those of one plan by one thread at a time; the client's timeout counts from the begin. Only
// what no other try could mend fails at once, such as a tensor that doesn't fit the plan; then there is no
// execution. Until the wait has returned, plan, tensors and their data must stay valid and a plan that isn't
// repeatable is this execution's alone. Many of them are quicker than as many threads: no thread has to be
// woken for each reply.
typedef struct aclnn_execution aclnn_execution;
aclnn_result aclnn_execution_begin(aclnn_client *client, aclnn_plan *plan, aclnn_tensor *tensors,
                                   size_t tensor_count, aclnn_execution **execution, aclnn_error *error);
aclnn_result aclnn_execution_wait(aclnn_execution *execution, aclnn_summary *summary, aclnn_error *error);
// Instead of a wait: ends it and frees it. NULL is fine.
void aclnn_execution_cancel(aclnn_execution *execution);

// Gives the executor back to the server (unless it was consumed) and frees the plan, the latter in any case.
// With client NULL only the latter.
aclnn_result aclnn_destroy(aclnn_client *client, aclnn_plan *plan, aclnn_error *error);

// Both phases in one round trip, nothing kept on the server. summary may be NULL.
aclnn_result aclnn_call(aclnn_client *client, const aclnn_call_arguments *arguments, aclnn_summary *summary,
                        aclnn_error *error);

// Several jobs on one call, run in order. Submit sends a job's inputs and may block while the server isn't
// ready for more; it reads results that arrive meanwhile. Wait returns when the oldest job that wasn't waited
// for has its outputs. While the server has enough to do, small jobs are held back, a few at most, and sent
// together by a later submit or wait. The plan, the tensors and their data must stay valid until then. When
// the server can't be reached, asks to come back later or no longer knows an executor, the jobs without a
// result are sent again, as often as the option `retries` says without a result in between. Any other failure
// ends the stream: results of earlier jobs can still be waited for, all else fails with the same error.
aclnn_result aclnn_stream_open(aclnn_client *client, aclnn_stream **stream, aclnn_error *error);
aclnn_result aclnn_stream_submit(aclnn_stream *stream, aclnn_plan *plan, aclnn_tensor *tensors,
                                 size_t tensor_count, aclnn_error *error);
aclnn_result aclnn_stream_wait(aclnn_stream *stream, aclnn_summary *summary, aclnn_error *error);
// Ends the stream; cancels what was not waited for.
void aclnn_stream_close(aclnn_stream *stream);

// Memory that the library allocated for outputs.
void aclnn_free(void *data);

// ---- What the server says of itself

#define ACLNN_INFO_DEVICES_MAX 64
typedef struct aclnn_server_info {
  char server_version[64];
  int contract_revision;
  char cpu_path[32];
  int64_t max_chunk_bytes, max_message_bytes, memory_budget_bytes, max_executors, default_ttl_ms, max_ttl_ms;
  int64_t max_queue, max_queue_time_ms, idle_timeout_ms, max_connections;
  char codecs[128];    // comma-separated
  char features[1056]; // comma-separated
  struct {
    aclnn_target target;
    bool available;
    char numerics[64]; // those that it gives, comma-separated
    size_t device_count;
    struct {
      char name[64];
      bool healthy;
      char detail[256];
    } devices[ACLNN_INFO_DEVICES_MAX];
  } targets[4];
  size_t target_count;
} aclnn_server_info;
aclnn_result aclnn_get_server_info(aclnn_client *client, aclnn_server_info *info, aclnn_error *error);

typedef struct aclnn_parameter_info {
  char name[96];
  char kind[16]; // "tensor", "int_array", "integer", "real", "boolean", "text"
  bool output;
  bool optional;
  bool shape_only;
  char data_types[160]; // comma-separated
  char ranks[32];
} aclnn_parameter_info;
typedef struct aclnn_operator_info {
  char name[96];
  aclnn_parameter_info parameters[ACLNN_TENSORS_MAX];
  size_t parameter_count;
  bool pure;
  char targets[32];
} aclnn_operator_info;
// *operators is freed by aclnn_free.
aclnn_result aclnn_list_operators(aclnn_client *client, aclnn_operator_info **operators, size_t *count,
                                  aclnn_error *error);

// grpc.health.v1: *serving for the service of that name ("" = the server).
aclnn_result aclnn_check_health(aclnn_client *client, const char *service, bool *serving, aclnn_error *error);

// "float32", ... and back; "fp32", "fp16", "bf16" are understood too.
const char *aclnn_data_type_name(aclnn_data_type data_type);
aclnn_data_type aclnn_data_type_from_name(const char *name);
size_t aclnn_data_type_bytes(aclnn_data_type data_type);
const char *aclnn_target_name(aclnn_target target);       // "AUTO", "CPU", "NPU"
const char *aclnn_numerics_name(aclnn_numerics numerics); // "DEVICE", "DETERMINISTIC", "EXACT"
const char *aclnn_code_name(int code);                    // "INVALID_ARGUMENT", ...

#ifdef __cplusplus
}
#endif

#endif
