#include "server/npu/pool/npu_discovery.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICE_FILE "davinci"

// Whether the text is DEVICE_FILE and a number; davinci_manager is no device.
static bool is_device(const char *name) {
  size_t prefix = strlen(DEVICE_FILE);
  if (strncmp(name, DEVICE_FILE, prefix) != 0) {
    return false;
  }
  size_t digits = strspn(name + prefix, "0123456789");
  return digits > 0 && name[prefix + digits] == '\0';
}

static size_t count_files(const char *root) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/dev", root);
  DIR *folder = opendir(path);
  if (folder == NULL) {
    return 0;
  }
  size_t count = 0;
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    count += is_device(entry->d_name);
  }
  closedir(folder);
  return count;
}

// The list ends where it stops to be ascending numbers of devices.
static size_t count_visible(const char *list, size_t devices) {
  size_t count = 0;
  long before = -1;
  while (*list >= '0' && *list <= '9') {
    char *end = NULL;
    long number = strtol(list, &end, 10);
    if (number <= before || (unsigned long)number >= devices) {
      break;
    }
    before = number;
    count++;
    if (*end != ',') {
      break;
    }
    list = end + 1;
  }
  return count;
}

size_t npu_discovery_count(const char *root, const char *visible, size_t most) {
  size_t count = count_files(root);
  if (visible != NULL) {
    count = count_visible(visible, count);
  }
  return count < most ? count : most;
}

bool npu_discovery_find_file(const char *executable, const char *built, const char *name, char path[PATH_MAX],
                             struct status *status) {
  const char *slash = strrchr(executable, '/');
  int folder_bytes = slash == NULL ? 0 : (int)(slash - executable);
  const char *folder = slash == NULL ? "" : executable;
  const char *const places[] = {built, ".", "../lib/aclnn-server"};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    int length = snprintf(path, PATH_MAX, "%.*s/%s/%s", folder_bytes, folder, places[i], name);
    if (length < PATH_MAX && access(path, R_OK) == 0) {
      return true;
    }
  }
  return status_fail(status, REASON_CONFIGURATION, NULL,
                     "%s isn't there: not in %.*s/%s, not in %.*s and not in %.*s/../lib/aclnn-server", name,
                     folder_bytes, folder, built, folder_bytes, folder, folder_bytes, folder);
}
