// The header of a capsule, and which storages follow it in which order. For capsule.c.
#ifndef ACLNN_SERVER_DISPATCH_CAPSULE_HEADER_H
#define ACLNN_SERVER_DISPATCH_CAPSULE_HEADER_H

#include "server/dispatch/capsule.h"

#define CAPSULE_MAGIC "ACLNNCAP"
#define CAPSULE_SUFFIX ".capsule"
#define CAPSULE_STORAGES_MAX (2 * OPERATOR_PARAMETERS_MAX)

struct capsule_storage {
  const char *tensor; // name
  const char *role;   // "input", "device", "cpu"
  const void *data;
  uint64_t bytes;
};

// Fills the storages in the order in which they are written; returns how many.
size_t capsule_list_storages(const struct capsule *capsule,
                             struct capsule_storage storages[CAPSULE_STORAGES_MAX]);

// The JSON text, to be freed; NULL if there is no memory.
char *capsule_write_header(const struct capsule *capsule, int64_t created_unix_ms);

#endif
