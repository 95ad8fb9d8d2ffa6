#include "tests/bench/transport_bench/bare_echo.h"

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/timing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_BYTES_MAX 4096
#define REPLY_BYTES_MAX 65536

struct worker {
  const struct bare_client *client;
  const struct bare_echo_plan *plan;
  const uint8_t *request;
  pthread_t thread;
  size_t calls;         // to make
  int64_t *nanoseconds; // of each
};

static void begin(struct worker *worker, struct bare_call *call, grpc_completion_queue *queue) {
  call->begin_ns = timing_now_ns();
  bare_call_begin(call, worker->client, worker->client->echo, queue);
  grpc_byte_buffer *request = bare_message(worker->request, worker->plan->request_bytes);
  const grpc_op operations[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},  bare_call_send(request),
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT}, bare_call_receive_initial_metadata(call),
      bare_call_receive(&call->reply),        bare_call_receive_status(call),
  };
  if (worker->plan->split) {
    bare_call_start(call, operations + 5, 1, call);
    bare_call_start(call, operations + 3, 2, call);
    bare_call_start(call, operations, 3, call);
  } else {
    bare_call_start(call, operations, 6, call);
  }
  grpc_byte_buffer_destroy(request);
}

static void end(const struct worker *worker, struct bare_call *call, int64_t *nanoseconds) {
  uint8_t reply[REPLY_BYTES_MAX];
  if (call->reply == NULL ||
      bare_take_message(call->reply, reply, sizeof reply) != worker->plan->reply_bytes) {
    command_fail("an echo without its reply");
  }
  bare_call_end(call);
  *nanoseconds = timing_now_ns() - call->begin_ns;
}

static void *work(void *argument) {
  struct worker *worker = argument;
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  size_t slots = worker->plan->slots < worker->calls ? worker->plan->slots : worker->calls;
  struct bare_call *calls = calloc(slots, sizeof *calls);
  size_t begun = 0;
  for (; begun < slots; ++begun) {
    begin(worker, &calls[begun], queue);
  }
  for (size_t ended = 0; ended < worker->calls;) {
    grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    struct bare_call *call = event.tag;
    if (--call->batches > 0) {
      continue;
    }
    end(worker, call, &worker->nanoseconds[ended++]);
    if (begun < worker->calls) {
      begin(worker, call, queue);
      ++begun;
    }
  }
  free(calls);
  grpc_completion_queue_shutdown(queue);
  (void)grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_completion_queue_destroy(queue);
  return NULL;
}

void bare_echo_run(const struct bare_client *client, const struct bare_echo_plan *plan) {
  if (plan->threads < 1 || plan->slots < 1 || plan->calls < plan->threads ||
      plan->request_bytes < sizeof(int64_t) || plan->request_bytes > REQUEST_BYTES_MAX ||
      plan->reply_bytes < 1 || plan->reply_bytes > REPLY_BYTES_MAX) {
    command_fail("echo: a number out of range");
  }
  static uint8_t request[REQUEST_BYTES_MAX];
  int64_t reply_bytes = (int64_t)plan->reply_bytes;
  memcpy(request, &reply_bytes, sizeof reply_bytes);
  size_t each = plan->calls / plan->threads;
  int64_t *nanoseconds = malloc(each * plan->threads * sizeof *nanoseconds);
  struct worker *workers = calloc(plan->threads, sizeof *workers);
  int64_t begin_ns = timing_now_ns();
  for (size_t i = 0; i < plan->threads; ++i) {
    workers[i] = (struct worker){.client = client,
                                 .plan = plan,
                                 .request = request,
                                 .calls = each,
                                 .nanoseconds = nanoseconds + i * each};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      command_fail("no thread");
    }
  }
  for (size_t i = 0; i < plan->threads; ++i) {
    pthread_join(workers[i].thread, NULL);
  }
  timing_answer(begin_ns, timing_now_ns(), nanoseconds, each * plan->threads);
  free(nanoseconds);
  free(workers);
}
