// Writes one message of each type into a folder, each as TYPE.bin, for the comparison with protoc.
#include "proto/wire/error_details.h"
#include "proto/wire/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void save(const char *type, const uint8_t *data, size_t size) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s.bin", folder, type);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

static void check(bool written, const struct status *status) {
  if (!written) {
    (void)fprintf(stderr, "%s\n", status->message);
    exit(1);
  }
}

static void save_buffer(const char *type, struct wire_buffer *buffer) {
  save(type, buffer->data, buffer->size);
  wire_buffer_free(buffer);
}

static void fill_request(struct operator_request *request) {
  *request = (struct operator_request){.operator_name = "aclnnAdaptiveMaxPool2dBackward",
                                       .target = TARGET_NPU,
                                       .numerics = NUMERICS_DETERMINISTIC,
                                       .repeatable = true,
                                       .ttl_ms = 90000,
                                       .argument_count = 6};
  struct argument *arguments = request->arguments;
  arguments[0] = (struct argument){.name = "gradOutput",
                                   .value = {.kind = PARAMETER_KIND_TENSOR,
                                             .tensor = {.data_type = DATA_TYPE_BF16,
                                                        .format = FORMAT_NCL,
                                                        .rank = 3,
                                                        .stride_count = 3,
                                                        .shape = {2, 7, 1000000},
                                                        .strides = {7000000, 1000000, 0},
                                                        .storage_offset = -5,
                                                        .storage_elements = INT64_MAX}}};
  arguments[1] = (struct argument){.name = "outputSize",
                                   .value = {.kind = PARAMETER_KIND_INT_ARRAY, .int_array = {3, {7, -7, 0}}}};
  arguments[2] = (struct argument){.name = "cubeMathType", .value = {.kind = PARAMETER_KIND_INTEGER}};
  arguments[3] = (struct argument){.name = "alpha", .value = {.kind = PARAMETER_KIND_REAL, .real = -0.5}};
  arguments[4] = (struct argument){.name = "flag", .value = {.kind = PARAMETER_KIND_BOOLEAN}};
  arguments[5] = (struct argument){.name = "mode",
                                   .value = {.kind = PARAMETER_KIND_TEXT,
                                             .text = "m\xc3\xb6"
                                                     "de"}};
}

static void save_requests(void) {
  static struct operator_request request;
  struct wire_buffer buffer;
  struct status status;
  fill_request(&request);
  check(wire_write_operator_request(&request, &buffer, &status), &status);
  save_buffer("aclnn.v1.GetWorkspaceSizeRequest", &buffer);
  check(wire_write_destroy_request((struct wire_handle){(const uint8_t *)"\0\xff", 2}, &buffer, &status),
        &status);
  save_buffer("aclnn.v1.DestroyExecutorRequest", &buffer);
  static struct execute_begin begin;
  begin.has_request = true;
  begin.request = request;
  begin.accept_codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK;
  begin.max_chunk_bytes = 4096;
  begin.workspace_size = UINT64_MAX;
  check(wire_write_execute_begin(&begin, &buffer, &status), &status);
  save_buffer("aclnn.v1.ExecuteBegin", &buffer);
}

static void fill_response(struct workspace_size_response *response) {
  *response = (struct workspace_size_response){.executor = {(uint8_t *)"handle", 6},
                                               .workspace_size = UINT64_MAX,
                                               .ttl_ms = 60000,
                                               .expire_unix_ms = 1700000000000,
                                               .target = TARGET_CPU,
                                               .numerics = NUMERICS_EXACT,
                                               .tensor_count = 2,
                                               .max_chunk_bytes = WIRE_CHUNK_BYTES_MAX,
                                               .accept_codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK};
  response->tensors[0] = (struct tensor_plan){
      .name = "self",
      .direction = DIRECTION_INPUT,
      .desc = {.data_type = DATA_TYPE_FLOAT, .format = FORMAT_ND, .rank = 2, .shape = {2, 8}},
      .storage_bytes = 64};
  response->tensors[1] = (struct tensor_plan){.name = "gradInput",
                                              .direction = DIRECTION_OUTPUT,
                                              .desc = {.data_type = DATA_TYPE_INT64, .format = FORMAT_NCHW},
                                              .storage_bytes = 8,
                                              .transferred = true};
}

static void save_responses(void) {
  static struct workspace_size_response response;
  struct wire_buffer buffer;
  struct status status;
  fill_response(&response);
  check(wire_write_workspace_size_response(&response, &buffer, &status), &status);
  save_buffer("aclnn.v1.GetWorkspaceSizeResponse", &buffer);
  check(wire_write_execute_accepted(&response, &buffer, &status), &status);
  save_buffer("aclnn.v1.ExecuteAccepted", &buffer);
  struct execute_done done = {TARGET_NPU, NUMERICS_DEVICE, 2, 3, 4, 5, 6};
  check(wire_write_execute_done(&done, &buffer, &status), &status);
  save_buffer("aclnn.v1.ExecuteDone", &buffer);
}

// ExecuteRequest and ExecuteResponse as they are put together around their payloads.
static void save_execute_messages(void) {
  struct tensor_chunk chunk = {
      .tensor_index = 2, .offset = 300, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 1024, .data_bytes = 5};
  uint8_t out[512];
  size_t size = execute_part_write_header(1, 8, out);
  memcpy(out + size, "\x0a\x06handle", 8);
  size += 8;
  for (int i = 0; i < 2; i++) {
    size += execute_chunk_write_header(&chunk, out + size);
    memcpy(out + size, "da\0ta", 5);
    size += 5;
    chunk = (struct tensor_chunk){.data_bytes = 5};
  }
  save("aclnn.v1.ExecuteRequest", out, size);
  size = execute_part_write_header(1, 0, out);
  chunk.offset = 1 << 20;
  size += execute_chunk_write_header(&chunk, out + size);
  memcpy(out + size, "da\0ta", 5);
  size += 5;
  size += execute_part_write_header(3, 2, out + size);
  memcpy(out + size, "\x08\x02", 2);
  size += 2;
  save("aclnn.v1.ExecuteResponse", out, size);
}

static void save_server_info(void) {
  static struct server_info info = {.server_version = "1.2.3",
                                    .contract_revision = 7,
                                    .features = {"one", "two"},
                                    .feature_count = 2,
                                    .limits = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
                                    .codecs = 1u << CODEC_NONE | 1u << CODEC_LZ4_BLOCK,
                                    .target_count = 2,
                                    .cpu_path = "avx2"};
  info.targets[0] = (struct target_info){
      .target = TARGET_CPU, .available = true, .numerics = 1u << NUMERICS_EXACT | 1u << NUMERICS_DEVICE};
  info.targets[1] = (struct target_info){.target = TARGET_NPU,
                                         .devices = {{.name = "npu0", .healthy = true, .detail = "fine"}},
                                         .device_count = 1};
  struct wire_buffer buffer;
  struct status status;
  check(wire_write_server_info(&info, &buffer, &status), &status);
  save_buffer("aclnn.v1.GetServerInfoResponse", &buffer);
}

static void save_operators(void) {
  static struct operator_info operators[2] = {{.name = "aclnnMm"},
                                              {.name = "aclnnAdaptiveMaxPool2d",
                                               .parameter_count = 1,
                                               .effect = EFFECT_PURE,
                                               .targets = 1u << TARGET_CPU | 1u << TARGET_NPU}};
  operators[1].parameters[0] =
      (struct parameter_info){.name = "self",
                              .kind = PARAMETER_KIND_TENSOR,
                              .direction = DIRECTION_INPUT,
                              .optional = true,
                              .shape_only = true,
                              .data_types = 1u << DATA_TYPE_FLOAT | 1u << DATA_TYPE_FLOAT4_E1M2,
                              .ranks = 1u << 3 | 1u << 4};
  struct wire_buffer buffer;
  struct status status;
  check(wire_write_operator_list(operators, 2, &buffer, &status), &status);
  save_buffer("aclnn.v1.ListOperatorsResponse", &buffer);
}

static void save_others(void) {
  struct wire_buffer buffer;
  struct status status;
  check(wire_write_health_request("aclnn.v1.OperatorService", &buffer, &status), &status);
  save_buffer("grpc.health.v1.HealthCheckRequest", &buffer);
  check(wire_write_health_response(HEALTH_NOT_SERVING, &buffer, &status), &status);
  save_buffer("grpc.health.v1.HealthCheckResponse", &buffer);
  struct status failed;
  (void)status_fail(&failed, REASON_QUEUE_FULL, "self", "the queue is full");
  failed.retry_after_ms = 1500;
  status_add_metadata(&failed, "job", "%d", 3);
  check(error_details_write(&failed, &buffer), &status);
  save_buffer("aclnn.v1.ErrorStatus", &buffer);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    (void)fprintf(stderr, "usage: sample_messages FOLDER\n");
    return 2;
  }
  folder = argv[1];
  save_requests();
  save_responses();
  save_execute_messages();
  save_server_info();
  save_operators();
  save_others();
  return 0;
}
