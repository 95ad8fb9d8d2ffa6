// A worker for tests of the pool: speaks as a worker must, computes nothing, and misbehaves as it is told.
//
// What it does at its start is told by --library, words parted by commas; "0:word" is for device 0 alone:
//   unusable     says so and exits            silent      is never ready
//   exit         exits at once                mute        answers nothing, pings neither
//   exit=FILE    the same while FILE exists   leaky       ends with 7 when it is told to stop
//   a2           is an Ascend 910B            stubborn    doesn't stop when it is told to
//   unknown      is of no known product       empty       has no operators
//   plans        misbehaves in phase 1, too (else only in phase 2)
// exit=FILE must be the last word.
// What it does with a job is told by the first dim of the job's first tensor, see enum behaviour. A good
// job's outputs are filled with 0xa0 + the device's number.
#include "server/npu/pool/fake_worker.h"
#include "kernels/operator.h"
#include "server/npu/control/message.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WAITING_MAX 32

struct worker {
  int device;
  bool deterministic;
  const char *script;
  uint8_t *arena;
  uint64_t arena_bytes;
  struct control_reader reader;
  bool mute;
  bool hangs; // does no more jobs
  bool holds;
  struct control_message held;                 // the answer that waits for the next ping
  struct control_message waiting[WAITING_MAX]; // behind it
  size_t waiting_count;
};

static void fail(const char *why) {
  fprintf(stderr, "fake worker: %s\n", why);
  exit(9);
}

static bool told(const struct worker *worker, const char *word, const char **value) {
  char script[1024];
  snprintf(script, sizeof script, "%s", worker->script);
  for (char *part = strtok(script, ","); part != NULL; part = strtok(NULL, ",")) {
    if (part[1] == ':') {
      if (part[0] - '0' != worker->device) {
        continue;
      }
      part += 2;
    }
    size_t length = strlen(word);
    if (strncmp(part, word, length) == 0 && (part[length] == '\0' || part[length] == '=')) {
      if (value != NULL) {
        *value = part[length] == '=' ? worker->script + (part - script) + length + 1 : NULL;
      }
      return true;
    }
  }
  return false;
}

static void send_bytes(const uint8_t *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(CONTROL_PIPE_DESCRIPTOR, bytes, size);
    if (written <= 0) {
      exit(0);
    }
    bytes += written;
    size -= (size_t)written;
  }
}

static void send_message(const struct control_message *message) {
  uint8_t frame[CONTROL_FRAME_BYTES_MAX];
  send_bytes(frame, control_write(message, frame));
}

static void begin(struct worker *worker, const struct control_start *start) {
  worker->arena_bytes = start->arena_bytes;
  worker->arena =
      mmap(NULL, start->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, CONTROL_ARENA_DESCRIPTOR, 0);
  if (worker->arena == MAP_FAILED || start->version != CONTROL_VERSION) {
    fail("no arena");
  }
  struct control_message message = {.kind = CONTROL_READY};
  if (told(worker, "unusable", NULL)) {
    message.kind = CONTROL_UNUSABLE;
    (void)status_fail(&message.unusable.status, REASON_DEVICE_LOST, NULL, "the driver is in pieces");
    send_message(&message);
    exit(1);
  }
  worker->mute = told(worker, "mute", NULL);
  if (worker->mute || told(worker, "silent", NULL)) {
    return;
  }
  message.ready.product = told(worker, "a2", NULL)        ? NPU_PRODUCT_A2
                          : told(worker, "unknown", NULL) ? NPU_PRODUCT_UNKNOWN
                                                          : NPU_PRODUCT_EMULATED;
  strcpy(message.ready.soc_name, "FakeSoc");
  strcpy(message.ready.cann_version, "8.1.2");
  message.ready.memory_bytes = UINT64_C(1) << 30;
  message.ready.operators = told(worker, "empty", NULL) ? 0 : UINT32_MAX;
  message.ready.deterministic = worker->deterministic;
  send_message(&message);
}

static enum behaviour behaviour_of(const struct operator_request *request) {
  return (enum behaviour)request->arguments[0].value.tensor.shape[0];
}

static void refuse(struct control_message *answer, enum reason reason, int32_t number, bool fault) {
  bool is_plan = answer->kind == CONTROL_PLANNED;
  *(is_plan ? &answer->planned.ok : &answer->finished.ok) = false;
  *(is_plan ? &answer->planned.device_fault : &answer->finished.device_fault) = fault;
  struct status *status = is_plan ? &answer->planned.status : &answer->finished.status;
  (void)status_fail(status, reason, NULL, "the fake says %d", number);
  status->aclnn_status = number;
}

// True if the answer is to be sent now.
static bool misbehave(struct worker *worker, enum behaviour behaviour, struct control_message *answer) {
  static const uint8_t garbage[] = "this is not a control message";
  switch (behaviour) {
  case BEHAVIOUR_DIES:
    raise(SIGKILL);
    break;
  case BEHAVIOUR_DIES_ON_DEVICE_0:
    if (worker->device == 0) {
      exit(3);
    }
    break;
  case BEHAVIOUR_HANGS:
    worker->hangs = true;
    return false;
  case BEHAVIOUR_GOES_MUTE:
    worker->mute = true;
    return false;
  case BEHAVIOUR_GARBAGE:
    send_bytes(garbage, sizeof garbage);
    return false;
  case BEHAVIOUR_FOREIGN_ID:
    *(answer->kind == CONTROL_PLANNED ? &answer->planned.id : &answer->finished.id) += 1000000;
    break;
  case BEHAVIOUR_FAULT:
    refuse(answer, REASON_DEVICE_LOST, 507015, true);
    break;
  case BEHAVIOUR_MEMORY:
    refuse(answer, REASON_DEVICE_MEMORY, 207018, false);
    break;
  case BEHAVIOUR_REFUSES:
    refuse(answer, REASON_ACLNN_ERR_INNER_TILING_ERROR, 561002, false);
    break;
  case BEHAVIOUR_HOLDS:
    worker->held = *answer;
    worker->holds = true;
    return false;
  case BEHAVIOUR_CLOSES_PIPE:
    close(CONTROL_PIPE_DESCRIPTOR);
    for (;;) {
      pause();
    }
  case BEHAVIOUR_GOOD:
    break;
  }
  return true;
}

static void plan(struct worker *worker, const struct control_plan *asked) {
  struct control_message answer = {
      .kind = CONTROL_PLANNED,
      .planned = {.id = asked->id, .ok = true, .workspace_bytes = FAKE_WORKSPACE_BYTES}};
  // Most behaviours are for phase 2: else no job could ever come to them.
  enum behaviour behaviour = behaviour_of(&asked->request);
  if (told(worker, "plans", NULL) ? misbehave(worker, behaviour, &answer) : true) {
    send_message(&answer);
  }
}

static void run(struct worker *worker, const struct control_run *asked) {
  struct control_message answer = {.kind = CONTROL_FINISHED, .finished = {.id = asked->id, .ok = true}};
  struct plan planned;
  struct status status;
  if (!plan_create(&asked->request, &planned, &status) ||
      !control_check_storages(&planned, asked->storages, worker->arena_bytes, &status)) {
    fail(status.message);
  }
  for (size_t i = 0; i < planned.tensor_count; i++) {
    const struct control_storage *storage = &asked->storages[planned.tensors[i].parameter];
    if (planned.tensors[i].direction == DIRECTION_OUTPUT) {
      memset(worker->arena + storage->offset, 0xa0 + worker->device, storage->bytes);
    }
  }
  if (misbehave(worker, behaviour_of(&asked->request), &answer)) {
    send_message(&answer);
  }
}

static void do_job(struct worker *worker, const struct control_message *message) {
  if (worker->hangs) {
    return;
  }
  if (worker->holds) {
    if (worker->waiting_count == WAITING_MAX) {
      fail("too many jobs");
    }
    worker->waiting[worker->waiting_count++] = *message;
  } else if (message->kind == CONTROL_PLAN) {
    plan(worker, &message->plan);
  } else {
    run(worker, &message->run);
  }
}

static void stop_holding(struct worker *worker) {
  if (!worker->holds) {
    return;
  }
  send_message(&worker->held);
  worker->holds = false;
  size_t count = worker->waiting_count;
  worker->waiting_count = 0;
  for (size_t i = 0; i < count; i++) {
    struct control_message message = worker->waiting[i];
    do_job(worker, &message);
  }
}

static void stop(const struct worker *worker) {
  if (told(worker, "stubborn", NULL)) {
    for (;;) {
      pause();
    }
  }
  exit(told(worker, "leaky", NULL) ? 7 : 0);
}

static void obey(struct worker *worker, const struct control_message *message) {
  struct control_message pong = {.kind = CONTROL_PONG, .pong = {message->ping.sequence}};
  switch (message->kind) {
  case CONTROL_START:
    begin(worker, &message->start);
    return;
  case CONTROL_PLAN:
  case CONTROL_RUN:
    do_job(worker, message);
    return;
  case CONTROL_PING:
    stop_holding(worker);
    if (!worker->mute) {
      send_message(&pong);
    }
    return;
  case CONTROL_STOP:
    stop(worker);
    return;
  default:
    fail("a message that isn't for workers");
  }
}

static void read_arguments(struct worker *worker, int count, char **arguments) {
  worker->script = "";
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--deterministic") == 0) {
      worker->deterministic = true;
    } else if (strcmp(arguments[i], "--device") == 0 && i + 1 < count) {
      worker->device = atoi(arguments[++i]);
    } else if (strcmp(arguments[i], "--library") == 0 && i + 1 < count) {
      worker->script = arguments[++i];
    } else {
      i++; // all others have a value
    }
  }
}

int main(int count, char **arguments) {
  static struct worker worker;
  read_arguments(&worker, count, arguments);
  const char *file = NULL;
  if (told(&worker, "exit", &file) && (file == NULL || access(file, F_OK) == 0)) {
    return 5;
  }
  uint8_t bytes[4096];
  ssize_t got;
  while ((got = read(CONTROL_PIPE_DESCRIPTOR, bytes, sizeof bytes)) > 0) {
    const uint8_t *data = bytes;
    size_t size = (size_t)got;
    bool need_more = false;
    while (!need_more) {
      static struct control_message message;
      struct status status;
      if (control_read(&worker.reader, &data, &size, &message, &need_more, &status)) {
        obey(&worker, &message);
      } else if (!need_more) {
        fail(status.message);
      }
    }
  }
  return 0;
}
