#include "server/config.h"

#include "kernels/parallel.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

// Smaller budgets hold no job worth a server.
#define MEMORY_LIMIT_BYTES_MIN MIB
// Below this, a pause of the network or of a client's scheduler would end healthy jobs.
#define IDLE_TIMEOUT_MS_MIN 100
#define DURATION_MS_MAX (INT64_C(30) * 24 * 3600 * 1000)

#define NPUS_MAX 64

enum flag_kind {
  FLAG_SWITCH,
  FLAG_TEXT,
  FLAG_LISTEN,
  FLAG_NPU,
  FLAG_AUTO_OFF,
  FLAG_CPU_PATH,
  FLAG_BYTES,
  FLAG_COUNT,
  FLAG_DURATION,
  FLAG_FRACTION
};

struct flag {
  const char *name;
  enum flag_kind kind;
  size_t offset; // of the value in struct config
  int64_t least, most;
  const char *value_name;
  const char *standard; // the default, as it could be typed; NULL: none, or computed
  const char *help;
};

#define AT(member) offsetof(struct config, member)

static const struct flag flags[] = {
    {"--listen", FLAG_LISTEN, AT(listen), 0, 0, "ADDRESS", "127.0.0.1:50051",
     "host:port, [v6]:port or unix:/path; may be given several times; port 0: any free one"},
    {"--npu", FLAG_NPU, AT(npu), 1, NPUS_MAX, "auto|off|emulated[:N]", "auto",
     "the machine's NPUs, none, or N emulated ones (1)"},
    {"--npu-worker", FLAG_TEXT, AT(npu_worker), 0, 0, "FILE", NULL,
     "the program that works with an NPU (default: the aclnn-npu-worker beside this server)"},
    {"--npu-library", FLAG_TEXT, AT(npu_library), 0, 0, "FILE", NULL,
     "the library with CANN's symbols (default: CANN's own, or the emulator)"},
    {"--npu-deterministic", FLAG_COUNT, AT(npu_deterministic), 0, NPUS_MAX, "N", "0",
     "NPUs that run in CANN's deterministic mode"},
    {"--npu-affinity", FLAG_AUTO_OFF, AT(npu_affinity), 0, 0, "auto|off", "auto",
     "whether workers keep to the processors near their NPU"},
    {"--npu-heartbeat-timeout", FLAG_DURATION, AT(npu_heartbeat_ms), 100, DURATION_MS_MAX, "TIME", "5s",
     "a worker that doesn't answer for so long is restarted"},
    {"--npu-job-timeout", FLAG_DURATION, AT(npu_job_ms), 10, DURATION_MS_MAX, "TIME", "60s",
     "a job that runs on an NPU for longer is lost with its worker"},
    {"--npu-queue", FLAG_COUNT, AT(npu_queue_max), 1, 100000, "N", "64", "jobs that may wait for each NPU"},
    {"--verify", FLAG_FRACTION, AT(verify_fraction), 0, 1, "FRACTION", "0",
     "the share of NPU jobs that the CPU does again to compare, 0 to 1"},
    {"--capsule-dir", FLAG_TEXT, AT(capsule_directory), 0, 0, "DIR", NULL,
     "where jobs whose results differed are kept; the folder is made if it isn't there (default: nowhere)"},
    {"--memory-limit", FLAG_BYTES, AT(memory_limit_bytes), MEMORY_LIMIT_BYTES_MIN, INT64_MAX / 16, "SIZE",
     NULL,
     "host memory for the tensors of all jobs, such as 4GiB; gRPC may take 512 MiB beside it, and 4 MiB for "
     "each of --max-queue (default: half of what the process may use)"},
    {"--max-queue", FLAG_COUNT, AT(queue_max), 0, 1000000, "N", "256",
     "jobs that may wait for memory; gRPC may hold 4 MiB for each beside --memory-limit"},
    {"--max-queue-time", FLAG_DURATION, AT(queue_time_ms), 1, DURATION_MS_MAX, "TIME", "30s",
     "how long a job may wait for memory"},
    {"--max-executors", FLAG_COUNT, AT(executors_max), 1, 10000000, "N", "65536",
     "plans that may wait for their execution"},
    {"--default-ttl", FLAG_DURATION, AT(ttl_default_ms), 1, DURATION_MS_MAX, "TIME", "60s",
     "how long an executor lives when its request doesn't say"},
    {"--max-ttl", FLAG_DURATION, AT(ttl_max_ms), 1, DURATION_MS_MAX, "TIME", "1h",
     "how long an executor may live"},
    {"--idle-timeout", FLAG_DURATION, AT(idle_timeout_ms), IDLE_TIMEOUT_MS_MIN, DURATION_MS_MAX, "TIME",
     "60s", "how long a started job waits for its client"},
    {"--threads", FLAG_COUNT, AT(threads), 0, PARALLEL_THREADS_MAX, "N", "0",
     "threads that compute; 0: one for each processor that it may use"},
    {"--cpu-path", FLAG_CPU_PATH, AT(cpu), 0, 0, "NAME", "auto",
     "code path of the CPU kernels; auto is the widest, results are the same"},
    {"--max-connections", FLAG_COUNT, AT(connections_max), 1, 100000, "N", "1000",
     "connections at a time; further ones are closed at once"},
    {"--far-round-trip", FLAG_DURATION, AT(far_round_trip_ms), 0, DURATION_MS_MAX, "TIME", "5ms",
     "a connection with such a round trip and more has uploads limited by gRPC's estimate of the way, at the "
     "price of some MiB for each that waits; 0ms: all (a proxy hides the way behind it)"},
    {"--handle-key-file", FLAG_TEXT, AT(handle_key_file), 0, 0, "FILE", NULL,
     "32 bytes or 64 hex digits that seal executor handles; share it among replicas (default: random)"},
    {"--drain-grace", FLAG_DURATION, AT(drain_grace_ms), 0, DURATION_MS_MAX, "TIME", "1s",
     "at the end: how long new jobs are refused with advice before connections are closed"},
    {"--drain-time", FLAG_DURATION, AT(drain_time_ms), 0, DURATION_MS_MAX, "TIME", "30s",
     "at the end: how long running jobs may take"},
    {"--help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "print this and exit"},
    {"--version", FLAG_SWITCH, AT(version), 0, 0, NULL, NULL, "print the version and exit"},
};

enum { FLAG_TOTAL = sizeof flags / sizeof flags[0] };

struct unit {
  const char *name;
  int64_t factor;
};

static const struct unit byte_units[] = {{"", 1},      {"B", 1},     {"KiB", KIB},
                                         {"MiB", MIB}, {"GiB", GIB}, {"TiB", TIB}};
static const struct unit time_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

static bool fail_value(const struct flag *flag, const char *text, const char *expected,
                       struct status *status) {
  return status_fail(status, REASON_CONFIGURATION, NULL, "%s: \"%s\" isn't %s", flag->name, text, expected);
}

// A decimal number with a unit, within the flag's range.
static bool parse_quantity(const struct flag *flag, const char *text, const struct unit *units,
                           size_t unit_count, const char *expected, int64_t *value, struct status *status) {
  size_t digits = strspn(text, "0123456789.");
  char *end = NULL;
  double number = strtod(text, &end);
  if (digits == 0 || end != text + digits) {
    return fail_value(flag, text, expected, status);
  }
  for (size_t i = 0; i < unit_count; ++i) {
    if (strcmp(end, units[i].name) == 0) {
      double scaled = number * (double)units[i].factor;
      if (!(scaled >= (double)flag->least && scaled <= (double)flag->most)) {
        return status_fail(status, REASON_CONFIGURATION, NULL,
                           "%s: \"%s\" is out of range, allowed are %" PRId64 "%s to %" PRId64 "%s",
                           flag->name, text, flag->least, units[0].name, flag->most, units[0].name);
      }
      *value = (int64_t)llround(scaled);
      return true;
    }
  }
  return fail_value(flag, text, expected, status);
}

static bool parse_count(const struct flag *flag, const char *text, int64_t *value, struct status *status) {
  size_t digits = strspn(text, "0123456789");
  errno = 0;
  long long number = strtoll(text, NULL, 10);
  if (digits == 0 || text[digits] != '\0') {
    return fail_value(flag, text, "a number", status);
  }
  if (errno != 0 || number < flag->least || number > flag->most) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "%s: \"%s\" is out of range, allowed are %" PRId64 " to %" PRId64, flag->name, text,
                       flag->least, flag->most);
  }
  *value = number;
  return true;
}

static bool parse_fraction(const struct flag *flag, const char *text, double *value, struct status *status) {
  char *end = NULL;
  double number = strtod(text, &end);
  if (strspn(text, "0123456789.eE+-") == 0 || end == text || *end != '\0') {
    return fail_value(flag, text, "a number such as 0.01", status);
  }
  if (!(number >= (double)flag->least && number <= (double)flag->most)) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "%s: \"%s\" is out of range, allowed are %" PRId64 " to %" PRId64, flag->name, text,
                       flag->least, flag->most);
  }
  *value = number;
  return true;
}

static bool parse_auto_off(const struct flag *flag, const char *text, bool *value, struct status *status) {
  *value = strcmp(text, "auto") == 0;
  return *value || strcmp(text, "off") == 0 || fail_value(flag, text, "auto or off", status);
}

static bool parse_npu(const struct flag *flag, const char *text, struct config *config,
                      struct status *status) {
  static const char emulated[] = "emulated";
  size_t length = strlen(emulated);
  if (strcmp(text, "auto") == 0) {
    config->npu = CONFIG_NPU_AUTO;
  } else if (strcmp(text, "off") == 0) {
    config->npu = CONFIG_NPU_OFF;
  } else if (strcmp(text, emulated) == 0) {
    config->npu = CONFIG_NPU_EMULATED;
    config->npu_emulated = 1;
  } else if (strncmp(text, emulated, length) == 0 && text[length] == ':') {
    config->npu = CONFIG_NPU_EMULATED;
    return parse_count(flag, text + length + 1, &config->npu_emulated, status);
  } else {
    return fail_value(flag, text, "auto, off or emulated[:N]", status);
  }
  return true;
}

static bool parse_cpu_path(const struct flag *flag, const char *text, struct cpu *value,
                           struct status *status) {
  cpu_detect(value);
  struct status why;
  return strcmp(text, "auto") == 0 || cpu_path_parse(text, &value->path, &why) ||
         status_fail(status, REASON_CONFIGURATION, NULL, "%s: %s", flag->name, why.message);
}

static bool set_value(struct config *config, const struct flag *flag, const char *text,
                      struct status *status) {
  void *member = (char *)config + flag->offset;
  switch (flag->kind) {
  case FLAG_SWITCH:
    *(bool *)member = true;
    return true;
  case FLAG_TEXT:
    *(const char **)member = text;
    return true;
  case FLAG_LISTEN:
    if (config->listen_count == CONFIG_LISTEN_MAX) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "%s may be given %d times", flag->name,
                         CONFIG_LISTEN_MAX);
    }
    config->listen[config->listen_count++] = text;
    return true;
  case FLAG_NPU:
    return parse_npu(flag, text, config, status);
  case FLAG_AUTO_OFF:
    return parse_auto_off(flag, text, member, status);
  case FLAG_FRACTION:
    return parse_fraction(flag, text, member, status);
  case FLAG_CPU_PATH:
    return parse_cpu_path(flag, text, member, status);
  case FLAG_BYTES:
    return parse_quantity(flag, text, byte_units, sizeof byte_units / sizeof byte_units[0],
                          "a size such as 512MiB or 4GiB", member, status);
  case FLAG_COUNT:
    return parse_count(flag, text, member, status);
  case FLAG_DURATION:
    return parse_quantity(flag, text, time_units, sizeof time_units / sizeof time_units[0],
                          "a time such as 500ms, 60s, 5m or 1h", member, status);
  }
  return false;
}

static const struct flag *find_flag(const char *argument, size_t name_bytes) {
  for (size_t i = 0; i < FLAG_TOTAL; ++i) {
    if (strlen(flags[i].name) == name_bytes && strncmp(flags[i].name, argument, name_bytes) == 0) {
      return &flags[i];
    }
  }
  return NULL;
}

// "--name value" or "--name=value"; *position stands at the flag and goes to its last word.
static bool parse_flag(int argument_count, char **arguments, int *position, struct config *config,
                       const struct flag **found, struct status *status) {
  const char *argument = arguments[*position];
  const char *equals = strchr(argument, '=');
  size_t name_bytes = equals == NULL ? strlen(argument) : (size_t)(equals - argument);
  const struct flag *flag = find_flag(argument, name_bytes);
  if (flag == NULL) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "unknown argument \"%s\" (--help tells which there are)", argument);
  }
  *found = flag;
  const char *text = equals == NULL ? NULL : equals + 1;
  if (flag->kind == FLAG_SWITCH) {
    return text == NULL ? set_value(config, flag, NULL, status)
                        : status_fail(status, REASON_CONFIGURATION, NULL, "%s takes no value", flag->name);
  }
  if (text == NULL) {
    if (*position + 1 >= argument_count) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "%s needs a value: %s", flag->name,
                         flag->value_name);
    }
    text = arguments[++*position];
  }
  return set_value(config, flag, text, status);
}

static bool set_defaults(struct config *config, const bool *given, struct status *status) {
  for (size_t i = 0; i < FLAG_TOTAL; ++i) {
    if (!given[i] && flags[i].standard != NULL && !set_value(config, &flags[i], flags[i].standard, status)) {
      return false;
    }
  }
  bool default_ttl_given = given[find_flag("--default-ttl", strlen("--default-ttl")) - flags];
  if (!default_ttl_given && config->ttl_default_ms > config->ttl_max_ms) {
    config->ttl_default_ms = config->ttl_max_ms;
  }
  config->processors = config_processors_available("", (int64_t)parallel_processors());
  if (config->threads == 0) {
    config->threads = config->processors < PARALLEL_THREADS_MAX ? config->processors : PARALLEL_THREADS_MAX;
  }
  if (config->memory_limit_bytes == 0) {
    int64_t half = config_memory_available("") / 2;
    config->memory_limit_bytes = half < MEMORY_LIMIT_BYTES_MIN ? MEMORY_LIMIT_BYTES_MIN : half;
  }
  return true;
}

static bool check_together(const struct config *config, struct status *status) {
  if (config->ttl_default_ms > config->ttl_max_ms) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "--default-ttl (%" PRId64 " ms) is longer than --max-ttl (%" PRId64 " ms)",
                       config->ttl_default_ms, config->ttl_max_ms);
  }
  if (config->npu == CONFIG_NPU_OFF && config->npu_deterministic > 0) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "--npu-deterministic is %" PRId64 ", with --npu off there are no NPUs",
                       config->npu_deterministic);
  }
  if (config->npu == CONFIG_NPU_EMULATED && config->npu_deterministic > config->npu_emulated) {
    return status_fail(status, REASON_CONFIGURATION, NULL,
                       "--npu-deterministic is %" PRId64 ", there are %" PRId64 " emulated NPUs",
                       config->npu_deterministic, config->npu_emulated);
  }
  return true;
}

bool config_parse(int argument_count, char **arguments, struct config *config, struct status *status) {
  bool given[FLAG_TOTAL] = {false};
  *config = (struct config){0};
  for (int i = 1; i < argument_count; ++i) {
    const struct flag *found = NULL;
    if (!parse_flag(argument_count, arguments, &i, config, &found, status)) {
      return false;
    }
    size_t position = (size_t)(found - flags);
    if (given[position] && found->kind != FLAG_LISTEN && found->kind != FLAG_SWITCH) {
      return status_fail(status, REASON_CONFIGURATION, NULL, "%s is given twice", found->name);
    }
    given[position] = true;
  }
  return set_defaults(config, given, status) && check_together(config, status);
}

// Those that this processor can run.
static void print_cpu_paths(FILE *stream) {
  const char *before = "; here: ";
  for (enum cpu_path path = CPU_PATH_SCALAR; path < CPU_PATH_COUNT; ++path) {
    if (cpu_path_is_available(path)) {
      fprintf(stream, "%s%s", before, cpu_path_name(path));
      before = ", ";
    }
  }
}

void config_print_help(FILE *stream) {
  fprintf(stream, "usage: aclnn-server [flags]\n\nServes CANN's two-phase operator interface over gRPC.\n\n");
  for (size_t i = 0; i < FLAG_TOTAL; ++i) {
    const struct flag *flag = &flags[i];
    char head[64];
    snprintf(head, sizeof head, "%s %s", flag->name, flag->value_name == NULL ? "" : flag->value_name);
    fprintf(stream, "  %-29s %s", head, flag->help);
    if (flag->kind == FLAG_CPU_PATH) {
      print_cpu_paths(stream);
    }
    if (flag->standard != NULL) {
      fprintf(stream, " (default: %s)", flag->standard);
    }
    fputc('\n', stream);
  }
}
