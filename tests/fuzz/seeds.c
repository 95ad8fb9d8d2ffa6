#include "tests/fuzz/seeds.h"

#include "proto/wire/codec.h"
#include "proto/wire/error_details.h"
#include "proto/wire/messages.h"
#include "proto/wire/test_bytes.h"
#include "server/npu/control/message.h"

#include <assert.h>
#include <string.h>

struct visit {
  fuzz_seed_visitor *visit;
  void *context;
};

// Hands out one seed: the bytes that steer the target, then the message, which is freed.
static void hand_out(const struct visit *visit, const char *target, const char *steering_hex, bool written,
                     struct wire_buffer *message) {
  assert(written);
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, steering_hex);
  bytes_raw(&bytes, message->data, message->size);
  visit->visit(visit->context, target, bytes.data, bytes.size);
  bytes_free(&bytes);
  wire_buffer_free(message);
}

static void hand_out_hex(const struct visit *visit, const char *target, const char *hex) {
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, hex);
  visit->visit(visit->context, target, bytes.data, bytes.size);
  bytes_free(&bytes);
}

static void fill_request(struct operator_request *request) {
  *request = (struct operator_request){.operator_name = "aclnnAdaptiveMaxPool2dBackward",
                                       .target = TARGET_CPU,
                                       .numerics = NUMERICS_EXACT,
                                       .repeatable = true,
                                       .ttl_ms = 90000,
                                       .argument_count = 6};
  struct argument *arguments = request->arguments;
  arguments[0] = (struct argument){.name = "gradOutput",
                                   .value = {.kind = PARAMETER_KIND_TENSOR,
                                             .tensor = {.data_type = DATA_TYPE_FLOAT16,
                                                        .format = FORMAT_NCHW,
                                                        .rank = 4,
                                                        .stride_count = 4,
                                                        .shape = {2, 3, 7, 7},
                                                        .strides = {147, 49, 7, 1},
                                                        .storage_offset = 5,
                                                        .storage_elements = 400}}};
  arguments[1] = (struct argument){.name = "outputSize",
                                   .value = {.kind = PARAMETER_KIND_INT_ARRAY, .int_array = {2, {7, -7}}}};
  arguments[2] =
      (struct argument){.name = "cubeMathType", .value = {.kind = PARAMETER_KIND_INTEGER, .integer = -1}};
  arguments[3] = (struct argument){.name = "alpha", .value = {.kind = PARAMETER_KIND_REAL, .real = -0.5}};
  arguments[4] =
      (struct argument){.name = "flag", .value = {.kind = PARAMETER_KIND_BOOLEAN, .boolean = true}};
  arguments[5] = (struct argument){.name = "mode", .value = {.kind = PARAMETER_KIND_TEXT, .text = "max"}};
}

static void visit_requests(const struct visit *visit) {
  static struct execute_begin begin;
  struct wire_buffer buffer;
  struct status status;
  begin = (struct execute_begin){.has_request = true, .accept_codecs = 3, .max_chunk_bytes = 4096};
  fill_request(&begin.request);
  hand_out(visit, "operator_request", "", wire_write_operator_request(&begin.request, &buffer, &status),
           &buffer);
  hand_out(visit, "execute_begin", "", wire_write_execute_begin(&begin, &buffer, &status), &buffer);
  begin = (struct execute_begin){.executor = {(uint8_t *)"handle", 6}, .workspace_size = 1 << 20};
  hand_out(visit, "execute_begin", "", wire_write_execute_begin(&begin, &buffer, &status), &buffer);
  // An argument given twice over, a hint, an unknown field and a value that isn't known.
  hand_out_hex(visit, "operator_request", "12 0c 0a 01 78 20 05 12 02 08 01 2a 00 20 01");
  hand_out_hex(visit, "operator_request", "0a 01 6f c2 3e 02 61 62 12 07 0a 01 78 3a 02 6d 78");
  hand_out_hex(visit, "operator_request", "0a 01 6f 12 0b 0a 01 78 12 06 12 04 01 02 03 04 38 01");
  hand_out_hex(visit, "execute_begin", "0a 01 61 22 03 63 01 02 20 ff ff ff ff ff ff ff ff ff 01");
}

static void visit_execute_messages(const struct visit *visit) {
  uint8_t out[2 * EXECUTE_ENVELOPE_BYTES_MAX];
  struct tensor_chunk chunk = {.tensor_index = 2, .offset = 300, .codec = CODEC_LZ4_BLOCK, .raw_bytes = 1024};
  chunk.data_bytes = 5;
  struct test_bytes bytes = {0};
  bytes_hex(&bytes, "00 03 0a 08 0a 06 68 61 6e 64 6c 65");
  for (int i = 0; i < 3; i++) {
    bytes_raw(&bytes, out, execute_chunk_write_header(&chunk, out));
    bytes_raw(&bytes, "da\0ta", 5);
    chunk = (struct tensor_chunk){.tensor_index = (uint32_t)i, .data_bytes = 5};
  }
  visit->visit(visit->context, "execute_message", bytes.data, bytes.size);
  // The same as a response, with a done and a hint behind it.
  bytes.data[0] = 1;
  bytes_hex(&bytes, "1a 04 08 02 10 03 c2 3e 01 61");
  visit->visit(visit->context, "execute_message", bytes.data, bytes.size);
  bytes_free(&bytes);
  hand_out_hex(visit, "execute_message", "00 00 12 0b ba 3e 02 61 62 08 01 18 01 20 02 0a 00");
  hand_out_hex(visit, "execute_message", "01 05 0a 00 2b 08 01 2c 12 00 1a 00");
  hand_out_hex(visit, "execute_message", "00 01 0a 00 0a 00");
}

static void visit_plans(const struct visit *visit) {
  static struct workspace_size_response response;
  struct wire_buffer buffer;
  struct status status;
  response = (struct workspace_size_response){.executor = {(uint8_t *)"handle", 6},
                                              .workspace_size = 300,
                                              .ttl_ms = 60000,
                                              .expire_unix_ms = 1700000000000,
                                              .target = TARGET_CPU,
                                              .numerics = NUMERICS_EXACT,
                                              .tensor_count = 2,
                                              .max_chunk_bytes = WIRE_CHUNK_BYTES_MAX,
                                              .accept_codecs = 3};
  response.tensors[1] = (struct tensor_plan){.name = "gradInput",
                                             .direction = DIRECTION_OUTPUT,
                                             .desc = {.data_type = DATA_TYPE_FLOAT,
                                                      .format = FORMAT_ND,
                                                      .rank = 3,
                                                      .stride_count = 3,
                                                      .shape = {2, 8, 8},
                                                      .strides = {64, 8, 1},
                                                      .storage_elements = 128},
                                             .storage_bytes = 512,
                                             .transferred = true};
  hand_out(visit, "responses", "00", wire_write_workspace_size_response(&response, &buffer, &status),
           &buffer);
  hand_out(visit, "responses", "01", wire_write_execute_accepted(&response, &buffer, &status), &buffer);
  struct execute_done done = {TARGET_NPU, NUMERICS_DEVICE, 2, 3, 4, 5, 6};
  hand_out(visit, "responses", "01", wire_write_execute_done(&done, &buffer, &status), &buffer);
}

static void visit_lists(const struct visit *visit) {
  static struct server_info info;
  static struct operator_info entry;
  struct wire_buffer buffer;
  struct status status;
  info = (struct server_info){.server_version = "1.2.3",
                              .contract_revision = 1,
                              .features = {"one", "two"},
                              .feature_count = 2,
                              .limits = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                              .codecs = 3,
                              .target_count = 1,
                              .cpu_path = "avx2"};
  info.targets[0] = (struct target_info){.target = TARGET_NPU,
                                         .devices = {{.name = "npu0", .healthy = true, .detail = "fine"}},
                                         .device_count = 1,
                                         .numerics = 1u << NUMERICS_DEVICE};
  hand_out(visit, "responses", "02", wire_write_server_info(&info, &buffer, &status), &buffer);
  entry = (struct operator_info){
      .name = "aclnnMm", .parameter_count = 1, .effect = EFFECT_PURE, .targets = 1u << TARGET_CPU};
  entry.parameters[0] = (struct parameter_info){.name = "self",
                                                .kind = PARAMETER_KIND_TENSOR,
                                                .direction = DIRECTION_INPUT,
                                                .optional = true,
                                                .data_types = 1u << DATA_TYPE_FLOAT | 1u << DATA_TYPE_BF16,
                                                .ranks = 1u << 2};
  hand_out(visit, "responses", "03", wire_write_operator_list(&entry, 1, &buffer, &status), &buffer);
  hand_out(visit, "responses", "04", wire_write_health_request("aclnn", &buffer, &status), &buffer);
  hand_out(visit, "responses", "04", wire_write_health_response(HEALTH_SERVING, &buffer, &status), &buffer);
}

static void visit_error_details(const struct visit *visit) {
  struct status failed;
  struct wire_buffer buffer;
  (void)status_fail(&failed, REASON_QUEUE_FULL, "self", "the queue is full");
  failed.retry_after_ms = 1500;
  status_add_metadata(&failed, "job", "%d", 3);
  hand_out(visit, "error_details", "08", error_details_write(&failed, &buffer), &buffer);
  (void)status_fail(&failed, REASON_ACLNN_ERR_PARAM_INVALID, NULL, "bad");
  hand_out(visit, "error_details", "03", error_details_write(&failed, &buffer), &buffer);
  hand_out_hex(visit, "error_details", "01");
}

static void visit_codecs(const struct visit *visit) {
  uint8_t raw[1024] = {0};
  uint8_t encoded[1024];
  for (size_t i = 0; i < sizeof raw; i += 41) {
    raw[i] = (uint8_t)i;
  }
  static const struct {
    const char *head;
    enum codec codec;
    int word_bytes;
  } encodings[] = {{"01 07 00 04", CODEC_LZ4_BLOCK, 0},
                   {"02 07 00 04", CODEC_NONZERO_WORDS, 2},
                   {"02 07 00 04", CODEC_NONZERO_WORDS, 4}};
  for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++) {
    size_t size =
        codec_encode(encodings[i].codec, encodings[i].word_bytes, raw, sizeof raw, encoded, sizeof encoded);
    assert(size > 0);
    struct test_bytes bytes = {0};
    bytes_hex(&bytes, encodings[i].head);
    bytes_raw(&bytes, encoded, size);
    visit->visit(visit->context, "codec", bytes.data, bytes.size);
    bytes_free(&bytes);
  }
  hand_out_hex(visit, "codec", "01 02 05 00 50 68 65 6c 6c 6f");
  hand_out_hex(visit, "codec", "00 02 05 00 68 65 6c 6c 6f");
}

static void add_frame(struct test_bytes *bytes, const struct control_message *message) {
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  bytes_raw(bytes, frame, control_write(message, frame));
}

// The first byte says after how many bytes the pipe pauses.
static void visit_control_messages(const struct visit *visit) {
  static struct control_message message;
  struct test_bytes from_server = {0}, from_worker = {0};
  bytes_hex(&from_server, "07");
  message = (struct control_message){.kind = CONTROL_START, .start = {CONTROL_VERSION, 1 << 20}};
  add_frame(&from_server, &message);
  message = (struct control_message){.kind = CONTROL_RUN, .run = {.id = 3}};
  fill_request(&message.run.request);
  message.run.storages[1] = (struct control_storage){true, 64, 800};
  add_frame(&from_server, &message);
  message.kind = CONTROL_STOP;
  add_frame(&from_server, &message);
  visit->visit(visit->context, "control_message", from_server.data, from_server.size);
  bytes_free(&from_server);

  bytes_hex(&from_worker, "ff");
  message = (struct control_message){.kind = CONTROL_READY,
                                     .ready = {.product = NPU_PRODUCT_EMULATED,
                                               .soc_name = "AclnnEmulated",
                                               .cann_version = "8.1.0",
                                               .memory_bytes = 1 << 30,
                                               .operators = 3}};
  add_frame(&from_worker, &message);
  message = (struct control_message){.kind = CONTROL_FINISHED, .finished = {.id = 3, .device_fault = true}};
  (void)status_fail(&message.finished.status, REASON_DEVICE_LOST, "self", "507015");
  status_add_metadata(&message.finished.status, "device", "%d", 0);
  add_frame(&from_worker, &message);
  message = (struct control_message){.kind = CONTROL_PONG, .pong = {1}};
  add_frame(&from_worker, &message);
  visit->visit(visit->context, "control_message", from_worker.data, from_worker.size);
  bytes_free(&from_worker);
  hand_out_hex(visit, "control_message", "00 ff ff ff ff 01 00 00 00");
}

static void visit_capsules(const struct visit *visit) {
  static const char header[] =
      "{\"operator\":\"aclnnX\",\"numerics\":\"DEVICE\",\"arguments\":["
      "{\"name\":\"x\",\"kind\":\"tensor\",\"direction\":\"input\",\"data_type\":\"float32\",\"shape\":[2],"
      "\"strides\":[1],\"storage_offset\":0,\"storage_elements\":2},"
      "{\"name\":\"y\",\"kind\":\"tensor\",\"direction\":\"output\",\"data_type\":\"int8\",\"shape\":[],"
      "\"strides\":[],\"storage_offset\":0,\"storage_elements\":1},"
      "{\"name\":\"s\",\"kind\":\"int_array\",\"values\":[7,-7]},"
      "{\"name\":\"i\",\"kind\":\"integer\",\"value\":\"-1\"}],"
      "\"storages\":[{\"tensor\":\"x\",\"role\":\"input\",\"bytes\":8},"
      "{\"tensor\":\"y\",\"role\":\"device\",\"bytes\":1},{\"tensor\":\"y\",\"role\":\"cpu\",\"bytes\":1}],"
      "\"device\":{\"name\":\"npu0\"},\"versions\":{\"server\":\"0.1\"}}";
  const uint32_t size = sizeof header - 1;
  const uint8_t length[] = {(uint8_t)size, (uint8_t)(size >> 8), 0, 0};
  struct test_bytes bytes = {0};
  bytes_raw(&bytes, "ACLNNCAP\1\0\0\0", 12);
  bytes_raw(&bytes, length, sizeof length);
  bytes_raw(&bytes, header, size);
  bytes_hex(&bytes, "00 00 80 3f 00 00 00 40 07 08");
  visit->visit(visit->context, "capsule", bytes.data, bytes.size);
  bytes_free(&bytes);
  hand_out_hex(visit, "capsule", "41 43 4c 4e 4e 43 41 50 01 00 00 00 ff ff ff ff 7b 7d");
}

void fuzz_seeds_visit(fuzz_seed_visitor *visitor, void *context) {
  struct visit visit = {visitor, context};
  visit_requests(&visit);
  visit_execute_messages(&visit);
  visit_plans(&visit);
  visit_lists(&visit);
  visit_error_details(&visit);
  visit_codecs(&visit);
  visit_control_messages(&visit);
  visit_capsules(&visit);
}
