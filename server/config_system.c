// What the configuration takes from the system: the key file, and how much memory and how many processors
// there are.
#include "server/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const char *path, const char *why, struct status *status) {
  return status_fail(status, REASON_CONFIGURATION, NULL, "--handle-key-file: %s: %s", path, why);
}

static int hex_digit(uint8_t character) {
  if (character >= '0' && character <= '9') {
    return character - '0';
  }
  character |= 0x20;
  return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

static bool decode_hex(const uint8_t *text, uint8_t key[SESSION_KEY_BYTES]) {
  for (size_t i = 0; i < SESSION_KEY_BYTES; ++i) {
    int high = hex_digit(text[2 * i]);
    int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    key[i] = (uint8_t)(high << 4 | low);
  }
  return true;
}

static bool decode_key(const char *path, const uint8_t *content, size_t size, uint8_t key[SESSION_KEY_BYTES],
                       struct status *status) {
  if (size == SESSION_KEY_BYTES) {
    memcpy(key, content, SESSION_KEY_BYTES);
    return true;
  }
  while (size > 2 * SESSION_KEY_BYTES && (content[size - 1] == '\n' || content[size - 1] == '\r')) {
    --size;
  }
  if (size == 2 * SESSION_KEY_BYTES && decode_hex(content, key)) {
    return true;
  }
  return fail(path, "the key must be 32 bytes or 64 hexadecimal digits", status);
}

bool config_read_key(const char *path, uint8_t key[SESSION_KEY_BYTES], struct status *status) {
  // A pipe without a writer is refused like other odd files instead of being waited for.
  int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    return fail(path, strerror(errno), status);
  }
  struct stat file;
  uint8_t content[2 * SESSION_KEY_BYTES + 3]; // digits, a line end, and one byte that would be too many
  bool ok = false;
  if (fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode)) {
    (void)fail(path, "not a regular file", status);
  } else if ((file.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    (void)fail(path, "others than the owner have access to it (chmod 600)", status);
  } else {
    ssize_t size = read(descriptor, content, sizeof content);
    ok =
        size < 0 ? fail(path, strerror(errno), status) : decode_key(path, content, (size_t)size, key, status);
  }
  close(descriptor);
  return ok;
}

// ---- Control groups

// What one group allows of a resource; INT64_MAX: it doesn't say.
typedef int64_t group_limit(const char *group, bool version_2);

// Up to `count` numbers in a file of a group; how many there are. "max" and what isn't a number end them.
static int read_numbers(const char *group, const char *name, int64_t numbers[], int count) {
  char path[4096], text[64];
  int found = 0;
  int length = snprintf(path, sizeof path, "%s/%s", group, name);
  FILE *file = length < 0 || (size_t)length >= sizeof path ? NULL : fopen(path, "re");
  if (file == NULL) {
    return 0;
  }
  char *place = fgets(text, sizeof text, file);
  while (place != NULL && found < count) {
    char *end = NULL;
    errno = 0;
    numbers[found] = strtoll(place, &end, 10);
    if (end == place || errno != 0) {
      break;
    }
    place = end;
    ++found;
  }
  fclose(file);
  return found;
}

static int64_t memory_of_group(const char *group, bool version_2) {
  int64_t bytes = 0;
  int found = read_numbers(group, version_2 ? "memory.max" : "memory.limit_in_bytes", &bytes, 1);
  return found == 1 && bytes > 0 ? bytes : INT64_MAX;
}

// A share of the time of all processors: so many are busy with it at most, the last one in part.
static int64_t processors_of_group(const char *group, bool version_2) {
  int64_t time[2] = {0}; // what the group gets, and in which period
  bool found = version_2 ? read_numbers(group, "cpu.max", time, 2) == 2
                         : read_numbers(group, "cpu.cfs_quota_us", &time[0], 1) == 1 &&
                               read_numbers(group, "cpu.cfs_period_us", &time[1], 1) == 1;
  return found && time[0] > 0 && time[1] > 0 ? (time[0] - 1) / time[1] + 1 : INT64_MAX;
}

// The least limit from a group up to the root of its hierarchy.
static int64_t least_limit(const char *mount, const char *group, bool version_2, group_limit *limit_of) {
  char path[4096];
  int64_t least = INT64_MAX;
  size_t group_bytes = strlen(group);
  for (;;) {
    int length = snprintf(path, sizeof path, "%s%.*s", mount, (int)group_bytes, group);
    if (length > 0 && (size_t)length < sizeof path) {
      int64_t limit = limit_of(path, version_2);
      least = limit < least ? limit : least;
    }
    if (group_bytes == 0) {
      return least;
    }
    do {
      --group_bytes;
    } while (group_bytes > 0 && group[group_bytes] != '/');
  }
}

// Whether one of the names between commas is this.
static bool is_among(const char *names, const char *name) {
  size_t length = strlen(name);
  for (;; names += strcspn(names, ",") + 1) {
    if (strncmp(names, name, length) == 0 && (names[length] == ',' || names[length] == '\0')) {
      return true;
    }
    if (names[strcspn(names, ",")] == '\0') {
      return false;
    }
  }
}

// /proc/self/cgroup has lines "id:controllers:/group"; version 2 is "0::/group".
static int64_t control_group_limit(const char *root, const char *controller, group_limit *limit_of) {
  char path[4096], line[4096], mount[4096];
  int64_t least = INT64_MAX;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return least;
  }
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(++controllers, ':');
    if (group == NULL) {
      continue;
    }
    bool version_2 = group == controllers;
    *group++ = '\0';
    if (version_2 || is_among(controllers, controller)) {
      snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, version_2 ? "" : "/",
               version_2 ? "" : controller);
      int64_t limit = least_limit(mount, group, version_2, limit_of);
      least = limit < least ? limit : least;
    }
  }
  fclose(file);
  return least;
}

// ---- Memory and processors

static int64_t machine_memory(const char *root) {
  char path[4096], line[256];
  int64_t kib = 0;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return INT64_MAX;
  }
  while (kib == 0 && fgets(line, sizeof line, file) != NULL) {
    (void)sscanf(line, "MemTotal: %" SCNd64, &kib);
  }
  fclose(file);
  return kib > 0 ? kib * 1024 : INT64_MAX;
}

int64_t config_memory_available(const char *root) {
  int64_t machine = machine_memory(root);
  int64_t group = control_group_limit(root, "memory", memory_of_group);
  int64_t least = machine < group ? machine : group;
  return least == INT64_MAX ? INT64_C(2) << 30 : least;
}

int64_t config_processors_available(const char *root, int64_t processors) {
  int64_t group = control_group_limit(root, "cpu", processors_of_group);
  return group < processors ? group : processors;
}
