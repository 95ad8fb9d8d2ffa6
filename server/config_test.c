#include "server/config.h"

#include "kernels/parallel.h"

#include "proto/wire/execute_envelope.h"
#include "server/rpc/limits.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ARGUMENTS_MAX 40

// Parses words that are parted by single spaces.
static bool parse(const char *line, struct config *config, struct status *status) {
  static char words[4096]; // the configuration points into it
  char *arguments[ARGUMENTS_MAX] = {(char *)"aclnn-server"};
  int count = 1;
  snprintf(words, sizeof words, "%s", line);
  for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
    assert_true(count < ARGUMENTS_MAX);
    arguments[count++] = word;
  }
  return config_parse(count, arguments, config, status);
}

static void defaults_are_as_the_help_says(void **unused) {
  (void)unused;
  struct config config;
  struct status status;
  assert_true(parse("", &config, &status));
  assert_int_equal(config.listen_count, 1);
  assert_string_equal(config.listen[0], "127.0.0.1:50051");
  assert_int_equal(config.npu, CONFIG_NPU_AUTO);
  assert_int_equal(config.ttl_default_ms, 60 * 1000);
  assert_int_equal(config.ttl_max_ms, 3600 * 1000);
  assert_int_equal(config.idle_timeout_ms, 60 * 1000);
  assert_int_equal(config.processors, config_processors_available("", (int64_t)parallel_processors()));
  assert_int_equal(config.threads, config.processors);
  assert_null(config.handle_key_file);
  assert_true(config.memory_limit_bytes > 0);
  assert_true(config.memory_limit_bytes <= config_memory_available("") / 2 + 1);
}

static void values_are_read_in_both_forms(void **unused) {
  (void)unused;
  struct config config;
  struct status status;
  assert_true(
      parse("--listen 127.0.0.1:1 --listen=unix:/a --npu=off --memory-limit 1.5GiB --max-queue 0 "
            "--max-queue-time 250ms --max-executors 7 --default-ttl 5m --max-ttl 2h --idle-timeout 0.5s "
            "--threads 3 --max-connections 9 --far-round-trip 0ms --handle-key-file /k --drain-grace 0ms "
            "--drain-time 1s",
            &config, &status));
  assert_int_equal(config.listen_count, 2);
  assert_string_equal(config.listen[1], "unix:/a");
  assert_int_equal(config.npu, CONFIG_NPU_OFF);
  assert_int_equal(config.memory_limit_bytes, INT64_C(3) << 29);
  assert_int_equal(config.queue_max, 0);
  assert_int_equal(config.queue_time_ms, 250);
  assert_int_equal(config.executors_max, 7);
  assert_int_equal(config.ttl_default_ms, 300000);
  assert_int_equal(config.ttl_max_ms, 7200000);
  assert_int_equal(config.idle_timeout_ms, 500);
  assert_int_equal(config.threads, 3);
  assert_int_equal(config.connections_max, 9);
  assert_int_equal(config.far_round_trip_ms, 0);
  assert_string_equal(config.handle_key_file, "/k");
  assert_int_equal(config.drain_grace_ms, 0);
  assert_int_equal(config.drain_time_ms, 1000);
}

static void flags_of_npus_are_read(void **unused) {
  (void)unused;
  struct config config;
  struct status status;
  assert_true(parse("", &config, &status));
  assert_int_equal(config.npu_deterministic, 0);
  assert_true(config.npu_affinity);
  assert_int_equal(config.npu_heartbeat_ms, 5000);
  assert_int_equal(config.npu_job_ms, 60000);
  assert_int_equal(config.npu_queue_max, 64);
  assert_true(config.verify_fraction == 0);
  assert_null(config.npu_worker);
  assert_null(config.npu_library);
  assert_null(config.capsule_directory);
  assert_true(
      parse("--npu emulated:3 --npu-worker /w --npu-library /l --npu-deterministic 3 --npu-affinity off "
            "--npu-heartbeat-timeout 200ms --npu-job-timeout 2m --npu-queue 5 --verify 1e-2 --capsule-dir /c",
            &config, &status));
  assert_int_equal(config.npu, CONFIG_NPU_EMULATED);
  assert_int_equal(config.npu_emulated, 3);
  assert_string_equal(config.npu_worker, "/w");
  assert_string_equal(config.npu_library, "/l");
  assert_int_equal(config.npu_deterministic, 3);
  assert_false(config.npu_affinity);
  assert_int_equal(config.npu_heartbeat_ms, 200);
  assert_int_equal(config.npu_job_ms, 120000);
  assert_int_equal(config.npu_queue_max, 5);
  assert_true(config.verify_fraction == 0.01);
  assert_string_equal(config.capsule_directory, "/c");
  assert_true(parse("--npu emulated --verify=1", &config, &status));
  assert_int_equal(config.npu_emulated, 1);
  assert_true(config.verify_fraction == 1);
}

static void wrong_arguments_are_refused_and_named(void **unused) {
  (void)unused;
  static const struct {
    const char *line, *says;
  } cases[] = {
      {"--nothing", "--nothing"},
      {"serve", "serve"},
      {"--listen", "needs a value"},
      {"--help=yes", "takes no value"},
      {"--threads 1 --threads 2", "twice"},
      {"--threads -1", "--threads"},
      {"--threads 1x", "isn't a number"},
      {"--threads 99999", "out of range"},
      {"--threads 99999999999999999999", "out of range"},
      {"--memory-limit 4GB", "4GB"},
      {"--memory-limit GiB", "GiB"},
      {"--memory-limit 1.2.3GiB", "1.2.3GiB"},
      {"--memory-limit -4GiB", "-4GiB"},
      {"--memory-limit 0", "out of range"},
      {"--memory-limit 99999999999GiB", "out of range"},
      {"--memory-limit 0x10000000", "0x10000000"},
      {"--memory-limit nan", "nan"},
      {"--idle-timeout 5", "a time such as"},
      {"--idle-timeout 0s", "out of range"},
      {"--idle-timeout 99ms", "allowed are 100ms to"},
      {"--idle-timeout 1d", "1d"},
      {"--npu maybe", "auto, off or emulated[:N]"},
      {"--npu emulated:0", "allowed are 1 to 64"},
      {"--npu emulated:65", "allowed are 1 to 64"},
      {"--npu emulated:", "isn't a number"},
      {"--npu emulated:x", "isn't a number"},
      {"--npu emulatedly", "auto, off or emulated[:N]"},
      {"--npu-affinity on", "auto or off"},
      {"--npu-deterministic 65", "0 to 64"},
      {"--npu emulated --npu-deterministic 2", "there are 1 emulated NPUs"},
      {"--npu off --npu-deterministic 1", "with --npu off there are no NPUs"},
      {"--npu-heartbeat-timeout 0s", "out of range"},
      {"--npu-job-timeout 1", "a time such as"},
      {"--npu-queue 0", "out of range"},
      {"--verify 1.01", "allowed are 0 to 1"},
      {"--verify -0.1", "allowed are 0 to 1"},
      {"--verify nan", "a number such as"},
      {"--verify inf", "a number such as"},
      {"--verify 0.1x", "a number such as"},
      {"--verify 1%", "a number such as"},
      {"--capsule-dir", "needs a value"},
      {"--default-ttl 2h --max-ttl 1h", "longer than"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    struct config config;
    struct status status;
    assert_false(parse(cases[i].line, &config, &status));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
    assert_non_null(strstr(status.message, cases[i].says));
  }
}

static void sizes_know_every_unit(void **unused) {
  (void)unused;
  struct config config;
  struct status status;
  static const struct {
    const char *line;
    int64_t bytes;
  } cases[] = {{"--memory-limit 2097152", INT64_C(1) << 21}, {"--memory-limit 2097152B", INT64_C(1) << 21},
               {"--memory-limit 2048KiB", INT64_C(1) << 21}, {"--memory-limit 2MiB", INT64_C(1) << 21},
               {"--memory-limit 0.25GiB", INT64_C(1) << 28}, {"--memory-limit 1.5TiB", INT64_C(3) << 39}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    assert_true(parse(cases[i].line, &config, &status));
    assert_int_equal(config.memory_limit_bytes, cases[i].bytes);
  }
}

static void help_tells_what_grpc_takes_and_which_paths_there_are(void **unused) {
  (void)unused;
  char *help = NULL;
  size_t help_bytes = 0;
  char expected[128];
  FILE *stream = open_memstream(&help, &help_bytes);
  assert_non_null(stream);
  config_print_help(stream);
  fclose(stream);
  snprintf(expected, sizeof expected, "gRPC may take %zu MiB beside it, and %zu MiB for each of --max-queue",
           SERVER_QUOTA_BYTES >> 20, (size_t)WIRE_MESSAGE_BYTES_MAX >> 20);
  assert_non_null(strstr(help, expected));
  for (enum cpu_path path = CPU_PATH_SCALAR; path < CPU_PATH_COUNT; ++path) {
    assert_int_equal(strstr(help, cpu_path_name(path)) != NULL, cpu_path_is_available(path));
  }
  free(help);
}

static void short_max_ttl_cuts_the_default(void **unused) {
  (void)unused;
  struct config config;
  struct status status;
  assert_true(parse("--max-ttl 2s", &config, &status));
  assert_int_equal(config.ttl_default_ms, 2000);
}

static void more_listeners_than_allowed_are_refused(void **unused) {
  (void)unused;
  char line[1024] = "";
  struct config config;
  struct status status;
  for (int i = 0; i < CONFIG_LISTEN_MAX; ++i) {
    strcat(line, "--listen=a:1 ");
  }
  assert_true(parse(line, &config, &status));
  strcat(line, "--listen=a:1");
  assert_false(parse(line, &config, &status));
}

// ---- Files

struct folder {
  char path[64];
};

static int make_folder(void **state) {
  struct folder *folder = calloc(1, sizeof *folder);
  assert_non_null(folder);
  snprintf(folder->path, sizeof folder->path, "/tmp/config-test-XXXXXX");
  assert_non_null(mkdtemp(folder->path));
  *state = folder;
  return 0;
}

static void write_file(const struct folder *folder, const char *name, const char *content, size_t size) {
  char path[256];
  for (const char *slash = strchr(name + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    snprintf(path, sizeof path, "%s/%.*s", folder->path, (int)(slash - name), name);
    (void)mkdir(path, 0700);
  }
  snprintf(path, sizeof path, "%s/%s", folder->path, name);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  assert_int_equal(write(file, content, size), (ssize_t)size);
  close(file);
}

static int remove_folder(void **state) {
  struct folder *folder = *state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder->path);
  int result = system(command);
  free(folder);
  return result;
}

static bool read_key(const struct folder *folder, uint8_t key[SESSION_KEY_BYTES], struct status *status) {
  char path[256];
  snprintf(path, sizeof path, "%s/key", folder->path);
  return config_read_key(path, key, status);
}

static void keys_are_read_raw_and_in_hex(void **state) {
  struct folder *folder = *state;
  uint8_t key[SESSION_KEY_BYTES];
  uint8_t expected[SESSION_KEY_BYTES];
  char hex[2 * SESSION_KEY_BYTES + 2];
  struct status status;
  for (size_t i = 0; i < SESSION_KEY_BYTES; ++i) {
    expected[i] = (uint8_t)(i * 37 + 10);
    snprintf(hex + 2 * i, 3, i % 2 == 0 ? "%02x" : "%02X", expected[i]);
  }
  write_file(folder, "key", (const char *)expected, sizeof expected);
  assert_true(read_key(folder, key, &status));
  assert_memory_equal(key, expected, sizeof key);
  write_file(folder, "key", hex, 2 * SESSION_KEY_BYTES);
  memset(key, 0, sizeof key);
  assert_true(read_key(folder, key, &status));
  assert_memory_equal(key, expected, sizeof key);
  hex[2 * SESSION_KEY_BYTES] = '\n';
  write_file(folder, "key", hex, 2 * SESSION_KEY_BYTES + 1);
  assert_true(read_key(folder, key, &status));
}

static void wrong_keys_are_refused(void **state) {
  struct folder *folder = *state;
  static const char *const contents[] = {"", "short",
                                         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg",
                                         "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"};
  uint8_t key[SESSION_KEY_BYTES];
  struct status status;
  assert_false(read_key(folder, key, &status)); // no file
  for (size_t i = 0; i < sizeof contents / sizeof contents[0]; ++i) {
    write_file(folder, "key", contents[i], strlen(contents[i]));
    assert_false(read_key(folder, key, &status));
    assert_int_equal(status.reason, REASON_CONFIGURATION);
  }
  assert_false(config_read_key("/tmp", key, &status));
  char pipe_path[256];
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder->path);
  assert_int_equal(mkfifo(pipe_path, 0600), 0);
  assert_false(config_read_key(pipe_path, key, &status)); // not waited for
}

static void key_that_others_can_read_is_refused(void **state) {
  struct folder *folder = *state;
  uint8_t key[SESSION_KEY_BYTES] = {0};
  char path[256];
  struct status status;
  write_file(folder, "key", (const char *)key, sizeof key);
  snprintf(path, sizeof path, "%s/key", folder->path);
  assert_int_equal(chmod(path, 0640), 0);
  assert_false(read_key(folder, key, &status));
  assert_non_null(strstr(status.message, "chmod 600"));
}

static void write_text(const struct folder *folder, const char *name, const char *text) {
  write_file(folder, name, text, strlen(text));
}

static void memory_is_the_least_of_machine_and_groups(void **state) {
  struct folder *folder = *state;
  assert_int_equal(config_memory_available(folder->path), INT64_C(2) << 30); // nothing is known
  write_text(folder, "proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n");
  assert_int_equal(config_memory_available(folder->path), 1024000);
  write_text(folder, "proc/self/cgroup", "0::/a/b\n");
  write_text(folder, "sys/fs/cgroup/a/b/memory.max", "max\n");
  assert_int_equal(config_memory_available(folder->path), 1024000);
  write_text(folder, "sys/fs/cgroup/a/memory.max", "500000\n");
  assert_int_equal(config_memory_available(folder->path), 500000);
  write_text(folder, "sys/fs/cgroup/a/b/memory.max", "400000\n");
  assert_int_equal(config_memory_available(folder->path), 400000);
  write_text(folder, "sys/fs/cgroup/memory.max", "300000\n");
  assert_int_equal(config_memory_available(folder->path), 300000);
  write_text(folder, "proc/self/cgroup", "3:cpu:/c\n2:memory:/c\n");
  write_text(folder, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "200000\n");
  assert_int_equal(config_memory_available(folder->path), 200000);
}

static void processors_are_the_least_of_those_given_and_what_groups_give_time_for(void **state) {
  struct folder *folder = *state;
  assert_int_equal(config_processors_available(folder->path, 7), 7); // nothing is known
  write_text(folder, "proc/self/cgroup", "0::/a/b\n");
  write_text(folder, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 7);
  write_text(folder, "sys/fs/cgroup/a/cpu.max", "500000 100000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 5);
  assert_int_equal(config_processors_available(folder->path, 4), 4);
  write_text(folder, "sys/fs/cgroup/a/b/cpu.max", "200001 100000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 3);
  write_text(folder, "sys/fs/cgroup/a/b/cpu.max", "5000 100000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 1);
  write_text(folder, "sys/fs/cgroup/a/b/cpu.max", "200000 0\n");
  assert_int_equal(config_processors_available(folder->path, 7), 5);
  write_text(folder, "proc/self/cgroup", "4:cpuset:/d\n3:cpu,cpuacct:/c\n2:memory:/d\n");
  assert_int_equal(config_processors_available(folder->path, 7), 7);
  write_text(folder, "sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "50000\n");
  write_text(folder, "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
  write_text(folder, "sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "50000\n");
  write_text(folder, "sys/fs/cgroup/cpu/d/cpu.cfs_quota_us", "50000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 7);
  write_text(folder, "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "100000\n");
  assert_int_equal(config_processors_available(folder->path, 7), 2);
}

static void code_path_is_chosen_by_name(void **state) {
  (void)state;
  struct config config;
  struct status status;
  assert_true(parse("", &config, &status));
  struct cpu detected;
  cpu_detect(&detected);
  assert_int_equal(config.cpu.path, detected.path);
  assert_true(parse("--cpu-path scalar", &config, &status));
  assert_int_equal(config.cpu.path, CPU_PATH_SCALAR);
  assert_int_equal(config.cpu.l3_bytes, detected.l3_bytes);
  assert_false(parse("--cpu-path mmx", &config, &status));
  assert_non_null(strstr(status.message, "--cpu-path"));
  assert_non_null(strstr(status.message, "scalar"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_as_the_help_says),
      cmocka_unit_test(values_are_read_in_both_forms),
      cmocka_unit_test(flags_of_npus_are_read),
      cmocka_unit_test(code_path_is_chosen_by_name),
      cmocka_unit_test(wrong_arguments_are_refused_and_named),
      cmocka_unit_test(sizes_know_every_unit),
      cmocka_unit_test(help_tells_what_grpc_takes_and_which_paths_there_are),
      cmocka_unit_test(short_max_ttl_cuts_the_default),
      cmocka_unit_test(more_listeners_than_allowed_are_refused),
      cmocka_unit_test_setup_teardown(keys_are_read_raw_and_in_hex, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(wrong_keys_are_refused, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(key_that_others_can_read_is_refused, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(memory_is_the_least_of_machine_and_groups, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(processors_are_the_least_of_those_given_and_what_groups_give_time_for,
                                      make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
