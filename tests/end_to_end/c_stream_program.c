// Two jobs on one stream of the C client, for tests that script the server: c_stream_program ADDRESS. For
// each job it prints "done", or the reason and the code of its failure.
#include "client/c/aclnn_client.h"

#include <stdio.h>

enum { JOBS = 2, TENSORS = 4, ELEMENTS = 4 };

struct stream_job {
  float grad_output[ELEMENTS], grad_input[ELEMENTS];
  int64_t indices[ELEMENTS];
  aclnn_tensor tensors[TENSORS];
};

static void fill(struct stream_job *job) {
  *job = (struct stream_job){.grad_output = {1, 2, 3, 4}, .indices = {0, 1, 2, 3}};
  const aclnn_tensor tensors[TENSORS] = {
      {"gradOutput",
       false,
       ACLNN_FLOAT,
       3,
       {1, 2, 2},
       .data = job->grad_output,
       .data_bytes = sizeof job->grad_output},
      {"self", false, ACLNN_FLOAT, 3, {1, 2, 2}},
      {"indices", false, ACLNN_INT64, 3, {1, 2, 2}, .data = job->indices, .data_bytes = sizeof job->indices},
      {"gradInput",
       true,
       ACLNN_FLOAT,
       3,
       {1, 2, 2},
       .data = job->grad_input,
       .data_bytes = sizeof job->grad_input},
  };
  for (int i = 0; i < TENSORS; i++) {
    job->tensors[i] = tensors[i];
  }
}

static int run(aclnn_client *client, aclnn_error *error) {
  struct stream_job jobs[JOBS];
  fill(&jobs[0]);
  aclnn_call_arguments arguments = {"aclnnAdaptiveMaxPool2dBackward", jobs[0].tensors, TENSORS, NULL, 0};
  aclnn_plan *plan;
  aclnn_stream *stream;
  if (aclnn_get_workspace_size(client, &arguments, true, 0, &plan, error) != ACLNN_OK) {
    return 1;
  }
  if (aclnn_stream_open(client, &stream, error) != ACLNN_OK) {
    (void)aclnn_destroy(NULL, plan, NULL);
    return 1;
  }
  // The second job comes when the first has its result: each has its own tries.
  for (int i = 0; i < JOBS; i++) {
    fill(&jobs[i]);
    bool ok = aclnn_stream_submit(stream, plan, jobs[i].tensors, TENSORS, error) == ACLNN_OK &&
              aclnn_stream_wait(stream, NULL, error) == ACLNN_OK;
    if (ok) {
      puts("done");
    } else {
      printf("%s %s\n", error->reason[0] == '\0' ? "-" : error->reason, aclnn_code_name(error->code));
    }
  }
  aclnn_stream_close(stream);
  (void)aclnn_destroy(NULL, plan, NULL);
  return 0;
}

int main(int count, char **arguments) {
  aclnn_client *client;
  aclnn_error error;
  if (count != 2) {
    fputs("usage: c_stream_program ADDRESS\n", stderr);
    return 2;
  }
  aclnn_client_options options = {.target_address = arguments[1], .timeout_ms = 60000};
  if (aclnn_client_open(&options, &client, &error) != ACLNN_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  int failed = run(client, &error);
  if (failed) {
    fprintf(stderr, "%s\n", error.message);
  }
  aclnn_client_close(client);
  return failed;
}
