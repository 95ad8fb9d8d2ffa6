// The emulated devices' memory.
//
// A device address is a number within one window of address space that nobody may touch: a host that
// dereferences one dies. The bytes of an allocation lie elsewhere and are reached by translation alone, which
// checks against the table of live allocations. Addresses come back only once the whole window was gone
// through, so that a stale one leads nowhere for long; between two allocations lies a gap that belongs to
// none; an allocation ends at the very byte that was asked for and begins at a multiple of 64 that is no
// multiple of 128. Fresh memory is poisoned.
//
// All functions may be called from any thread. What is freed while it is pinned ceases to be found at once
// but keeps its bytes until the last pin is gone.
#ifndef ACLNN_SERVER_NPU_EMULATOR_MEMORY_H
#define ACLNN_SERVER_NPU_EMULATOR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_POISON 0xa5
// Where an allocation begins; more than this may not be counted on.
#define MEMORY_ALIGNMENT 64

struct memory;
struct allocation;

// One use of an allocation's bytes by a running task.
struct memory_pin {
  struct allocation *allocation; // NULL: nothing is pinned
  unsigned char *bytes;          // what the address means
  uint64_t byte_count;           // from there to the allocation's end
};

// Address space, not memory: the more, the later an address comes back.
#define MEMORY_WINDOW_BYTES ((uint64_t)64 << 30)

// The window has at least window_bytes, and several times the devices' memory. NULL if there is no address
// space for it.
struct memory *memory_create(int32_t devices, uint64_t bytes_per_device, uint64_t window_bytes);
// Frees everything; nothing may be pinned.
void memory_destroy(struct memory *memory);

// bytes > 0. The device's address, 0 if it has no room.
uint64_t memory_allocate(struct memory *memory, int32_t device, uint64_t bytes);
// False if no allocation of that device begins there.
bool memory_free(struct memory *memory, int32_t device, uint64_t address);

// True if the address is a device's number rather than something of the host.
bool memory_is_device_address(const struct memory *memory, uint64_t address);
// True if all of [address, address + bytes) lies in one live allocation of the device.
bool memory_is_live(struct memory *memory, int32_t device, uint64_t address, uint64_t bytes);

// False if the address lies in no live allocation of the device.
bool memory_pin(struct memory *memory, int32_t device, uint64_t address, struct memory_pin *pin);
// False if the allocation was freed meanwhile. A pin of nothing is fine.
bool memory_unpin(struct memory *memory, struct memory_pin *pin);

uint64_t memory_bytes_in_use(struct memory *memory, int32_t device);
uint64_t memory_bytes_total(const struct memory *memory);
// Live allocations of all devices.
size_t memory_allocation_count(struct memory *memory);

#endif
