// aclnn-server: reads the configuration, builds the server, runs the loop, and takes everything down again.
#include "server/clocks.h"
#include "server/config.h"
#include "server/machine.h"
#include "server/observe/log.h"
#include "server/process.h"
#include "server/rpc/library.h"
#include "server/rpc/listener.h"
#include "server/rpc/server.h"
#include "server/version.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

enum { EXIT_CONFIGURATION = 2 };

// Completion queues, each with a thread that handles calls and copies their tensor data. gRPC has one poller
// for all of them, and a thread that isn't the poller is woken for every event of its own. With two instead
// of one, two processors did a small call in 1.4 times the time, pipelined ones in 1.45 and a download of 103
// MB in 1.3, and gained nothing with four clients at once. One thread moves some 4 GB/s, which is less than
// the network of a large machine does.
#define PROCESSORS_PER_QUEUE 8
#define QUEUES_MAX 4

// Descriptors for everything but connections; gRPC and the listener have one each for a connection.
#define DESCRIPTORS_RESERVED 128
#define DESCRIPTORS_PER_CONNECTION 2
#define DESCRIPTORS_MIN (DESCRIPTORS_RESERVED + DESCRIPTORS_PER_CONNECTION)

// How long the first clients wait for NPUs to come up. A server with devices that take longer serves without
// them until they do.
#define SETTLE_MS_MAX 60000

//   STARTING --listening--> RUNNING --signal--> DRAINING --grace over--> STOPPING --no call left--> the end
//      +---- signal: it ends before it served ------------------------------^
enum phase { PHASE_STARTING, PHASE_RUNNING, PHASE_DRAINING, PHASE_STOPPING };

struct application {
  struct config config;
  struct log log;
  enum phase phase;
  bool settle_time_over;
  uv_loop_t loop;
  uv_signal_t terminate, interrupt;
  uv_timer_t tick, heap_look, drain_grace, drain_limit;
  bool heap_was_over;
  uv_async_t stopped;
  struct machine *machine;
  struct server *server;
  struct listeners *listeners;
};

// ---- The end

static void begin_to_stop(struct application *application) {
  if (application->phase == PHASE_STOPPING) {
    return;
  }
  application->phase = PHASE_STOPPING;
  listeners_stop_accepting(application->listeners);
  server_stop(application->server);
}

static void on_drain_grace(uv_timer_t *timer) {
  begin_to_stop(timer->data);
}

static void stop_now(struct application *application, const char *why) {
  log_event(&application->log, LOG_WARNING, "cancelling the calls that are left", LOG_TEXT("why", why),
            LOG_INTEGER("calls", (int64_t)server_open_calls(application->server)));
  begin_to_stop(application);
  server_cancel_calls(application->server);
  listeners_disconnect(application->listeners);
  machine_abandon_devices(application->machine);
}

static void on_drain_limit(uv_timer_t *timer) {
  stop_now(timer->data, "the drain time is over");
}

static void on_signal(uv_signal_t *handle, int signal_number) {
  struct application *application = handle->data;
  if (application->phase == PHASE_STARTING) {
    application->phase = PHASE_STOPPING;
    return;
  }
  if (application->listeners == NULL) {
    return; // it ends already
  }
  if (application->phase != PHASE_RUNNING) {
    stop_now(application, "a second signal");
    return;
  }
  log_event(&application->log, LOG_INFO, "draining", LOG_INTEGER("signal", signal_number));
  application->phase = PHASE_DRAINING;
  atomic_store(&application->machine->context.draining, true);
  // Clients that hold a connection shall learn from an answer that they have to go elsewhere.
  bool nobody_there = listeners_connections(application->listeners) == 0;
  int64_t grace_ms = nobody_there ? 0 : application->config.drain_grace_ms;
  uv_timer_start(&application->drain_grace, on_drain_grace, (uint64_t)grace_ms, 0);
  uv_timer_start(&application->drain_limit, on_drain_limit, (uint64_t)application->config.drain_time_ms, 0);
}

// On a thread of the server's.
static void tell_stopped(void *context) {
  struct application *application = context;
  uv_async_send(&application->stopped);
}

static void close_handles(struct application *application) {
  uv_handle_t *handles[] = {
      (uv_handle_t *)&application->terminate,   (uv_handle_t *)&application->interrupt,
      (uv_handle_t *)&application->tick,        (uv_handle_t *)&application->drain_grace,
      (uv_handle_t *)&application->drain_limit, (uv_handle_t *)&application->stopped,
      (uv_handle_t *)&application->heap_look,
  };
  for (size_t i = 0; i < sizeof handles / sizeof handles[0]; ++i) {
    uv_close(handles[i], NULL);
  }
}

static void on_stopped(uv_async_t *async) {
  struct application *application = async->data;
  if (application->listeners != NULL) {
    listeners_close(application->listeners);
  }
  close_handles(application);
}

// ---- The beginning

static void on_tick(uv_timer_t *timer) {
  struct application *application = timer->data;
  uv_timer_start(timer, on_tick, (uint64_t)machine_tick(application->machine), 0);
}

static void on_heap_look(uv_timer_t *timer) {
  struct application *application = timer->data;
  process_look_at_heap(&application->heap_was_over);
}

static void open_handles(struct application *application) {
  uv_loop_t *loop = &application->loop;
  int error = uv_loop_init(loop);
  error = error != 0 ? error : uv_signal_init(loop, &application->terminate);
  error = error != 0 ? error : uv_signal_init(loop, &application->interrupt);
  error = error != 0 ? error : uv_timer_init(loop, &application->tick);
  error = error != 0 ? error : uv_timer_init(loop, &application->heap_look);
  error = error != 0 ? error : uv_timer_init(loop, &application->drain_grace);
  error = error != 0 ? error : uv_timer_init(loop, &application->drain_limit);
  error = error != 0 ? error : uv_async_init(loop, &application->stopped, on_stopped);
  assert(error == 0); // fails only where a process can't have a handful of descriptors
  application->terminate.data = application->interrupt.data = application;
  application->tick.data = application->drain_grace.data = application->drain_limit.data = application;
  application->stopped.data = application->heap_look.data = application;
  // From the first line that says where the server listens, a signal is a drain.
  uv_signal_start(&application->terminate, on_signal, SIGTERM);
  uv_signal_start(&application->interrupt, on_signal, SIGINT);
}

// Signals are the main thread's business, the ends of workers among them. Threads that gRPC starts, now or
// while it takes a connection, inherit this mask.
static void keep_signals_from_new_threads(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

static void take_signals_again(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void add_connection(void *context, int descriptor, int64_t round_trip_ns) {
  struct application *application = context;
  sigset_t before;
  keep_signals_from_new_threads(&before);
  bool far = round_trip_ns >= application->config.far_round_trip_ms * 1000000;
  server_add_connection(application->server, descriptor, far);
  take_signals_again(&before);
}

static int identify(void *context, const char *peer, char identity[SESSION_IDENTITY_BYTES_MAX + 1]) {
  struct application *application = context;
  return listeners_identify(application->listeners, peer, identity);
}

static bool create_server(struct application *application, struct status *status) {
  static const struct service *const services[] = {&operator_service, &health_service};
  size_t processors = (size_t)application->config.processors;
  size_t queue_count = processors <= PROCESSORS_PER_QUEUE ? 1 : processors / PROCESSORS_PER_QUEUE;
  struct server_options options = {.context = &application->machine->context,
                                   .services = services,
                                   .service_count = sizeof services / sizeof services[0],
                                   .queue_count = queue_count > QUEUES_MAX ? QUEUES_MAX : queue_count,
                                   .waiting_jobs_max = (size_t)application->config.queue_max,
                                   .idle_timeout_ns = application->config.idle_timeout_ms * 1000000,
                                   .clock_ns = clock_steady_ns,
                                   .coarse_clock_ns = clock_steady_coarse_ns,
                                   .identify = identify,
                                   .identify_context = application,
                                   .stopped = tell_stopped,
                                   .stopped_context = application};
  return server_create(&options, &application->server, status);
}

// More than there is isn't refused, as nobody may ever ask for it; but then the system ends the server, and
// not the budget that holds clients back.
static void warn_of_memory(const struct application *application) {
  int64_t available = config_memory_available("");
  if (application->config.memory_limit_bytes > available) {
    log_event(&application->log, LOG_WARNING,
              "--memory-limit is more than this process may use: the system may kill it under load",
              LOG_INTEGER("memory_limit_bytes", application->config.memory_limit_bytes),
              LOG_INTEGER("memory_available_bytes", available));
  }
}

// Before there are threads that ask it who calls.
static bool create_listeners(struct application *application, int64_t descriptors, struct status *status) {
  int64_t possible = (descriptors - DESCRIPTORS_RESERVED) / DESCRIPTORS_PER_CONNECTION;
  int64_t connections_max = application->config.connections_max;
  if (possible < connections_max) {
    connections_max = possible;
    log_event(&application->log, LOG_WARNING,
              "fewer connections than wanted: the limit of descriptors is low",
              LOG_INTEGER("descriptors", descriptors), LOG_INTEGER("connections_max", connections_max));
  }
  application->machine->context.info.limits.max_connections = connections_max;
  struct listeners_options options = {.loop = &application->loop,
                                      .log = &application->log,
                                      .connections_max = (size_t)connections_max,
                                      .connected = add_connection,
                                      .context = application};
  return listeners_create(&options, &application->listeners, status);
}

static bool bind_listeners(struct application *application, struct status *status) {
  struct address bound[CONFIG_LISTEN_MAX];
  for (size_t i = 0; i < application->config.listen_count; ++i) {
    struct address address;
    if (!address_parse(application->config.listen[i], &address, status) ||
        !listeners_add(application->listeners, &address, &bound[i], status)) {
      return false;
    }
  }
  // All or none: who reads the first line may rely on the others.
  for (size_t i = 0; i < application->config.listen_count; ++i) {
    char text[ADDRESS_TEXT_BYTES_MAX];
    address_format(&bound[i], text);
    printf("listening on %s\n", text);
  }
  fflush(stdout);
  return true;
}

static void on_settle_limit(uv_timer_t *timer) {
  struct application *application = timer->data;
  application->settle_time_over = true;
}

// Whoever connects once the server says where it listens finds the NPUs up. A signal that came while it was
// built is heard first; and the thread has waited once before anyone knows of it: ThreadSanitizer loses a
// signal that comes during a thread's first wait.
static void await_devices(struct application *application) {
  uv_run(&application->loop, UV_RUN_NOWAIT);
  uv_timer_start(&application->tick, on_settle_limit, SETTLE_MS_MAX, 0);
  while (application->phase == PHASE_STARTING && !application->settle_time_over &&
         !machine_is_settled(application->machine)) {
    uv_run(&application->loop, UV_RUN_ONCE);
  }
  uv_timer_stop(&application->tick);
}

// Everything up to the listeners. Workers are started while there is nothing else.
static bool build(struct application *application, int64_t descriptors, struct status *status) {
  struct machine_options options = {
      .config = &application->config, .log = &application->log, .loop = &application->loop};
  sigset_t before;
  bool ok = machine_create(&options, &application->machine, status);
  keep_signals_from_new_threads(&before);
  rpc_library_start();
  ok = ok && create_listeners(application, descriptors, status) && create_server(application, status);
  if (ok) {
    server_start(application->server);
  }
  take_signals_again(&before);
  if (ok) {
    await_devices(application);
  }
  return ok;
}

static bool begin_to_listen(struct application *application, struct status *status) {
  if (!bind_listeners(application, status)) {
    return false;
  }
  application->phase = PHASE_RUNNING;
  return true;
}

static void run(struct application *application) {
  on_tick(&application->tick);
  uv_timer_start(&application->heap_look, on_heap_look, PROCESS_HEAP_LOOK_MS, PROCESS_HEAP_LOOK_MS);
  uv_run(&application->loop, UV_RUN_DEFAULT);
}

// What couldn't be built in full is taken down like a server that stops.
static void run_down(struct application *application) {
  if (application->listeners != NULL) {
    listeners_stop_accepting(application->listeners);
  }
  if (application->server != NULL) {
    application->phase = PHASE_STOPPING;
    server_stop(application->server);
    server_cancel_calls(application->server);
    uv_run(&application->loop, UV_RUN_DEFAULT);
  } else {
    if (application->listeners != NULL) {
      listeners_close(application->listeners);
    }
    close_handles(application);
    uv_run(&application->loop, UV_RUN_DEFAULT);
  }
}

static int serve(struct application *application) {
  int64_t descriptors = process_prepare();
  struct status status;
  if (descriptors < DESCRIPTORS_MIN) {
    fprintf(stderr,
            "aclnn-server: the limit of descriptors (ulimit -n) is %" PRId64 ", at least %d are needed\n",
            descriptors, DESCRIPTORS_MIN);
    return EXIT_CONFIGURATION;
  }
  int exit_code = EXIT_SUCCESS;
  warn_of_memory(application);
  open_handles(application);
  bool built = build(application, descriptors, &status);
  if (built && application->phase == PHASE_STOPPING) {
    log_write(&application->log, LOG_INFO, "stopped before it served", NULL, 0);
    run_down(application);
  } else if (built && begin_to_listen(application, &status)) {
    log_event(&application->log, LOG_INFO, "serving", LOG_TEXT("version", SERVER_VERSION),
              LOG_INTEGER("memory_limit_bytes", application->config.memory_limit_bytes),
              LOG_TEXT("cpu_path", application->machine->context.info.cpu_path));
    run(application);
    log_write(&application->log, LOG_INFO, "stopped", NULL, 0);
  } else {
    fprintf(stderr, "aclnn-server: %s\n", status.message);
    exit_code = status.reason == REASON_CONFIGURATION ? EXIT_CONFIGURATION : EXIT_FAILURE;
    run_down(application);
  }
  if (application->machine != NULL) {
    machine_stop(application->machine);
  }
  server_destroy(application->server);
  machine_destroy(application->machine);
  listeners_destroy(application->listeners);
  int busy = uv_loop_close(&application->loop);
  assert(busy == 0);
  rpc_library_stop();
  return exit_code;
}

int main(int argument_count, char **arguments) {
  struct application application = {.log = {.descriptor = STDERR_FILENO, .level = LOG_INFO}};
  struct status status;
  if (!config_parse(argument_count, arguments, &application.config, &status)) {
    fprintf(stderr, "aclnn-server: %s\n", status.message);
    return EXIT_CONFIGURATION;
  }
  if (application.config.help) {
    config_print_help(stdout);
    return EXIT_SUCCESS;
  }
  if (application.config.version) {
    printf("aclnn-server %s\nCPU path %s\n", SERVER_VERSION, cpu_path_name(application.config.cpu.path));
    return EXIT_SUCCESS;
  }
  return serve(&application);
}
