#include "server/dispatch/capsule.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

// A job of an operator with one parameter of each kind, its storages, and a directory.
struct setting {
  char directory[64];
  struct capsule_store *store;
  struct plan plan;
  struct operator_run device_run, cpu_run;
  float input[3], device_output[2], cpu_output[2];
  struct tensor_comparison comparisons[OPERATOR_PARAMETERS_MAX];
  struct backend_device device;
  struct capsule capsule;
};

static const struct operator_parameter parameters[] = {
    {.name = "in", .kind = PARAMETER_KIND_TENSOR},     {.name = "out", .kind = PARAMETER_KIND_TENSOR},
    {.name = "shape", .kind = PARAMETER_KIND_TENSOR},  {.name = "sizes", .kind = PARAMETER_KIND_INT_ARRAY},
    {.name = "count", .kind = PARAMETER_KIND_INTEGER}, {.name = "scale", .kind = PARAMETER_KIND_REAL},
    {.name = "flag", .kind = PARAMETER_KIND_BOOLEAN},  {.name = "mode", .kind = PARAMETER_KIND_TEXT}};
static const struct operator_definition definition = {
    .name = "aclnnEverything", .parameters = parameters, .parameter_count = 8};

static struct argument_value tensor(int64_t elements, int64_t offset) {
  return (struct argument_value){.kind = PARAMETER_KIND_TENSOR,
                                 .tensor = {.data_type = DATA_TYPE_FLOAT,
                                            .format = FORMAT_NCHW,
                                            .rank = 1,
                                            .stride_count = 1,
                                            .shape = {elements},
                                            .strides = {1},
                                            .storage_offset = offset,
                                            .storage_elements = elements + offset}};
}

static void make_plan(struct plan *plan) {
  *plan = (struct plan){
      .definition = &definition, .target = TARGET_NPU, .numerics = NUMERICS_DETERMINISTIC, .tensor_count = 3};
  plan->tensors[0] = (struct plan_tensor){
      .parameter = 1, .direction = DIRECTION_OUTPUT, .transferred = true, .storage_bytes = 8};
  plan->tensors[1] = (struct plan_tensor){
      .parameter = 0, .direction = DIRECTION_INPUT, .transferred = true, .storage_bytes = 12};
  plan->tensors[2] = (struct plan_tensor){
      .parameter = 2, .direction = DIRECTION_INPUT, .transferred = false, .storage_bytes = 1 << 30};
  struct argument_value *values = plan->arguments.values;
  values[0] = tensor(2, 1);
  values[1] = tensor(2, 0);
  values[2] = tensor(1 << 28, 0);
  values[3] = (struct argument_value){.kind = PARAMETER_KIND_INT_ARRAY, .int_array = {2, {7, -5}}};
  values[4] = (struct argument_value){.kind = PARAMETER_KIND_INTEGER, .integer = INT64_MIN};
  values[5] = (struct argument_value){.kind = PARAMETER_KIND_REAL, .real = 0.25};
  values[6] = (struct argument_value){.kind = PARAMETER_KIND_BOOLEAN, .boolean = true};
  values[7] = (struct argument_value){.kind = PARAMETER_KIND_TEXT, .text = "a \"word\""};
}

static void set_up(struct setting *setting) {
  *setting = (struct setting){
      .directory = "/tmp/capsule_test_XXXXXX",
      .input = {1, 2, 3},
      .device_output = {4, INFINITY},
      .cpu_output = {4, 5},
      .device = {.name = "npu0", .detail = "a fake"},
  };
  struct status status;
  assert_non_null(mkdtemp(setting->directory));
  assert_true(capsule_store_create(setting->directory, &setting->store, &status));
  make_plan(&setting->plan);
  setting->device_run.storages[0] = setting->cpu_run.storages[0] = setting->input;
  setting->device_run.storages[1] = setting->device_output;
  setting->cpu_run.storages[1] = setting->cpu_output;
  tensor_compare(plan_tensor_desc(&setting->plan, 0), setting->device_output, setting->cpu_output, false,
                 &setting->comparisons[0]);
  setting->capsule = (struct capsule){.server_version = "1.2.3",
                                      .plan = &setting->plan,
                                      .device_run = &setting->device_run,
                                      .cpu_run = &setting->cpu_run,
                                      .comparisons = setting->comparisons,
                                      .device_number = 4,
                                      .device = &setting->device};
}

// Counts the files and, if so asked, removes them.
static int count_files(const char *directory, bool and_remove) {
  DIR *opened = opendir(directory);
  assert_non_null(opened);
  int count = 0;
  const struct dirent *entry;
  while ((entry = readdir(opened)) != NULL) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    if (entry->d_name[0] != '.') {
      count++;
      assert_true(!and_remove || unlink(path) == 0);
    }
  }
  closedir(opened);
  return count;
}

static void tear_down(struct setting *setting) {
  capsule_store_destroy(setting->store);
  count_files(setting->directory, true);
  assert_int_equal(rmdir(setting->directory), 0);
}

static bool keep(struct setting *setting, char path[CAPSULE_PATH_BYTES_MAX], struct status *status) {
  return capsule_store_keep(setting->store, &setting->capsule, path, status);
}

static const char *text(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  assert_true(cJSON_IsString(value));
  return value->valuestring;
}

static double number(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  assert_true(cJSON_IsNumber(value));
  return value->valuedouble;
}

static void check_arguments(const cJSON *header) {
  const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(header, "arguments");
  assert_int_equal(cJSON_GetArraySize(arguments), 8);
  const cJSON *out = cJSON_GetArrayItem(arguments, 0), *in = cJSON_GetArrayItem(arguments, 1);
  assert_string_equal(text(out, "name"), "out");
  assert_string_equal(text(out, "direction"), "output");
  assert_string_equal(text(in, "name"), "in");
  assert_string_equal(text(in, "kind"), "tensor");
  assert_string_equal(text(in, "direction"), "input");
  assert_string_equal(text(in, "data_type"), "float32");
  assert_string_equal(text(in, "format"), "NCHW");
  assert_true(number(in, "storage_offset") == 1);
  assert_true(number(in, "storage_elements") == 3);
  assert_string_equal(text(cJSON_GetArrayItem(arguments, 3), "kind"), "int_array");
  assert_string_equal(text(cJSON_GetArrayItem(arguments, 4), "value"), "-9223372036854775808");
  assert_true(number(cJSON_GetArrayItem(arguments, 5), "value") == 0.25);
  assert_true(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetArrayItem(arguments, 6), "value")));
  assert_string_equal(text(cJSON_GetArrayItem(arguments, 7), "value"), "a \"word\"");
}

static void check_storages(const cJSON *header) {
  static const struct {
    const char *tensor, *role;
    int bytes;
  } expected[] = {{"in", "input", 12}, {"out", "device", 8}, {"out", "cpu", 8}};
  const cJSON *storages = cJSON_GetObjectItemCaseSensitive(header, "storages");
  assert_int_equal(cJSON_GetArraySize(storages), 3);
  for (int i = 0; i < 3; i++) {
    const cJSON *storage = cJSON_GetArrayItem(storages, i);
    assert_string_equal(text(storage, "tensor"), expected[i].tensor);
    assert_string_equal(text(storage, "role"), expected[i].role);
    assert_true(number(storage, "bytes") == expected[i].bytes);
  }
}

static void capsule_holds_all_that_is_needed(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX];
  uint8_t bytes[8192];
  set_up(&setting);
  assert_true(keep(&setting, path, &status));
  struct stat stat_of_file;
  assert_int_equal(stat(path, &stat_of_file), 0);
  assert_int_equal(stat_of_file.st_mode & 0777, 0600); // inputs are somebody's data
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_memory_equal(bytes, "ACLNNCAP\1\0\0\0", 12);
  size_t header_bytes = bytes[12] | (size_t)bytes[13] << 8;
  assert_int_equal(size, 16 + header_bytes + 12 + 8 + 8);
  assert_memory_equal(bytes + size - 28, setting.input, 12);
  assert_memory_equal(bytes + size - 16, setting.device_output, 8);
  assert_memory_equal(bytes + size - 8, setting.cpu_output, 8);

  cJSON *header = cJSON_ParseWithLength((const char *)bytes + 16, header_bytes);
  assert_non_null(header);
  assert_string_equal(text(header, "operator"), "aclnnEverything");
  assert_string_equal(text(header, "target"), "NPU");
  assert_string_equal(text(header, "numerics"), "DETERMINISTIC");
  assert_string_equal(text(header, "compared"), "tolerance");
  assert_true(number(header, "created_unix_ms") > 1e12);
  assert_string_equal(text(cJSON_GetObjectItem(header, "versions"), "server"), "1.2.3");
  const cJSON *device = cJSON_GetObjectItem(header, "device");
  assert_true(number(device, "number") == 4);
  assert_string_equal(text(device, "name"), "npu0");
  assert_string_equal(text(device, "detail"), "a fake");
  const cJSON *difference = cJSON_GetArrayItem(cJSON_GetObjectItem(header, "differences"), 0);
  assert_string_equal(text(difference, "tensor"), "out");
  assert_true(number(difference, "elements") == 2 && number(difference, "differing") == 1);
  assert_true(number(difference, "first") == 1 && number(difference, "worst") == 1);
  assert_string_equal(text(difference, "worst_relative_error"), "inf");
  check_arguments(header);
  check_storages(header);
  cJSON_Delete(header);
  tear_down(&setting);
}

static void only_so_many_are_kept(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX], first[CAPSULE_PATH_BYTES_MAX];
  set_up(&setting);
  assert_true(keep(&setting, first, &status));
  for (int i = 1; i < CAPSULES_MAX; i++) {
    assert_true(keep(&setting, path, &status));
  }
  assert_false(keep(&setting, path, &status));
  assert_non_null(strstr(status.message, "16 capsules"));
  assert_int_equal(count_files(setting.directory, false), CAPSULES_MAX);
  assert_int_equal(unlink(first), 0); // makes room
  assert_true(keep(&setting, path, &status));
  assert_false(keep(&setting, path, &status));
  tear_down(&setting);
}

static void remains_of_a_killed_server_count_too(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX];
  set_up(&setting);
  for (int i = 0; i < CAPSULES_MAX; i++) {
    snprintf(path, sizeof path, "%s/aclnn-1-2-%d.capsule.partial", setting.directory, i);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
  }
  assert_false(keep(&setting, path, &status));
  tear_down(&setting);
}

static void directory_is_made_when_it_is_needed(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX];
  set_up(&setting);
  assert_int_equal(rmdir(setting.directory), 0);
  assert_true(keep(&setting, path, &status));
  assert_int_equal(count_files(setting.directory, false), 1);
  tear_down(&setting);
}

static void what_cannot_be_kept_leaves_nothing_behind(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX];
  set_up(&setting);
  struct plan_tensor *output = &setting.plan.tensors[0];
  output->storage_bytes = (int64_t)CAPSULE_BYTES_MAX / 2;
  assert_false(keep(&setting, path, &status));
  assert_non_null(strstr(status.message, "at most 1073741824"));
  output->storage_bytes = 8;
  assert_int_equal(count_files(setting.directory, false), 0);
  capsule_store_destroy(setting.store);

  assert_true(capsule_store_create("/dev/null/nowhere", &setting.store, &status));
  assert_false(keep(&setting, path, &status));
  assert_non_null(strstr(status.message, "/dev/null/nowhere"));
  capsule_store_destroy(setting.store);

  assert_true(capsule_store_create(NULL, &setting.store, &status));
  assert_false(keep(&setting, path, &status));
  tear_down(&setting);
}

static void capsule_that_cannot_be_written_whole_is_removed(void **state) {
  (void)state;
  struct setting setting;
  struct status status;
  char path[CAPSULE_PATH_BYTES_MAX];
  set_up(&setting);
  struct rlimit before, small = {.rlim_cur = 100};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool kept = keep(&setting, path, &status);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  assert_false(kept);
  assert_non_null(strstr(status.message, "File too large"));
  assert_int_equal(count_files(setting.directory, false), 0);
  tear_down(&setting);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(capsule_holds_all_that_is_needed),
      cmocka_unit_test(only_so_many_are_kept),
      cmocka_unit_test(remains_of_a_killed_server_count_too),
      cmocka_unit_test(directory_is_made_when_it_is_needed),
      cmocka_unit_test(what_cannot_be_kept_leaves_nothing_behind),
      cmocka_unit_test(capsule_that_cannot_be_written_whole_is_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
