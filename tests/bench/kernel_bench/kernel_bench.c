#include "tests/bench/kernel_bench/kernel_bench.h"

#include "kernels/operator.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_NAMES_BYTES_MAX 64

struct kernel_bench {
  struct plan plan;
  struct cpu cpu;
  struct parallel *parallel; // NULL for one thread
  void *workspace;
  size_t parameters[KERNEL_BENCH_BUFFERS]; // where each buffer belongs
};

static struct argument_value *add_argument(struct operator_request *request, const char *name,
                                           enum parameter_kind kind) {
  struct argument *argument = &request->arguments[request->argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = kind;
  return &argument->value;
}

static void add_tensor(struct operator_request *request, const char *name, const char *type,
                       const int64_t shape[4]) {
  struct tensor_desc *desc = &add_argument(request, name, PARAMETER_KIND_TENSOR)->tensor;
  desc->data_type = data_type_from_name(type);
  desc->format = FORMAT_NCHW;
  desc->rank = 4;
  memcpy(desc->shape, shape, 4 * sizeof shape[0]);
}

static void add_matrix(struct operator_request *request, const char *name, const char *type, int64_t rows,
                       int64_t columns) {
  struct tensor_desc *desc = &add_argument(request, name, PARAMETER_KIND_TENSOR)->tensor;
  desc->data_type = data_type_from_name(type);
  desc->rank = 2;
  desc->shape[0] = rows;
  desc->shape[1] = columns;
}

static void fill_product(struct operator_request *request, const char *value_type, const int64_t shape[3]) {
  add_matrix(request, "self", value_type, shape[0], shape[1]);
  add_matrix(request, "mat2", value_type, shape[1], shape[2]);
  add_matrix(request, "out", value_type, shape[0], shape[2]);
  add_argument(request, "cubeMathType", PARAMETER_KIND_INTEGER)->integer = 0;
}

// Tensors stand in the order of the run's buffers; `self` of the backward, which has no data, is the last.
static void fill_request(struct operator_request *request, const char *operator_name, const char *value_type,
                         const char *index_type, const int64_t shape[6]) {
  const int64_t pooled[4] = {shape[0], shape[1], shape[4], shape[5]};
  memset(request, 0, sizeof *request);
  snprintf(request->operator_name, sizeof request->operator_name, "%s", operator_name);
  request->target = TARGET_CPU;
  request->numerics = NUMERICS_EXACT;
  if (strcmp(operator_name, "aclnnMm") == 0) {
    fill_product(request, value_type, shape);
    return;
  }
  if (strcmp(operator_name, "aclnnAdaptiveMaxPool2dBackward") == 0) {
    add_tensor(request, "gradOutput", value_type, pooled);
    add_tensor(request, "indices", index_type, pooled);
    add_tensor(request, "gradInput", value_type, shape);
    add_tensor(request, "self", value_type, shape);
    return;
  }
  add_tensor(request, "self", value_type, shape);
  add_tensor(request, "outputOut", value_type, pooled);
  add_tensor(request, "indicesOut", index_type, pooled);
  struct int_array *size = &add_argument(request, "outputSize", PARAMETER_KIND_INT_ARRAY)->int_array;
  size->count = 2;
  size->values[0] = shape[4];
  size->values[1] = shape[5];
}

static bool prepare(struct kernel_bench *bench, const struct operator_request *request, const char *path,
                    size_t threads, struct status *status) {
  cpu_detect(&bench->cpu);
  if (strcmp(path, "best") != 0 && !cpu_path_parse(path, &bench->cpu.path, status)) {
    return false;
  }
  if (!plan_create(request, &bench->plan, status)) {
    return false;
  }
  for (size_t i = 0; i < KERNEL_BENCH_BUFFERS; i++) {
    bench->parameters[i] = bench->plan.tensors[i].parameter;
  }
  size_t bytes = (size_t)bench->plan.workspace_bytes;
  if (posix_memalign(&bench->workspace, TENSOR_ALIGNMENT, bytes == 0 ? 1 : bytes) != 0) {
    bench->workspace = NULL;
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a workspace of %zu bytes", bytes);
  }
  memset(bench->workspace, 0, bytes); // its pages are there before anything is measured
  if (threads > 1 && !parallel_create(threads, &bench->parallel, status)) {
    return false;
  }
  parallel_stay_awake(bench->parallel);
  return true;
}

struct kernel_bench *kernel_bench_create(const char *operator_name, const char *value_type,
                                         const char *index_type, const int64_t shape[6], const char *path,
                                         size_t threads, char *error) {
  struct operator_request request;
  struct status status;
  struct kernel_bench *bench = calloc(1, sizeof *bench);
  if (bench == NULL) {
    snprintf(error, KERNEL_BENCH_ERROR_BYTES, "no memory");
    return NULL;
  }
  fill_request(&request, operator_name, value_type, index_type, shape);
  if (!prepare(bench, &request, path, threads, &status)) {
    snprintf(error, KERNEL_BENCH_ERROR_BYTES, "%s", status.message);
    kernel_bench_destroy(bench);
    return NULL;
  }
  return bench;
}

void kernel_bench_destroy(struct kernel_bench *bench) {
  if (bench == NULL) {
    return;
  }
  parallel_destroy(bench->parallel);
  free(bench->workspace);
  free(bench);
}

uint64_t kernel_bench_workspace_bytes(const struct kernel_bench *bench) {
  return bench->plan.workspace_bytes;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t kernel_bench_run(struct kernel_bench *bench, void *const buffers[KERNEL_BENCH_BUFFERS], int64_t calls,
                         char *error) {
  struct operator_run run = {
      .plan = &bench->plan, .workspace = bench->workspace, .parallel = bench->parallel, .cpu = &bench->cpu};
  for (size_t i = 0; i < KERNEL_BENCH_BUFFERS; i++) {
    run.storages[bench->parameters[i]] = buffers[i];
  }
  struct status status;
  int64_t begin = now_ns();
  for (int64_t i = 0; i < calls; i++) {
    if (!bench->plan.definition->run(&run, &status)) {
      snprintf(error, KERNEL_BENCH_ERROR_BYTES, "%s", status.message);
      return -1;
    }
  }
  return now_ns() - begin;
}

void kernel_bench_rest(struct kernel_bench *bench) {
  parallel_rest(bench->parallel);
}

const char *kernel_bench_paths(void) {
  static char names[PATH_NAMES_BYTES_MAX];
  size_t used = 0;
  for (int path = CPU_PATH_SCALAR; path < CPU_PATH_COUNT; path++) {
    if (cpu_path_is_available((enum cpu_path)path)) {
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? " " : "",
                               cpu_path_name((enum cpu_path)path));
    }
  }
  return names;
}

void kernel_bench_sgemm(const int64_t shape[3], int threads, const float *a, const float *b, float *c) {
  blasint m = (blasint)shape[0];
  blasint k = (blasint)shape[1];
  blasint n = (blasint)shape[2];
  openblas_set_num_threads(threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
}

const char *kernel_bench_blas_core(void) {
  return openblas_get_corename();
}
