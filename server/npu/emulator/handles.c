#include "server/npu/emulator/handles.h"

#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

// No address of a process on any machine of 64 bits begins like that. The low bits stay clear, as those of
// pointers are.
#define NUMBER_BASE ((uint64_t)0x0ace << 48)
#define NUMBER_SHIFT 4

struct handle_entry {
  uint64_t number;
  enum handle_kind kind;
  void *object;
  UT_hash_handle hh;
};

static struct handle_entry *entry_of(const struct handles *handles, enum handle_kind kind,
                                     const void *handle) {
  uint64_t number = (uint64_t)(uintptr_t)handle;
  struct handle_entry *entry;
  HASH_FIND(hh, handles->_entries, &number, sizeof number, entry);
  return entry != NULL && entry->kind == kind ? entry : NULL;
}

static bool enter(struct handles *handles, enum handle_kind kind, uint64_t number, void *object) {
  struct handle_entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    return false;
  }
  *entry = (struct handle_entry){.number = number, .kind = kind, .object = object};
  HASH_ADD(hh, handles->_entries, number, sizeof entry->number, entry);
  if (entry->hh.tbl == NULL) {
    free(entry);
    return false;
  }
  handles->_counts[kind]++;
  return true;
}

void *handles_add(struct handles *handles, enum handle_kind kind, void *object) {
  uint64_t number = NUMBER_BASE + (++handles->_made << NUMBER_SHIFT);
  return enter(handles, kind, number, object) ? (void *)(uintptr_t)number : NULL;
}

bool handles_add_as(struct handles *handles, enum handle_kind kind, const void *number, void *object) {
  return entry_of(handles, kind, number) == NULL && enter(handles, kind, (uint64_t)(uintptr_t)number, object);
}

void *handles_find(const struct handles *handles, enum handle_kind kind, const void *number) {
  struct handle_entry *entry = entry_of(handles, kind, number);
  return entry == NULL ? NULL : entry->object;
}

static void *drop(struct handles *handles, struct handle_entry *entry) {
  void *object = entry->object;
  handles->_counts[entry->kind]--;
  HASH_DEL(handles->_entries, entry);
  free(entry);
  return object;
}

void *handles_remove(struct handles *handles, enum handle_kind kind, const void *number) {
  struct handle_entry *entry = entry_of(handles, kind, number);
  return entry == NULL ? NULL : drop(handles, entry);
}

size_t handles_count(const struct handles *handles, enum handle_kind kind) {
  return handles->_counts[kind];
}

void *handles_any_number(const struct handles *handles, enum handle_kind kind) {
  for (struct handle_entry *entry = handles->_entries; entry != NULL; entry = entry->hh.next) {
    if (entry->kind == kind) {
      return (void *)(uintptr_t)entry->number;
    }
  }
  return NULL;
}

void *handles_remove_any(struct handles *handles, enum handle_kind kind) {
  return handles_remove(handles, kind, handles_any_number(handles, kind));
}
