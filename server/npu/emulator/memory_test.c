// The devices' memory: what an address is good for, and when it ceases to be.
#include "server/npu/emulator/memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static struct memory *make(int32_t devices, uint64_t bytes) {
  struct memory *memory = memory_create(devices, bytes, MEMORY_WINDOW_BYTES);
  assert_non_null(memory);
  return memory;
}

static uint64_t allocate(struct memory *memory, uint64_t bytes) {
  uint64_t address = memory_allocate(memory, 0, bytes);
  assert_int_not_equal(address, 0);
  return address;
}

static void addresses_are_aligned_to_64_and_no_more(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  for (uint64_t bytes = 1; bytes < 300; bytes += 7) {
    assert_int_equal(allocate(memory, bytes) % 128, 64);
  }
  memory_destroy(memory);
}

static void fresh_memory_is_poisoned(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  struct memory_pin pin;
  assert_true(memory_pin(memory, 0, allocate(memory, 1000), &pin));
  assert_int_equal(pin.byte_count, 1000);
  for (size_t i = 0; i < 1000; i++) {
    assert_int_equal(pin.bytes[i], MEMORY_POISON);
  }
  assert_true(memory_unpin(memory, &pin));
  memory_destroy(memory);
}

static void allocation_ends_at_its_last_byte(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  uint64_t first = allocate(memory, 100);
  allocate(memory, 100);
  struct memory_pin pin;
  assert_true(memory_is_live(memory, 0, first, 100));
  assert_true(memory_is_live(memory, 0, first + 64, 36));
  assert_false(memory_is_live(memory, 0, first, 101));
  assert_false(memory_is_live(memory, 0, first + 64, 37));
  assert_false(memory_pin(memory, 0, first + 100, &pin));
  assert_false(memory_pin(memory, 0, first - 1, &pin));
  memory_destroy(memory);
}

static void address_comes_back_late(void **state) {
  (void)state;
  struct memory *memory = memory_create(1, MIB, 16 * MIB);
  assert_non_null(memory);
  uint64_t first = allocate(memory, 100), address = first;
  int allocations = 0;
  do {
    assert_true(memory_free(memory, 0, address));
    address = allocate(memory, 100);
    allocations++;
  } while (address != first);
  assert_in_range(allocations, 1000, 5000);
  memory_destroy(memory);
}

static void freed_address_leads_nowhere(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  uint64_t address = allocate(memory, 100);
  struct memory_pin pin;
  assert_false(memory_free(memory, 0, address + 64));
  assert_true(memory_free(memory, 0, address));
  assert_false(memory_free(memory, 0, address));
  assert_false(memory_pin(memory, 0, address, &pin));
  assert_int_not_equal(allocate(memory, 100), address);
  memory_destroy(memory);
}

static void memory_freed_under_a_pin_stays_until_it_goes(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  uint64_t address = allocate(memory, 100);
  struct memory_pin first, second;
  assert_true(memory_pin(memory, 0, address, &first));
  assert_true(memory_pin(memory, 0, address + 32, &second));
  assert_true(memory_free(memory, 0, address));
  memset(first.bytes, 1, 100); // a sanitizer would see it if it were gone
  assert_false(memory_unpin(memory, &first));
  second.bytes[67] = 1;
  assert_false(memory_unpin(memory, &second));
  assert_int_equal(memory_bytes_in_use(memory, 0), 0);
  memory_destroy(memory);
}

static void device_has_no_more_than_its_memory(void **state) {
  (void)state;
  struct memory *memory = make(2, MIB);
  uint64_t half = memory_allocate(memory, 0, MIB / 2);
  assert_int_not_equal(half, 0);
  assert_int_equal(memory_allocate(memory, 0, MIB / 2 + 1), 0);
  assert_int_not_equal(memory_allocate(memory, 1, MIB), 0);
  assert_int_equal(memory_bytes_in_use(memory, 0), MIB / 2);
  assert_true(memory_free(memory, 0, half));
  assert_int_not_equal(memory_allocate(memory, 0, MIB), 0);
  assert_int_equal(memory_allocate(memory, 0, UINT64_MAX), 0);
  memory_destroy(memory);
}

static void memory_belongs_to_one_device(void **state) {
  (void)state;
  struct memory *memory = make(2, MIB);
  uint64_t address = allocate(memory, 100);
  struct memory_pin pin;
  assert_false(memory_pin(memory, 1, address, &pin));
  assert_false(memory_free(memory, 1, address));
  memory_destroy(memory);
}

static void host_pointer_is_no_device_address(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  int local;
  assert_false(memory_is_device_address(memory, (uint64_t)(uintptr_t)&local));
  assert_false(memory_is_device_address(memory, (uint64_t)(uintptr_t)memory));
  assert_true(memory_is_device_address(memory, allocate(memory, 1)));
  memory_destroy(memory);
}

static void host_that_dereferences_an_address_dies(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  volatile unsigned char *address = (volatile unsigned char *)(uintptr_t)allocate(memory, 1);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    *address = 1;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
  memory_destroy(memory);
}

static void live_memory_is_never_given_twice(void **state) {
  (void)state;
  // A window that is gone through about ten times.
  enum { SLOTS = 64, ROUNDS = 5000 };
  struct memory *memory = memory_create(1, MIB, 4 * MIB);
  assert_non_null(memory);
  uint64_t addresses[SLOTS] = {0}, sizes[SLOTS] = {0}, random = 1;
  for (int round = 0; round < ROUNDS; round++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t slot = (random >> 33) % SLOTS;
    if (addresses[slot] != 0) {
      assert_true(memory_free(memory, 0, addresses[slot]));
    }
    sizes[slot] = 1 + (random >> 40) % 4000;
    addresses[slot] = allocate(memory, sizes[slot]);
    for (size_t i = 0; i < SLOTS; i++) {
      if (i != slot && addresses[i] != 0) {
        assert_true(addresses[i] + sizes[i] < addresses[slot] ||
                    addresses[slot] + sizes[slot] < addresses[i]);
      }
    }
  }
  memory_destroy(memory);
}

enum { CHURNERS = 4, CHURNS = 500 };

static void *churn(void *argument) {
  struct memory *memory = argument;
  size_t wrong = 0;
  for (int i = 0; i < CHURNS; i++) {
    uint64_t address = memory_allocate(memory, 0, 256);
    struct memory_pin pin;
    if (address == 0 || !memory_pin(memory, 0, address, &pin)) {
      wrong++;
      continue;
    }
    memset(pin.bytes, i, 256);
    wrong += !memory_free(memory, 0, address);
    wrong += memory_unpin(memory, &pin); // says that it was freed
  }
  return (void *)(uintptr_t)wrong;
}

static void threads_share_the_memory(void **state) {
  (void)state;
  struct memory *memory = make(1, MIB);
  pthread_t threads[CHURNERS];
  for (size_t i = 0; i < CHURNERS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, churn, memory), 0);
  }
  for (size_t i = 0; i < CHURNERS; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  assert_int_equal(memory_allocation_count(memory), 0);
  memory_destroy(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(addresses_are_aligned_to_64_and_no_more),
      cmocka_unit_test(fresh_memory_is_poisoned),
      cmocka_unit_test(allocation_ends_at_its_last_byte),
      cmocka_unit_test(address_comes_back_late),
      cmocka_unit_test(freed_address_leads_nowhere),
      cmocka_unit_test(memory_freed_under_a_pin_stays_until_it_goes),
      cmocka_unit_test(device_has_no_more_than_its_memory),
      cmocka_unit_test(memory_belongs_to_one_device),
      cmocka_unit_test(host_pointer_is_no_device_address),
      cmocka_unit_test(host_that_dereferences_an_address_dies),
      cmocka_unit_test(live_memory_is_never_given_twice),
      cmocka_unit_test(threads_share_the_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
