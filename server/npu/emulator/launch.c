#include "server/npu/emulator/launch.h"

#include "server/npu/acl/acl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The ends of the workspace that every kernel writes to.
#define TOUCHED_BYTES 32

struct launch {
  struct stream_task task;
  struct launch_request request;
  struct memory *memory;
  bool crash, hang, ecc, flip;
  int64_t slow_ms;
};

// Pins of one run: one for each argument and one for the workspace.
struct pins {
  struct memory_pin arguments[EMULATED_ARGUMENTS_MAX], workspace;
};

static void pin_arguments(struct launch *launch, struct emulated_kernel *kernel, struct pins *pins) {
  const struct bound_call *bound = launch->request.bound;
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    if (!bound_call_is_tensor(bound, i)) {
      continue;
    }
    // What leads nowhere has no bytes, so that the first access to it is the kernel's fault.
    struct memory_pin *pin = &pins->arguments[i];
    if (memory_pin(launch->memory, bound->device, launch->request.addresses[i], pin)) {
      uint64_t storage = bound_call_storage_bytes(bound, i);
      kernel->spans[i] =
          (struct emulated_span){pin->bytes, storage < pin->byte_count ? storage : pin->byte_count};
    }
  }
}

// The kernel's own part comes first; what the system needs lies behind it and is written at its end.
static bool pin_workspace(struct launch *launch, struct emulated_kernel *kernel, struct pins *pins) {
  uint64_t bytes = launch->request.workspace_bytes;
  struct memory_pin *pin = &pins->workspace;
  if (!memory_pin(launch->memory, launch->request.bound->device, launch->request.workspace, pin) ||
      pin->byte_count < bytes) {
    emulated_fault(kernel, "the workspace isn't there (any more)");
    return false;
  }
  memset(pin->bytes, MEMORY_POISON, TOUCHED_BYTES);
  memset(pin->bytes + bytes - TOUCHED_BYTES, MEMORY_POISON, TOUCHED_BYTES);
  kernel->workspace = (struct emulated_span){pin->bytes, bytes - LAUNCH_SYSTEM_WORKSPACE_BYTES};
  return true;
}

static void unpin(struct launch *launch, struct emulated_kernel *kernel, struct pins *pins) {
  const struct emulated_operator *definition = launch->request.bound->definition;
  if (!memory_unpin(launch->memory, &pins->workspace)) {
    emulated_fault(kernel, "the workspace was freed while the kernel ran");
  }
  for (size_t i = 0; i < definition->argument_count; i++) {
    if (!memory_unpin(launch->memory, &pins->arguments[i])) {
      emulated_fault(kernel, "%s was freed while the kernel ran", definition->argument_names[i]);
    }
  }
}

// The storage element at which the view's element number `flat` lies.
static int64_t storage_element(const struct emulated_tensor *tensor, uint64_t flat) {
  int64_t element = tensor->storage_offset;
  for (size_t dim = tensor->rank; dim-- > 0;) {
    element += (int64_t)(flat % (uint64_t)tensor->shape[dim]) * tensor->strides[dim];
    flat /= (uint64_t)tensor->shape[dim];
  }
  return element;
}

// Flips the highest bit but one of some element of some output, so that no tolerance forgives it.
static void flip_bit(struct launch *launch, struct emulated_kernel *kernel) {
  const struct bound_call *bound = launch->request.bound;
  size_t outputs[EMULATED_ARGUMENTS_MAX], count = 0;
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    if (bound->definition->arguments[i] == EMULATED_OUTPUT) {
      outputs[count++] = i;
    }
  }
  if (count == 0) {
    return;
  }
  size_t output = outputs[launch->request.job % count];
  const struct emulated_tensor *tensor = bound->call.tensors[output];
  // A large odd factor takes one job's element far from the next one's.
  uint64_t flat = launch->request.job * 0x9e3779b97f4a7c15u % (uint64_t)emulated_tensor_elements(tensor);
  unsigned char *place = emulated_place(kernel, output, storage_element(tensor, flat));
  if (place != NULL) {
    place[data_type_bytes(tensor->data_type) - 1] ^= 0x40;
  }
}

static int32_t run(struct stream_task *task, struct stream *stream, char text[STREAM_TEXT_BYTES]) {
  struct launch *launch = (struct launch *)task;
  const struct bound_call *bound = launch->request.bound;
  if (launch->slow_ms > 0) {
    stream_sleep(stream, launch->slow_ms);
  }
  if (launch->hang) {
    stream_sleep(stream, -1);
    return ACL_STATUS_RT_AICORE_TIMEOUT;
  }
  if (launch->crash) {
    raise(SIGKILL);
  }
  struct emulated_kernel kernel = {.call = &bound->call,
                                   .seed = launch->request.job * EMULATED_ARGUMENTS_MAX};
  struct pins pins = {0};
  pin_arguments(launch, &kernel, &pins);
  if (pin_workspace(launch, &kernel, &pins)) {
    bound->definition->compute(&kernel);
  }
  if (launch->flip) {
    flip_bit(launch, &kernel);
  }
  unpin(launch, &kernel, &pins);
  if (kernel.fault[0] != '\0') {
    snprintf(text, STREAM_TEXT_BYTES, "%s: exception of a core: %s", bound->definition->name, kernel.fault);
    return ACL_STATUS_RT_AICORE_EXCEPTION;
  }
  if (launch->ecc) {
    snprintf(text, STREAM_TEXT_BYTES, "%s: uncorrectable error of the device's memory",
             bound->definition->name);
    return ACL_STATUS_RT_HBM_ECC;
  }
  return 0;
}

static void destroy(struct stream_task *task) {
  struct launch *launch = (struct launch *)task;
  bound_call_release(launch->request.bound);
  free(launch);
}

static size_t output_elements(const struct bound_call *bound, int64_t elements[EMULATED_ARGUMENTS_MAX]) {
  size_t count = 0;
  for (size_t i = 0; i < bound->definition->argument_count; i++) {
    if (bound->definition->arguments[i] == EMULATED_OUTPUT) {
      elements[count++] = (int64_t)emulated_tensor_elements(bound->call.tensors[i]);
    }
  }
  return count;
}

bool launch_submit(struct emulator *emulator, const struct launch_request *request, struct stream *stream) {
  struct launch *launch = calloc(1, sizeof *launch);
  if (launch == NULL) {
    return false;
  }
  const struct faults *faults = &emulator->settings.faults;
  int64_t elements[EMULATED_ARGUMENTS_MAX];
  struct fault_occasion occasion = {
      .device = request->bound->device, .number = request->job, .elements = elements};
  occasion.element_count = output_elements(request->bound, elements);
  const struct fault *slow = faults_find(faults, FAULT_SLOW, &occasion);
  *launch = (struct launch){.task = {.run = run, .destroy = destroy},
                            .request = *request,
                            .memory = emulator->memory,
                            .crash = faults_find(faults, FAULT_CRASH, &occasion) != NULL,
                            .hang = faults_find(faults, FAULT_HANG, &occasion) != NULL,
                            .ecc = faults_find(faults, FAULT_ECC, &occasion) != NULL,
                            .flip = faults_find(faults, FAULT_FLIP, &occasion) != NULL,
                            .slow_ms = slow == NULL ? 0 : slow->milliseconds};
  bound_call_hold(request->bound);
  stream_submit(stream, &launch->task);
  return true;
}
