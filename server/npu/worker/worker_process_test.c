#include "server/npu/worker/worker_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { EXIT_UNUSABLE = 3, EXIT_UNCLEAN = 4, EXIT_SERVER_BROKEN = 5 };

static const char *const emulated[] = {"--library", WORKER_EMULATOR, "--affinity", "off", NULL};

// ---- Messages

static void send_start(struct worker_process *worker) {
  struct control_message message = {.kind = CONTROL_START,
                                    .start = {.version = CONTROL_VERSION, .arena_bytes = WORKER_ARENA_BYTES}};
  worker_process_send(worker, &message);
}

static void send_stop(struct worker_process *worker) {
  struct control_message message = {.kind = CONTROL_STOP};
  worker_process_send(worker, &message);
}

static void start_with(struct worker_process *worker, const char *const *arguments, const char *fault) {
  if (fault != NULL) {
    setenv("ACLNN_EMULATED_FAULT", fault, 1);
  }
  worker_process_start(worker, arguments);
  unsetenv("ACLNN_EMULATED_FAULT");
  send_start(worker);
}

// A worker that is ready; the first phase 2 was its probe.
static void start_ready(struct worker_process *worker, const char *fault) {
  struct control_message ready;
  start_with(worker, emulated, fault);
  worker_process_expect(worker, CONTROL_READY, &ready);
  assert_int_equal(ready.ready.product, NPU_PRODUCT_EMULATED);
}

static void assert_exits_with(struct worker_process *worker, int code) {
  int result = worker_process_wait(worker);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), code);
}

// ---- Jobs: the cases of the operators

static const struct operator_definition *backward(void) {
  return operator_find("aclnnAdaptiveMaxPool2dBackward");
}

// A request of the case, with its storages one after the other in the arena from `offset` on and the inputs
// written there.
static void make_run(struct worker_process *worker, const struct operator_definition *definition,
                     const struct npu_case *npu_case, uint64_t id, uint64_t offset,
                     struct control_message *message) {
  *message = (struct control_message){.kind = CONTROL_RUN, .run = {.id = id}};
  struct operator_request *request = &message->run.request;
  request->target = TARGET_NPU;
  request->numerics = NUMERICS_DEVICE;
  strcpy(request->operator_name, definition->name);
  for (size_t i = 0; i < definition->parameter_count; i++) {
    struct argument *argument = &request->arguments[request->argument_count++];
    strcpy(argument->name, definition->parameters[i].name);
    argument->value = npu_case->values[i];
    const struct npu_case_storage *storage = &npu_case->storages[i];
    if (storage->data == NULL) {
      continue;
    }
    message->run.storages[i] =
        (struct control_storage){.present = true, .offset = offset, .bytes = storage->bytes};
    if (definition->parameters[i].direction == DIRECTION_INPUT) {
      memcpy(worker->arena + offset, storage->data, storage->bytes);
    } else {
      memset(worker->arena + offset, 0xa5, storage->bytes);
    }
    offset += (storage->bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
  }
}

static void send_case(struct worker_process *worker, uint64_t id) {
  struct control_message message;
  make_run(worker, backward(), &backward()->npu->cases[0], id, 0, &message);
  worker_process_send(worker, &message);
}

static void expect_finished(struct worker_process *worker, uint64_t id, struct control_finished *finished) {
  struct control_message message;
  worker_process_expect(worker, CONTROL_FINISHED, &message);
  assert_int_equal(message.finished.id, id);
  *finished = message.finished;
}

static void expect_finished_well(struct worker_process *worker, uint64_t id) {
  struct control_finished finished;
  expect_finished(worker, id, &finished);
  if (!finished.ok) {
    fail_msg("job %d failed: %s", (int)id, finished.status.message);
  }
  assert_false(finished.device_fault);
  assert_true(finished.started_ns > 0 && finished.finished_ns >= finished.started_ns);
}

static void assert_outputs(struct worker_process *worker, const struct operator_definition *definition,
                           const struct npu_case *npu_case, const struct control_message *message) {
  for (size_t i = 0; i < definition->parameter_count; i++) {
    const struct control_storage *storage = &message->run.storages[i];
    bool has_nan = strstr(npu_case->name, "NaN") != NULL; // whose payload is free
    if (definition->parameters[i].direction == DIRECTION_OUTPUT && !has_nan) {
      assert_memory_equal(worker->arena + storage->offset, npu_case->storages[i].data, storage->bytes);
    }
  }
}

// ---- Tests

static void all_cases_come_out_right(void **state) {
  (void)state;
  static const char *const ways[] = {"direct", "staged"};
  for (size_t way = 0; way < 2; way++) {
    struct worker_process worker;
    struct control_message message;
    const char *const arguments[] = {"--library", WORKER_EMULATOR, "--copies", ways[way], NULL};
    start_with(&worker, arguments, NULL);
    worker_process_expect(&worker, CONTROL_READY, &message);
    assert_string_equal(message.ready.soc_name, "AclnnEmulated");
    assert_int_equal(message.ready.operators, (1U << operator_count()) - 1);
    assert_true(message.ready.memory_bytes > 0);
    uint64_t id = 100;
    for (size_t i = 0; i < operator_count(); i++) {
      const struct operator_definition *definition = operator_at(i);
      for (size_t j = 0; j < definition->npu->case_count; j++) {
        if (definition->npu->cases[j].fill_inputs != NULL) {
          continue; // of real sizes: device_test runs them
        }
        make_run(&worker, definition, &definition->npu->cases[j], id, 64 * id, &message);
        worker_process_send(&worker, &message);
        expect_finished_well(&worker, id++);
        assert_outputs(&worker, definition, &definition->npu->cases[j], &message);
      }
    }
    send_stop(&worker);
    assert_exits_with(&worker, 0);
    worker_process_end(&worker);
  }
}

static void plans_tell_the_devices_own_workspace(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message run, plan = {.kind = CONTROL_PLAN, .plan = {.id = 7}}, answer;
  start_ready(&worker, NULL);
  make_run(&worker, backward(), &backward()->npu->cases[0], 0, 0, &run);
  plan.plan.request = run.run.request;
  worker_process_send(&worker, &plan);
  worker_process_expect(&worker, CONTROL_PLANNED, &answer);
  assert_int_equal(answer.planned.id, 7);
  assert_true(answer.planned.ok);
  assert_true(answer.planned.workspace_bytes >= (16 << 20));
  // What can't be planned is refused by name.
  strcpy(plan.plan.request.operator_name, "aclnnNothing");
  worker_process_send(&worker, &plan);
  worker_process_expect(&worker, CONTROL_PLANNED, &answer);
  assert_false(answer.planned.ok);
  assert_int_equal(answer.planned.status.reason, REASON_OPERATOR_UNKNOWN);
  assert_false(answer.planned.device_fault);
  send_stop(&worker);
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void jobs_before_a_stop_are_answered(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message;
  start_ready(&worker, NULL);
  for (uint64_t id = 1; id <= 20; id++) {
    make_run(&worker, backward(), &backward()->npu->cases[0], id, 4096 * id, &message);
    worker_process_send(&worker, &message);
  }
  send_stop(&worker);
  for (uint64_t id = 1; id <= 20; id++) {
    expect_finished_well(&worker, id);
  }
  assert_false(worker_process_receive(&worker, &message));
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void storages_in_wrong_places_are_refused(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message good, bad;
  struct control_finished finished;
  start_ready(&worker, NULL);
  make_run(&worker, backward(), &backward()->npu->cases[0], 1, 0, &good);
  for (int what = 0; what < 6; what++) {
    bad = good;
    struct control_storage *storage = &bad.run.storages[0];
    switch (what) {
    case 0:
      storage->offset = WORKER_ARENA_BYTES;
      break;
    case 1:
      storage->offset = UINT64_MAX - 63;
      break;
    case 2:
      storage->bytes += 64;
      break;
    case 3:
      storage->offset += 4;
      break;
    case 4:
      bad.run.storages[3].offset = storage->offset; // an output over an input
      break;
    default:
      storage->present = false;
    }
    bad.run.id = (uint64_t)what;
    worker_process_send(&worker, &bad);
    expect_finished(&worker, (uint64_t)what, &finished);
    assert_false(finished.ok);
    assert_false(finished.device_fault);
    assert_int_equal(finished.status.reason, REASON_INTERNAL);
  }
  worker_process_send(&worker, &good);
  expect_finished_well(&worker, 1);
  worker_process_end(&worker);
}

static void pings_are_answered_while_the_device_hangs(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message;
  start_ready(&worker, "hang@2");
  send_case(&worker, 1);
  for (uint64_t i = 1; i <= 3; i++) {
    struct control_message ping = {.kind = CONTROL_PING, .ping = {.sequence = i}};
    worker_process_send(&worker, &ping);
    worker_process_expect(&worker, CONTROL_PONG, &message);
    assert_int_equal(message.pong.sequence, i);
  }
  // The end of the pipe ends it even so.
  worker_process_close_pipe(&worker);
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void hanging_device_is_a_fault(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message;
  struct control_finished finished;
  const char *const arguments[] = {"--library", WORKER_EMULATOR, "--sync-timeout", "300", NULL};
  start_with(&worker, arguments, "hang@2");
  worker_process_expect(&worker, CONTROL_READY, &message);
  send_case(&worker, 1);
  send_case(&worker, 2);
  expect_finished(&worker, 1, &finished);
  assert_false(finished.ok);
  assert_true(finished.device_fault);
  assert_int_equal(finished.status.reason, REASON_DEVICE_LOST);
  assert_int_equal(finished.status.aclnn_status, 507046);
  // Nothing more is tried on it: the second job gets no answer, and the end is not a good one.
  send_stop(&worker);
  assert_false(worker_process_receive(&worker, &message));
  assert_exits_with(&worker, EXIT_UNCLEAN);
  worker_process_end(&worker);
}

static void fault_at_synchronise_is_told_with_its_number(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_finished finished;
  start_ready(&worker, "ecc@3");
  send_case(&worker, 1);
  expect_finished_well(&worker, 1);
  send_case(&worker, 2);
  expect_finished(&worker, 2, &finished);
  assert_false(finished.ok);
  assert_true(finished.device_fault);
  assert_int_equal(finished.status.reason, REASON_DEVICE_LOST);
  assert_int_equal(finished.status.aclnn_status, 507054);
  assert_non_null(strstr(finished.status.message, "507054"));
  send_stop(&worker);
  assert_exits_with(&worker, EXIT_UNCLEAN);
  worker_process_end(&worker);
}

static void crash_is_seen_as_the_end_of_the_pipe(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message;
  start_ready(&worker, "crash@2");
  send_case(&worker, 1);
  assert_false(worker_process_receive(&worker, &message));
  int result = worker_process_wait(&worker);
  assert_true(WIFSIGNALED(result));
  assert_int_equal(WTERMSIG(result), SIGKILL);
  worker_process_end(&worker);
}

// Whoever waits for the answer would else take the job that ended well for the cause of the end.
static void an_answer_is_out_before_the_next_job_begins(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    struct worker_process worker;
    struct control_message message;
    start_ready(&worker, "crash@3");
    uint8_t frames[2 * CONTROL_FRAME_BYTES_MAX];
    size_t size = 0;
    for (uint64_t id = 1; id <= 2; id++) {
      make_run(&worker, backward(), &backward()->npu->cases[0], id, 0, &message);
      size += control_write(&message, frames + size);
    }
    worker_process_send_bytes(&worker, frames, size);
    expect_finished_well(&worker, 1);
    assert_false(worker_process_receive(&worker, &message));
    worker_process_end(&worker);
  }
}

static void too_little_memory_fails_the_job_alone(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_finished finished;
  struct control_message message;
  setenv("ACLNN_EMULATED_MEMORY", "20971520", 1);
  start_ready(&worker, NULL);
  unsetenv("ACLNN_EMULATED_MEMORY");
  // A gradInput of 6 MiB besides the workspace.
  make_run(&worker, backward(), &backward()->npu->cases[0], 1, 0, &message);
  message.run.request.arguments[1].value.tensor.shape[2] = 3 << 17;
  message.run.request.arguments[3].value.tensor.shape[2] = 3 << 17;
  message.run.storages[3] = (struct control_storage){.present = true, .offset = 4096, .bytes = 6 << 20};
  worker_process_send(&worker, &message);
  expect_finished(&worker, 1, &finished);
  assert_false(finished.ok);
  assert_false(finished.device_fault);
  assert_int_equal(finished.status.reason, REASON_DEVICE_MEMORY);
  assert_int_equal(finished.status.aclnn_status, 207018);
  send_case(&worker, 2);
  expect_finished_well(&worker, 2);
  send_stop(&worker);
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void assert_unusable(struct worker_process *worker, const char *said) {
  struct control_message message;
  worker_process_expect(worker, CONTROL_UNUSABLE, &message);
  if (strstr(message.unusable.status.message, said) == NULL) {
    fail_msg("it said: %s", message.unusable.status.message);
  }
  assert_exits_with(worker, EXIT_UNUSABLE);
  worker_process_end(worker);
}

static void unusable_devices_say_why(void **state) {
  (void)state;
  static const char *const cann[] = {"--device", "0", NULL};
  static const char *const no_library[] = {"--library", "/nowhere/libnothing.so", NULL};
  static const char *const far_device[] = {"--library", WORKER_EMULATOR, "--device", "5", NULL};
  struct worker_process worker;
  unsetenv("ASCEND_HOME_PATH");
  if (access("/usr/local/Ascend", F_OK) != 0) { // where CANN isn't installed
    start_with(&worker, cann, NULL);
    assert_unusable(&worker, "libascendcl.so");
  }
  start_with(&worker, no_library, NULL);
  assert_unusable(&worker, "/nowhere/libnothing.so");
  start_with(&worker, far_device, NULL);
  assert_unusable(&worker, "no device 5");
  start_with(&worker, emulated, "stub");
  assert_unusable(&worker, "stub");
  start_with(&worker, emulated, "refuse-init");
  assert_unusable(&worker, "507899");
  start_with(&worker, emulated, "flip@1");
  assert_unusable(&worker, "probe");
  start_with(&worker, emulated, "ecc@1"); // lost before it was ready
  assert_unusable(&worker, "507054");
}

static void wrong_start_is_refused(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message = {
      .kind = CONTROL_START, .start = {.version = CONTROL_VERSION, .arena_bytes = WORKER_ARENA_BYTES + 4096}};
  worker_process_start(&worker, emulated);
  worker_process_send(&worker, &message);
  assert_unusable(&worker, "arena");
  message.start = (struct control_start){.version = CONTROL_VERSION + 1, .arena_bytes = WORKER_ARENA_BYTES};
  worker_process_start(&worker, emulated);
  worker_process_send(&worker, &message);
  assert_unusable(&worker, "version");
}

static void assert_broken(struct worker_process *worker) {
  assert_exits_with(worker, EXIT_SERVER_BROKEN);
  worker_process_end(worker);
}

static void what_no_server_sends_ends_the_worker(void **state) {
  (void)state;
  struct worker_process worker;
  static const uint8_t noise[64] = {0xff, 0xff, 0xff, 0x7f, 9, 9, 9, 9};
  start_ready(&worker, NULL);
  worker_process_send_bytes(&worker, noise, sizeof noise);
  assert_broken(&worker);

  static const uint8_t unknown_kind[8] = {0, 0, 0, 0, 99, 0, 0, 0};
  start_ready(&worker, NULL);
  worker_process_send_bytes(&worker, unknown_kind, sizeof unknown_kind);
  assert_broken(&worker);

  start_ready(&worker, NULL);
  send_start(&worker); // a second one
  assert_broken(&worker);

  worker_process_start(&worker, emulated);
  send_case(&worker, 1); // before START
  assert_broken(&worker);

  struct control_message pong = {.kind = CONTROL_PONG};
  start_ready(&worker, NULL);
  worker_process_send(&worker, &pong); // a worker's message
  assert_broken(&worker);
}

static void end_of_the_pipe_ends_the_worker(void **state) {
  (void)state;
  struct worker_process worker;
  worker_process_start(&worker, emulated);
  worker_process_close_pipe(&worker); // before START
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
  start_ready(&worker, NULL);
  worker_process_close_pipe(&worker);
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void nothing_else_of_the_server_stays_open(void **state) {
  (void)state;
  struct worker_process worker;
  int others[2];
  char byte;
  assert_int_equal(pipe(others), 0); // inherited
  start_ready(&worker, NULL);
  close(others[1]);
  assert_int_equal(read(others[0], &byte, 1), 0); // nobody has the other end any more
  close(others[0]);
  worker_process_end(&worker);
}

// Whether the process's descriptor is closed when it starts a program.
static bool is_closed_on_exec(pid_t pid, const char *descriptor) {
  char path[64], line[128];
  unsigned flags = 0;
  snprintf(path, sizeof path, "/proc/%d/fdinfo/%.16s", (int)pid, descriptor);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL && sscanf(line, "flags: %o", &flags) != 1) {
  }
  fclose(file);
  return (flags & O_CLOEXEC) != 0;
}

static void what_a_library_starts_gets_neither_pipe_nor_arena(void **state) {
  (void)state;
  struct worker_process worker;
  char path[64], target[64] = "";
  start_ready(&worker, NULL);
  snprintf(path, sizeof path, "/proc/%d/fd/0", (int)worker.pid);
  assert_true(readlink(path, target, sizeof target - 1) > 0);
  assert_string_equal(target, "/dev/null");
  snprintf(path, sizeof path, "/proc/%d/fd", (int)worker.pid);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  const struct dirent *entry;
  size_t others = 0;
  while ((entry = readdir(folder)) != NULL) {
    if (entry->d_name[0] != '.' && atoi(entry->d_name) > STDERR_FILENO) {
      assert_true(is_closed_on_exec(worker.pid, entry->d_name));
      others++;
    }
  }
  closedir(folder);
  assert_true(others > 0);
  worker_process_end(&worker);
}

static void signals_to_the_whole_group_are_the_servers_to_handle(void **state) {
  (void)state;
  struct worker_process worker;
  start_ready(&worker, NULL);
  kill(worker.pid, SIGTERM);
  kill(worker.pid, SIGINT);
  send_case(&worker, 1);
  expect_finished_well(&worker, 1);
  send_stop(&worker);
  assert_exits_with(&worker, 0);
  worker_process_end(&worker);
}

static void worker_of_another_parent_leaves(void **state) {
  (void)state;
  struct worker_process worker;
  memset(&worker, 0, sizeof worker);
  worker.arena_descriptor = worker_process_make_arena(WORKER_ARENA_BYTES, true);
  worker_process_spawn(&worker, 1, emulated);
  assert_exits_with(&worker, 0);
  close(worker.pipe);
  close(worker.arena_descriptor);
}

// A server in between starts the worker and dies; the pipe's other end is still held here.
static void worker_dies_with_its_server(void **state) {
  (void)state;
  struct worker_process worker;
  struct control_message message;
  int told[2];
  memset(&worker, 0, sizeof worker);
  worker.arena_descriptor = worker_process_make_arena(WORKER_ARENA_BYTES, true);
  assert_int_equal(pipe(told), 0);
  pid_t server = fork();
  assert_true(server >= 0);
  if (server == 0) {
    worker_process_spawn(&worker, 0, emulated);
    send_start(&worker);
    worker_process_expect(&worker, CONTROL_READY, &message);
    (void)!write(told[1], &worker.pid, sizeof worker.pid);
    pause();
    _exit(1);
  }
  pid_t pid = 0;
  assert_int_equal(read(told[0], &pid, sizeof pid), (ssize_t)sizeof pid);
  int process = pidfd_open(pid, 0); // not a child of this process, so there is nothing to wait for
  assert_true(process >= 0);
  kill(server, SIGKILL);
  assert_int_equal(waitpid(server, NULL, 0), server);
  struct pollfd ended = {.fd = process, .events = POLLIN};
  assert_int_equal(poll(&ended, 1, -1), 1);
  close(process);
  close(told[0]);
  close(told[1]);
  close(worker.arena_descriptor);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_cases_come_out_right),
      cmocka_unit_test(plans_tell_the_devices_own_workspace),
      cmocka_unit_test(jobs_before_a_stop_are_answered),
      cmocka_unit_test(storages_in_wrong_places_are_refused),
      cmocka_unit_test(pings_are_answered_while_the_device_hangs),
      cmocka_unit_test(hanging_device_is_a_fault),
      cmocka_unit_test(fault_at_synchronise_is_told_with_its_number),
      cmocka_unit_test(crash_is_seen_as_the_end_of_the_pipe),
      cmocka_unit_test(an_answer_is_out_before_the_next_job_begins),
      cmocka_unit_test(too_little_memory_fails_the_job_alone),
      cmocka_unit_test(unusable_devices_say_why),
      cmocka_unit_test(wrong_start_is_refused),
      cmocka_unit_test(what_no_server_sends_ends_the_worker),
      cmocka_unit_test(end_of_the_pipe_ends_the_worker),
      cmocka_unit_test(nothing_else_of_the_server_stays_open),
      cmocka_unit_test(what_a_library_starts_gets_neither_pipe_nor_arena),
      cmocka_unit_test(signals_to_the_whole_group_are_the_servers_to_handle),
      cmocka_unit_test(worker_of_another_parent_leaves),
      cmocka_unit_test(worker_dies_with_its_server),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
