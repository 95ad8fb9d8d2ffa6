// bare_client ADDRESS [CHANNEL_ARGUMENT=VALUE...]: the floor's client, see bare.h. Its commands:
//
//   echo CALLS THREADS SLOTS REQUEST_BYTES REPLY_BYTES SPLIT    each thread has SLOTS calls under way on a
//   queue of its own;
//                    a call is one batch, or with SPLIT 1 as many as a client needs that doesn't know how
//                    many replies come
//   download BYTES MESSAGE_BYTES
//   upload BYTES MESSAGE_BYTES

#include "tests/bench/transport_bench/bare_echo.h"
#include "tests/bench/transport_bench/bare_stream.h"
#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <grpc/grpc_security.h>

static void echo(void *context, const int64_t *arguments) {
  struct bare_echo_plan plan = {
      .calls = (size_t)arguments[0],
      .threads = (size_t)arguments[1],
      .slots = (size_t)arguments[2],
      .request_bytes = (size_t)arguments[3],
      .reply_bytes = (size_t)arguments[4],
      .split = arguments[5] != 0,
  };
  bare_echo_run(context, &plan);
}

static void download(void *context, const int64_t *arguments) {
  bare_stream_download(context, (size_t)arguments[0], (size_t)arguments[1]);
}

static void upload(void *context, const int64_t *arguments) {
  bare_stream_upload(context, (size_t)arguments[0], (size_t)arguments[1]);
}

static const struct command commands[] = {
    {"echo", 6, echo},
    {"download", 2, download},
    {"upload", 2, upload},
    {NULL, 0, NULL},
};

int main(int argument_count, char **words) {
  if (argument_count < 2) {
    command_fail("usage: bare_client ADDRESS [CHANNEL_ARGUMENT=VALUE...]");
  }
  warm_memory_keep_heap();
  grpc_init();
  grpc_arg arguments[BARE_ARGUMENTS_MAX];
  grpc_channel_args all = bare_arguments(words + 2, argument_count - 2, arguments);
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  struct bare_client client = {.channel = grpc_channel_create(words[1], credentials, &all),
                               .buffer = warm_memory_get(BARE_BYTES_MAX)};
  grpc_channel_credentials_release(credentials);
  client.queue = grpc_completion_queue_create_for_next(NULL);
  client.echo = grpc_channel_register_call(client.channel, BARE_ECHO, NULL, NULL);
  client.download = grpc_channel_register_call(client.channel, BARE_DOWNLOAD, NULL, NULL);
  client.upload = grpc_channel_register_call(client.channel, BARE_UPLOAD, NULL, NULL);
  command_loop(commands, &client);
  return 0;
}
