#include "server/dispatch/capsule.h"

#include "server/dispatch/capsule_header.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_PREFIX "aclnn-"
#define PARTIAL_SUFFIX ".partial"
// Bytes after the directory: "/aclnn-", a time, a process, a number, ".capsule.partial".
#define NAME_BYTES_MAX 128

struct capsule_store {
  const char *directory;
  pthread_mutex_t mutex; // one capsule at a time, so that they can be counted; guards written
  uint64_t written;      // files begun, so that each name is new
};

bool capsule_store_create(const char *directory, struct capsule_store **store, struct status *status) {
  struct capsule_store *created = calloc(1, sizeof *created);
  if (created == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the capsules");
  }
  created->directory = directory;
  pthread_mutex_init(&created->mutex, NULL);
  *store = created;
  return true;
}

void capsule_store_destroy(struct capsule_store *store) {
  if (store != NULL) {
    pthread_mutex_destroy(&store->mutex);
    free(store);
  }
}

static bool fail_system(struct status *status, const char *what, const char *path, int error) {
  return status_fail(status, REASON_INTERNAL, NULL, "%s %s: %s", path, what, strerror(error));
}

// Half-written ones of a server that was killed count too: they take up room.
static bool check_room(const char *directory, struct status *status) {
  DIR *opened = opendir(directory);
  if (opened == NULL) {
    return fail_system(status, "can't be read", directory, errno);
  }
  size_t count = 0;
  const struct dirent *entry;
  while ((entry = readdir(opened)) != NULL) {
    count += strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 &&
             strstr(entry->d_name, CAPSULE_SUFFIX) != NULL;
  }
  closedir(opened);
  return count < CAPSULES_MAX ||
         status_fail(status, REASON_INTERNAL, NULL, "%s has %zu capsules already, at most %d are kept",
                     directory, count, CAPSULES_MAX);
}

static bool write_all(int file, const void *data, uint64_t bytes) {
  const uint8_t *next = data;
  while (bytes > 0) {
    size_t step = bytes < (1 << 30) ? (size_t)bytes : (size_t)1 << 30;
    ssize_t written = write(file, next, step);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    next += written;
    bytes -= (uint64_t)written;
  }
  return true;
}

static void put_u32(uint8_t *bytes, uint32_t value) {
  for (size_t i = 0; i < 4; i++) {
    bytes[i] = (uint8_t)(value >> (8 * i));
  }
}

static bool write_storages(int file, const struct capsule *capsule) {
  struct capsule_storage storages[CAPSULE_STORAGES_MAX];
  size_t count = capsule_list_storages(capsule, storages);
  for (size_t i = 0; i < count; i++) {
    if (!write_all(file, storages[i].data, storages[i].bytes)) {
      return false;
    }
  }
  return true;
}

static bool write_file(int file, const char *header, const struct capsule *capsule) {
  uint8_t start[16] = CAPSULE_MAGIC;
  size_t header_bytes = strlen(header);
  put_u32(start + 8, CAPSULE_VERSION);
  put_u32(start + 12, (uint32_t)header_bytes);
  return write_all(file, start, sizeof start) && write_all(file, header, header_bytes) &&
         write_storages(file, capsule);
}

// Inputs are somebody's data: the file is its owner's alone.
static bool write_new(const char *path, const char *header, const struct capsule *capsule,
                      struct status *status) {
  char partial[CAPSULE_PATH_BYTES_MAX + sizeof PARTIAL_SUFFIX];
  snprintf(partial, sizeof partial, "%s%s", path, PARTIAL_SUFFIX);
  int file = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    return fail_system(status, "can't be created", partial, errno);
  }
  bool written = write_file(file, header, capsule);
  int error = errno;
  if (close(file) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written && rename(partial, path) == 0) {
    return true;
  }
  error = written ? errno : error;
  unlink(partial);
  return fail_system(status, "can't be written", path, error);
}

static int64_t unix_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool check_size(const struct capsule *capsule, struct status *status) {
  struct capsule_storage storages[CAPSULE_STORAGES_MAX];
  size_t count = capsule_list_storages(capsule, storages);
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) {
    bytes += storages[i].bytes;
  }
  return bytes <= CAPSULE_BYTES_MAX ||
         status_fail(status, REASON_INTERNAL, NULL,
                     "its tensors have %" PRIu64 " bytes, at most %" PRIu64 " are kept", bytes,
                     CAPSULE_BYTES_MAX);
}

// Under the mutex.
static bool keep(struct capsule_store *store, const struct capsule *capsule,
                 char path[CAPSULE_PATH_BYTES_MAX], struct status *status) {
  int64_t now_ms = unix_ms();
  if (strlen(store->directory) + NAME_BYTES_MAX >= CAPSULE_PATH_BYTES_MAX) {
    return status_fail(status, REASON_INTERNAL, NULL, "the directory for capsules has too long a name");
  }
  if (mkdir(store->directory, 0700) != 0 && errno != EEXIST) {
    return fail_system(status, "can't be created", store->directory, errno);
  }
  if (!check_room(store->directory, status) || !check_size(capsule, status)) {
    return false;
  }
  snprintf(path, CAPSULE_PATH_BYTES_MAX, "%s/" NAME_PREFIX "%" PRId64 "-%d-%" PRIu64 CAPSULE_SUFFIX,
           store->directory, now_ms, (int)getpid(), ++store->written);
  char *header = capsule_write_header(capsule, now_ms);
  if (header == NULL) {
    return status_fail(status, REASON_INTERNAL, NULL, "no memory for the header of a capsule");
  }
  bool ok = write_new(path, header, capsule, status);
  free(header);
  return ok;
}

bool capsule_store_keep(struct capsule_store *store, const struct capsule *capsule,
                        char path[CAPSULE_PATH_BYTES_MAX], struct status *status) {
  if (store->directory == NULL) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "the server has no directory for capsules");
  }
  pthread_mutex_lock(&store->mutex);
  bool ok = keep(store, capsule, path, status);
  pthread_mutex_unlock(&store->mutex);
  return ok;
}
