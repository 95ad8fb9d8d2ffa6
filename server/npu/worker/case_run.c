#include "server/npu/worker/case_run.h"

#include "kernels/tolerance.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// What outputs hold before they are written: no case expects it.
#define GARBAGE 0xa5

struct case_job {
  struct plan plan;
  void *storages[OPERATOR_PARAMETERS_MAX];
  void *expected[OPERATOR_PARAMETERS_MAX]; // of outputs
};

const char *case_outcome_name(enum case_outcome outcome) {
  switch (outcome) {
  case CASE_RIGHT:
    return "right";
  case CASE_WRONG:
    return "WRONG";
  case CASE_NOT_JUDGED:
    return "not judged";
  case CASE_NOT_SERVED:
    return "not served";
  case CASE_FAILED:
    return "FAILED";
  }
  return "unknown";
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void make_request(const struct operator_definition *definition, const struct npu_case *npu_case,
                         struct operator_request *request) {
  *request = (struct operator_request){.target = TARGET_NPU, .numerics = NUMERICS_DEVICE};
  snprintf(request->operator_name, sizeof request->operator_name, "%s", definition->name);
  for (size_t i = 0; i < definition->parameter_count; i++) {
    if (npu_case->values[i].kind == PARAMETER_KIND_UNSPECIFIED) {
      continue;
    }
    struct argument *argument = &request->arguments[request->argument_count++];
    snprintf(argument->name, sizeof argument->name, "%s", definition->parameters[i].name);
    argument->value = npu_case->values[i];
  }
}

static void *allocate(size_t bytes, int byte) {
  void *memory = NULL;
  if (posix_memalign(&memory, TENSOR_ALIGNMENT, bytes == 0 ? 1 : bytes) != 0) {
    return NULL;
  }
  return memset(memory, byte, bytes);
}

static bool make_storages(const struct npu_case *npu_case, struct case_job *job, struct status *status) {
  for (size_t i = 0; i < job->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &job->plan.tensors[i];
    const struct npu_case_storage *storage = &npu_case->storages[tensor->parameter];
    size_t bytes = (size_t)tensor->storage_bytes;
    bool output = tensor->direction == DIRECTION_OUTPUT;
    if (!tensor->transferred) {
      continue;
    }
    void *memory = job->storages[tensor->parameter] = allocate(bytes, GARBAGE);
    void *expected = job->expected[tensor->parameter] = output ? allocate(bytes, GARBAGE) : NULL;
    if (memory == NULL || (output && expected == NULL)) {
      return status_fail(status, REASON_INTERNAL, NULL, "no memory for a case");
    }
    if (npu_case->fill_inputs == NULL) {
      assert(storage->bytes == bytes);
      memcpy(output ? expected : memory, storage->data, bytes);
    }
  }
  return true;
}

// What the CPU gives for inputs that were made up.
static bool fill(const struct npu_case *npu_case, struct case_job *job, struct status *status) {
  npu_case->fill_inputs(&job->plan, job->storages);
  struct operator_run run = {.plan = &job->plan, .workspace = allocate(job->plan.workspace_bytes, GARBAGE)};
  if (run.workspace == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for a case");
  }
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    run.storages[i] = job->expected[i] != NULL ? job->expected[i] : job->storages[i];
  }
  bool computed = job->plan.definition->run(&run, status);
  free(run.workspace);
  return computed;
}

static void free_storages(struct case_job *job) {
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    free(job->storages[i]);
    free(job->expected[i]);
  }
}

static bool has_expected_bits(const struct case_job *job, struct status *status) {
  for (size_t i = 0; i < job->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &job->plan.tensors[i];
    const struct tensor_desc *desc = plan_tensor_desc(&job->plan, i);
    const char *name = job->plan.definition->parameters[tensor->parameter].name;
    if (tensor->direction != DIRECTION_OUTPUT) {
      continue;
    }
    // The whole storage, holes included.
    struct tensor_desc flat = {.data_type = desc->data_type,
                               .format = FORMAT_ND,
                               .rank = 1,
                               .stride_count = 1,
                               .shape = {desc->storage_elements},
                               .strides = {1},
                               .storage_elements = desc->storage_elements};
    struct tensor_comparison comparison;
    tensor_compare(&flat, job->storages[tensor->parameter], job->expected[tensor->parameter], true,
                   &comparison);
    if (!comparison.agree) {
      return status_fail(status, REASON_DEVICE_LOST, name,
                         "%lld of %lld elements of %s are not what they should be, the first is number %lld",
                         (long long)comparison.differing, (long long)comparison.elements, name,
                         (long long)comparison.first);
    }
  }
  return true;
}

static bool is_judged(const struct case_job *job, const struct npu_case *npu_case, enum npu_product product) {
  const struct npu_binding *binding = job->plan.definition->npu;
  struct operator_run run = {.plan = &job->plan};
  memcpy(run.storages, job->storages, sizeof run.storages);
  return (npu_case->unjudged_products >> product & 1) == 0 &&
         (binding->is_comparable == NULL || binding->is_comparable(&run, product));
}

static enum case_outcome run_job(struct device *device, const struct npu_case *npu_case, struct case_job *job,
                                 struct case_result *result) {
  enum npu_product product = device_describe(device)->product;
  const struct npu_binding *binding = job->plan.definition->npu;
  if (!make_storages(npu_case, job, &result->status) ||
      (npu_case->fill_inputs != NULL && !fill(npu_case, job, &result->status))) {
    return CASE_FAILED;
  }
  if (binding->check_plan != NULL && !binding->check_plan(&job->plan, product, &result->status)) {
    return CASE_NOT_SERVED;
  }
  int64_t begin = now_ns();
  if (!device_plan(device, &job->plan, &result->workspace_bytes, &result->status) ||
      !device_run(device, &job->plan, job->storages, &result->status)) {
    return CASE_FAILED;
  }
  result->elapsed_ns = now_ns() - begin;
  result->same_bits = has_expected_bits(job, &result->status);
  if (!is_judged(job, npu_case, product)) {
    return CASE_NOT_JUDGED;
  }
  return result->same_bits ? CASE_RIGHT : CASE_WRONG;
}

void case_run(struct device *device, const struct operator_definition *definition,
              const struct npu_case *npu_case, struct case_result *result) {
  *result = (struct case_result){.outcome = CASE_FAILED};
  struct operator_request request;
  make_request(definition, npu_case, &request);
  struct case_job job = {0};
  if (plan_create(&request, &job.plan, &result->status)) {
    result->outcome = run_job(device, npu_case, &job, result);
  }
  free_storages(&job);
}

bool case_run_probes(struct device *device, const struct acl_library *library, struct status *status) {
  for (size_t i = 0; i < operator_count(); i++) {
    const struct operator_definition *definition = operator_at(i);
    size_t count = (library->operator_mask >> i & 1) != 0 ? definition->npu->case_count : 0;
    for (size_t j = 0; j < count; j++) {
      const struct npu_case *npu_case = &definition->npu->cases[j];
      struct case_result result = {.outcome = CASE_RIGHT};
      if (npu_case->probe) {
        case_run(device, definition, npu_case, &result);
      }
      if (result.outcome == CASE_WRONG || result.outcome == CASE_FAILED) {
        status_fail(status, result.status.reason, NULL, "the probe of %s (%s) failed: %s", definition->name,
                    npu_case->name, result.status.message);
        status->aclnn_status = result.status.aclnn_status;
        return false;
      }
    }
  }
  return true;
}
