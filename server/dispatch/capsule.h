// Capsules: all that is needed to look at a device's wrong result anywhere.
//
// A capsule is one file: what was asked for, the inputs, and what the device and the CPU made of them. Its
// format, all integers little endian:
//
//   8 bytes   "ACLNNCAP"
//   u32       version of the format, 1
//   u32       length of the header in bytes, at most CAPSULE_HEADER_BYTES_MAX
//   header    a JSON object, UTF-8
//   the rest  raw storages, one after the other as the header's "storages" lists them: inputs, then the
//             device's outputs, then the CPU's
//
// The header:
//   "operator", "target", "numerics"   as planned ("NPU", "DEVICE")
//   "arguments": [{"name", "kind": "tensor", "direction": "input" or "output", "data_type": "float32",
//   "format",
//                  "shape", "strides", "storage_offset", "storage_elements"}
//                 or {"name", "kind": "int_array", "values"}, {..., "integer", "value": "7"},
//                 {..., "real", "value"}, {..., "boolean", "value"}, {..., "text", "value"}]
//                 tensors first and in the request's order; an integer is a text, JSON numbers lose digits
//   "storages": [{"tensor": name, "role": "input", "device" or "cpu", "bytes"}]
//   "compared": "exactly" or "tolerance"
//   "differences": [{"tensor", "elements", "differing", "first", "worst", "worst_relative_error",
//                    "mean_relative_error"}]
//                 of each output; first and worst are row-major positions in the view, errors are texts
//   "device": {"number", "name", "detail"}
//   "versions": {"server"}, "created_unix_ms"
//
// client/cli/capsule_file.h reads it.
#ifndef ACLNN_SERVER_DISPATCH_CAPSULE_H
#define ACLNN_SERVER_DISPATCH_CAPSULE_H

#include "kernels/operator.h"
#include "kernels/tolerance.h"
#include "server/dispatch/backend.h"

#define CAPSULE_VERSION 1
#define CAPSULE_HEADER_BYTES_MAX ((size_t)1 << 20)
// One wrong result tells much, a hundred little more: so many files are kept in the directory (older ones may
// be taken away to make room), and none is larger, since the job waits for it and disks are finite.
#define CAPSULES_MAX 16
#define CAPSULE_BYTES_MAX (UINT64_C(1) << 30)
#define CAPSULE_PATH_BYTES_MAX 4096

struct capsule {
  const char *server_version; // may be NULL
  const struct plan *plan;    // as it was made for the device
  const struct operator_run *device_run, *cpu_run;
  bool exactly;
  const struct tensor_comparison *comparisons; // by tensor index; of outputs
  int32_t device_number;
  const struct backend_device *device;
};

// A directory in which capsules are kept. Any thread; one writes at a time.
struct capsule_store;

// directory (borrowed) may be NULL: nothing is kept. It need not exist yet.
MUST_CHECK bool capsule_store_create(const char *directory, struct capsule_store **store,
                                     struct status *status);
void capsule_store_destroy(struct capsule_store *store);

// Writes the capsule to a file that gets its name when it is whole. False with the reason in status if it
// isn't kept; nothing is left behind then.
MUST_CHECK bool capsule_store_keep(struct capsule_store *store, const struct capsule *capsule,
                                   char path[CAPSULE_PATH_BYTES_MAX], struct status *status);

#endif
