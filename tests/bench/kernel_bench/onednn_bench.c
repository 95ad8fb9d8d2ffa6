#include "tests/bench/kernel_bench/onednn_bench.h"

#include <dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_BYTES_MAX 32

struct onednn_pooling {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t forward, backward;
  // Of self and its gradient, of the output and its gradient, and of the positions in between.
  dnnl_memory_t large, small, workspace;
};

static bool create_primitives(struct onednn_pooling *pooling, const dnnl_memory_desc_t *large,
                              const dnnl_memory_desc_t *small, const dnnl_dims_t window) {
  const dnnl_dims_t no_padding = {0, 0};
  dnnl_pooling_desc_t forward;
  dnnl_pooling_desc_t backward;
  dnnl_primitive_desc_t forward_plan = NULL;
  dnnl_primitive_desc_t backward_plan = NULL;
  bool done =
      dnnl_pooling_forward_desc_init(&forward, dnnl_forward_training, dnnl_pooling_max, large, small, window,
                                     window, no_padding, no_padding) == dnnl_success &&
      dnnl_primitive_desc_create(&forward_plan, &forward, NULL, pooling->engine, NULL) == dnnl_success &&
      dnnl_pooling_backward_desc_init(&backward, dnnl_pooling_max, large, small, window, window, no_padding,
                                      no_padding) == dnnl_success &&
      dnnl_primitive_desc_create(&backward_plan, &backward, NULL, pooling->engine, forward_plan) ==
          dnnl_success &&
      dnnl_memory_create(&pooling->workspace,
                         dnnl_primitive_desc_query_md(forward_plan, dnnl_query_workspace_md, 0),
                         pooling->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
      dnnl_primitive_create(&pooling->forward, forward_plan) == dnnl_success &&
      dnnl_primitive_create(&pooling->backward, backward_plan) == dnnl_success;
  if (backward_plan != NULL) {
    dnnl_primitive_desc_destroy(backward_plan);
  }
  if (forward_plan != NULL) {
    dnnl_primitive_desc_destroy(forward_plan);
  }
  return done;
}

struct onednn_pooling *onednn_pooling_create(const char *value_type, const int64_t shape[6], int blocked) {
  const dnnl_dims_t large_dims = {shape[0], shape[1], shape[2], shape[3]};
  const dnnl_dims_t small_dims = {shape[0], shape[1], shape[4], shape[5]};
  const dnnl_dims_t window = {shape[2] / shape[4], shape[3] / shape[5]};
  dnnl_data_type_t type = strcmp(value_type, "bf16") == 0 ? dnnl_bf16 : dnnl_f32;
  dnnl_format_tag_t tag = blocked ? dnnl_nChw16c : dnnl_nchw;
  dnnl_memory_desc_t large;
  dnnl_memory_desc_t small;
  struct onednn_pooling *pooling = calloc(1, sizeof *pooling);
  if (pooling == NULL) {
    return NULL;
  }
  bool done =
      dnnl_engine_create(&pooling->engine, dnnl_cpu, 0) == dnnl_success &&
      dnnl_stream_create(&pooling->stream, pooling->engine, dnnl_stream_default_flags) == dnnl_success &&
      dnnl_memory_desc_init_by_tag(&large, 4, large_dims, type, tag) == dnnl_success &&
      dnnl_memory_desc_init_by_tag(&small, 4, small_dims, type, tag) == dnnl_success &&
      dnnl_memory_create(&pooling->large, &large, pooling->engine, DNNL_MEMORY_NONE) == dnnl_success &&
      dnnl_memory_create(&pooling->small, &small, pooling->engine, DNNL_MEMORY_NONE) == dnnl_success &&
      create_primitives(pooling, &large, &small, window);
  if (!done) {
    onednn_pooling_destroy(pooling);
    return NULL;
  }
  return pooling;
}

void onednn_pooling_destroy(struct onednn_pooling *pooling) {
  if (pooling == NULL) {
    return;
  }
  dnnl_primitive_t primitives[] = {pooling->forward, pooling->backward};
  dnnl_memory_t memories[] = {pooling->large, pooling->small, pooling->workspace};
  for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++) {
    if (primitives[i] != NULL) {
      dnnl_primitive_destroy(primitives[i]);
    }
  }
  for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
    if (memories[i] != NULL) {
      dnnl_memory_destroy(memories[i]);
    }
  }
  if (pooling->stream != NULL) {
    dnnl_stream_destroy(pooling->stream);
  }
  if (pooling->engine != NULL) {
    dnnl_engine_destroy(pooling->engine);
  }
  free(pooling);
}

static int run(struct onednn_pooling *pooling, dnnl_primitive_t primitive, const dnnl_exec_arg_t arguments[3],
               void *large, void *small) {
  bool done = dnnl_memory_set_data_handle(pooling->large, large) == dnnl_success &&
              dnnl_memory_set_data_handle(pooling->small, small) == dnnl_success &&
              dnnl_primitive_execute(primitive, pooling->stream, 3, arguments) == dnnl_success &&
              dnnl_stream_wait(pooling->stream) == dnnl_success;
  return done ? 0 : -1;
}

int onednn_pooling_forward(struct onednn_pooling *pooling, void *self, void *output) {
  const dnnl_exec_arg_t arguments[3] = {{DNNL_ARG_SRC, pooling->large},
                                        {DNNL_ARG_DST, pooling->small},
                                        {DNNL_ARG_WORKSPACE, pooling->workspace}};
  return run(pooling, pooling->forward, arguments, self, output);
}

int onednn_pooling_backward(struct onednn_pooling *pooling, void *grad_output, void *grad_input) {
  const dnnl_exec_arg_t arguments[3] = {{DNNL_ARG_DIFF_SRC, pooling->large},
                                        {DNNL_ARG_DIFF_DST, pooling->small},
                                        {DNNL_ARG_WORKSPACE, pooling->workspace}};
  return run(pooling, pooling->backward, arguments, grad_input, grad_output);
}

const char *onednn_pooling_version(void) {
  static char text[VERSION_BYTES_MAX];
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
  return text;
}
