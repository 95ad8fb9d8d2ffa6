// On which processors a worker runs: those of the NUMA node at which its device is attached.
//
// Where the device is attached is read from sysfs; where that doesn't tell for sure nothing is pinned: a
// wrong node is worse than none. For the main thread, before it starts others (they inherit it).
#ifndef ACLNN_SERVER_NPU_WORKER_AFFINITY_H
#define ACLNN_SERVER_NPU_WORKER_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct affinity_source {
  const char *root;            // "", or where a test keeps its own /sys and /dev
  int32_t device;              // CANN's number: counted among the visible devices
  const char *visible_devices; // value of ASCEND_RT_VISIBLE_DEVICES; NULL: all are
};

// True with the processors of the device's node and its number, false with the reason why it isn't known.
bool affinity_find(const struct affinity_source *source, cpu_set_t *processors, int *node, char *why,
                   size_t why_bytes);

// Pins this thread to those of its processors that are near the device. False with the reason why not.
bool affinity_pin(const struct affinity_source *source, int *node, char *why, size_t why_bytes);

#endif
