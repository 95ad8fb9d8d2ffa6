#include "server/npu/worker/fake_functions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define COPIES_MAX 256

struct late_copy {
  void *to;
  const void *from;
  size_t bytes;
};

static struct fake_state fake;
static struct late_copy late_copies[COPIES_MAX];
static size_t late_count;

// Blocks know their size.
struct fake_block {
  _Alignas(64) size_t bytes;
};

static void *allocate(size_t bytes) {
  struct fake_block *block = aligned_alloc(64, sizeof *block + (bytes + 63) / 64 * 64);
  assert(block != NULL);
  block->bytes = bytes;
  memset(block + 1, 0xa5, bytes);
  return block + 1;
}

static size_t release(void *address) {
  struct fake_block *block = (struct fake_block *)address - 1;
  size_t bytes = block->bytes;
  free(block);
  return bytes;
}

static aclError fake_malloc(void **address, size_t bytes, int policy) {
  (void)policy;
  if (bytes > fake.memory_bytes - fake.used_bytes) {
    return ACL_STATUS_RT_MEMORY_ALLOCATION;
  }
  *address = allocate(bytes);
  fake.used_bytes += bytes;
  fake.allocations++;
  return ACL_STATUS_SUCCESS;
}

static aclError fake_free(void *address) {
  fake.used_bytes -= release(address);
  return ACL_STATUS_SUCCESS;
}

static aclError fake_malloc_host(void **address, size_t bytes) {
  if (fake.no_host_memory) {
    return ACL_STATUS_BAD_ALLOC;
  }
  *address = allocate(bytes);
  fake.host_used_bytes += bytes;
  return ACL_STATUS_SUCCESS;
}

static aclError fake_free_host(void *address) {
  fake.host_used_bytes -= release(address);
  return ACL_STATUS_SUCCESS;
}

static aclError fake_memcpy_async(void *to, size_t to_bytes, const void *from, size_t bytes, int kind,
                                  aclrtStream stream) {
  (void)kind;
  (void)stream;
  assert(bytes <= to_bytes && late_count < COPIES_MAX);
  late_copies[late_count++] = (struct late_copy){to, from, bytes};
  fake.copies++;
  return ACL_STATUS_SUCCESS;
}

static aclError fake_synchronise(aclrtStream stream, int32_t milliseconds) {
  (void)stream;
  (void)milliseconds;
  for (size_t i = 0; i < late_count; i++) {
    memcpy(late_copies[i].to, late_copies[i].from, late_copies[i].bytes);
  }
  late_count = 0;
  fake.synchronises++;
  return fake.synchronise_number;
}

static const char *fake_message(void) {
  const char *text = fake.text;
  fake.text = NULL;
  return text;
}

struct fake_state *fake_functions_begin(struct acl_functions *functions) {
  fake = (struct fake_state){.memory_bytes = (size_t)1 << 30};
  late_count = 0;
  *functions = (struct acl_functions){
      .aclGetRecentErrMsg = fake_message,
      .aclrtMalloc = fake_malloc,
      .aclrtFree = fake_free,
      .aclrtMallocHost = fake_malloc_host,
      .aclrtFreeHost = fake_free_host,
      .aclrtMemcpyAsync = fake_memcpy_async,
      .aclrtSynchronizeStreamWithTimeout = fake_synchronise,
  };
  return &fake;
}
