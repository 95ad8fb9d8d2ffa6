#include "server/npu/emulator/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES ((int64_t)4 << 30)

// The variable as a number; `otherwise` if it isn't set.
static bool read_number(const char *name, int64_t least, int64_t most, int64_t otherwise, int64_t *number,
                        struct status *status) {
  const char *text = getenv(name);
  if (text == NULL) {
    *number = otherwise;
    return true;
  }
  char *end;
  errno = 0;
  *number = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *number < least || *number > most) {
    return status_fail(status, REASON_CONFIGURATION, NULL, "%s=%s is no number from %lld to %lld", name, text,
                       (long long)least, (long long)most);
  }
  return true;
}

// The variable as one of some words, of which the first is meant if it isn't set.
static bool read_word(const char *name, const char *const *words, size_t count, size_t *word,
                      struct status *status) {
  const char *text = getenv(name);
  *word = 0;
  for (size_t i = 0; text != NULL && i < count; i++) {
    if (strcmp(text, words[i]) == 0) {
      *word = i;
      return true;
    }
  }
  return text == NULL || status_fail(status, REASON_CONFIGURATION, NULL, "%s=%s isn't known", name, text);
}

bool settings_read(struct settings *settings, struct status *status) {
  static const char *const profiles[] = {
      [EMULATED_PROFILE_EXACT] = "exact", [EMULATED_PROFILE_A2] = "a2", [EMULATED_PROFILE_950] = "950"};
  static const char *const switches[] = {"on", "off"};
  int64_t devices, memory_bytes, cache_limit;
  size_t profile, off;
  if (!read_number("ACLNN_EMULATED_DEVICES", 1, SETTINGS_DEVICES_MAX, 1, &devices, status) ||
      !read_word("ACLNN_EMULATED_PROFILE", profiles, 3, &profile, status) ||
      !read_number("ACLNN_EMULATED_MEMORY", 1, SETTINGS_MEMORY_BYTES_MAX, MEMORY_BYTES, &memory_bytes,
                   status) ||
      !read_word("ACLNN_EMULATED_REPEATABLE", switches, 2, &off, status) ||
      !read_number("ACLNN_CACHE_LIMIT", 0, INT32_MAX, SETTINGS_CACHE_LIMIT, &cache_limit, status) ||
      !faults_parse(getenv("ACLNN_EMULATED_FAULT"), &settings->faults, status)) {
    return false;
  }
  settings->devices = (int32_t)devices;
  settings->profile = (enum emulated_profile)profile;
  settings->memory_bytes = (uint64_t)memory_bytes;
  settings->repeatable = off == 0;
  settings->cache_limit = (size_t)cache_limit;
  return true;
}
