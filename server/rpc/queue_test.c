#include "server/rpc/queue.h"

#include "server/rpc/library.h"
#include "server/rpc/send_gather.h"

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

// A tag that yields again and again, until something else has happened on the queue.
enum { TURNS_BEFORE_PEER_LEAVES = 3, TURNS_MAX = 10000000 };

struct scene {
  struct queue *queue;
  struct queue_tag yields, ended;
  sem_t turned, over;
  unsigned turns;
  bool call_ended;
  grpc_call *call;
  grpc_status_code code;
};

static int64_t no_time(void *context) {
  (void)context;
  return 0;
}

static void on_turn(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct scene *scene = QUEUE_CONTAINER_OF(tag, struct scene, yields);
  if (++scene->turns == TURNS_BEFORE_PEER_LEAVES) {
    sem_post(&scene->turned);
  }
  if (scene->call_ended || scene->turns == TURNS_MAX) {
    sem_post(&scene->over);
    return;
  }
  queue_yield(scene->queue, tag);
}

static void on_ended(struct queue_tag *tag, bool ok) {
  (void)ok;
  QUEUE_CONTAINER_OF(tag, struct scene, ended)->call_ended = true;
}

static void await(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {
  }
}

// The queue alone looks at the connection, so it learns of the peer's end only if it does so between turns.
static void connections_are_looked_at_between_turns(void **unused) {
  (void)unused;
  struct scene scene = {.yields.event = on_turn, .ended.event = on_ended};
  struct queue_options options = {.idle_timeout_ns = 1, .clock_ns = no_time};
  struct status status;
  int ends[2];
  rpc_library_start();
  sem_init(&scene.turned, 0, 0);
  sem_init(&scene.over, 0, 0);
  assert_true(queue_create(&options, &scene.queue, &status));
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create_from_fd("peer", ends[0], credentials, NULL);
  grpc_channel_credentials_release(credentials);
  scene.call = grpc_channel_create_call(
      channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue_completion_queue(scene.queue),
      grpc_slice_from_static_string("/test"), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array trailers;
  grpc_metadata_array_init(&trailers);
  grpc_slice message = grpc_empty_slice();
  grpc_metadata_array metadata;
  grpc_metadata_array_init(&metadata);
  const char *error_string = NULL;
  grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
                    {.op = GRPC_OP_RECV_INITIAL_METADATA}};
  ops[1].data.recv_status_on_client.trailing_metadata = &trailers;
  ops[1].data.recv_status_on_client.status = &scene.code;
  ops[1].data.recv_status_on_client.status_details = &message;
  ops[1].data.recv_status_on_client.error_string = &error_string;
  ops[2].data.recv_initial_metadata.recv_initial_metadata = &metadata;
  queue_start_batch(scene.call, ops, 3, &scene.ended);
  queue_wake(scene.queue, &scene.yields);

  await(&scene.turned);
  close(ends[1]);
  await(&scene.over);
  assert_true(scene.call_ended);
  assert_int_equal(scene.code, GRPC_STATUS_UNAVAILABLE);

  grpc_slice_unref(message);
  gpr_free((void *)error_string);
  grpc_metadata_array_destroy(&metadata);
  grpc_metadata_array_destroy(&trailers);
  grpc_call_unref(scene.call);
  grpc_channel_destroy(channel);
  queue_destroy(scene.queue);
  sem_destroy(&scene.turned);
  sem_destroy(&scene.over);
  rpc_library_stop();
}

// ---- What is held back is let go

// Nobody's descriptor; what is held for it is let go by setsockopt, which this program has in its own hand.
enum { HELD_DESCRIPTOR = 123456 };

static sem_t let_go;

int setsockopt(int descriptor, int level, int name, const void *value, socklen_t size) {
  if (descriptor == HELD_DESCRIPTOR) {
    sem_post(&let_go);
    return 0;
  }
  return (int)syscall(SYS_setsockopt, descriptor, level, name, value, size);
}

struct holder {
  struct queue *queue;
  struct queue_tag holds, yields;
  sem_t over;
  int let_go_before_turn;
};

static void hold_something(void) {
  for (int i = 0; i < 2; ++i) {
    send_gather_call_begins(HELD_DESCRIPTOR);
  }
  assert_int_equal(send_gather_flags(HELD_DESCRIPTOR, 1, 0), MSG_MORE);
  for (int i = 0; i < 2; ++i) {
    send_gather_call_ends(HELD_DESCRIPTOR);
  }
}

static void on_holds(struct queue_tag *tag, bool ok) {
  (void)tag;
  (void)ok;
  hold_something();
}

static void on_holds_and_yields(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct holder *holder = QUEUE_CONTAINER_OF(tag, struct holder, holds);
  queue_yield(holder->queue, &holder->yields);
  hold_something();
}

static void on_yielded(struct queue_tag *tag, bool ok) {
  (void)ok;
  struct holder *holder = QUEUE_CONTAINER_OF(tag, struct holder, yields);
  sem_getvalue(&let_go, &holder->let_go_before_turn);
  sem_post(&holder->over);
}

static void create_holder(struct holder *holder) {
  struct queue_options options = {.idle_timeout_ns = 1, .clock_ns = no_time};
  struct status status;
  rpc_library_start();
  sem_init(&let_go, 0, 0);
  sem_init(&holder->over, 0, 0);
  assert_true(queue_create(&options, &holder->queue, &status));
}

static void destroy_holder(struct holder *holder) {
  queue_destroy(holder->queue);
  sem_destroy(&let_go);
  sem_destroy(&holder->over);
  rpc_library_stop();
}

static void what_an_event_holds_back_goes_when_no_other_comes(void **unused) {
  (void)unused;
  struct holder holder = {.holds.event = on_holds};
  create_holder(&holder);
  queue_wake(holder.queue, &holder.holds);
  await(&let_go);
  destroy_holder(&holder);
}

static void what_an_event_holds_back_goes_before_a_turn_of_what_takes_long(void **unused) {
  (void)unused;
  struct holder holder = {.holds.event = on_holds_and_yields, .yields.event = on_yielded};
  create_holder(&holder);
  queue_wake(holder.queue, &holder.holds);
  await(&holder.over);
  assert_int_equal(holder.let_go_before_turn, 1);
  destroy_holder(&holder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(connections_are_looked_at_between_turns),
      cmocka_unit_test(what_an_event_holds_back_goes_when_no_other_comes),
      cmocka_unit_test(what_an_event_holds_back_goes_before_a_turn_of_what_takes_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
