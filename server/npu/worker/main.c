// aclnn-npu-worker: one process for one NPU, started by aclnn-server, or by hand for its self-test.
#include "server/npu/worker/affinity.h"
#include "server/npu/worker/options.h"
#include "server/npu/worker/self_test.h"
#include "server/npu/worker/serve.h"
#include "server/version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_CONFIGURATION = 2 };

// Dies with the server, whatever becomes of it. It may be gone before this is set: then somebody else is the
// parent.
static void die_with_parent(int64_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != (pid_t)parent) {
    _exit(EXIT_SUCCESS);
  }
}

// Signals to a whole group or service (Ctrl-C, systemctl stop) are the server's to handle: it lets jobs end
// and then says STOP.
static void leave_signals_to_server(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    signal(signals[i], SIG_IGN);
  }
}

static void pin(const struct options *options, const struct log *log) {
  struct affinity_source source = {
      .root = "", .device = (int32_t)options->device, .visible_devices = getenv("ASCEND_RT_VISIBLE_DEVICES")};
  char why[256];
  int node;
  if (affinity_pin(&source, &node, why, sizeof why)) {
    log_event(log, LOG_INFO, "runs near its device", LOG_INTEGER("device", options->device),
              LOG_INTEGER("numa_node", node));
  } else if (options->library == NULL) {
    log_event(log, LOG_INFO, "runs on any processor", LOG_INTEGER("device", options->device),
              LOG_TEXT("why", why));
  }
}

// Libraries start programs of their own, which get neither the pipe, as their input at that, nor the arena.
// The pipe's new descriptor, or -1.
static int keep_from_children(void) {
  int pipe = fcntl(CONTROL_PIPE_DESCRIPTOR, F_DUPFD_CLOEXEC, CONTROL_ARENA_DESCRIPTOR + 1);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool done = pipe >= 0 && nothing >= 0 && dup2(nothing, CONTROL_PIPE_DESCRIPTOR) >= 0 &&
              fcntl(CONTROL_ARENA_DESCRIPTOR, F_SETFD, FD_CLOEXEC) == 0;
  if (nothing >= 0) {
    close(nothing);
  }
  return done ? pipe : -1;
}

static int serve_server(const struct options *options, const struct device_settings *device) {
  struct serve_settings settings = {
      .arena_descriptor = CONTROL_ARENA_DESCRIPTOR,
      .library_file = options->library,
      .home = getenv("ASCEND_HOME_PATH"),
      .device = *device,
      .log = {.descriptor = STDERR_FILENO, .level = LOG_INFO},
  };
  leave_signals_to_server();
  // What else the server has open is none of a worker's business.
  if (close_range(CONTROL_ARENA_DESCRIPTOR + 1, ~0U, 0) != 0) {
    log_event(&settings.log, LOG_WARNING, "inherited descriptors stay open",
              LOG_TEXT("why", strerror(errno)));
  }
  settings.pipe_descriptor = keep_from_children();
  if (settings.pipe_descriptor < 0) {
    log_event(&settings.log, LOG_ERROR, "no pipe to a server", LOG_TEXT("why", strerror(errno)));
    return SERVE_UNUSABLE;
  }
  if (options->affinity) {
    pin(options, &settings.log);
  }
  return (int)serve(&settings);
}

int main(int argument_count, char **arguments) {
  struct options options;
  struct status status;
  if (!options_parse(argument_count, arguments, &options, &status)) {
    fprintf(stderr, "aclnn-npu-worker: %s\n", status.message);
    return EXIT_CONFIGURATION;
  }
  if (options.help || options.version) {
    if (options.help) {
      options_print_help(stdout);
    } else {
      printf("aclnn-npu-worker %s\n", SERVER_VERSION);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  struct device_settings device = {
      .number = (int32_t)options.device,
      .deterministic = options.deterministic,
      .sync_timeout_ms = (int32_t)options.sync_timeout_ms,
      .transfer_way = options.copies,
  };
  if (options.self_test) {
    bool right = self_test(options.library, getenv("ASCEND_HOME_PATH"), &device, stdout);
    return fflush(stdout) == 0 && right ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (options.parent == 0) {
    fprintf(stderr, "aclnn-npu-worker: aclnn-server starts this; by hand, use --self-test (see --help)\n");
    return EXIT_CONFIGURATION;
  }
  die_with_parent(options.parent);
  return serve_server(&options, &device);
}
