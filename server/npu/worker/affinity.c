#include "server/npu/worker/affinity.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A machine has at most 16 or so.
#define DEVICES_MAX 64
#define PATH_BYTES 512
#define LINE_BYTES 4096
#define NODE_UNKNOWN (-1)
// Nodes that devices of one machine are found at, if not at one and the same.
#define NODE_SEVERAL (-2)

// PCI: Huawei, processing accelerators.
#define PCI_VENDOR 0x19e5
#define PCI_CLASS_ACCELERATOR 0x12

// The first line of a small file; false if there is none.
static bool read_line(const char *path, char *line, size_t bytes) {
  FILE *file = fopen(path, "re");
  if (file == NULL) {
    return false;
  }
  bool read = fgets(line, (int)bytes, file) != NULL;
  fclose(file);
  if (read) {
    line[strcspn(line, "\n")] = '\0';
  }
  return read;
}

// A whole number, as C writes it; INT64_MIN if there is none.
static int64_t read_number(const char *path) {
  char line[64], *end;
  if (!read_line(path, line, sizeof line)) {
    return INT64_MIN;
  }
  long long number = strtoll(line, &end, 0);
  return end != line && *end == '\0' ? number : INT64_MIN;
}

static int node_in(const char *path) {
  int64_t node = read_number(path);
  return node >= 0 && node <= INT_MAX ? (int)node : NODE_UNKNOWN;
}

// ---- Which device it is

static int compare_numbers(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

// The numbers N of /dev/davinciN, ascending.
static size_t list_device_files(const char *root, int numbers[DEVICES_MAX]) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/dev", root);
  DIR *directory = opendir(path);
  size_t count = 0;
  const struct dirent *entry;
  while (directory != NULL && count < DEVICES_MAX && (entry = readdir(directory)) != NULL) {
    int number, end = 0;
    if (sscanf(entry->d_name, "davinci%9d%n", &number, &end) == 1 && entry->d_name[end] == '\0') {
      numbers[count++] = number;
    }
  }
  if (directory != NULL) {
    closedir(directory);
  }
  qsort(numbers, count, sizeof numbers[0], compare_numbers);
  return count;
}

// Entry number `position` of a list such as "0,2,5"; -1 if there is none.
static int visible_at(const char *list, int position) {
  for (int i = 0; *list != '\0'; i++) {
    char *end;
    long number = strtol(list, &end, 10);
    if (end == list || number < 0 || number > INT_MAX) {
      return -1;
    }
    if (i == position) {
      return (int)number;
    }
    list = end + strspn(end, ", ");
  }
  return -1;
}

// CANN counts the visible ones among the device files that it finds.
static int device_file_of(const struct affinity_source *source) {
  int position = source->device;
  if (source->visible_devices != NULL && source->visible_devices[0] != '\0') {
    position = visible_at(source->visible_devices, position);
  }
  int numbers[DEVICES_MAX];
  size_t count = list_device_files(source->root, numbers);
  return position >= 0 && (size_t)position < count ? numbers[position] : -1;
}

// ---- At which node it is

// Some drivers link their device files to the PCI device: /sys/class/*/davinciN/device/numa_node.
static int node_of_class(const char *root, int number) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/sys/class", root);
  DIR *directory = opendir(path);
  int node = NODE_UNKNOWN;
  const struct dirent *entry;
  while (directory != NULL && node == NODE_UNKNOWN && (entry = readdir(directory)) != NULL) {
    snprintf(path, sizeof path, "%s/sys/class/%.200s/davinci%d/device/numa_node", root, entry->d_name,
             number);
    node = entry->d_name[0] == '.' ? NODE_UNKNOWN : node_in(path);
  }
  if (directory != NULL) {
    closedir(directory);
  }
  return node;
}

// Else all that is known is where accelerators are: which of them is which device their order doesn't tell,
// so it helps only if all of them are at one node.
static int node_of_all(const char *root) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
  DIR *directory = opendir(path);
  int node = NODE_UNKNOWN;
  const struct dirent *entry;
  while (directory != NULL && node != NODE_SEVERAL && (entry = readdir(directory)) != NULL) {
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%.200s/vendor", root, entry->d_name);
    if (read_number(path) != PCI_VENDOR) {
      continue;
    }
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%.200s/class", root, entry->d_name);
    if (read_number(path) >> 16 != PCI_CLASS_ACCELERATOR) {
      continue;
    }
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%.200s/numa_node", root, entry->d_name);
    int found = node_in(path);
    node = found != NODE_UNKNOWN && (node == NODE_UNKNOWN || node == found) ? found : NODE_SEVERAL;
  }
  if (directory != NULL) {
    closedir(directory);
  }
  return node;
}

// ---- Which processors are there

// "0-3,8,10-11"
static bool parse_processors(const char *list, cpu_set_t *processors) {
  CPU_ZERO(processors);
  while (*list != '\0') {
    char *end;
    long first = strtol(list, &end, 10), last = first;
    if (end == list || first < 0) {
      return false;
    }
    list = end;
    if (*list == '-') {
      last = strtol(list + 1, &end, 10);
      if (end == list + 1 || last < first) {
        return false;
      }
      list = end;
    }
    for (long i = first; i <= last && i < CPU_SETSIZE; i++) {
      CPU_SET((size_t)i, processors);
    }
    if (*list != ',' && *list != '\0') {
      return false;
    }
    list += *list == ',';
  }
  return CPU_COUNT(processors) > 0;
}

bool affinity_find(const struct affinity_source *source, cpu_set_t *processors, int *node, char *why,
                   size_t why_bytes) {
  int number = device_file_of(source);
  if (number < 0) {
    snprintf(why, why_bytes, "there is no /dev/davinciN for device %d", (int)source->device);
    return false;
  }
  int found = node_of_class(source->root, number);
  if (found == NODE_UNKNOWN) {
    found = node_of_all(source->root);
  }
  if (found < 0) {
    snprintf(why, why_bytes, "sysfs doesn't tell at which NUMA node davinci%d is", number);
    return false;
  }
  char path[PATH_BYTES], line[LINE_BYTES];
  snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", source->root, found);
  if (!read_line(path, line, sizeof line) || !parse_processors(line, processors)) {
    snprintf(why, why_bytes, "NUMA node %d has no processors", found);
    return false;
  }
  *node = found;
  return true;
}

bool affinity_pin(const struct affinity_source *source, int *node, char *why, size_t why_bytes) {
  cpu_set_t near, allowed;
  if (!affinity_find(source, &near, node, why, why_bytes)) {
    return false;
  }
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    snprintf(why, why_bytes, "sched_getaffinity: %s", strerror(errno));
    return false;
  }
  CPU_AND(&near, &near, &allowed);
  if (CPU_COUNT(&near) == 0) {
    snprintf(why, why_bytes, "this process may use no processor of NUMA node %d", *node);
    return false;
  }
  if (sched_setaffinity(0, sizeof near, &near) != 0) {
    snprintf(why, why_bytes, "sched_setaffinity: %s", strerror(errno));
    return false;
  }
  return true;
}
