// client_bench ADDRESS: the C client at work. Its commands:
//
//   sizes                          bytes of a small job's request and reply, more or less
//   small CALLS THREADS            the small job on a repeatable executor, a call for each
//   concurrent CALLS SLOTS         the same on one thread that has SLOTS calls under way
//   oneshot CALLS                  the small job, both phases in one call
//   pipelined JOBS DEPTH           the small job, all on one stream, DEPTH of them sent ahead
//   backward N C H W HO WO CODEC   one job, both phases in one call; CODEC 1: chunks may be encoded, either
//   way forward N C H W HO WO CODEC

#include "tests/bench/transport_bench/command.h"
#include "tests/bench/transport_bench/pool_job.h"
#include "tests/bench/transport_bench/timing.h"
#include "tests/bench/transport_bench/warm_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_KEPT_MAX 16
// Small jobs under way at once, on threads or on a stream.
#define SMALL_JOBS_MAX 256
#define TIMEOUT_MS 300000
// What messages hold besides handle and tensors: tags, lengths, two offsets; target, numerics and times.
#define REQUEST_ENVELOPE_BYTES 24
#define REPLY_ENVELOPE_BYTES 48

static const int64_t small_shape[POOL_SHAPE_DIMS] = {1, 1, 4, 4, 2, 2};

struct bench {
  aclnn_client *plain, *codec;
  aclnn_plan *plans[SMALL_JOBS_MAX]; // the small jobs': a plan is one thread's at a time
  struct pool_job small_jobs[SMALL_JOBS_MAX];
  struct pool_job *jobs[JOBS_KEPT_MAX];
  size_t job_count;
};

static void check(aclnn_result result, const aclnn_error *error) {
  if (result != ACLNN_OK) {
    command_fail("a call failed with %s: %s", aclnn_code_name(error->code), error->message);
  }
}

static aclnn_client *open_client(const char *address, bool codec) {
  const aclnn_client_options options = {
      .target_address = address, .timeout_ms = TIMEOUT_MS, .retries = -1, .plain_data = !codec};
  aclnn_client *client = NULL;
  aclnn_error error;
  check(aclnn_client_open(&options, &client, &error), &error);
  return client;
}

static struct pool_job *small_job(struct bench *bench, size_t number) {
  struct pool_job *job = &bench->small_jobs[number];
  if (job->tensor_count == 0) {
    pool_job_make_backward(job, small_shape);
  }
  return job;
}

static aclnn_plan *small_plan(struct bench *bench, size_t number) {
  aclnn_plan **plan = &bench->plans[number];
  if (*plan == NULL) {
    aclnn_error error;
    check(aclnn_get_workspace_size(bench->plain, &small_job(bench, number)->arguments, true, 0, plan, &error),
          &error);
  }
  return *plan;
}

static void sizes(void *context, const int64_t *arguments) {
  (void)arguments;
  size_t handle_bytes = 0;
  (void)aclnn_plan_executor(small_plan(context, 0), &handle_bytes);
  command_figure("request_bytes", (double)(handle_bytes + 2 * 4 * 4 + REQUEST_ENVELOPE_BYTES));
  command_figure("reply_bytes", 4 * 4 * 4 + REPLY_ENVELOPE_BYTES);
}

// ---- Small jobs

struct worker {
  aclnn_client *client;
  aclnn_plan *plan; // NULL: both phases in each call
  struct pool_job *job;
  size_t calls;
  int64_t *nanoseconds;
  pthread_t thread;
};

static void *work(void *argument) {
  struct worker *worker = argument;
  struct pool_job *job = worker->job;
  for (size_t i = 0; i < worker->calls; ++i) {
    aclnn_error error;
    int64_t begin_ns = timing_now_ns();
    aclnn_result result = worker->plan == NULL ? aclnn_call(worker->client, &job->arguments, NULL, &error)
                                               : aclnn_execute(worker->client, worker->plan, job->tensors,
                                                               job->tensor_count, NULL, &error);
    worker->nanoseconds[i] = timing_now_ns() - begin_ns;
    check(result, &error);
    pool_job_check(job);
  }
  return NULL;
}

static void run_workers(struct bench *bench, bool one_shot, size_t calls, size_t threads) {
  if (threads < 1 || threads > SMALL_JOBS_MAX || calls < threads) {
    command_fail("a number out of range");
  }
  size_t each = calls / threads;
  int64_t *nanoseconds = malloc(each * threads * sizeof *nanoseconds);
  struct worker workers[SMALL_JOBS_MAX];
  for (size_t i = 0; i < threads; ++i) {
    aclnn_plan *plan = one_shot ? NULL : small_plan(bench, i);
    workers[i] = (struct worker){bench->plain, plan, small_job(bench, i), each, nanoseconds + i * each, 0};
  }
  int64_t begin_ns = timing_now_ns();
  for (size_t i = 0; i < threads; ++i) {
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      command_fail("no thread");
    }
  }
  for (size_t i = 0; i < threads; ++i) {
    pthread_join(workers[i].thread, NULL);
  }
  timing_answer(begin_ns, timing_now_ns(), nanoseconds, each * threads);
  free(nanoseconds);
}

static void small(void *context, const int64_t *arguments) {
  struct bench *bench = context;
  run_workers(bench, false, (size_t)arguments[0], (size_t)arguments[1]);
}

static void oneshot(void *context, const int64_t *arguments) {
  run_workers(context, true, (size_t)arguments[0], 1);
}

static void concurrent(void *context, const int64_t *arguments) {
  struct bench *bench = context;
  size_t count = (size_t)arguments[0], slots = (size_t)arguments[1];
  if (slots < 1 || slots > SMALL_JOBS_MAX || count < slots) {
    command_fail("a number out of range");
  }
  aclnn_plan *plan = small_plan(bench, 0);
  aclnn_execution *executions[SMALL_JOBS_MAX];
  int64_t begun_ns[SMALL_JOBS_MAX];
  int64_t *nanoseconds = malloc(count * sizeof *nanoseconds);
  aclnn_error error;
  int64_t begin_ns = timing_now_ns();
  for (size_t begun = 0, ended = 0; ended < count;) {
    if (begun < count && begun - ended < slots) {
      size_t slot = begun++ % slots;
      struct pool_job *job = small_job(bench, slot);
      begun_ns[slot] = timing_now_ns();
      check(aclnn_execution_begin(bench->plain, plan, job->tensors, job->tensor_count, &executions[slot],
                                  &error),
            &error);
    } else {
      size_t slot = ended % slots;
      check(aclnn_execution_wait(executions[slot], NULL, &error), &error);
      nanoseconds[ended++] = timing_now_ns() - begun_ns[slot];
      pool_job_check(&bench->small_jobs[slot]);
    }
  }
  timing_answer(begin_ns, timing_now_ns(), nanoseconds, count);
  free(nanoseconds);
}

static void pipelined(void *context, const int64_t *arguments) {
  struct bench *bench = context;
  size_t count = (size_t)arguments[0], depth = (size_t)arguments[1];
  if (depth < 1 || depth > SMALL_JOBS_MAX || count < 1) {
    command_fail("a number out of range");
  }
  aclnn_plan *plan = small_plan(bench, 0);
  for (size_t i = 0; i < depth; ++i) {
    (void)small_job(bench, i);
  }
  aclnn_error error;
  aclnn_stream *stream = NULL;
  int64_t begin_ns = timing_now_ns();
  check(aclnn_stream_open(bench->plain, &stream, &error), &error);
  for (size_t submitted = 0, ended = 0; ended < count;) {
    struct pool_job *job = &bench->small_jobs[submitted % depth];
    if (submitted < count && submitted - ended < depth) {
      check(aclnn_stream_submit(stream, plan, job->tensors, job->tensor_count, &error), &error);
      ++submitted;
    } else {
      check(aclnn_stream_wait(stream, NULL, &error), &error);
      pool_job_check(&bench->small_jobs[ended++ % depth]);
    }
  }
  aclnn_stream_close(stream);
  double seconds = (double)(timing_now_ns() - begin_ns) / 1e9;
  command_figure("seconds", seconds);
  command_figure("per_second", (double)count / seconds);
}

// ---- Large jobs

static struct pool_job *find_job(struct bench *bench, bool forward, const int64_t *shape) {
  for (size_t i = 0; i < bench->job_count; ++i) {
    struct pool_job *job = bench->jobs[i];
    if (job->forward == forward && memcmp(job->shape, shape, sizeof job->shape) == 0) {
      return job;
    }
  }
  struct pool_job *job = malloc(sizeof *job);
  if (bench->job_count == JOBS_KEPT_MAX || job == NULL) {
    command_fail("more than %d different jobs", JOBS_KEPT_MAX);
  }
  (forward ? pool_job_make_forward : pool_job_make_backward)(job, shape);
  bench->jobs[bench->job_count++] = job;
  return job;
}

static void run_large(struct bench *bench, bool forward, const int64_t *arguments) {
  struct pool_job *job = find_job(bench, forward, arguments);
  aclnn_client *client = arguments[POOL_SHAPE_DIMS] == 0 ? bench->plain : bench->codec;
  aclnn_error error;
  aclnn_summary summary;
  int64_t begin_ns = timing_now_ns();
  check(aclnn_call(client, &job->arguments, &summary, &error), &error);
  int64_t end_ns = timing_now_ns();
  pool_job_check(job);
  command_figure("seconds", (double)(end_ns - begin_ns) / 1e9);
  command_figure("queue_seconds", (double)summary.queue_ns / 1e9);
  command_figure("upload_seconds", (double)summary.upload_ns / 1e9);
  command_figure("compute_seconds", (double)summary.compute_ns / 1e9);
  command_figure("download_seconds", (double)summary.download_ns / 1e9);
  command_figure("bytes_sent", (double)summary.bytes_sent);
  command_figure("bytes_received", (double)summary.bytes_received);
}

static void backward(void *context, const int64_t *arguments) {
  run_large(context, false, arguments);
}

static void forward(void *context, const int64_t *arguments) {
  run_large(context, true, arguments);
}

static const struct command commands[] = {
    {"sizes", 0, sizes},
    {"small", 2, small},
    {"concurrent", 2, concurrent},
    {"oneshot", 1, oneshot},
    {"pipelined", 2, pipelined},
    {"backward", POOL_SHAPE_DIMS + 1, backward},
    {"forward", POOL_SHAPE_DIMS + 1, forward},
    {NULL, 0, NULL},
};

int main(int argument_count, char **words) {
  if (argument_count != 2) {
    command_fail("usage: client_bench ADDRESS");
  }
  warm_memory_keep_heap();
  static struct bench bench;
  bench.plain = open_client(words[1], false);
  bench.codec = open_client(words[1], true);
  command_loop(commands, &bench);
  return 0;
}
