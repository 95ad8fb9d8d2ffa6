#include "server/npu/worker/executors.h"

#include "server/npu/worker/acl_failure.h"

#include <assert.h>
#include <string.h>

// ---- Keys

struct key {
  uint8_t bytes[EXECUTORS_KEY_BYTES_MAX];
  size_t count;
};

static void key_add(struct key *key, const void *bytes, size_t count) {
  assert(key->count + count <= sizeof key->bytes);
  memcpy(key->bytes + key->count, bytes, count);
  key->count += count;
}

static void key_add_number(struct key *key, int64_t number) {
  key_add(key, &number, sizeof number);
}

static void key_add_tensor(struct key *key, const struct tensor_desc *desc) {
  key_add_number(key, (int64_t)desc->data_type << 32 | (int64_t)desc->format);
  key_add_number(key, (int64_t)desc->rank);
  key_add(key, desc->shape, desc->rank * sizeof desc->shape[0]);
  key_add(key, desc->strides, desc->rank * sizeof desc->strides[0]);
  key_add_number(key, desc->storage_offset);
  key_add_number(key, desc->storage_elements);
}

static void key_add_value(struct key *key, const struct argument_value *value) {
  key_add_number(key, value->kind);
  switch (value->kind) {
  case PARAMETER_KIND_TENSOR:
    key_add_tensor(key, &value->tensor);
    break;
  case PARAMETER_KIND_INT_ARRAY:
    assert(value->int_array.count <= ARGUMENT_INT_ARRAY_MAX); // no operator takes more
    key_add_number(key, (int64_t)value->int_array.count);
    key_add(key, value->int_array.values, value->int_array.count * sizeof value->int_array.values[0]);
    break;
  case PARAMETER_KIND_INTEGER:
    key_add_number(key, value->integer);
    break;
  case PARAMETER_KIND_REAL:
    key_add(key, &value->real, sizeof value->real);
    break;
  case PARAMETER_KIND_BOOLEAN:
    key_add_number(key, value->boolean);
    break;
  case PARAMETER_KIND_TEXT:
    key_add(key, value->text, strlen(value->text) + 1);
    break;
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
}

_Static_assert(ARGUMENT_TEXT_BYTES_MAX + 1 <= 8 * (4 + 2 * TENSOR_RANK_MAX), "a text is no longer");

static struct key key_of(const struct plan *plan) {
  struct key key = {.count = 0};
  key_add_number(&key, (int64_t)(uintptr_t)plan->definition);
  for (size_t i = 0; i < plan->definition->parameter_count; i++) {
    key_add_value(&key, &plan->arguments.values[i]);
  }
  return key;
}

// ---- Arguments

// CANN documents named axes for some operators; by rank they are the same as ND.
static int32_t format_on_device(const struct npu_binding *binding, const struct tensor_desc *desc) {
  if (binding->named_axes && desc->format == FORMAT_ND) {
    return desc->rank == 3 ? ACL_FORMAT_NCL : ACL_FORMAT_NCHW;
  }
  return format_to_cann(desc->format);
}

static void destroy_arguments(const struct acl_functions *functions, const struct plan *plan,
                              union npu_argument *arguments) {
  for (size_t i = 0; i < plan->definition->parameter_count; i++) {
    enum parameter_kind kind = plan->arguments.values[i].kind;
    if (kind == PARAMETER_KIND_TENSOR && arguments[i].tensor != NULL) {
      functions->aclDestroyTensor(arguments[i].tensor);
    } else if (kind == PARAMETER_KIND_INT_ARRAY && arguments[i].int_array != NULL) {
      functions->aclDestroyIntArray(arguments[i].int_array);
    }
  }
  memset(arguments, 0, OPERATOR_PARAMETERS_MAX * sizeof *arguments);
}

// An input of which only the shape is read has no storage on the device. CANN makes a contiguous copy of what
// is strided, so that its strides must not lead anywhere.
static struct tensor_desc desc_on_device(const struct plan *plan, size_t parameter) {
  const struct operator_parameter *described = &plan->definition->parameters[parameter];
  struct tensor_desc desc = plan->arguments.values[parameter].tensor;
  if (described->shape_only) {
    struct status status;
    desc = tensor_desc_like(&desc);
    bool legal = tensor_desc_normalise(&desc, DIRECTION_INPUT, described->name, &status);
    assert(legal); // the plan's own shape
  }
  return desc;
}

static bool create_argument(const struct executors *executors, const struct plan *plan, size_t parameter,
                            void *address, union npu_argument *argument, struct status *status) {
  const struct acl_functions *functions = &executors->library->functions;
  const struct argument_value *value = &plan->arguments.values[parameter];
  const char *call = NULL;
  switch (value->kind) {
  case PARAMETER_KIND_TENSOR: {
    struct tensor_desc desc = desc_on_device(plan, parameter);
    argument->tensor = functions->aclCreateTensor(
        desc.shape, desc.rank, data_type_to_cann(desc.data_type), desc.strides, desc.storage_offset,
        format_on_device(plan->definition->npu, &desc), &desc.storage_elements, 1,
        address != NULL ? address : executors->placeholder);
    call = argument->tensor == NULL ? "aclCreateTensor" : NULL;
    break;
  }
  case PARAMETER_KIND_INT_ARRAY:
    argument->int_array = functions->aclCreateIntArray(value->int_array.values, value->int_array.count);
    call = argument->int_array == NULL ? "aclCreateIntArray" : NULL;
    break;
  case PARAMETER_KIND_INTEGER:
    argument->integer = value->integer;
    break;
  case PARAMETER_KIND_REAL:
    argument->real = value->real;
    break;
  case PARAMETER_KIND_BOOLEAN:
    argument->boolean = value->boolean;
    break;
  case PARAMETER_KIND_TEXT:
    argument->text = value->text;
    break;
  case PARAMETER_KIND_UNSPECIFIED:
    break;
  }
  return call == NULL || acl_failure(functions, call, ACL_STATUS_INNER, status);
}

// addresses may be NULL: all tensors get the placeholder. Texts stay the plan's: they are read in phase 1
// only.
static bool create_arguments(const struct executors *executors, const struct plan *plan,
                             void *const *addresses, union npu_argument *arguments, struct status *status) {
  memset(arguments, 0, OPERATOR_PARAMETERS_MAX * sizeof *arguments);
  for (size_t i = 0; i < plan->definition->parameter_count; i++) {
    if (!create_argument(executors, plan, i, addresses != NULL ? addresses[i] : NULL, &arguments[i],
                         status)) {
      destroy_arguments(&executors->library->functions, plan, arguments);
      return false;
    }
  }
  return true;
}

// ---- Executors

static const struct acl_operator *operator_of(const struct executors *executors, const struct plan *plan) {
  for (size_t i = 0; i < operator_count(); i++) {
    if (operator_at(i) == plan->definition) {
      return &executors->library->operators[i];
    }
  }
  return NULL;
}

static bool phase_one(const struct executors *executors, const struct plan *plan,
                      const union npu_argument *arguments, uint64_t *workspace_bytes,
                      struct aclOpExecutor **executor, struct status *status) {
  const struct npu_binding *binding = plan->definition->npu;
  int32_t number = binding->get_workspace_size(operator_of(executors, plan)->get_workspace_size, arguments,
                                               workspace_bytes, executor);
  return number == ACL_STATUS_SUCCESS ||
         acl_failure(&executors->library->functions, binding->workspace_symbol, number, status);
}

static bool make_repeatable(const struct acl_functions *functions, struct aclOpExecutor *executor) {
  return functions->aclSetAclOpExecutorRepeatable != NULL && functions->aclSetInputTensorAddr != NULL &&
         functions->aclSetOutputTensorAddr != NULL && functions->aclDestroyAclOpExecutor != NULL &&
         functions->aclSetAclOpExecutorRepeatable(executor) == ACL_STATUS_SUCCESS;
}

// The one documented way to be rid of a one-shot executor that isn't run: phase 2 refuses a workspace that
// isn't there, and destroys it.
static void dispose_one_shot(const struct executors *executors, const struct plan *plan,
                             struct aclOpExecutor *executor) {
  (void)operator_of(executors, plan)->run(NULL, 1, executor, NULL);
  (void)executors->library->functions.aclGetRecentErrMsg(); // this error is of no interest to the next caller
}

static void forget(struct executors *executors, struct prepared_plan *prepared) {
  const struct acl_functions *functions = &executors->library->functions;
  if (prepared->executor != NULL) {
    functions->aclDestroyAclOpExecutor(prepared->executor);
    destroy_arguments(functions, &prepared->plan, prepared->arguments);
  }
  prepared->executor = NULL;
  prepared->key_bytes = 0;
}

static struct prepared_plan *find(struct executors *executors, const struct key *key) {
  for (size_t i = 0; i < EXECUTORS_MAX; i++) {
    struct prepared_plan *prepared = &executors->prepared[i];
    if (prepared->key_bytes == key->count && memcmp(prepared->key, key->bytes, key->count) == 0) {
      prepared->last_used = ++executors->uses;
      return prepared;
    }
  }
  return NULL;
}

// A place for the plan: a free one, or that of the one whose last use is longest ago.
static struct prepared_plan *remember(struct executors *executors, const struct key *key,
                                      const struct plan *plan, uint64_t workspace_bytes) {
  struct prepared_plan *oldest = &executors->prepared[0];
  for (size_t i = 0; i < EXECUTORS_MAX && oldest->key_bytes != 0; i++) {
    struct prepared_plan *prepared = &executors->prepared[i];
    if (prepared->key_bytes == 0 || prepared->last_used < oldest->last_used) {
      oldest = prepared;
    }
  }
  forget(executors, oldest);
  memcpy(oldest->key, key->bytes, key->count);
  oldest->key_bytes = key->count;
  oldest->last_used = ++executors->uses;
  oldest->workspace_bytes = workspace_bytes;
  oldest->plan = *plan;
  return oldest;
}

// Phase 1 with arguments of its own. On success the executor is either kept in *prepared, or *one_shot is it.
static bool prepare(struct executors *executors, const struct plan *plan, const struct key *key,
                    void *const *addresses, struct executor_run *run, struct status *status) {
  union npu_argument arguments[OPERATOR_PARAMETERS_MAX];
  if (!create_arguments(executors, plan, addresses, arguments, status)) {
    return false;
  }
  uint64_t workspace_bytes = 0;
  struct aclOpExecutor *executor = NULL;
  if (!phase_one(executors, plan, arguments, &workspace_bytes, &executor, status)) {
    destroy_arguments(&executors->library->functions, plan, arguments);
    return false;
  }
  struct prepared_plan *prepared = find(executors, key);
  bool known_as_one_shot = prepared != NULL;
  if (prepared == NULL) {
    prepared = remember(executors, key, plan, workspace_bytes);
  }
  prepared->workspace_bytes = workspace_bytes;
  *run = (struct executor_run){
      .prepared = prepared, .executor = executor, .one_shot = true, .workspace_bytes = workspace_bytes};
  if (!known_as_one_shot && make_repeatable(&executors->library->functions, executor)) {
    prepared->executor = executor;
    memcpy(prepared->arguments, arguments, sizeof arguments);
    run->one_shot = false;
  } else {
    (void)executors->library->functions.aclGetRecentErrMsg();
    memcpy(run->arguments, arguments, sizeof arguments);
  }
  return true;
}

static bool set_addresses(const struct executors *executors, struct prepared_plan *prepared,
                          void *const addresses[OPERATOR_PARAMETERS_MAX], struct status *status) {
  const struct acl_functions *functions = &executors->library->functions;
  const struct operator_definition *definition = prepared->plan.definition;
  size_t inputs = 0, outputs = 0;
  for (size_t i = 0; i < definition->parameter_count; i++) {
    if (definition->parameters[i].kind != PARAMETER_KIND_TENSOR) {
      continue;
    }
    bool input = definition->parameters[i].direction == DIRECTION_INPUT;
    size_t index = input ? inputs++ : outputs++;
    if (addresses[i] == NULL) {
      continue;
    }
    struct aclTensor *tensor = prepared->arguments[i].tensor;
    int32_t number = input
                         ? functions->aclSetInputTensorAddr(prepared->executor, index, tensor, addresses[i])
                         : functions->aclSetOutputTensorAddr(prepared->executor, index, tensor, addresses[i]);
    if (number != ACL_STATUS_SUCCESS) {
      return acl_failure(functions, input ? "aclSetInputTensorAddr" : "aclSetOutputTensorAddr", number,
                         status);
    }
  }
  return true;
}

void executors_init(struct executors *executors, const struct acl_library *library, void *placeholder) {
  memset(executors, 0, sizeof *executors);
  executors->library = library;
  executors->placeholder = placeholder;
}

void executors_close(struct executors *executors) {
  for (size_t i = 0; i < EXECUTORS_MAX; i++) {
    forget(executors, &executors->prepared[i]);
  }
}

bool executors_plan(struct executors *executors, const struct plan *plan, uint64_t *workspace_bytes,
                    struct status *status) {
  struct key key = key_of(plan);
  struct prepared_plan *prepared = find(executors, &key);
  if (prepared != NULL) {
    *workspace_bytes = prepared->workspace_bytes;
    return true;
  }
  struct executor_run run;
  if (!prepare(executors, plan, &key, NULL, &run, status)) {
    return false;
  }
  *workspace_bytes = run.workspace_bytes;
  executors_abandon(executors, &run);
  return true;
}

bool executors_begin(struct executors *executors, const struct plan *plan,
                     void *const addresses[OPERATOR_PARAMETERS_MAX], struct executor_run *run,
                     struct status *status) {
  struct key key = key_of(plan);
  struct prepared_plan *prepared = find(executors, &key);
  if (prepared == NULL || prepared->executor == NULL) {
    return prepare(executors, plan, &key, addresses, run, status);
  }
  if (!set_addresses(executors, prepared, addresses, status)) {
    forget(executors, prepared);
    return false;
  }
  *run = (struct executor_run){
      .prepared = prepared, .executor = prepared->executor, .workspace_bytes = prepared->workspace_bytes};
  return true;
}

bool executors_run(struct executors *executors, struct executor_run *run, void *workspace, aclrtStream stream,
                   struct status *status) {
  const struct plan *plan = &run->prepared->plan;
  int32_t number = operator_of(executors, plan)->run(workspace, run->workspace_bytes, run->executor, stream);
  if (number == ACL_STATUS_SUCCESS) {
    return true;
  }
  acl_failure(&executors->library->functions, plan->definition->npu->run_symbol, number, status);
  if (!run->one_shot) {
    forget(executors, run->prepared); // nobody says what a repeatable one is worth after a failure
  }
  return false;
}

void executors_end(struct executors *executors, struct executor_run *run) {
  if (run->one_shot) {
    destroy_arguments(&executors->library->functions, &run->prepared->plan, run->arguments);
  }
}

void executors_abandon(struct executors *executors, struct executor_run *run) {
  if (run->one_shot) {
    dispose_one_shot(executors, &run->prepared->plan, run->executor);
    executors_end(executors, run);
  }
}
