#include "kernels/testing/operator_call.h"

#include "kernels/half.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GARBAGE 0xa5

void call_begin(struct operator_call *call, const char *operator_name) {
  memset(call, 0, sizeof *call);
  snprintf(call->request.operator_name, sizeof call->request.operator_name, "%s", operator_name);
}

static struct argument_value *add_argument(struct operator_call *call, const char *name,
                                           enum parameter_kind kind) {
  assert(call->request.argument_count < REQUEST_ARGUMENTS_MAX);
  struct argument *argument = &call->request.arguments[call->request.argument_count++];
  snprintf(argument->name, sizeof argument->name, "%s", name);
  argument->value.kind = kind;
  return &argument->value;
}

void call_add_tensor(struct operator_call *call, const char *name, const struct tensor_desc *desc) {
  add_argument(call, name, PARAMETER_KIND_TENSOR)->tensor = *desc;
}

void call_add_int_array(struct operator_call *call, const char *name, const struct int_array *values) {
  add_argument(call, name, PARAMETER_KIND_INT_ARRAY)->int_array = *values;
}

void call_add_integer(struct operator_call *call, const char *name, int64_t value) {
  add_argument(call, name, PARAMETER_KIND_INTEGER)->integer = value;
}

static void *allocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, TENSOR_ALIGNMENT, bytes == 0 ? 1 : bytes) != 0) {
    abort();
  }
  memset(memory, GARBAGE, bytes);
  return memory;
}

bool call_plan(struct operator_call *call) {
  if (!plan_create(&call->request, &call->plan, &call->status)) {
    return false;
  }
  for (size_t i = 0; i < call->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &call->plan.tensors[i];
    if (tensor->transferred) {
      call->storages[tensor->parameter] = allocate((size_t)tensor->storage_bytes);
    }
  }
  call->workspace = allocate(call->plan.workspace_bytes);
  return true;
}

static struct operator_run prepare(struct operator_call *call, struct parallel *parallel) {
  struct operator_run run = {
      .plan = &call->plan,
      .workspace = call->workspace,
      .parallel = parallel,
      .cpu = call->cpu,
      .cancelled = call->cancelled,
  };
  memcpy(run.storages, call->storages, sizeof run.storages);
  memset(call->workspace, GARBAGE, call->plan.workspace_bytes);
  for (size_t i = 0; i < call->plan.tensor_count; i++) {
    const struct plan_tensor *tensor = &call->plan.tensors[i];
    if (tensor->direction == DIRECTION_OUTPUT) {
      memset(call->storages[tensor->parameter], GARBAGE, (size_t)tensor->storage_bytes);
    }
  }
  return run;
}

bool call_run(struct operator_call *call, struct parallel *parallel) {
  struct operator_run run = prepare(call, parallel);
  return call->plan.definition->run(&run, &call->status);
}

bool call_check_inputs(struct operator_call *call, struct parallel *parallel) {
  struct operator_run run = prepare(call, parallel);
  return call->plan.definition->check_inputs(&run, &call->status);
}

struct endless_step {
  struct operator_call *call;
  struct parallel *parallel;
  bool (*step)(struct operator_call *call, struct parallel *parallel);
  bool succeeded;
};

static void *run_endless_step(void *context) {
  struct endless_step *endless = context;
  endless->succeeded = endless->step(endless->call, endless->parallel);
  return NULL;
}

bool call_is_cancellable(struct operator_call *call, struct parallel *parallel,
                         bool (*step)(struct operator_call *call, struct parallel *parallel)) {
  atomic_bool cancelled = false;
  call->cancelled = &cancelled;
  struct endless_step endless = {call, parallel, step, false};
  pthread_t thread;
  clockid_t clock;
  if (pthread_create(&thread, NULL, run_endless_step, &endless) != 0 ||
      pthread_getcpuclockid(thread, &clock) != 0) {
    abort();
  }
  struct timespec used = {0};
  while (used.tv_sec == 0 && used.tv_nsec < 20000000 && clock_gettime(clock, &used) == 0) {
    sched_yield();
  }
  atomic_store(&cancelled, true);
  pthread_join(thread, NULL);
  call->cancelled = NULL;
  return !endless.succeeded && call->status.reason == REASON_CANCELLED;
}

void call_end(struct operator_call *call) {
  for (size_t i = 0; i < OPERATOR_PARAMETERS_MAX; i++) {
    free(call->storages[i]);
  }
  free(call->workspace);
}

const struct tensor_desc *call_desc(const struct operator_call *call, size_t parameter) {
  return &call->plan.arguments.values[parameter].tensor;
}

const char *call_metadata(const struct operator_call *call, const char *key) {
  for (size_t i = 0; i < call->status.metadata_count; i++) {
    if (strcmp(call->status.metadata[i].key, key) == 0) {
      return call->status.metadata[i].value;
    }
  }
  return "";
}

int call_pools_create(void **state) {
  static const size_t threads[CALL_POOLS] = {0, 1, 2, 3, 7};
  struct call_pools *pools = calloc(1, sizeof *pools);
  struct status status;
  for (size_t i = 0; i < CALL_POOLS; i++) {
    pools->threads[i] = threads[i];
    if (threads[i] > 0 && !parallel_create(threads[i], &pools->pools[i], &status)) {
      return -1;
    }
  }
  *state = pools;
  return 0;
}

int call_pools_destroy(void **state) {
  struct call_pools *pools = *state;
  for (size_t i = 0; i < CALL_POOLS; i++) {
    parallel_destroy(pools->pools[i]);
  }
  free(pools);
  return 0;
}

struct call_cpus call_cpus_here(void) {
  struct call_cpus here = {.count = 0};
  for (enum cpu_path path = 0; path < CPU_PATH_COUNT; path++) {
    if (cpu_path_is_available(path)) {
      struct cpu cpu;
      cpu_detect(&cpu);
      cpu.path = path;
      here.cpus[here.count++] = cpu;
      here.cpus[here.count++] =
          (struct cpu){.path = path, .l1_bytes = 1 << 10, .l2_bytes = 8 << 10, .l3_bytes = 16 << 10};
    }
  }
  return here;
}

static enum format format_from_name(const char *name) {
  for (int format = FORMAT_ND; format < FORMAT_COUNT; format++) {
    if (strcmp(format_name((enum format)format), name) == 0) {
      return (enum format)format;
    }
  }
  abort();
}

struct tensor_desc desc_of(const char *text) {
  struct tensor_desc desc = {0};
  char word[16];
  int used = 0;
  if (sscanf(text, "%15[A-Z]:%n", word, &used) == 1 && used > 0) {
    desc.format = format_from_name(word);
    text += used;
  }
  used = 0;
  if (sscanf(text, "%15[a-z0-9][%n", word, &used) != 1 || used == 0) {
    abort();
  }
  desc.data_type = data_type_from_name(word);
  text += used;
  while (*text != ']') {
    char *end;
    long long dim = strtoll(text, &end, 10);
    if (end == text) {
      abort();
    }
    if (desc.rank < TENSOR_RANK_MAX) {
      desc.shape[desc.rank] = dim;
    }
    desc.rank++;
    text = *end == ',' ? end + 1 : end;
  }
  return desc;
}

// splitmix64.
uint64_t random_bits(struct random *random) {
  uint64_t mixed = random->state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

int64_t random_between(struct random *random, int64_t least, int64_t end) {
  return least + (int64_t)(random_bits(random) % (uint64_t)(end - least));
}

void random_layout(struct random *random, struct tensor_desc *desc, enum direction direction) {
  size_t order[TENSOR_RANK_MAX];
  bool permuted = random_between(random, 0, 2) == 0;
  bool padded = random_between(random, 0, 2) == 0;
  bool expanded = direction == DIRECTION_INPUT && random_between(random, 0, 3) == 0;
  for (size_t dim = 0; dim < desc->rank; dim++) {
    size_t other = permuted ? (size_t)random_between(random, 0, (int64_t)dim + 1) : dim;
    order[dim] = order[other];
    order[other] = dim;
  }
  int64_t stride = padded ? random_between(random, 1, 3) : 1;
  int64_t span = 1;
  for (size_t i = desc->rank; i-- > 0;) {
    size_t dim = order[i];
    desc->strides[dim] = expanded && random_between(random, 0, 2) == 0 ? 0 : stride;
    if (desc->strides[dim] != 0) {
      span += (desc->shape[dim] > 0 ? desc->shape[dim] - 1 : 0) * stride;
      stride *= (desc->shape[dim] > 0 ? desc->shape[dim] : 1) + (padded ? random_between(random, 0, 3) : 0);
    }
  }
  desc->stride_count = desc->rank;
  desc->storage_offset = padded ? random_between(random, 0, 9) : 0;
  desc->storage_elements = padded ? desc->storage_offset + span + random_between(random, 0, 9) : 0;
}

static float random_value(struct random *random) {
  static const float specials[] = {0.0f,      -0.0f,      INFINITY,    -INFINITY, NAN,
                                   0x1p-149f, -0x1p-149f, 0x1p-24f,    0x1p-133f, -0x1p-140f,
                                   65504.0f,  2048.0f,    0x1.fep127f, 0x1p-14f};
  if (random_between(random, 0, 8) == 0) {
    return specials[random_between(random, 0, sizeof specials / sizeof specials[0])];
  }
  // Few bits and few exponents: sums that cancel, windows with equal maxima.
  float value = ldexpf((float)random_between(random, -64, 65), (int)random_between(random, -6, 6));
  return random_between(random, 0, 4) == 0 ? value * 1.0009765625f : value;
}

void random_values(struct random *random, enum data_type data_type, void *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    value_write(data_type, values, (int64_t)i, random_value(random));
  }
}

float value_read(enum data_type data_type, const void *values, int64_t position) {
  if (data_type == DATA_TYPE_FLOAT) {
    return ((const float *)values)[position];
  }
  uint16_t bits = ((const uint16_t *)values)[position];
  return data_type == DATA_TYPE_BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

void value_write(enum data_type data_type, void *values, int64_t position, float value) {
  if (data_type == DATA_TYPE_FLOAT) {
    ((float *)values)[position] = value;
  } else {
    ((uint16_t *)values)[position] =
        data_type == DATA_TYPE_BF16 ? bf16_from_float(value) : fp16_from_float(value);
  }
}

bool value_equal(enum data_type data_type, const void *a, const void *b, int64_t position) {
  float first = value_read(data_type, a, position);
  float second = value_read(data_type, b, position);
  return float_to_bits(first) == float_to_bits(second) || (isnan(first) && isnan(second));
}
