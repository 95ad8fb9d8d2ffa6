#include "server/npu/worker/affinity.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

// A tree of our own in place of /sys and /dev.
struct tree {
  char root[256];
};

static void write_file(const struct tree *tree, const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", tree->root, path);
  for (char *slash = strchr(full + strlen(tree->root) + 1, '/'); slash != NULL;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "we");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void add_pci(const struct tree *tree, const char *address, const char *vendor, const char *class,
                    const char *node) {
  char path[256];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", address);
  write_file(tree, path, vendor);
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", address);
  write_file(tree, path, class);
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", address);
  write_file(tree, path, node);
}

// Eight devices, two nodes.
static void make_tree(struct tree *tree) {
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(tree->root, sizeof tree->root, "%s/affinity.XXXXXX", folder != NULL ? folder : "/tmp");
  assert_non_null(mkdtemp(tree->root));
  for (int i = 0; i < 8; i++) {
    char path[64];
    snprintf(path, sizeof path, "/dev/davinci%d", i);
    write_file(tree, path, "");
  }
  write_file(tree, "/dev/davinci_manager", "");
  write_file(tree, "/dev/davinci3x", "");
  write_file(tree, "/sys/devices/system/node/node0/cpulist", "0-3,8,10-11\n");
  write_file(tree, "/sys/devices/system/node/node1/cpulist", "4-7\n");
}

static int remove_entry(const char *path, const struct stat *entry, int kind, struct FTW *walk) {
  (void)entry;
  (void)kind;
  (void)walk;
  return remove(path);
}

static void remove_tree(const struct tree *tree) {
  assert_int_equal(nftw(tree->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static int find(const struct tree *tree, int device, const char *visible, cpu_set_t *processors, char *why) {
  struct affinity_source source = {.root = tree->root, .device = device, .visible_devices = visible};
  int node = -1;
  return affinity_find(&source, processors, &node, why, 256) ? node : -1;
}

static void node_of_the_device_file_counts(void **state) {
  (void)state;
  struct tree tree;
  cpu_set_t processors;
  char why[256];
  make_tree(&tree);
  write_file(&tree, "/sys/class/devdrv-class/davinci2/device/numa_node", "1\n");
  write_file(&tree, "/sys/class/devdrv-class/davinci5/device/numa_node", "0\n");
  write_file(&tree, "/sys/class/net/eth0/device/numa_node", "0\n");
  assert_int_equal(find(&tree, 2, NULL, &processors, why), 1);
  assert_int_equal(CPU_COUNT(&processors), 4);
  assert_true(CPU_ISSET(4, &processors) && CPU_ISSET(7, &processors));
  assert_int_equal(find(&tree, 5, "", &processors, why), 0);
  assert_int_equal(CPU_COUNT(&processors), 7);
  assert_true(CPU_ISSET(3, &processors) && CPU_ISSET(8, &processors) && CPU_ISSET(11, &processors));
  assert_false(CPU_ISSET(9, &processors));
  remove_tree(&tree);
}

static void visible_devices_are_counted_as_cann_does(void **state) {
  (void)state;
  struct tree tree;
  cpu_set_t processors;
  char why[256];
  make_tree(&tree);
  write_file(&tree, "/sys/class/devdrv-class/davinci2/device/numa_node", "1\n");
  write_file(&tree, "/sys/class/devdrv-class/davinci5/device/numa_node", "0\n");
  assert_int_equal(find(&tree, 0, "2,5", &processors, why), 1);
  assert_int_equal(find(&tree, 1, "2,5", &processors, why), 0);
  assert_int_equal(find(&tree, 2, "2,5", &processors, why), -1);
  assert_int_equal(find(&tree, 0, "two", &processors, why), -1);
  assert_int_equal(find(&tree, 0, "9", &processors, why), -1);
  // In a container with one device the only file is device 0, whatever its number.
  char path[512];
  for (int i = 0; i < 8; i++) {
    snprintf(path, sizeof path, "%s/dev/davinci%d", tree.root, i);
    if (i != 5) {
      assert_int_equal(remove(path), 0);
    }
  }
  assert_int_equal(find(&tree, 0, NULL, &processors, why), 0);
  assert_int_equal(find(&tree, 5, NULL, &processors, why), -1);
  assert_non_null(strstr(why, "device 5"));
  remove_tree(&tree);
}

static void accelerators_at_one_node_tell_it_for_all(void **state) {
  (void)state;
  struct tree tree;
  cpu_set_t processors;
  char why[256];
  make_tree(&tree);
  add_pci(&tree, "0000:01:00.0", "0x8086\n", "0x020000\n", "0\n"); // a network card
  add_pci(&tree, "0000:02:00.0", "0x19e5\n", "0x020000\n", "0\n"); // the same vendor's
  assert_int_equal(find(&tree, 0, NULL, &processors, why), -1);
  add_pci(&tree, "0000:c1:00.0", "0x19e5\n", "0x120000\n", "1\n");
  add_pci(&tree, "0000:c2:00.0", "0x19e5\n", "0x120000\n", "1\n");
  assert_int_equal(find(&tree, 0, NULL, &processors, why), 1);
  assert_int_equal(find(&tree, 7, NULL, &processors, why), 1);
  // With a second node their order doesn't tell which is which.
  add_pci(&tree, "0000:d1:00.0", "0x19e5\n", "0x120000\n", "0\n");
  assert_int_equal(find(&tree, 0, NULL, &processors, why), -1);
  assert_non_null(strstr(why, "davinci0"));
  remove_tree(&tree);
}

static void machines_without_nodes_tell_nothing(void **state) {
  (void)state;
  struct tree tree;
  cpu_set_t processors;
  char why[256];
  make_tree(&tree);
  write_file(&tree, "/sys/class/devdrv-class/davinci0/device/numa_node", "-1\n");
  add_pci(&tree, "0000:c1:00.0", "0x19e5\n", "0x120000\n", "-1\n");
  assert_int_equal(find(&tree, 0, NULL, &processors, why), -1);
  write_file(&tree, "/sys/class/devdrv-class/davinci1/device/numa_node", "7\n"); // has no cpulist
  assert_int_equal(find(&tree, 1, NULL, &processors, why), -1);
  write_file(&tree, "/sys/devices/system/node/node7/cpulist", "\n"); // memory only
  assert_int_equal(find(&tree, 1, NULL, &processors, why), -1);
  write_file(&tree, "/sys/devices/system/node/node7/cpulist", "5-2\n");
  assert_int_equal(find(&tree, 1, NULL, &processors, why), -1);
  remove_tree(&tree);
}

static void thread_is_pinned_to_what_it_may_use_of_the_node(void **state) {
  (void)state;
  struct tree tree;
  cpu_set_t before, after;
  char why[256], list[32];
  int node = -1;
  make_tree(&tree);
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  int own = 0;
  while (!CPU_ISSET((size_t)own, &before)) {
    own++;
  }
  struct affinity_source source = {.root = tree.root, .device = 0};
  write_file(&tree, "/sys/class/devdrv-class/davinci0/device/numa_node", "1\n");
  write_file(&tree, "/sys/devices/system/node/node1/cpulist", "1023\n");
  assert_false(affinity_pin(&source, &node, why, sizeof why));
  assert_non_null(strstr(why, "NUMA node 1"));
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
  snprintf(list, sizeof list, "%d,1023\n", own);
  write_file(&tree, "/sys/devices/system/node/node1/cpulist", list);
  assert_true(affinity_pin(&source, &node, why, sizeof why));
  assert_int_equal(node, 1);
  sched_getaffinity(0, sizeof after, &after);
  assert_int_equal(CPU_COUNT(&after), 1);
  assert_true(CPU_ISSET((size_t)own, &after));
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  remove_tree(&tree);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(node_of_the_device_file_counts),
      cmocka_unit_test(visible_devices_are_counted_as_cann_does),
      cmocka_unit_test(accelerators_at_one_node_tell_it_for_all),
      cmocka_unit_test(machines_without_nodes_tell_nothing),
      cmocka_unit_test(thread_is_pinned_to_what_it_may_use_of_the_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
