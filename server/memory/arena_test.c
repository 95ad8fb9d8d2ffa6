#include "server/memory/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

// The system as the arena sees it: the linker sends its calls here.
static atomic_int pages_taken_calls, failures_left, collapse_fails;

int __real_fallocate(int descriptor, int mode, off_t offset, off_t length);
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t length);
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t length) {
  if (mode & FALLOC_FL_PUNCH_HOLE) {
    return __real_fallocate(descriptor, mode, offset, length);
  }
  atomic_fetch_add(&pages_taken_calls, 1);
  if (atomic_load(&failures_left) > 0) {
    atomic_fetch_sub(&failures_left, 1);
    errno = ENOSPC;
    return -1;
  }
  return __real_fallocate(descriptor, mode, offset, length);
}

int __wrap_madvise(void *address, size_t length, int advice) {
  if (atomic_load(&collapse_fails)) {
    errno = EINVAL;
    return -1;
  }
  return __real_madvise(address, length, advice);
}

static struct arena *make_arena(uint64_t bytes) {
  struct arena *arena;
  struct status status;
  atomic_store(&pages_taken_calls, 0);
  atomic_store(&failures_left, 0);
  atomic_store(&collapse_fails, 0);
  assert_true(arena_create(bytes, &arena, &status));
  return arena;
}

static struct arena_block allocate(struct arena *arena, size_t size) {
  struct arena_block block;
  struct status status;
  assert_true(arena_allocate(arena, size, &block, &status));
  assert_int_equal(block.size, size);
  assert_int_equal((uintptr_t)block.data % ARENA_ALIGNMENT, 0);
  return block;
}

static void check_refused(struct arena *arena, size_t size) {
  struct arena_block block;
  struct status status;
  assert_false(arena_allocate(arena, size, &block, &status));
  assert_int_equal(status.reason, REASON_INTERNAL);
}

static uint64_t resident_bytes(struct arena *arena) {
  struct arena_state state;
  arena_get_state(arena, &state);
  struct stat file;
  assert_int_equal(fstat(arena_descriptor(arena), &file), 0);
  assert_int_equal(state.resident_bytes, (uint64_t)file.st_blocks * 512); // as the system counts it
  return state.resident_bytes;
}

static uint64_t used_bytes(struct arena *arena) {
  struct arena_state state;
  arena_get_state(arena, &state);
  return state.used_bytes;
}

static void new_arena_takes_no_memory(void **state) {
  (void)state;
  struct arena *arena = make_arena(((uint64_t)64 << 30) - 1);
  assert_int_equal(arena_address_bytes(arena), (uint64_t)64 << 30);
  assert_int_equal(resident_bytes(arena), 0);
  assert_int_equal(used_bytes(arena), 0);
  arena_destroy(arena);
}

static void size_that_cannot_be_mapped_is_an_error(void **state) {
  (void)state;
  const uint64_t sizes[] = {0, (uint64_t)1 << 62, INT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct arena *arena;
    struct status status;
    assert_false(arena_create(sizes[i], &arena, &status));
    assert_int_equal(status.reason, REASON_INTERNAL);
  }
}

static void blocks_keep_their_contents(void **state) {
  (void)state;
  const size_t sizes[] = {1, 63, 64, 65, 4096, MIB + 1, PAGE, PAGE + 1, 3 * PAGE - 17};
  enum { COUNT = sizeof sizes / sizeof sizes[0] };
  struct arena *arena = make_arena(64 * MIB);
  struct arena_block blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = allocate(arena, sizes[i]);
    memset(blocks[i].data, (int)i + 1, sizes[i]);
  }
  for (size_t i = 0; i < COUNT; i++) {
    for (size_t byte = 0; byte < sizes[i]; byte++) {
      if (blocks[i].data[byte] != i + 1) {
        fail_msg("byte %zu of block %zu was overwritten", byte, i);
      }
    }
    arena_free(arena, &blocks[i]);
    assert_null(blocks[i].data);
    arena_free(arena, &blocks[i]); // an empty one is fine
  }
  assert_int_equal(used_bytes(arena), 0);
  arena_destroy(arena);
}

static void small_blocks_share_a_page(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  struct arena *arena = make_arena(64 * MIB);
  struct arena_block blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = allocate(arena, 100);
  }
  assert_int_equal(resident_bytes(arena), PAGE);
  assert_int_equal(used_bytes(arena), COUNT * 128);
  for (size_t i = 0; i < COUNT; i++) {
    arena_free(arena, &blocks[i]);
  }
  arena_destroy(arena);
}

static void steady_state_takes_no_new_memory(void **state) {
  (void)state;
  const size_t sizes[] = {5 * MIB, 100, 3 * MIB + 1, 64 << 10, 20 * MIB, 1, 7 * MIB};
  enum { COUNT = sizeof sizes / sizeof sizes[0] };
  struct arena *arena = make_arena(256 * MIB);
  struct arena_block blocks[COUNT];
  uint64_t resident = 0;
  int calls = 0;
  for (size_t round = 0; round < 100; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      blocks[i] = allocate(arena, sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
      arena_free(arena, &blocks[(i * 3 + round) % COUNT]); // in another order each time
    }
    if (round == 0) {
      resident = resident_bytes(arena);
      calls = atomic_load(&pages_taken_calls);
    }
  }
  assert_int_equal(resident_bytes(arena), resident);
  assert_int_equal(atomic_load(&pages_taken_calls), calls);
  arena_destroy(arena);
}

static void freed_memory_is_used_first(void **state) {
  (void)state;
  struct arena *arena = make_arena(64 * MIB);
  struct arena_block first = allocate(arena, 4 * MIB), second = allocate(arena, 4 * MIB);
  uint8_t *place = first.data;
  arena_free(arena, &first);
  first = allocate(arena, 3 * MIB);
  assert_ptr_equal(first.data, place);
  assert_int_equal(resident_bytes(arena), 8 * MIB);
  arena_free(arena, &first);
  arena_free(arena, &second);
  arena_destroy(arena);
}

static void used_up_address_space_is_an_error(void **state) {
  (void)state;
  struct arena *arena = make_arena(4 * PAGE);
  struct arena_block blocks[4];
  for (size_t i = 0; i < 4; i++) {
    blocks[i] = allocate(arena, PAGE);
  }
  check_refused(arena, 1);
  check_refused(arena, SIZE_MAX);
  arena_free(arena, &blocks[0]);
  arena_free(arena, &blocks[2]);
  check_refused(arena, PAGE + 1); // there is enough, but not in one piece
  blocks[0] = allocate(arena, PAGE);
  arena_free(arena, &blocks[1]);
  blocks[1] = allocate(arena, 2 * PAGE);
  for (size_t i = 0; i < 4; i++) {
    arena_free(arena, &blocks[i]);
  }
  assert_int_equal(used_bytes(arena), 0);
  arena_destroy(arena);
}

static void memory_that_the_system_refuses_is_an_error(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  struct arena_block small = allocate(arena, 1);
  atomic_store(&failures_left, 2);
  check_refused(arena, 3 * PAGE);
  assert_int_equal(used_bytes(arena), 64);
  assert_int_equal(resident_bytes(arena), PAGE);
  struct arena_block block = allocate(arena, 3 * PAGE); // it has some again
  memset(block.data, 1, block.size);
  arena_free(arena, &block);
  arena_free(arena, &small);
  arena_destroy(arena);
}

static void idle_memory_is_given_back_when_the_system_has_none(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  struct arena_block idle = allocate(arena, 4 * PAGE), wall = allocate(arena, PAGE);
  arena_free(arena, &idle);
  assert_int_equal(resident_bytes(arena), 5 * PAGE);
  atomic_store(&failures_left, 1);
  struct arena_block block = allocate(arena, 5 * PAGE); // doesn't fit into what is idle
  assert_int_equal(resident_bytes(arena), 6 * PAGE);
  arena_free(arena, &block);
  arena_free(arena, &wall);
  arena_destroy(arena);
}

static void failing_collapse_is_harmless(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  atomic_store(&collapse_fails, 1);
  struct arena_block block = allocate(arena, 3 * PAGE);
  memset(block.data, 7, block.size);
  assert_int_equal(resident_bytes(arena), 3 * PAGE);
  arena_free(arena, &block);
  arena_destroy(arena);
}

static void idle_memory_does_not_pile_up(void **state) {
  (void)state;
  // Blocks that grow from round to round never fit where the smaller ones lay between others that stay.
  enum { WALLS = 16 };
  struct arena *arena = make_arena(1024 * PAGE);
  struct arena_block walls[WALLS];
  uint64_t peak = 0;
  for (size_t i = 0; i < WALLS; i++) {
    struct arena_block block = allocate(arena, (i + 1) * PAGE);
    walls[i] = allocate(arena, PAGE);
    uint64_t used = used_bytes(arena);
    peak = used > peak ? used : peak;
    assert_true(resident_bytes(arena) <= peak + peak / 4 + PAGE);
    arena_free(arena, &block);
  }
  for (size_t i = 0; i < WALLS; i++) {
    arena_free(arena, &walls[i]);
  }
  arena_destroy(arena);
}

static void trim_gives_back_what_was_idle_for_long(void **state) {
  (void)state;
  struct arena *arena = make_arena(256 * PAGE);
  struct arena_block first = allocate(arena, 40 * PAGE), kept = allocate(arena, PAGE + 1);
  memset(kept.data, 9, kept.size);
  arena_free(arena, &first);
  arena_trim(arena, 1000, 100); // sees for the first time that they are idle
  assert_int_equal(resident_bytes(arena), 42 * PAGE);
  first = allocate(arena, 10 * PAGE); // and these are no longer
  arena_free(arena, &first);
  arena_trim(arena, 1099, 100);
  assert_int_equal(resident_bytes(arena), 42 * PAGE);
  arena_trim(arena, 1100, 100);
  assert_int_equal(resident_bytes(arena), 12 * PAGE);
  arena_trim(arena, 1199, 100);
  assert_int_equal(resident_bytes(arena), 2 * PAGE);
  for (size_t i = 0; i < kept.size; i++) {
    assert_int_equal(kept.data[i], 9);
  }
  first = allocate(arena, 40 * PAGE);
  memset(first.data, 5, first.size);
  assert_int_equal(resident_bytes(arena), 42 * PAGE);
  arena_free(arena, &first);
  arena_free(arena, &kept);
  arena_destroy(arena);
}

static void second_mapping_sees_the_same_bytes(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  struct arena_block wall = allocate(arena, 1000), block = allocate(arena, 3 * MIB);
  uint8_t *other =
      mmap(NULL, arena_address_bytes(arena), PROT_READ | PROT_WRITE, MAP_SHARED, arena_descriptor(arena), 0);
  assert_ptr_not_equal(other, MAP_FAILED);
  memset(block.data, 0x5a, block.size);
  assert_memory_equal(other + block.offset, block.data, block.size);
  other[block.offset + 12345] = 0xa5;
  assert_int_equal(block.data[12345], 0xa5);
  munmap(other, arena_address_bytes(arena));
  arena_free(arena, &block);
  arena_free(arena, &wall);
  arena_destroy(arena);
}

static void descriptor_is_sealed_and_not_inherited(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  int descriptor = arena_descriptor(arena);
  assert_int_equal(ftruncate(descriptor, 0), -1);
  assert_int_equal(errno, EPERM);
  assert_int_equal(ftruncate(descriptor, 32 * (off_t)PAGE), -1);
  assert_int_equal(errno, EPERM);
  assert_int_equal(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), -1);
  assert_int_equal(errno, EPERM);
  assert_true(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
  arena_destroy(arena);
}

#if defined(__SANITIZE_ADDRESS__)
static void bytes_outside_of_blocks_are_poisoned(void **state) {
  (void)state;
  struct arena *arena = make_arena(16 * PAGE);
  struct arena_block block = allocate(arena, 1000);
  uint8_t *data = block.data;
  assert_null(__asan_region_is_poisoned(data, 1000));
  assert_true(__asan_address_is_poisoned(data + 1000));
  arena_free(arena, &block);
  assert_true(__asan_address_is_poisoned(data));
  assert_true(__asan_address_is_poisoned(data + 999));
  arena_destroy(arena);
  assert_false(__asan_address_is_poisoned(data));
}
#endif

#define SLOTS 64

// Marks both ends of a block, and checks them.
static void sign(const struct arena_block *block, uint8_t mark) {
  block->data[0] = mark;
  block->data[block->size - 1] = mark;
}

static bool is_signed(const struct arena_block *block, uint8_t mark) {
  return block->data[0] == mark && block->data[block->size - 1] == mark;
}

static uint64_t random_next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static size_t random_size(uint64_t *random) {
  size_t largest = (size_t)64 << random_next(random) % 17; // to 4 MiB, small ones as often as large ones
  return 1 + random_next(random) % largest;
}

static void random_blocks_do_not_overlap(void **state) {
  (void)state;
  struct arena *arena = make_arena(512 * MIB);
  struct arena_block blocks[SLOTS] = {{0}};
  uint64_t random = 7, expected_used = 0;
  for (int step = 0; step < 10000; step++) {
    size_t i = random_next(&random) % SLOTS;
    if (blocks[i].data != NULL) {
      assert_true(is_signed(&blocks[i], (uint8_t)i));
      expected_used -= (blocks[i].size + 63) / 64 * 64;
      arena_free(arena, &blocks[i]);
    } else {
      blocks[i] = allocate(arena, random_size(&random));
      expected_used += (blocks[i].size + 63) / 64 * 64;
      sign(&blocks[i], (uint8_t)i);
      for (size_t other = 0; other < SLOTS; other++) {
        if (other != i && blocks[other].data != NULL) {
          assert_true(blocks[other].offset + blocks[other].size <= blocks[i].offset ||
                      blocks[i].offset + blocks[i].size <= blocks[other].offset);
        }
      }
    }
    if (step % 1000 == 999) {
      arena_trim(arena, step, 1000);
    }
    assert_int_equal(used_bytes(arena), expected_used);
  }
  (void)resident_bytes(arena); // agrees with the system
  for (size_t i = 0; i < SLOTS; i++) {
    arena_free(arena, &blocks[i]);
  }
  arena_trim(arena, 20000, 0);
  assert_int_equal(resident_bytes(arena), 0);
  arena_destroy(arena);
}

#define THREADS 16
#ifdef ACLNN_SANITIZED
#define THREAD_STEPS 300
#else
#define THREAD_STEPS 3000
#endif

struct user {
  struct arena *arena;
  uint8_t number;
  size_t damaged, refused;
};

static void *use_arena(void *argument) {
  struct user *user = argument;
  struct arena_block blocks[4] = {{0}};
  uint64_t random = user->number;
  for (int step = 0; step < THREAD_STEPS; step++) {
    struct arena_block *block = &blocks[random_next(&random) % 4];
    struct status status;
    if (block->data != NULL) {
      user->damaged += !is_signed(block, user->number);
      arena_free(user->arena, block);
    } else if (arena_allocate(user->arena, random_size(&random), block, &status)) {
      sign(block, user->number);
    } else {
      user->refused++;
    }
  }
  for (size_t i = 0; i < 4; i++) {
    arena_free(user->arena, &blocks[i]);
  }
  return NULL;
}

static void threads_share_the_arena(void **state) {
  (void)state;
  struct arena *arena = make_arena((uint64_t)4 << 30);
  struct user users[THREADS];
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    users[i] = (struct user){.arena = arena, .number = (uint8_t)(i + 1)};
    assert_int_equal(pthread_create(&threads[i], NULL, use_arena, &users[i]), 0);
  }
  for (int64_t now = 0; now < 100; now++) {
    arena_trim(arena, now, 1);
  }
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(users[i].damaged, 0);
    assert_int_equal(users[i].refused, 0);
  }
  assert_int_equal(used_bytes(arena), 0);
  (void)resident_bytes(arena);
  arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(new_arena_takes_no_memory),
    cmocka_unit_test(size_that_cannot_be_mapped_is_an_error),
    cmocka_unit_test(blocks_keep_their_contents),
    cmocka_unit_test(small_blocks_share_a_page),
    cmocka_unit_test(steady_state_takes_no_new_memory),
    cmocka_unit_test(freed_memory_is_used_first),
    cmocka_unit_test(used_up_address_space_is_an_error),
    cmocka_unit_test(memory_that_the_system_refuses_is_an_error),
    cmocka_unit_test(idle_memory_is_given_back_when_the_system_has_none),
    cmocka_unit_test(failing_collapse_is_harmless),
    cmocka_unit_test(idle_memory_does_not_pile_up),
    cmocka_unit_test(trim_gives_back_what_was_idle_for_long),
    cmocka_unit_test(second_mapping_sees_the_same_bytes),
    cmocka_unit_test(descriptor_is_sealed_and_not_inherited),
#if defined(__SANITIZE_ADDRESS__)
    cmocka_unit_test(bytes_outside_of_blocks_are_poisoned),
#endif
    cmocka_unit_test(random_blocks_do_not_overlap),
    cmocka_unit_test(threads_share_the_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
