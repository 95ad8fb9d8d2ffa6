// A capsule from the server's side to the command line: written, read, and run again on a real server.

#include "client/cli/capsule_file.h"
#include "server/dispatch/capsule.h"
#include "tests/end_to_end/test_server.h"

// cmocka.h needs these before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUTS 4
#define SIDE 4
// The wrong element in what the device is said to have computed.
#define WRONG 6

static struct test_server server;

static int start(void **state) {
  (void)state;
  test_server_start(&server, "127.0.0.1:0", NULL, NULL);
  return 0;
}

static int stop(void **state) {
  (void)state;
  test_server_stop(&server);
  return 0;
}

// A backward job as a device and the CPU ran it.
struct job {
  char directory[64];
  char path[CAPSULE_PATH_BYTES_MAX];
  struct plan plan;
  _Alignas(TENSOR_ALIGNMENT) float gradients[OUTPUTS];
  _Alignas(TENSOR_ALIGNMENT) int64_t indices[OUTPUTS];
  _Alignas(TENSOR_ALIGNMENT) float by_cpu[SIDE * SIDE];
  _Alignas(TENSOR_ALIGNMENT) float by_device[SIDE * SIDE];
};

static void add_tensor(struct operator_request *request, const char *name, enum data_type data_type,
                       int64_t side) {
  struct argument *argument = &request->arguments[request->argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = PARAMETER_KIND_TENSOR;
  argument->value.tensor = (struct tensor_desc){.data_type = data_type, .rank = 3, .shape = {1, side, side}};
}

static void run_job(struct job *job) {
  struct operator_request request = {.operator_name = "aclnnAdaptiveMaxPool2dBackward"};
  struct status status;
  add_tensor(&request, "gradOutput", DATA_TYPE_FLOAT, 2);
  add_tensor(&request, "self", DATA_TYPE_FLOAT, SIDE);
  add_tensor(&request, "indices", DATA_TYPE_INT64, 2);
  add_tensor(&request, "gradInput", DATA_TYPE_FLOAT, SIDE);
  assert_true(plan_create(&request, &job->plan, &status));
  job->plan.target = TARGET_NPU;
  for (int i = 0; i < OUTPUTS; i++) {
    job->gradients[i] = (float)(i + 1);
    job->indices[i] = (int64_t[]){0, 3, 12, 12}[i];
  }
  void *workspace = aligned_alloc(TENSOR_ALIGNMENT, (job->plan.workspace_bytes + 127) / 64 * 64);
  struct operator_run run = {.plan = &job->plan,
                             .storages = {job->gradients, NULL, job->indices, job->by_cpu},
                             .workspace = workspace};
  assert_true(job->plan.definition->run(&run, &status));
  free(workspace);
  memcpy(job->by_device, job->by_cpu, sizeof job->by_cpu);
  job->by_device[WRONG] = 9;
}

static void write_capsule(struct job *job) {
  struct operator_run device_run = {.storages = {job->gradients, NULL, job->indices, job->by_device}};
  struct operator_run cpu_run = {.storages = {job->gradients, NULL, job->indices, job->by_cpu}};
  struct tensor_comparison comparisons[OPERATOR_PARAMETERS_MAX] = {{0}};
  struct backend_device device = {.name = "npu7", .detail = "invented"};
  tensor_compare(plan_tensor_desc(&job->plan, 3), job->by_device, job->by_cpu, true, &comparisons[3]);
  struct capsule capsule = {.server_version = "1.0",
                            .plan = &job->plan,
                            .device_run = &device_run,
                            .cpu_run = &cpu_run,
                            .exactly = true,
                            .comparisons = comparisons,
                            .device_number = 7,
                            .device = &device};
  struct capsule_store *store;
  struct status status;
  snprintf(job->directory, sizeof job->directory, "/tmp/replay_test_XXXXXX");
  assert_non_null(mkdtemp(job->directory));
  assert_true(capsule_store_create(job->directory, &store, &status));
  assert_true(capsule_store_keep(store, &capsule, job->path, &status));
  capsule_store_destroy(store);
}

static void remove_capsule(const struct job *job) {
  assert_int_equal(unlink(job->path), 0);
  assert_int_equal(rmdir(job->directory), 0);
}

// Runs `aclnn replay` and returns its exit code; `text` gets what it printed.
static int replay(const char *path, const char *more, char *text, size_t text_bytes) {
  const char *binary = getenv("ACLNN_CLI_BINARY");
  char line[CAPSULE_PATH_BYTES_MAX + 512];
  snprintf(line, sizeof line, "%s replay '%s' --server %s %s 2>&1",
           binary == NULL ? "client/cli/aclnn" : binary, path, server.address, more);
  FILE *output = popen(line, "r");
  assert_non_null(output);
  size_t size = fread(text, 1, text_bytes - 1, output);
  text[size] = '\0';
  int end = pclose(output);
  assert_true(WIFEXITED(end));
  return WEXITSTATUS(end);
}

static void check_says(const char *text, const char *expected) {
  if (strstr(text, expected) == NULL) {
    fail_msg("\"%s\" isn't in:\n%s", expected, text);
  }
}

static void what_a_server_writes_can_be_read(void **state) {
  (void)state;
  struct job job;
  struct capsule_file capsule;
  struct failure failure;
  run_job(&job);
  write_capsule(&job);
  if (!capsule_file_open(job.path, &capsule, &failure)) {
    fail_msg("%s", failure.text);
  }
  assert_string_equal(capsule.operator_name, "aclnnAdaptiveMaxPool2dBackward");
  assert_string_equal(capsule.device, "npu7");
  assert_string_equal(capsule.server_version, "1.0");
  assert_int_equal(capsule.numerics, ACLNN_NUMERICS_DEVICE);
  assert_int_equal(capsule.tensor_count, 4);
  assert_string_equal(capsule.tensors[0].name, "gradOutput");
  assert_memory_equal(capsule.tensors[0].data, job.gradients, sizeof job.gradients);
  assert_null(capsule.tensors[1].data); // self: only its shape is read
  assert_int_equal(capsule.tensors[1].shape[2], SIDE);
  assert_memory_equal(capsule.recorded[3].device, job.by_device, sizeof job.by_device);
  assert_memory_equal(capsule.recorded[3].cpu, job.by_cpu, sizeof job.by_cpu);
  capsule_file_close(&capsule);
  remove_capsule(&job);
}

static void replay_finds_the_device_guilty(void **state) {
  (void)state;
  struct job job;
  char text[4096];
  run_job(&job);
  write_capsule(&job);
  assert_int_equal(replay(job.path, "", text, sizeof text), 0);
  check_says(text, "recorded on npu7 by server 1.0");
  check_says(text, "ran on CPU, numerics EXACT");
  check_says(text, "6: 0x00000000, recorded 0x41100000");
  check_says(text, "equals: CPU\n");
  assert_int_equal(replay(job.path, "--target cpu --json", text, sizeof text), 0);
  check_says(text, "\"equals_cpu\":\ttrue");
  check_says(text, "\"equals_device\":\tfalse");
  assert_int_equal(replay(job.path, "--target npu", text, sizeof text), 1);
  check_says(text, "TARGET_UNAVAILABLE");
  remove_capsule(&job);
}

static void replay_tells_when_the_record_of_the_cpu_is_wrong(void **state) {
  (void)state;
  struct job job;
  char text[4096];
  run_job(&job);
  float right = job.by_device[WRONG];
  memcpy(job.by_device, job.by_cpu, sizeof job.by_cpu);
  job.by_cpu[WRONG] = right;
  write_capsule(&job);
  assert_int_equal(replay(job.path, "", text, sizeof text), 1);
  check_says(text, "equals: device\n");
  remove_capsule(&job);

  job.by_device[WRONG] = 8;
  write_capsule(&job);
  assert_int_equal(replay(job.path, "", text, sizeof text), 1);
  check_says(text, "equals: none\n");
  remove_capsule(&job);
}

static void damaged_capsules_are_told_clearly(void **state) {
  (void)state;
  struct job job;
  char text[4096];
  run_job(&job);
  write_capsule(&job);
  assert_int_equal(truncate(job.path, 1000), 0);
  assert_int_equal(replay(job.path, "", text, sizeof text), 2);
  check_says(text, job.path);
  assert_int_equal(truncate(job.path, 7), 0);
  assert_int_equal(replay(job.path, "", text, sizeof text), 2);
  check_says(text, "it is no capsule");
  remove_capsule(&job);
  assert_int_equal(replay(job.path, "", text, sizeof text), 2);
  check_says(text, "No such file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_server_writes_can_be_read),
      cmocka_unit_test(replay_finds_the_device_guilty),
      cmocka_unit_test(replay_tells_when_the_record_of_the_cpu_is_wrong),
      cmocka_unit_test(damaged_capsules_are_told_clearly),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
