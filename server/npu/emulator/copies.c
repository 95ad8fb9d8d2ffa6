// CANN's functions about memory: allocations of device and host, copies, fills.
//
// A copy always waits for its turn on the stream, pinned memory or not: whoever reads the target or reuses
// the source before it has synchronised finds out.
#include "server/npu/emulator/api.h"
#include "server/npu/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A cache line, and what CANN gives at least.
#define HOST_ALIGNMENT 64

struct host_memory {
  uint64_t bytes;
};

static uint64_t number_of(const void *address) {
  return (uint64_t)(uintptr_t)address;
}

static int32_t allocate(struct emulator *emulator, const struct context *context, void **address,
                        size_t bytes) {
  struct fault_occasion occasion = {.device = context->device, .number = ++emulator->allocations};
  uint64_t number = 0;
  if (faults_find(&emulator->settings.faults, FAULT_MEMORY, &occasion) == NULL) {
    number = memory_allocate(emulator->memory, context->device, bytes);
  }
  if (number == 0) {
    return emulated_refuse(ACL_STATUS_RT_MEMORY_ALLOCATION,
                           "aclrtMalloc: no room for %zu bytes, %llu of %llu are in use", bytes,
                           (unsigned long long)memory_bytes_in_use(emulator->memory, context->device),
                           (unsigned long long)memory_bytes_total(emulator->memory));
  }
  *address = (void *)(uintptr_t)number;
  return 0;
}

aclError aclrtMalloc(void **address, size_t bytes, int policy) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  (void)policy; // pages of every size are the same here
  aclError status = emulator_current_context(emulator, "aclrtMalloc", &context);
  if (status == 0 && (address == NULL || bytes == 0)) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtMalloc: no pointer or no bytes");
  }
  if (status == 0) {
    status = allocate(emulator, context, address, bytes);
  }
  emulator_unlock();
  return status;
}

aclError aclrtFree(void *address) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtFree", &context);
  if (status == 0 && !memory_free(emulator->memory, context->device, number_of(address))) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "aclrtFree: %p isn't allocated on device %d",
                             address, context->device);
  }
  emulator_unlock();
  return status;
}

static int32_t allocate_host(struct emulator *emulator, void **address, size_t bytes) {
  struct host_memory *host = malloc(sizeof *host);
  void *memory = NULL;
  if (host == NULL || posix_memalign(&memory, HOST_ALIGNMENT, bytes) != 0 ||
      !handles_add_as(&emulator->handles, HANDLE_HOST_MEMORY, memory, host)) {
    free(host);
    free(memory);
    return emulated_refuse(ACL_STATUS_RT_MEMORY_ALLOCATION, "aclrtMallocHost: no room for %zu bytes", bytes);
  }
  memset(memory, MEMORY_POISON, bytes);
  host->bytes = bytes;
  emulator->host_bytes += bytes;
  *address = memory;
  return 0;
}

aclError aclrtMallocHost(void **address, size_t bytes) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtMallocHost", &context);
  if (status == 0 && (address == NULL || bytes == 0)) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtMallocHost: no pointer or no bytes");
  }
  if (status == 0) {
    status = allocate_host(emulator, address, bytes);
  }
  emulator_unlock();
  return status;
}

aclError aclrtFreeHost(void *address) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtFreeHost", &context);
  struct host_memory *host =
      status == 0 ? handles_remove(&emulator->handles, HANDLE_HOST_MEMORY, address) : NULL;
  if (status == 0 && host == NULL) {
    status = emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "aclrtFreeHost: %p isn't allocated", address);
  }
  if (host != NULL) {
    emulator->host_bytes -= host->bytes;
    free(host);
    free(address);
  }
  emulator_unlock();
  return status;
}

void host_memory_destroy_left(struct emulator *emulator) {
  // The numbers of these handles are the memory itself, so that they are asked for before they go.
  void *memory;
  while ((memory = handles_any_number(&emulator->handles, HANDLE_HOST_MEMORY)) != NULL) {
    free(handles_remove(&emulator->handles, HANDLE_HOST_MEMORY, memory));
    free(memory);
  }
  emulator->host_bytes = 0;
}

aclError aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total_bytes) {
  struct emulator *emulator = emulator_lock();
  struct context *context;
  aclError status = emulator_current_context(emulator, "aclrtGetMemInfo", &context);
  if (status == 0 && (attribute != ACL_HBM_MEM || free_bytes == NULL || total_bytes == NULL)) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtGetMemInfo: a null pointer or no HBM");
  }
  if (status == 0) {
    *total_bytes = memory_bytes_total(emulator->memory);
    *free_bytes = *total_bytes - memory_bytes_in_use(emulator->memory, context->device);
  }
  emulator_unlock();
  return status;
}

// A copy or a fill on a stream.
struct transfer {
  struct stream_task task;
  struct memory *memory;
  int32_t device;
  bool to_device, from_device, fill;
  void *to;
  const void *from;
  size_t bytes;
  int value;
};

// The bytes behind one end of a transfer; NULL if they are gone.
static unsigned char *end_of_transfer(struct transfer *transfer, const void *address, bool on_device,
                                      struct memory_pin *pin) {
  *pin = (struct memory_pin){0};
  if (!on_device) {
    return (unsigned char *)(uintptr_t)address;
  }
  return memory_pin(transfer->memory, transfer->device, number_of(address), pin) &&
                 pin->byte_count >= transfer->bytes
             ? pin->bytes
             : NULL;
}

static int32_t run_transfer(struct stream_task *task, struct stream *stream, char text[STREAM_TEXT_BYTES]) {
  struct transfer *transfer = (struct transfer *)task;
  struct memory_pin to_pin, from_pin;
  (void)stream;
  unsigned char *to = end_of_transfer(transfer, transfer->to, transfer->to_device, &to_pin);
  const unsigned char *from =
      transfer->fill ? NULL : end_of_transfer(transfer, transfer->from, transfer->from_device, &from_pin);
  bool found = to != NULL && (transfer->fill || from != NULL);
  if (found && transfer->fill) {
    memset(to, transfer->value, transfer->bytes);
  } else if (found) {
    memcpy(to, from, transfer->bytes);
  }
  bool kept = memory_unpin(transfer->memory, &to_pin);
  kept = (transfer->fill || memory_unpin(transfer->memory, &from_pin)) && kept;
  if (found && kept) {
    return 0;
  }
  snprintf(text, STREAM_TEXT_BYTES, "a copy or fill of %zu bytes met memory that was freed before its turn",
           transfer->bytes);
  return ACL_STATUS_RT_DEVICE_MEMORY;
}

static void destroy_transfer(struct stream_task *task) {
  free(task);
}

// Whether an end of the transfer is what it is said to be.
static int32_t check_end(struct emulator *emulator, const char *function, int32_t device, const void *address,
                         size_t bytes, bool on_device) {
  uint64_t number = number_of(address);
  if (memory_is_device_address(emulator->memory, number) != on_device) {
    return emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "%s: %p isn't an address of the %s", function,
                           address, on_device ? "device" : "host");
  }
  if (on_device && !memory_is_live(emulator->memory, device, number, bytes)) {
    return emulated_refuse(ACL_STATUS_RT_PARAM_INVALID,
                           "%s: %zu bytes from %p on aren't within one allocation of device %d", function,
                           bytes, address, device);
  }
  return 0;
}

static int32_t submit(struct emulator *emulator, const char *function, struct transfer wanted,
                      size_t to_bytes, const void *stream) {
  struct owned_stream *owned;
  int32_t status = emulator_find_stream(emulator, function, stream, &owned);
  if (status != 0) {
    return status;
  }
  if (wanted.to == NULL || (!wanted.fill && wanted.from == NULL) || wanted.bytes == 0 ||
      wanted.bytes > to_bytes) {
    return emulated_refuse(ACL_STATUS_RT_PARAM_INVALID, "%s: a null pointer, or %zu bytes into %zu", function,
                           wanted.bytes, to_bytes);
  }
  status = check_end(emulator, function, owned->device, wanted.to, wanted.bytes, wanted.to_device);
  if (status == 0 && !wanted.fill) {
    status = check_end(emulator, function, owned->device, wanted.from, wanted.bytes, wanted.from_device);
  }
  if (status != 0) {
    return status;
  }
  struct transfer *transfer = malloc(sizeof *transfer);
  if (transfer == NULL) {
    return emulated_refuse(ACL_STATUS_BAD_ALLOC, "%s: no memory", function);
  }
  *transfer = wanted;
  transfer->task = (struct stream_task){.run = run_transfer, .destroy = destroy_transfer};
  transfer->memory = emulator->memory;
  transfer->device = owned->device;
  stream_submit(owned->stream, &transfer->task);
  return 0;
}

aclError aclrtMemcpyAsync(void *to, size_t to_bytes, const void *from, size_t bytes, int kind,
                          aclrtStream stream) {
  struct emulator *emulator = emulator_lock();
  aclError status;
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEVICE_TO_DEVICE) {
    status = emulated_refuse(ACL_STATUS_INVALID_PARAM, "aclrtMemcpyAsync: %d is no kind of copy", kind);
  } else {
    struct transfer wanted = {
        .to = to,
        .from = from,
        .bytes = bytes,
        .to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE,
        .from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE};
    status = submit(emulator, "aclrtMemcpyAsync", wanted, to_bytes, stream);
  }
  emulator_unlock();
  return status;
}

aclError aclrtMemsetAsync(void *to, size_t to_bytes, int32_t value, size_t bytes, aclrtStream stream) {
  struct emulator *emulator = emulator_lock();
  struct transfer wanted = {.to = to, .bytes = bytes, .value = value, .fill = true, .to_device = true};
  aclError status = submit(emulator, "aclrtMemsetAsync", wanted, to_bytes, stream);
  emulator_unlock();
  return status;
}
